"""Gates for pipelines: conditions on figures, as `bleu >= 40` or `lost <= 0.5%`, that end a command with an error."""

import operator
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from dragoman.errors import ConfigError, GateFailed
from dragoman.evaluating.error_kinds import KINDS
from dragoman.evaluating.evaluation import FROM_FILE
from dragoman.evaluating.metrics import METRICS
from dragoman.inference.translation import MEANINGS

SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
FLAGS = [flag for flag in MEANINGS if flag != "term"]
"""Flags of lines; a report counts terms as `terms`, and only if there is a list of them."""
KNOWN = {*METRICS, *KINDS, *FLAGS, "comet", "errors", "empty", "copies of the source"}
KNOWN |= {"wrong", "accuracy", "macro_f1", "f1", "precision", "recall"}  # of labels
_GATE = re.compile(r"\s*([A-Za-z][\w ]*?)\s*(>=|<=|>|<)\s*(\d+(?:\.\d+)?)\s*(%?)\s*")
Gate = tuple[str, str, str, float, bool]
"""A condition as it was typed, the name of its figure, its sign and limit, and True for a percentage of lines."""


class Figure(NamedTuple):
    """A figure that a gate may ask for: a score, or a number of lines out of all."""

    value: float
    of: int | None = None

    @property
    def percent(self) -> float:
        return 100 * self.value / max(1, self.of or 1)

    def __str__(self) -> str:
        lines = "" if self.of is None else f"{self.percent:.2f}% ({self.value:,.0f} of {self.of:,} lines)"
        return lines or f"{self.value:.2f}"


def parse_gates(texts: Sequence[str]) -> list[Gate]:
    """Read gates, before anything is measured; raise `ConfigError` if one cannot be read or its name is unknown.

    >>> parse_gates(["lost <= 0.5%"])
    [('lost <= 0.5%', 'lost', '<=', 0.5, True)]
    """
    gates = list[Gate]()
    for text in texts:
        if (parts := _GATE.fullmatch(text)) is None:
            example = f"write a name, one of {' '.join(SIGNS)}, and a number, as in 'bleu >= 40' or 'lost <= 0.5%'"
            raise ConfigError(f"--require {text!r} cannot be read; {example}")
        name, sign, limit, percent = parts.groups()
        if name.lower() not in KNOWN:
            known = ", ".join(sorted(KNOWN))
            raise ConfigError(f"--require {text!r}: there is no figure {name!r}; choose from {known}")
        gates.append((text.strip(), name.lower(), sign, float(limit), percent == "%"))
    return gates


def figures_of(evaluation: Any) -> dict[str, Figure]:
    """Return the scores of an evaluation, and the counts of its lines; a flag that no line has counts 0."""
    counts: dict[str, int] = dict(evaluation.counts)
    lines, _ = counts.pop("lines", None), counts.pop("references", None)
    flags = {} if lines is None or evaluation.search == FROM_FILE else dict.fromkeys(FLAGS, 0)
    scores = {name: Figure(score.value) for name, score in evaluation.scores.items()}
    return scores | {name: Figure(count, lines) for name, count in (flags | counts).items()}


def check_gates(gates: Sequence[Gate], measured: Mapping[str, Mapping[str, Figure]]) -> None:
    """Check the figures of each text, by its name.

    Raises:
        GateFailed: some do not meet a gate; the message names all of them.
        ConfigError: a figure was not measured, or has no share.
    """
    failed: list[str] = []
    for (typed, name, sign, limit, is_share), (text, figures) in product(gates, measured.items()):
        figure = figures.get(name)
        if figure is None or (is_share and figure.of is None):
            problem = f"{name} was not measured on {text}" if figure is None else f"{name} is a score; leave out the %"
            raise ConfigError(f"--require {typed!r}: {problem}")
        if not SIGNS[sign](figure.percent if is_share else figure.value, limit):
            failed.append(f"{typed}, but on {text} it is {figure}")
    if failed:
        raise GateFailed(f"--require: {'; '.join(failed)}")
