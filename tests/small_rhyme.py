"""A language model of one rhyme."""

from pathlib import Path
from typing import Any

import dragoman

RHYME = "one for the master, one for the dame, one for the boy down the lane\n"
SETTINGS = [
    "task=language_model", "train.steps=80", "train.validate_every=40", "train.learning_rate=2e-2",
    "model.d_model=32", "model.heads=2", "model.d_ff=48", "model.decoder_layers=1", "batches.sentence_tokens=64",
    "batches.batch_tokens=512", "train.precision=float32", "train.save_every=10",
]  # fmt: skip


def write_rhyme(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rhyme.txt"
    path.write_text(RHYME * 150, encoding="utf-8")
    return path


def train(text: Path, runs: Path, *overrides: str, **options: Any) -> Any:
    return dragoman.train(text, overrides=[*SETTINGS, *overrides], runs=runs, device="cpu", **options)
