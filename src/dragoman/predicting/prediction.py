"""What a model with an encoder alone says of one text, as plain values."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Choice:
    """One label or word, and its probability."""

    name: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """What was found for one text."""

    text: str

    def facts(self) -> dict[str, Any]:
        """All of it, as plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Classified(Prediction):
    """The labels of a text, likeliest first, and how far each of its words spoke for the first: by how many nats the
    label's log-probability, not calibrated, falls without it. No words if they were not asked for.
    """

    labels: tuple[Choice, ...]
    words: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        """The likeliest label."""
        return self.labels[0].name


@dataclass(frozen=True)
class Tagged(Prediction):
    """The words of a text, and the label of each."""

    words: tuple[str, ...]
    labels: tuple[Choice, ...]


@dataclass(frozen=True)
class Filled(Prediction):
    """The words that may stand in the place of each mask, likeliest first."""

    masks: tuple[tuple[Choice, ...], ...]
