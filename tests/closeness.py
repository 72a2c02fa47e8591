"""Whether two ways to compute the same numbers agree, on any processor.

Another processor sums in another order, and what cancels carries the rounding of what it was made of. So a difference
is measured against the largest number that it stands among, never against a constant found on one machine.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2}
"""The share of the largest number by which rounding alone may move a result of a small model."""


def assert_close(found: Any, expected: Any, share: float | None = None) -> None:
    """Asserts that no number differs by more than this share of the largest one in `expected`: a tensor, or a list or
    dict of tensors. If no share is given, it is what rounding explains in the precision of `expected`.
    """
    sizes = [x.detach().abs().max() for x in _tensors(expected) if x.numel()]
    largest = max(sizes)
    share = ROUNDING[largest.dtype] if share is None else share
    torch.testing.assert_close(found, expected, atol=share * float(largest), rtol=0)


def _tensors(given: Any) -> Iterable[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    parts = given.values() if isinstance(given, Mapping) else given
    return [x for part in parts for x in _tensors(part)]
