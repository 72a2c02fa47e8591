"""The tests that need a C++ compiler.

Only a machine without one skips them: if our own C++ does not compile, they fail.
"""

import sys

import pytest

from dragoman import system

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or system.compiler_path() is None, reason="no C++ compiler (g++ or clang++) on Linux"
)
