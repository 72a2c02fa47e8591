"""The labels of a classifier or tagger, in the order of their ids: `labels.json` in a model folder."""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.errors import DataError
from dragoman.serialization import write_json
from dragoman.text.labels import is_bio

FORMAT = 1
"""Format number of `labels.json`."""
FILE = "labels.json"


class Labels(Settings):
    """Labels of one task, with the temperature that calibrates their probabilities."""

    format: Literal[1] = FORMAT
    task: Literal["classify", "tag"]
    """One label per text, or one per word."""
    names: tuple[str, ...] = pydantic.Field(min_length=2, max_length=2**16 - 1)
    """In the order of their ids."""
    temperature: float = pydantic.Field(default=1.0, ge=0.001, lt=1_000)
    """Logits are divided by it before they become probabilities (Guo et al. 2017); chosen on the dev set."""

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.names)) < len(self.names) or not all(self.names):
            raise ValueError("a label is empty or listed twice")
        if broken := [name for name in self.names if "\n" in name or "\t" in name]:
            raise ValueError(f"the label {broken[0]!r} holds a line break or a tab")
        return self

    @property
    def size(self) -> int:
        """Return the number of labels C."""
        return len(self.names)

    @property
    def bio(self) -> bool:
        """Return True if the labels mark entities in the BIO scheme."""
        return self.task == "tag" and is_bio(self.names)

    @cached_property
    def identity(self) -> str:
        """Return the SHA-256, in hexadecimal, of everything that determines the ids."""
        return hashlib.sha256(json.dumps([self.task, *self.names]).encode()).hexdigest()

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def id_of(self, name: str) -> int:
        """Return the id of a label.

        Raises:
            DataError: there is no such label.
        """
        if name not in self._ids:
            known = ", ".join(self.names[:8]) + (", …" if self.size > 8 else "")
            raise DataError(f"the model has no label {name!r}; its {self.size} labels are {known}")
        return self._ids[name]

    def save(self, folder: Path) -> None:
        """Write `labels.json`."""
        write_json(folder / FILE, self.model_dump(mode="json"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a file that `save` wrote."""
        return read_json_as(folder / FILE, cls, FORMAT)
