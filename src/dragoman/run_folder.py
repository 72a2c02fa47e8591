"""Where the files of a run lie. Every path of a run is spelt here and nowhere else; nothing is opened.

runs/NAME/
  recipe.toml     every setting, with the reason for each that nobody gave
  run.json        what was asked for, and how far the run is
  data/           train, dev and test, and data.json, the report on them
  tokenizer/  corpus/train, corpus/dev  checkpoints/step-…/
  metrics.jsonl   each step once
  best/  final/   model folders
  scores.json     scores on the test sets, with signatures
"""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    >>> RunFolder(Path("runs/mine")).scores.as_posix()
    'runs/mine/scores.json'
    """

    path: Path

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def recipe(self) -> Path:
        return self.path / "recipe.toml"

    @cached_property
    def facts(self) -> Path:
        return self.path / "run.json"

    @cached_property
    def data(self) -> Path:
        return self.path / "data"

    @cached_property
    def report(self) -> Path:
        return self.data / "data.json"

    @cached_property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer"

    @cached_property
    def corpora(self) -> Path:
        return self.path / "corpus"

    @cached_property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @cached_property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @cached_property
    def best(self) -> Path:
        return self.path / "best"

    @cached_property
    def final(self) -> Path:
        return self.path / "final"

    @cached_property
    def scores(self) -> Path:
        return self.path / "scores.json"

    @cached_property
    def curves(self) -> Path:
        return self.path / "curves.png"

    @cached_property
    def diverged(self) -> Path:
        return self.path / "diverged.json"

    @cached_property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    def split(self, name: str) -> Path:
        """The file of one split of the data: `train`, `dev`, `test`, or another test set."""
        return self.data / f"{name}.jsonl"

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here."""
        return self.facts.is_file()

    @property
    def was_run(self) -> bool:
        """Whether a run was trained here and its `run.json` is lost."""
        return self.metrics.is_file() and not self.is_run
