"""Compiled arithmetic. Every kernel has a plain twin in PyTorch beside its call, which is its definition.

`prepare` compiles the kernels, or loads them from the user's cache; until then the plain twins run. Start with
`library`, which calls kernels; `compiling` compiles and keeps them. This room knows nothing of models.
"""

from dragoman.kernels.library import KERNELS as KERNELS
from dragoman.kernels.library import available as available
from dragoman.kernels.library import prepare as prepare
from dragoman.kernels.library import run as run
from dragoman.kernels.library import usable as usable
from dragoman.kernels.library import without as without

__all__ = ["KERNELS", "available", "prepare", "run", "usable", "without"]
