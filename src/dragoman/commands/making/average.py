"""`average`: a model between two, before and after fine-tuning, so that less is forgotten (Wortsman et al. 2022).

One dial, `share`, goes from the model before (0) to the one after (1). Where it is not given, each tenth of it is
measured on the dev sets of both runs, and the best sum of both scores is taken: what is gained on new text less what is
lost on old. So the dial is set after training, on finished runs, and as often as one likes.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from dragoman.config import flatten
from dragoman.errors import ConfigError
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.machine import use_threads
from dragoman.model import EncoderDecoder, build_model
from dragoman.progress import Progress, silent
from dragoman.run_folder import RunFolder
from dragoman.store import (
    StoredModel,
    check_new_model,
    default_card,
    load_model,
    named_weights,
    place_weights,
    save_model,
)
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.translating import Translator
from dragoman.tuning.averaging import interpolate

SHARES = tuple(tenth / 10 for tenth in range(11))
"""The settings of the dial that are measured."""
MEASURED = 300
"""Dev sentences on which each is measured, evenly spread over either set."""
CHANGEABLE = {"dropout", "attention_dropout", "activation_dropout"}
"""Settings in which the two models may differ."""

log = logging.getLogger(__name__)
Pairs = Sequence[tuple[str, str]]


class Point(NamedTuple):
    """One setting of the dial, and its chrF (greedy) on both dev sets."""

    share: float
    new: float
    old: float


class AverageResult(NamedTuple):
    """An averaged model."""

    folder: Path
    share: float
    points: tuple[Point, ...]
    """What was measured to choose the share; empty if it was given."""


def average(
    before: Path | str,
    after: Path | str,
    to: Path | str,
    share: float | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress = silent,
) -> AverageResult:
    """Writes the model folder `to`: (1 - share) times the weights before plus share times those after.

    Without a `share`, the best is chosen on the dev sets of the runs that `before` and `after` are.

    Raises:
        ConfigError: the models differ in more than their weights; there are no dev sets to choose on.
        CheckpointError: a model is missing or damaged.
        DataError: `to` exists already.
    """
    if share is not None and not 0 <= share <= 1:
        raise ConfigError(f"--share must be from 0, the model before, to 1, the model after, but is {share}")
    check_new_model(to)
    first, last = load_model(before), load_model(after)
    refuse_other_model(first, last)
    points: tuple[Point, ...] = ()
    if share is None and not isinstance(last.model, EncoderDecoder):
        raise ConfigError(f"{last.folder} does not translate, and the share is chosen by chrF; give it with --share")
    if share is None:
        with use_threads(threads):
            points = measure_shares(first, last, dev_pairs(after), dev_pairs(before), device, precision, progress)
        share = best_share(points)
    card = (
        default_card(last.languages, last.config)
        + f"\nThe average of {before} and {after}, {share:.2f} of the latter.\n"
    )
    save_model(to, between(first, last, share).model, last.files._replace(card=card))
    return AverageResult(Path(to), share, points)


def refuse_other_model(before: StoredModel, after: StoredModel) -> None:
    """Refuses to average models that differ in architecture or vocabulary.

    Raises:
        ConfigError: they do; the error names the first setting.
    """
    one, other = (flatten(each.config.model_dump(mode="json", exclude=CHANGEABLE)) for each in (before, after))
    if differ := [name for name in one if one[name] != other[name]]:
        name = differ[0]
        raise ConfigError(
            f"{before.folder} and {after.folder} are not one architecture (model.{name} is {one[name]} and "
            f"{other[name]}), so they have no average; average a model with what was fine-tuned from it"
        )
    if before.files.tokenizers is None or after.files.tokenizers is None:
        return
    if before.files.labels and after.files.labels and before.labels.identity != after.labels.identity:
        raise ConfigError(
            f"{before.folder} and {after.folder} have other labels, so their weights mean other things; "
            "average a model with what was trained from it on the same labels"
        )
    for side in ("source", "target"):
        if len({getattr(each.tokenizers, side).identity for each in (before, after)}) > 1:
            raise ConfigError(
                f"{before.folder} and {after.folder} have other vocabularies ({side}), so their weights mean other "
                "tokens; average a model with what was fine-tuned from it"
            )


def between(before: StoredModel, after: StoredModel, share: float) -> StoredModel:
    """The average of two loaded models, which takes the place of the second."""
    weights = interpolate(named_weights(before.model), named_weights(after.model), share)
    with torch.device("meta"):
        model = build_model(after.config, seed=None)
    place_weights(model, weights)
    return StoredModel(model.eval(), after.config, after.files, after.folder)


def measure_shares(
    before: StoredModel,
    after: StoredModel,
    new: Pairs,
    old: Pairs,
    device: str = "auto",
    precision: str = "auto",
    progress: Progress = silent,
) -> tuple[Point, ...]:
    """The chrF of each setting of the dial on new and old pairs, greedy."""
    if not isinstance(after.model, EncoderDecoder):
        raise ConfigError(f"{after.folder} does not translate, and the share is chosen by chrF; give it with --share")
    points: list[Point] = []
    with progress.track("average", len(SHARES), "shares") as advance:
        for share in SHARES:
            translator = Translator(between(before, after, share), device, precision)
            points.append(Point(share, _chrf(translator, new), _chrf(translator, old)))
            advance(1)
    return tuple(points)


def best_share(points: Sequence[Point]) -> float:
    """The share with the largest sum of both scores: most is gained on new text, less what is lost on old. Among
    equals, the one nearest to the model before.
    """
    return max(points, key=lambda point: (point.new + point.old, -point.share)).share


def dev_pairs(run: Path | str) -> list[tuple[str, str]]:
    """Some dev pairs of a run.

    Raises:
        ConfigError: it is no run, or has no dev set.
    """
    path = RunFolder(Path(run)).split("dev")
    pairs = list(read_split(RunFolder(Path(run)).data, "dev")) if path.is_file() else []
    if not pairs:
        raise ConfigError(
            f"{run} is not a run with a dev set, so the share cannot be chosen; give it, as in --share 0.5"
        )
    return list(evenly_spaced(iter(pairs), len(pairs), min(MEASURED, len(pairs))))


def _chrf(translator: Translator, pairs: Pairs) -> float:
    greedy = translator.options.searching(beam_size=1, n_best=1)
    found = translator.translate([source for source, _ in pairs], greedy)
    references = [[target] for _, target in pairs]
    return bleu_and_chrf([each.text for each in found], references, translator.languages.target)["chrf"]
