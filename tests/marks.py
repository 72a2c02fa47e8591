"""Which cases of a test only `make test-all` runs."""

from typing import Any

import pytest


def thorough(*cases: Any) -> list[Any]:
    """Parameters, one a case, that are left out of `make test`."""
    return [pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.thorough) for case in cases]
