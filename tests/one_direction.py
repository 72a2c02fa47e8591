"""Prepared text in one direction, for tests that read its report."""

from typing import Any

from dragoman.text import prepare
from dragoman.text.report import DataReport


def prepare_data(*arguments: Any, **settings: Any) -> DataReport:
    """Call the function of this name, and refuse a report on several directions."""
    report = prepare.prepare_data(*arguments, **settings)
    assert isinstance(report, DataReport)
    return report
