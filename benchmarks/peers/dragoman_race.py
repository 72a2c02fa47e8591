"""Dragoman in a race, through its commands alone."""

import json
import math
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors import safe_open

from peers.race import Outcome, Race


def run(race: Race) -> Outcome:
    """Train and translate as any user would, with the defaults of the commands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        common = ["--threads", str(race.threads), "--quiet"]
        where = ["--set", f"data.folder={race.data}", "--runs", name, "--name", folder.name]
        _dragoman("train", *shlex.split(race.recipe), "--minutes", str(race.minutes), *where, *common)
        sentences, translations = Path(name) / "sentences", Path(name) / "translations"
        sentences.write_text("".join(f"{line}\n" for line in race.sentences), encoding="utf-8")
        beam = ["--beam-size", "5"]
        _dragoman("translate", str(folder), "--input", str(sentences), "--output", str(translations), *beam, *common)
        steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        steps = [step for step in steps if "tokens" in step]
        return Outcome(
            translations.read_text(encoding="utf-8").splitlines(),
            _parameters(folder),
            len(steps),
            sum(step["tokens"] for step in steps),
            _training_seconds(folder),
        )


def _dragoman(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "dragoman", *arguments], check=True)


def _training_seconds(folder: Path) -> float:
    """Return the time from the resolved recipe, written when training begins, to the last checkpoint."""
    last = max(path.stat().st_mtime for path in folder.glob("checkpoints/step-*/training.json"))
    return last - (folder / "recipe.toml").stat().st_mtime


def _parameters(folder: Path) -> int:
    weights = next(path for model in ("best", "final") if (path := folder / model / "model.safetensors").exists())
    with safe_open(weights, "pt") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 (not a mapping)
    return sum(math.prod(shape) for shape in shapes)
