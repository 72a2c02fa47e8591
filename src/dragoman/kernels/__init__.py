"""Compiled arithmetic. Every kernel has a plain twin in PyTorch beside its call, which is its definition.

`prepare` compiles the kernels or finds them in the user's cache; until it is called, the plain twins run. Start
with `library`, which calls them; `compiling` makes and keeps them. Knows no model.
"""

from dragoman.kernels.library import KERNELS as KERNELS
from dragoman.kernels.library import available as available
from dragoman.kernels.library import prepare as prepare
from dragoman.kernels.library import run as run
from dragoman.kernels.library import usable as usable
from dragoman.kernels.library import without as without

__all__ = ["KERNELS", "available", "prepare", "run", "usable", "without"]
