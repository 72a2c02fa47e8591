"""Models for other toolkits: each has a file of its own, and one file proves them all."""

from typing import Literal

Target = Literal["ctranslate2", "huggingface"]
"""A toolkit that a model is written for."""
