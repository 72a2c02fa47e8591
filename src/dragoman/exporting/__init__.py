"""Export of models to other toolkits and to a web page: a file or folder for each, and one file that verifies them."""

from typing import Literal

Target = Literal["ctranslate2", "huggingface", "web"]
"""Toolkit that a model is exported to; `web` is a page that translates in a browser."""
