"""Preparing by independent jobs: each takes in its part of the text, in any order; `prepare_data` joins the parts.

    dragoman prepare-data corpus.tsv --folder data --shard 3/16      on any machine that sees the folder
    dragoman prepare-data corpus.tsv --folder data                   when all sixteen are there

A finished job is not done again, and one that was cut off leaves nothing. Joining puts the stretches of the shards in
the order of the text and goes on as if one job had read everything: it finds duplicates and leaks across shards, and
the result is the same to the byte. Only warnings about shifted rows may come in pieces.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from dragoman.config import Settings
from dragoman.documents import read_document, write_json
from dragoman.errors import DataError
from dragoman.files import new_folder
from dragoman.progress import Progress, silent
from dragoman.text.inputs import DataSettings, identity, open_inputs
from dragoman.text.intake import KEYS, Facts, Intake, Shard, keys_of, learn_from, merge, take_in

_FACTS, _PAIRS = "shard.json", "pairs.jsonl"

log = logging.getLogger(__name__)


class _ShardFacts(Settings):
    identity: str
    """The identity of the text and settings, as in the report on the whole."""
    intake: Facts


def prepare_shard(settings: DataSettings, folder: Path | str, shard: Shard, progress: Progress = silent) -> Facts:
    """Reads and checks one part of the text for `prepare_data`, into a folder beside `folder`.

    Raises:
        DataError: the text cannot be read, or the shard was made from other data.
        DiskFull: nothing is left behind.
    """
    part = shards_folder(folder) / f"{shard.number}-of-{shard.of}"
    with open_inputs(settings) as inputs:
        name = identity(settings, inputs)
        if part.exists():
            facts = _read(part, name)
            log.info("%s is done already", part)
            return facts
        with new_folder(part) as aside:
            train, checks = inputs["train"], settings.checks
            sides = learn_from(train, checks)
            facts = take_in(train, aside / _PAIRS, checks, sides, keep_all=False, progress=progress, shard=shard).facts
            found = _ShardFacts(identity=name, intake=facts)
            write_json(aside / _FACTS, found.model_dump(mode="json"))
    return facts


def shards_folder(folder: Path | str) -> Path:
    """Where the shards of prepared data wait to be joined."""
    return Path(folder).with_name(f"{Path(folder).name}.shards")


def find_shards(folder: Path | str) -> list[Path]:
    """All shards of the data for `folder`, in order; none if it is not prepared in shards.

    Raises:
        DataError: some are missing, or they are of different numbers of shards.
    """
    home = shards_folder(folder)
    if not home.is_dir():
        return []
    found = {Shard(int(name[1]), int(name[2])): path for path in home.iterdir() if (name := _numbers(path))}
    wholes = sorted({shard.of for shard in found})
    if len(wholes) != 1:
        holds = f"shards of {' and of '.join(map(str, wholes))}" if wholes else "no shard that is done"
        raise DataError(f"{home} holds {holds}; delete it and begin again, all jobs with one number of shards")
    missing = [str(number) for number in range(1, wholes[0] + 1) if (number, wholes[0]) not in found]
    if missing:
        told = ", ".join(missing[:5]) + (" …" if missing[5:] else "")
        raise DataError(
            f"{home} lacks {len(missing)} of {wholes[0]} shards ({told}): prepare them with --shard "
            f"{missing[0]}/{wholes[0]}, or delete {home} to do without shards"
        )
    return [found[shard] for shard in sorted(found)]


def join(shards: Sequence[Path], name: str, path: Path) -> Intake:
    """Puts the pairs of all shards, and their keys, in the order of the text.

    Raises:
        DataError: a shard is damaged, or was made from data of another identity than `name`.
    """
    facts = [_read(shard, name) for shard in shards]
    for suffix, size in ((_PAIRS, None), (keys_of(Path(_PAIRS)).name, KEYS.itemsize)):
        files = [(shard / suffix).open("rb") for shard in shards]
        with (path if size is None else keys_of(path)).open("wb") as whole:
            for number, (pairs, length) in enumerate(merge(facts).stretches):
                _copy(files[number % len(files)], whole, length if size is None else pairs * size)
        for file in files:
            file.close()
    return Intake(path, merge(facts))


def _numbers(path: Path) -> re.Match[str] | None:
    return re.fullmatch(r"(\d+)-of-(\d+)", path.name)


def _read(shard: Path, name: str) -> Facts:
    advice = f"delete {shard} and prepare it again"
    found = read_document(shard / _FACTS, _ShardFacts, error=DataError, advice=advice)
    if found.identity != name:
        raise DataError(
            f"{shard} was prepared from other data or settings; delete {shard.parent} or name another folder"
        )
    facts = found.intake
    sizes = sum(size for _, size in facts.stretches), KEYS.itemsize * sum(pairs for pairs, _ in facts.stretches)
    for path, size in zip((shard / _PAIRS, keys_of(shard / _PAIRS)), sizes, strict=True):
        if not path.is_file() or path.stat().st_size != size:
            raise DataError(f"{path} was cut or is missing; {advice}")
    return facts


def _copy(file: IO[bytes], to: IO[bytes], count: int) -> None:
    while count:
        block = file.read(min(count, 1 << 20))
        if not block:
            raise DataError(f"{file.name} was cut while it was read; prepare it again")
        to.write(block)
        count -= len(block)
