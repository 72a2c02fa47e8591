"""A look inside a model: records of one translation, and what a model has learned. Start with `recording`."""

from typing import Literal

RecordFormat = Literal["html", "json", "png", "svg", "pdf", "terminal"]
"""A format of a record: the page, every number, a picture of attention weights, or text."""
