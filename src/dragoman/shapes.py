"""Types of arrays in annotations: jaxtyping's if it is loaded, as by tests that check shapes; it takes time to load."""

import sys
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Float64, Int, Int32, Int64
else:
    Bool = Float = Float64 = Int = Int32 = Int64 = Annotated
