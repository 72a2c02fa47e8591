"""Paths of a run's files and folders. Each is defined here and nowhere else, and none is opened here. The module that
writes a model folder, a checkpoint or a corpus defines the names inside it.

runs/NAME/
  recipe.toml     all settings, with a reason for every setting that was chosen automatically
  run.json        the requested settings and the progress of the run
  data/           train, dev and test, and the report on them, data.json
  synthetic/      prepared pairs whose sources a model wrote, if some are given
  conventions.json  tokenizer/  corpus/train, corpus/dev  checkpoints/step-…/
  metrics.jsonl   one line per step
  best/  final/   model folders
  scores.json     scores on the test sets, with signatures
"""

import os
from pathlib import Path


class RunFolder:
    """The folder of one run.

    >>> RunFolder("runs/mine").scores.as_posix()
    'runs/mine/scores.json'
    """

    def __init__(self, path: "os.PathLike[str] | str") -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.toml"
        self.facts = self.path / "run.json"
        self.data = self.path / "data"
        self.report = self.data / "data.json"
        self.synthetic = self.path / "synthetic"
        self.conventions = self.path / "conventions.json"  # writing conventions of the training text
        self.tokenizer = self.path / "tokenizer"
        self.corpora = self.path / "corpus"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.best = self.path / "best"  # the model of the best validation
        self.final = self.path / "final"
        self.scores = self.path / "scores.json"
        self.curves = self.path / "curves.png"
        self.confusion = self.path / "confusion.png"
        self.diverged = self.path / "diverged.json"  # the pairs of the last step whose gradient was not finite
        self.tensorboard = self.path / "tensorboard"

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def split(self, name: str) -> Path:
        """Return the file of one split of the pairs: `train`, `dev`, `test`, or another test set."""
        return split_of(self.data, name)

    def text(self, name: str) -> Path:
        """Return the file of one split of running text: `train`, `dev` or `test`."""
        return text_of(self.data, name)

    def corpus(self, name: str) -> Path:
        """Return the encoded corpus of one split: `train` or `dev`."""
        return self.corpora / name

    @property
    def is_run(self) -> bool:
        """True if a run was started here."""
        return self.facts.is_file()

    def owns(self, path: Path) -> bool:
        """Return True if `path` is part of a run here or of its remains. One file named like ours is not a run."""
        kept = sum(file.is_file() for file in (self.recipe, self.facts, self.report, self.metrics))
        if kept < 2 and not (self.report.is_file() and (self.best.is_dir() or self.final.is_dir())):
            return False
        own = (self.recipe, self.facts, self.data, self.tokenizer, self.corpora, self.checkpoints, self.metrics)
        made = (self.best, self.final, self.scores, self.curves, self.confusion, self.diverged, self.tensorboard)
        return not {path, *path.parents}.isdisjoint((self.conventions, self.synthetic, *own, *made))


def split_of(data: Path, name: str) -> Path:
    """Return the file of one split in a folder of prepared pairs."""
    return data / f"{name}.jsonl"


def shards_of(name: str) -> str:
    """Return the pattern that matches the files of one split if there are several."""
    return f"{name}-*.jsonl"


def text_of(data: Path, name: str) -> Path:
    """Return the file of one split in a folder of prepared running text."""
    return data / f"{name}.txt"
