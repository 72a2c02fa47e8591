"""Export of models to other toolkits: a file for each toolkit, and one file that verifies the exports."""

from typing import Literal

Target = Literal["ctranslate2", "huggingface"]
"""Toolkit that a model is exported to."""
