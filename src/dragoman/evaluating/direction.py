"""Checks that text has the direction of a model: by the names of columns and languages in the model's folder, or, if
there are no names, by the probability that the model gives to the text.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Protocol, runtime_checkable

from dragoman.errors import DataError, DecodeError
from dragoman.inference.translation import Translation
from dragoman.languages import UNKNOWN_LANGUAGE, differing
from dragoman.run_folder import RunFolder
from dragoman.store.description import read_config
from dragoman.store.folder import find_model
from dragoman.text.columns import Naming
from dragoman.text.report import read_report

PAIRS = 32
"""Number of pairs that the model scores."""
LONGEST = 200
"""Maximum number of characters per side, to keep the check cheap."""
CLEAR, MOST = 1.0, 0.9
"""Minimum gain in nats per target token when the sides are exchanged, and share of the pairs that must agree.
The exchange costs a model of Tatoeba 5.8 nats on its own test set and 3 on other domains (LOG.md)."""

log = logging.getLogger(__name__)


@runtime_checkable
class PairScorer(Protocol):
    """A scorer of given translations: the part of `Translator` that `exchange_gain` needs."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Sequence[Translation]: ...


def naming_for(model: Path | str, user: Naming = Naming()) -> Naming:  # noqa: B008 (immutable)
    """Complete the user's information about columns with that of a model folder or its run."""
    folder = find_model(model)
    languages = read_config(folder).languages
    known = user._replace(expected=languages and tuple(languages))
    for run in map(RunFolder, (Path(model), folder.parent)):
        if run.report.is_file() and (run.path == Path(model) or run.recipe.is_file()):
            with suppress(DataError):  # written by another version: columns are guessed
                return known._replace(trained_columns=read_report(run.data).inputs["train"].columns)
    return known


def prepared_languages(folder: Path | str) -> tuple[str | None, str | None]:
    """Return the source and target language of prepared data; None if its report is missing or does not name them."""
    try:
        report = read_report(folder)
    except DataError:
        return None, None
    source, target = (
        None if language == UNKNOWN_LANGUAGE else language
        for language in (report.source_language, report.target_language)
    )
    return source, target


def refuse_other_languages(path: Path | str, named: tuple[str | None, str | None], naming: Naming) -> None:
    """Refuse text whose name or report gives other languages than the model's, unless the user named them.

    Raises:
        DataError: the languages differ; both are named.
    """
    if naming.expected and not any(naming.languages) and differing(named, naming.expected):
        source, target = (language or UNKNOWN_LANGUAGE for language in named)
        raise DataError(
            f"{path} is {source} to {target}, but {naming.expected_by} goes from {naming.expected[0]} to "
            f"{naming.expected[1]}; use text of that direction, or name its languages: "
            "--set data.source_language=CODE --set data.target_language=CODE"
        )


def warn_of_other_languages(languages: tuple[str, str], translator_languages: tuple[str, str], name: str) -> None:
    """Warn if the languages of a text are not those of the model."""
    if differing(languages, translator_languages):
        log.warning("the model translates %s to %s, but %s is called %s to %s", *translator_languages, name, *languages)


def warn_of_exchanged_sides(translator: PairScorer, pairs: Sequence[tuple[str, str]], name: str) -> None:
    """Warn if the model finds the sources clearly more probable as translations of the targets."""
    gain = exchange_gain(translator, pairs)
    if gain is not None and gain > CLEAR:
        log.warning(
            "%s: the columns look exchanged: the source is the more probable translation (by %.1f nats per token); "
            "exchange them with --set data.source_column and --set data.target_column, or exchange the two files",
            name,
            gain,
        )


def exchange_gain(translator: PairScorer, pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return the gain in log-probability per target token, in nats, when the sides of the pairs are exchanged.

    None if there are too few pairs, or they disagree.
    """
    usable = [pair for pair in pairs if all(side.strip() and len(side) <= LONGEST for side in pair)]
    chosen = usable[:: max(1, len(usable) // PAIRS)][:PAIRS]
    if len(chosen) < 5:
        return None
    sources, targets = ([pair[side] for pair in chosen] for side in (0, 1))
    try:
        original, exchanged = (
            [translation.log_prob / len(translation.token_log_probs) for translation in translator.score(*sides)]
            for sides in ((sources, targets), (targets, sources))
        )
    except DecodeError:  # a text is longer than the model's positions
        return None
    gains = [after - before for before, after in zip(original, exchanged, strict=True)]
    agreed = sum(gain > 0 for gain in gains) / len(gains)
    return fmean(gains) if agreed >= MOST or agreed <= 1 - MOST else None
