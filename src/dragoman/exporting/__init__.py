"""Models of other toolkits, in and out: each toolkit has a room of its own."""

from typing import Literal

Target = Literal["ctranslate2", "huggingface"]
"""A toolkit that a model is written for."""
