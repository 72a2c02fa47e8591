"""Shapes of arrays in annotations, such as `Float[Tensor, "B T"]`, with the letters of ARCHITECTURE.md.

They are jaxtyping's types if jaxtyping is loaded, as by the tests, which check them. Otherwise they only annotate, and
jaxtyping, which imports much that a translation does not need, is not loaded.
"""

import sys
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Float64, Int, Int32, Int64
else:
    Bool = Float = Float64 = Int = Int32 = Int64 = Annotated

__all__ = ["Bool", "Float", "Float64", "Int", "Int32", "Int64"]
