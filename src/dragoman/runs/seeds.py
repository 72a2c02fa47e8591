"""Trains one recipe from several seeds, to see how good it is and how much of that is luck."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from dragoman.errors import ConfigError
from dragoman.evaluating.scores import read_scores
from dragoman.evaluating.significance import Spread
from dragoman.run_folder import RunFolder
from dragoman.runs.lookup import What, check_name, find_recipe, only_one, run_named
from dragoman.runs.options import RunOptions
from dragoman.runs.train import RunResult, train
from dragoman.training.distributed import refuse_several


def train_seeds(what: What = "phrasebook", seeds: int = 3, **options: Unpack[RunOptions]) -> tuple[RunResult, ...]:
    """Trains the runs NAME-seed1, NAME-seed2 … one after another, with `train.seed` 1, 2 …

    Calling again continues an interrupted group. All runs split the data alike.

    Raises:
        ConfigError: `what` is a run, `seeds` is below one, or `overrides` set a seed; and what `train` raises.
    """
    refuse_several("a group of seeds (--seeds)")
    if seeds < 1:
        raise ConfigError(f"seeds must be at least 1, but is {seeds}")
    what = only_one(what)
    if run_named(what) is not None:
        raise ConfigError(f"{what} is a run, which has one seed; several seeds need a recipe or data")
    overrides = list(options.get("overrides", ()))
    if any(text.partition("=")[0].strip() == "train.seed" for text in overrides):
        raise ConfigError("train.seed cannot be set when several seeds are trained: it is 1, 2 and so on")
    name = options.get("name")
    check_name(name)
    group = Path(options.get("runs", "runs")) / (name or find_recipe(what, overrides).name)
    if options.get("fresh", False):
        group, options["fresh"] = _free_group(group), False
    results: list[RunResult] = []
    for seed in range(1, seeds + 1):
        options["overrides"] = [*overrides, f"train.seed={seed}"]
        options["name"] = f"{group.name}-seed{seed}"
        results.append(train(what, **options))
    return tuple(results)


def seed_runs(group: Path) -> list[Path]:
    """The runs that `train_seeds` made under this name, by seed."""
    numbered = {
        int(number): path
        for path in group.parent.glob(f"{group.name}-seed*")
        if (number := path.name.removeprefix(f"{group.name}-seed")).isdigit() and RunFolder(path).is_run
    }
    return [numbered[number] for number in sorted(numbered)]


def spreads(runs: Sequence[Path]) -> list[Spread]:
    """The scores of several runs, for each test set and metric that all of them have."""
    scores: list[dict[str, dict[str, Any]]] = [read_scores(RunFolder(run).scores) for run in runs]
    return [
        Spread(test, [each[test][metric] for each in scores])
        for test, found in (scores[0] if scores else {}).items()
        for metric in found
        if all(metric in each.get(test, {}) for each in scores)
    ]


def _free_group(group: Path) -> Path:
    number, free = 2, group
    while seed_runs(free):
        free, number = group.with_name(f"{group.name}-{number}"), number + 1
    return free
