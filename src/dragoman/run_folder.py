"""The paths of a run's files and folders. Every one is spelt here and nowhere else; none is opened. What lies inside a
model folder, a checkpoint or a corpus is named by the file that writes it.

runs/NAME/
  recipe.toml     every setting, with a reason for each that was chosen for the user
  run.json        what was asked for, and how far the run is
  data/           train, dev and test, and the report on them, data.json
  tokenizer/  corpus/train, corpus/dev  checkpoints/step-…/
  metrics.jsonl   a line for each step
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
        """Every setting of the run, with reasons."""
        return self.path / "recipe.toml"

    @cached_property
    def facts(self) -> Path:
        """What was asked for, and how far the run is."""
        return self.path / "run.json"

    @cached_property
    def data(self) -> Path:
        """The folder of prepared text."""
        return self.path / "data"

    @cached_property
    def report(self) -> Path:
        """The report on the prepared text."""
        return self.data / "data.json"

    @cached_property
    def tokenizer(self) -> Path:
        """The folder of the tokenizers."""
        return self.path / "tokenizer"

    @cached_property
    def corpora(self) -> Path:
        """The folder of encoded corpora."""
        return self.path / "corpus"

    @cached_property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @cached_property
    def metrics(self) -> Path:
        """The metrics of each step, as JSON lines."""
        return self.path / "metrics.jsonl"

    @cached_property
    def best(self) -> Path:
        """The model folder of the best validation."""
        return self.path / "best"

    @cached_property
    def final(self) -> Path:
        """The model folder of the last step."""
        return self.path / "final"

    @cached_property
    def scores(self) -> Path:
        """Scores on the test sets."""
        return self.path / "scores.json"

    @cached_property
    def curves(self) -> Path:
        """Losses and scores as a picture."""
        return self.path / "curves.png"

    @cached_property
    def confusion(self) -> Path:
        """What a classifier or tagger takes for what, as a picture."""
        return self.path / "confusion.png"

    @cached_property
    def diverged(self) -> Path:
        """The pairs of the last step whose gradient was not finite."""
        return self.path / "diverged.json"

    @cached_property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's files."""
        return self.path / "tensorboard"

    def split(self, name: str) -> Path:
        """The file of one split of the pairs: `train`, `dev`, `test`, or another test set."""
        return split_of(self.data, name)

    def text(self, name: str) -> Path:
        """The file of one split of running text: `train`, `dev` or `test`."""
        return text_of(self.data, name)

    def corpus(self, name: str) -> Path:
        """The encoded corpus of one split: `train` or `dev`."""
        return self.corpora / name

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here."""
        return self.facts.is_file()

    @property
    def was_run(self) -> bool:
        """Whether a run was trained here but its `run.json` is lost."""
        return self.metrics.is_file() and not self.is_run

    def owns(self, path: Path) -> bool:
        """Whether a run lies here, or what is left or was copied of one, and `path` is one of its files or folders or
        lies in one. Another program may keep a `run.json` or a `metrics.jsonl`, so one such file makes no run.
        """
        kept = sum(each.is_file() for each in (self.recipe, self.facts, self.report, self.metrics))
        if kept < 2 and not (self.report.is_file() and (self.best.is_dir() or self.final.is_dir())):
            return False
        own = (self.recipe, self.facts, self.data, self.tokenizer, self.corpora, self.checkpoints, self.metrics)
        made = (self.best, self.final, self.scores, self.curves, self.confusion, self.diverged, self.tensorboard)
        return not {path, *path.parents}.isdisjoint((*own, *made))


def split_of(data: Path, name: str) -> Path:
    """The file of one split in a folder of prepared pairs."""
    return data / f"{name}.jsonl"


def text_of(data: Path, name: str) -> Path:
    """The file of one split in a folder of prepared running text."""
    return data / f"{name}.txt"
