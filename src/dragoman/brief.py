"""Short and telling reprs of results: a class that says `__repr__ = brief` names its fields, each in a few letters."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

LONGEST_VALUE, LONGEST = 120, 600
"""Letters of one value and of a whole repr."""
_FEW = 3


def brief(self: Any) -> str:
    """The class of a result and its fields. Empty ones are left out; of long ones stand the beginning and the length.

    >>> from dragoman.inference.translation import Translation
    >>> Translation("the cat", "il gatto", -1.5, -1.2, ("il", "gatto", "[EOS]", "x"))
    Translation(source='the cat', text='il gatto', log_prob=-1.5, score=-1.2, tokens=4 of 'il' …)
    """
    shown = [(name, _shown(getattr(self, name))) for name in _names(self) or ()]
    inside = ", ".join(f"{name}={_cut(value, LONGEST_VALUE)}" for name, value in shown if value not in _EMPTY)
    return f"{type(self).__name__}({_cut(inside, LONGEST)})"


def brief_scores(self: Any) -> str:
    """The repr of any evaluation: who was scored on what, and how it did."""
    scores = ", ".join(f"{score.name} {score.printed}" for score in self.scores.values())
    return f"{type(self).__name__}({scores}: {self.system!r} on {self.test_name!r})"


_EMPTY = ("None", "''", "()", "[]", "{}")


def _names(value: Any) -> Sequence[str] | None:
    """The names of an object's fields; None if it is no record."""
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return [field.name for field in fields(value) if field.repr]
    if (model_fields := getattr(type(value), "model_fields", None)) is not None:
        return [*model_fields]
    return getattr(value, "_fields", None)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 2]}…")
    if (shape := getattr(value, "shape", None)) is not None:
        return f"array {'×'.join(map(str, shape))}"
    if _names(value) is not None:
        return repr(value) if type(value).__repr__ is brief_scores else brief(value)
    if isinstance(value, Mapping):
        return "{" + _some([f"{key!r}: {_shown(value[key])}" for key in [*value][:_FEW]], len(value)) + "}"
    if isinstance(value, Sequence | Set):
        first = [_shown(each) for _, each in zip(range(_FEW), value, strict=False)]
        return f"({', '.join(first)})" if len(value) <= _FEW else f"{len(value):,} of {_cut(first[0], 40)} …"
    return repr(value)


def _some(shown: Sequence[str], count: int) -> str:
    return ", ".join(shown) + (f" … {count:,} items" if count > len(shown) else "")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
