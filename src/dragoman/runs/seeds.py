"""Trains one recipe from several seeds, to see how good it is and how much of that is luck."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.evaluating.scores import read_scores
from dragoman.evaluating.significance import Spread
from dragoman.run_folder import RunFolder
from dragoman.runs.lookup import What, check_name, find_recipe, only_one, run_named
from dragoman.runs.options import RunOptions
from dragoman.runs.train import RunResult, train_run
from dragoman.training.distributed import refuse_several


def train_seeds(what: What = "phrasebook", seeds: int = 3, **options: Any) -> tuple[RunResult, ...]:
    """Trains the runs NAME-seed1, NAME-seed2 … one after another, with `train.seed` 1, 2 …

    Calling again continues an interrupted group. All runs split the data alike. The `options` are those of `train`.

    Raises:
        ConfigError: `what` is a run, `seeds` is below one, or `overrides` set a seed; and what `train` raises.
    """
    return _train_seeds(only_one(what), seeds, RunOptions(**options))


def _train_seeds(what: What, seeds: int, options: RunOptions) -> tuple[RunResult, ...]:
    refuse_several("a group of seeds (--seeds)")
    if seeds < 1:
        raise ConfigError(f"seeds must be at least 1, but is {seeds}")
    if run_named(what) is not None:
        raise ConfigError(f"{what} is a run, which has one seed; several seeds need a recipe or data")
    if any(text.partition("=")[0].strip() == "train.seed" for text in options.overrides):
        raise ConfigError("train.seed cannot be set when several seeds are trained: it is 1, 2 and so on")
    check_name(options.name)
    group = Path(options.runs) / (options.name or find_recipe(what, options.overrides).name)
    if options.fresh:
        group = _free_group(group)
    results: list[RunResult] = []
    for seed in range(1, seeds + 1):
        overrides, name = [*options.overrides, f"train.seed={seed}"], f"{group.name}-seed{seed}"
        results.append(train_run(what, replace(options, overrides=overrides, name=name, fresh=False)))
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
