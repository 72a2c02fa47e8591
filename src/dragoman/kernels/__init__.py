"""Compiled arithmetic. Every kernel has a plain twin in PyTorch beside its call, which is its definition.

Start with `library`: what is compiled, kept and loaded. Knows no model.
"""

from dragoman.kernels.library import KERNELS as KERNELS
from dragoman.kernels.library import available as available
from dragoman.kernels.library import run as run
from dragoman.kernels.library import usable as usable
from dragoman.kernels.library import without as without

__all__ = ["KERNELS", "available", "run", "usable", "without"]
