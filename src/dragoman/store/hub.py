"""A model that is named by its address on the Hugging Face hub, `hub:OWNER/NAME` or `hub:OWNER/NAME@REVISION`: fetched,
converted once, and kept in the user's cache.
"""

import logging
import re
from pathlib import Path

from dragoman.compiled.libraries import cache_folder
from dragoman.errors import CheckpointError, ConfigError, DataError, missing_extra
from dragoman.store.foreign import is_marian
from dragoman.text.addresses import HUB

log = logging.getLogger(__name__)

SMALL = ("*.json", "*.spm", "README.md")
"""What is fetched of a model before its weights."""
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Files that hold the weights; the first one that there is counts."""


def hub_address(path: Path | str) -> str | None:
    """The address of a model of the hub that stands in the place of a path; None if it is a path.

    Raises:
        ConfigError: it is the address of something else.
    """
    text = Path(path).as_posix()
    if not text.startswith(HUB):
        return None
    if not re.fullmatch(rf"{HUB}[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@\w[\w./-]*)?", text, re.A):
        raise ConfigError(f"a model of the hub is named hub:OWNER/NAME or hub:OWNER/NAME@REVISION, not {text[:100]}")
    return text


def hub_model(address: str) -> Path:
    """The folder of a model in the cache. Nothing is asked of the hub once it is there.

    Raises:
        CheckpointError, TokenizerError: the hub does not give it, or it is no model that can be converted.
        MissingExtra: the hub's library, or that of SentencePiece, is not installed.
    """
    cache = cache_folder()
    if cache is None:
        raise CheckpointError(f"there is no cache for {address}; convert it: dragoman convert {address} --to FOLDER")
    kept = cache / "models" / address.removeprefix(HUB).replace("/", "--")
    if not kept.is_dir():
        from dragoman.store.marian import convert  # here, because it loads torch

        try:
            result = convert(address, kept)
        except DataError:
            if not kept.is_dir():  # else another process was faster
                raise
            return kept
        for note in (f"{address} is kept as {kept}: {result.what}", *result.notes):
            log.info("%s", note)
    return kept


def fetch(address: str) -> Path:
    """The folder in the hub's own cache with the files of a model.

    Raises:
        CheckpointError: the hub does not give them.
        MissingExtra: the hub's library is not installed.
    """
    try:
        from huggingface_hub import errors, hf_hub_download, snapshot_download, utils
    except ImportError:
        raise missing_extra("huggingface_hub", "marian") from None
    utils.disable_progress_bars()  # only the command line draws, and an error is one line
    utils.logging.set_verbosity_error()
    log.info("fetching %s from the hub", address)
    name, _, revision = address.removeprefix(HUB).partition("@")
    try:
        folder = Path(snapshot_download(name, revision=revision or None, allow_patterns=list(SMALL)))
        if not is_marian(folder):
            return folder  # whatever it is, its weights would be fetched for nothing
        try:
            hf_hub_download(name, WEIGHTS[0], revision=folder.name)
        except errors.EntryNotFoundError:
            hf_hub_download(name, WEIGHTS[1], revision=folder.name)
    except CheckpointError:
        raise
    except Exception as error:  # the library raises dozens of kinds, network ones among them
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise CheckpointError(f"{address} could not be fetched: {reason[:300]}") from None
    return folder
