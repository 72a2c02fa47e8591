"""What is known of every head of a model: as rows for a terminal, and as plain values for JSON."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from dragoman.evaluating.groups import Student
from dragoman.evaluating.metrics import Score
from dragoman.evaluating.significance import Comparison
from dragoman.explaining.heads.head import Head
from dragoman.explaining.heads.roles import ROLES, Shares, Where, played

LEVEL = 0.01
"""Changes are starred below this p-value, as in Michel et al. (2019), because there are many heads."""


class Change(NamedTuple):
    """What the removal of a head adds to the log-probability of the references, in nats a token: negative if the head
    helps.
    """

    value: float
    error: float
    """The standard error over sentences; 0 if there is but one."""
    p_value: float
    """Of no change, by Student's t over sentences; 1 without a standard error."""

    @classmethod
    def of(cls, changes: Sequence[float], tokens: Sequence[int]) -> Self:
        """From the sum of each sentence and its tokens: a ratio of sums (Cochran 1977, equation 6.13)."""
        count, total = len(tokens), sum(tokens)
        mean = sum(changes) / total
        residuals = [change - mean * own for change, own in zip(changes, tokens, strict=True)]
        spread = sum(each**2 for each in residuals) * count / (count - 1) if count > 1 else 0.0
        error = math.sqrt(spread) / total
        return cls(mean, error, Student(count - 1).two_sided(mean / error) if error else 1.0)


class Served(NamedTuple):
    """How many texts of a kind served beside the test set, and how many did not."""

    texts: int
    left_out: int

    def said(self, what: str, why: str) -> str:
        left_out = f"; {self.left_out:,} {why} were left out" if self.left_out else ""
        return f"judged on {self.texts:,} {what}{left_out}."


@dataclass(frozen=True)
class HeadRow:
    """What is known of one head."""

    head: Head
    roles: Shares
    log_prob_change: Change
    bleu: Comparison | None = None
    """Of the model without the head with the whole model; None for a language model."""


@dataclass(frozen=True)
class HeadTable:
    """All heads of a model, in the order of its layers."""

    heads: tuple[HeadRow, ...]
    chance: dict[Where, Shares]
    """The share of each role that chance would give."""
    judged: dict[Where, dict[str, int]]
    """How many words each share is a mean over."""
    sentences: int
    """Of the test set, spread evenly over it."""
    left_out: int
    """Sentences that are blank, or longer than the model's positions."""
    tokens: int
    """That were to be written: the count behind `log_prob`."""
    log_prob: float
    """Of the references by the whole model, in nats a token."""
    bleu: Score | None = None
    """Of the whole model's greedy translations; None for a language model."""
    aligned: Served | None = None
    """Aligned pairs. Those that are longer than the model's positions are left out."""
    trees: Served | None = None
    """Sentences with trees. Those in which no verb has a subject are left out too."""

    @property
    def headings(self) -> list[str]:
        """The columns of `rows`."""
        return ["head", "looks at (by chance)", "log-probability", *(["BLEU"] if self.bleu else [])]

    def rows(self) -> list[list[str]]:
        """The whole model, then every head: up to two roles that it plays, and what its removal changes."""
        whole = ["whole model", "", f"{self.log_prob:.3f}"]
        return [whole + ([self.bleu.printed] if self.bleu else []), *map(self._row, self.heads)]

    @property
    def notes(self) -> list[str]:
        """What a reader of the rows should know, in sentences."""
        left_out = f"; {self.left_out:,} blank or too long ones were left out" if self.left_out else ""
        tests = " (t-test over sentences; BLEU: randomisation)" if self.bleu else " (t-test over sentences)"
        notes = [
            f"Judged on {self.sentences:,} different sentences with {self.tokens:,} tokens to write{left_out}.",
            *self._others(),
            "Shares are of a head's weight, and by chance of equal weights on all tokens; subjects and verbs count how "
            "often the largest weight is right, and by chance the fixed distance that is right most often.",
            f"Log-probabilities are of the {'references' if self.bleu else 'texts'}, in nats a token; below the whole "
            "model, what a head's removal changes.",
            f"* marks changes with p < {LEVEL}{tests}; of {len(self.heads)} heads without any effect, "
            f"{len(self.heads) * LEVEL:.1f} would bear it.",
        ]
        return notes + ([f"BLEU ({self.bleu.signature}) is of greedy translations."] if self.bleu else [])

    def facts(self) -> dict[str, Any]:
        """Everything, as plain values for JSON."""
        return {
            "sentences": self.sentences,
            "left_out": self.left_out,
            "tokens": self.tokens,
            "aligned_pairs": self.aligned and self.aligned._asdict(),
            "trees": self.trees and self.trees._asdict(),
            "log_prob_per_token": self.log_prob,
            "bleu": self.bleu and {"value": self.bleu.value, "signature": self.bleu.signature, "search": "greedy"},
            "chance": {".".join(where): _plain(shares) for where, shares in self.chance.items()},
            "judged": {".".join(where): counts for where, counts in self.judged.items()},
            "heads": [self._facts(row) for row in self.heads],
        }

    def _others(self) -> Iterator[str]:
        """On what the roles are judged for which the test set does not serve."""
        if self.aligned:
            yield f"Aligned words: {self.aligned.said('aligned pairs', 'too long ones')}"
        if self.trees:
            without = "without a verb and its subject, or too long,"
            yield f"Subjects and verbs: {self.trees.said('sentences with trees', without)}"

    def _row(self, row: HeadRow) -> list[str]:
        change, bleu = row.log_prob_change, row.bleu
        cells = [f"{row.head.site}.{row.head.number}", self.looks_at(row)]
        cells.append(f"{change.value:+.3f}{'*' * (change.p_value < LEVEL)}")
        return cells + ([f"{bleu.delta:+.1f}{'*' * (bleu.p_value < LEVEL)}"] if bleu else [])

    def looks_at(self, row: HeadRow, most: int = 2) -> str:
        """The roles that a head plays, in words: "previous word 93% (15%)"."""
        roles = played(row.roles, self.chance[row.head.stack, row.head.kind])
        return ", ".join(f"{ROLES[role]} {share:.0%} ({chance:.0%})" for role, share, chance in roles[:most])

    def _facts(self, row: HeadRow) -> dict[str, Any]:
        change, bleu = row.log_prob_change, row.bleu
        facts = {
            "attention": row.head.site,
            "head": row.head.number,
            "looks_at": self.looks_at(row),
            "roles": _plain(row.roles),
            "log_prob_change_per_token": change.value,
            "standard_error": change.error,
            "p": change.p_value,
        }
        if bleu is not None:
            facts["bleu"] = {
                "value": bleu.values[0],
                "change": bleu.delta,
                "interval": [bleu.low, bleu.high],
                "p": bleu.p_value,
            }
        return facts


def _plain(shares: Shares) -> dict[str, dict[str, float]]:
    return {role: share._asdict() for role, share in shares.items()}
