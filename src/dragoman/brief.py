"""Short reprs of results: a class with `__repr__ = brief` shows its fields, cut to a few characters each."""

import reprlib
from dataclasses import fields, is_dataclass
from typing import Any

LONGEST_VALUE, LONGEST = 120, 600
"""Maximum characters of one value and of a whole repr."""


def brief(self: Any) -> str:
    """Return the class name and fields of a result, without empty fields and with long ones cut to start and length.

    >>> from dragoman.inference.translation import Translation
    >>> Translation("the cat", "il gatto", -1.5, -1.2, ("il", "gatto", "[EOS]", "x"))
    Translation(source='the cat', text='il gatto', log_prob=-1.5, score=-1.2, tokens=4 of 'il' …)
    """
    kind: Any = type(self)
    tuple_fields = getattr(kind, "_fields", None)
    names = [field.name for field in fields(self)] if is_dataclass(self) else tuple_fields or kind.model_fields
    shown = [(name, _SHORT.repr(getattr(self, name))) for name in names]
    inside = ", ".join(f"{name}={_cut(value, LONGEST_VALUE)}" for name, value in shown if value not in _EMPTY)
    return f"{type(self).__name__}({_cut(inside, LONGEST)})"


def brief_scores(self: Any) -> str:
    """Return the repr of an evaluation: its scores, system and test set."""
    scores = ", ".join(f"{score.name} {score.printed}" for score in self.scores.values())
    return f"{type(self).__name__}({scores}: {self.system!r} on {self.test_name!r})"


class _Short(reprlib.Repr):
    """A repr that cuts long text, counts long sequences and shows a matrix by its shape."""

    def repr_tuple(self, x: Any, level: int) -> str:
        return super().repr_tuple(x, level) if len(x) <= 3 else f"{len(x):,} of {self.repr1(x[0], level - 1)} …"

    def repr_float(self, x: float, _level: int) -> str:
        return f"{x:.4g}"

    def repr_ndarray(self, x: Any, _level: int) -> str:
        return f"array {'×'.join(map(str, x.shape))}"

    repr_list, repr_Tensor = repr_tuple, repr_ndarray


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = LONGEST_VALUE
_EMPTY = ("None", "''", "()", "[]", "{}")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
