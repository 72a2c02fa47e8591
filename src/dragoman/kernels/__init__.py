"""Compiled arithmetic. Every kernel has a plain twin in PyTorch beside its call, which is its definition.

`prepare` compiles the kernels, or loads them from the user's cache; until then the plain twins run. `calling` calls
kernels. This room knows nothing of models.
"""

from dragoman.kernels.calling import KERNELS as KERNELS
from dragoman.kernels.calling import available as available
from dragoman.kernels.calling import prepare as prepare
from dragoman.kernels.calling import run as run
from dragoman.kernels.calling import usable as usable
from dragoman.kernels.calling import without as without

__all__ = ["KERNELS", "available", "prepare", "run", "usable", "without"]
