"""Quantization (`quantize`): a model's matrices in 8 bits."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import ConfigError
from dragoman.evaluating.direction import naming_for
from dragoman.evaluating.references import own_test_set, read_references
from dragoman.progress import Progress
from dragoman.runs.compare import CompareResult, compare
from dragoman.store.description import WEIGHTS, default_card
from dragoman.store.folder import load_model
from dragoman.store.saving import check_new_model, save_model


class Quantized(NamedTuple):
    """Sizes and scores of a model before and after."""

    bytes_before: int
    """Size of its weights."""
    bytes_after: int
    scores: CompareResult | None
    """The model before and after on the same test set; None without one."""


def quantize(
    model: Path | str, to: Path | str, test: Path | str | None = None, progress: Progress | bool = True
) -> Quantized:
    """Write the model folder `to`: every matrix as 8-bit integers with a scale for each of its rows, which is a quarter
    of the size. It loads wherever the model does. Compiled, it also computes in int8 by default.

    Both are scored on `test`, else on the run's own test set if `model` is a run of translations that has one.

    Raises:
        ConfigError: the model is quantised already, or of a family that has no decoder.
        CheckpointError: it is missing or damaged.
        DataError: `to` exists already, or the test set cannot be read.
    """
    check_new_model(to)
    stored = load_model(model)
    if stored.quantised:
        raise ConfigError(f"{model} is quantised already")
    if test is not None and stored.config.family != "encoder_decoder":
        raise ConfigError(f"{model} does not translate, so there is nothing to score; leave --test out")
    if stored.config.family == "encoder":
        raise ConfigError(f"{model} is an encoder alone, which runs in PyTorch; quantize takes models that write text")
    if test is not None:
        read_references(test, naming=naming_for(model))  # a bad one is refused before anything is written
    card = default_card(stored.languages, stored.config, f"The matrices of {model}, rounded to 8 bits.")
    save_model(to, stored.model, stored.files._replace(card=card), quantised=True)
    if test is None:
        with suppress(ConfigError):  # the model has none
            test = own_test_set(model)
    scores = None if test is None else compare([model, to], test, progress=progress)
    before = sum(weight.nbytes for weight in stored.weights.values())  # an adapter's folder holds only some of them
    return Quantized(before, (Path(to) / WEIGHTS).stat().st_size, scores)
