"""The same recipe from several seeds: runs beside each other, their spread, and whether a difference is one."""

import math
import random
import statistics
from pathlib import Path

import numpy as np
import pytest
from small_runs import SETTINGS, AtSteps, terminate, times, train_command, weights, write_corpus

import dragoman
from dragoman.cli.main import main
from dragoman.errors import ConfigError, DataError, Interrupted
from dragoman.evaluating.metrics import Score, build_metric
from dragoman.evaluating.metrics import statistics as statistics_of
from dragoman.evaluating.significance import SeedScores, Student, compare_outputs
from dragoman.runs.train import seed_runs, spreads, train_seeds

REFERENCES = [f"the cat number {n} sat on the mat of house {n * 7 % 31}" for n in range(60)]


def train_two(folder: Path, **options):
    write_corpus(folder / "corpus.tsv")
    return train_seeds(folder / "corpus.tsv", 2, overrides=SETTINGS, runs=folder / "runs", device="cpu", **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    train_two(folder)
    return folder


def test_seeds_are_runs_of_their_own_on_the_same_text(trained: Path) -> None:
    runs = seed_runs(trained / "runs" / "corpus")
    assert [run.name for run in runs] == ["corpus-seed1", "corpus-seed2"]
    assert [f"seed = {number}\n" in (run / "recipe.toml").read_text() for number, run in enumerate(runs, 1)] == [
        True,
        True,
    ]
    first, second = ((run / "data" / "test.jsonl").read_text() for run in runs)
    assert first == second and weights(runs[0]) != weights(runs[1])


def test_seeds_that_were_cut_off_go_on(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_two(tmp_path, progress=AtSteps({7: terminate}))
    results = train_two(tmp_path)
    for one, other in zip(results, seed_runs(trained / "runs" / "corpus"), strict=True):
        assert weights(one.folder) == weights(other)


def test_finished_seeds_are_told_of_again_and_fresh_ones_take_another_name(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = seed_runs(trained / "runs" / "corpus")
    before = [times(run) for run in runs]
    command = [*train_command(trained), "--seeds", "2", "--quiet"]
    assert main(command) == 0
    told = capsys.readouterr().out
    (bleu, *_) = spreads(runs)
    assert f"test: {bleu}" in told and "2 seeds" in told
    assert [times(run) for run in runs] == before
    assert main([*command, "--fresh"]) == 0
    assert len(seed_runs(trained / "runs" / "corpus-2")) == 2


def test_a_group_is_evaluated_and_compared_by_its_common_name(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = str(trained / "runs" / "corpus")
    assert main(["evaluate", group, "--against", group, "--metric", "chrf", "--samples", "10", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "corpus-seed1" in told and "corpus-seed2" in told and "mean and standard deviation of 2 seeds" in told
    assert f"no difference between {group} and {group} can be shown: 0.0 chrF2 (p = 1, 4 seeds)" in told
    assert main(["evaluate", group, "--output", str(trained / "hypotheses"), "--quiet"]) == 2
    assert "--output takes the translations of one run, not of 2" in capsys.readouterr().err
    monkeypatch.setattr(dragoman, "evaluate", lambda *_, **__: pytest.fail("refused too late"))
    assert main(["evaluate", group, "--against", f"{group}-seed1", "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert "the spread of seeds needs two runs of each system" in err and "corpus-seed1 1" in err and not out


@pytest.mark.parametrize(
    ("what", "overrides", "message"),
    [
        ("run", [], "is a run, which has one seed"),
        ("corpus.tsv", ["train.seed=3"], "train.seed cannot be set when several"),
    ],
)
def test_seeds_of_what_has_one_are_refused(what: str, overrides: list[str], message: str, trained: Path) -> None:
    path = trained / "runs" / "corpus-seed1" if what == "run" else trained / what
    for given in (path, [path]):  # as the command line gives it
        with pytest.raises(ConfigError, match=message):
            train_seeds(given, 2, overrides=overrides, runs=trained / "runs")


def test_no_seeds_are_refused() -> None:
    with pytest.raises(ConfigError, match="seeds must be at least 1, but is 0"):
        train_seeds("phrasebook", 0)


# What the numbers say


def test_a_spread_is_said_with_mean_deviation_and_each() -> None:
    scores = [Score("BLEU", value, None, None, "nrefs:1", "") for value in (38.0, 38.5, 39.5)]
    spread = SeedScores("test", scores)
    assert (spread.mean, spread.deviation) == (statistics.mean([38, 38.5, 39.5]), statistics.stdev([38, 38.5, 39.5]))
    assert str(spread) == "BLEU 38.7 ± 0.8 (38.0, 38.5, 39.5; mean and standard deviation of 3 seeds) nrefs:1"
    assert SeedScores("test", scores[:1]).deviation is None


@pytest.mark.parametrize(
    ("freedom", "reach"), [(1, 12.7062), (2, 4.30265), (4, 2.77645), (30, 2.04227), (1e4, 1.96020)]
)
def test_students_distribution_has_the_values_of_the_tables(freedom: float, reach: float) -> None:
    assert Student(freedom).within(0.95) == pytest.approx(reach, rel=1e-3)
    assert Student(freedom).two_sided(reach) == pytest.approx(0.05, rel=1e-3)
    assert Student(freedom).two_sided(0) == 1


def damaged(rate: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(w if draw.random() > rate else w + w for w in line.split()) for line in REFERENCES]


def group(rates: list[float], first_seed: int) -> list[list[str]]:
    return [damaged(rate, first_seed + number) for number, rate in enumerate(rates)]


def test_better_systems_are_better_whichever_seeds_they_had() -> None:
    found = compare_outputs(
        group([0.05] * 3, 1), group([0.2] * 3, 10), REFERENCES, names=("A", "B"), metrics=["bleu", "ter"]
    )
    for comparison in found.values():
        assert comparison.better == "A" and comparison.low <= comparison.delta <= comparison.high
        assert str(comparison).endswith("6 seeds)")
    back = compare_outputs(group([0.2] * 3, 10), group([0.05] * 3, 1), REFERENCES, names=("B", "A"), metrics=["bleu"])
    assert back["bleu"].delta == -found["bleu"].delta and back["bleu"].p_value == found["bleu"].p_value


def test_a_difference_within_the_seeds_spread_is_none() -> None:
    found = compare_outputs(group([0.02, 0.3], 1), group([0.05, 0.4], 10), REFERENCES, metrics=["chrf"])["chrf"]
    assert found.better is None and found.low < 0 < found.high


def test_seeds_that_agree_leave_the_sentences_chance() -> None:
    """Two roads: without a spread of seeds the interval is the bootstrap's, as a normal one."""
    one, other = damaged(0.05, 1), damaged(0.1, 2)
    ours = compare_outputs([one, one], [other, other], REFERENCES, metrics=["chrf"])["chrf"]
    plain = compare_outputs(one, other, REFERENCES, metrics=["chrf"], samples=10)["chrf"]
    assert ours.delta == pytest.approx(plain.delta)
    assert ours.high - ours.low == pytest.approx(plain.high - plain.low, rel=0.15)


@pytest.mark.thorough
def test_chance_alone_is_seldom_called_a_difference() -> None:
    """Of 30 comparisons of systems that are alike, at most 6: more would come by chance in one of 1,000 such tests."""
    draw = np.random.default_rng(1)
    calls = 0
    for trial in range(30):
        rates = draw.uniform(0.05, 0.15, 6).tolist()
        first, second = group(rates[:3], 1000 * trial), group(rates[3:], 1000 * trial + 500)
        calls += compare_outputs(first, second, REFERENCES, metrics=["bleu"])["bleu"].better is not None
    assert calls <= 6


def test_one_seed_has_no_spread_and_lines_must_be_aligned() -> None:
    with pytest.raises(ConfigError, match="the spread of seeds needs two runs of each system, but A has 1 and B 2"):
        compare_outputs([REFERENCES], [REFERENCES] * 2, REFERENCES, names=("A", "B"))
    with pytest.raises(DataError, match="59 translations cannot be scored against 60 lines"):
        compare_outputs([REFERENCES, REFERENCES[1:]], [REFERENCES] * 2, REFERENCES)
    assert math.isclose(compare_outputs([REFERENCES] * 2, [REFERENCES] * 2, REFERENCES)["bleu"].p_value, 1)


def test_the_interval_of_seeds_is_welchs_with_the_sentences_variance() -> None:
    """A plain reference: variances with n - 1, each over its number of seeds; Satterthwaite's degrees of freedom."""
    groups = group([0.02, 0.1, 0.3], 1), group([0.1, 0.2], 10)
    found = compare_outputs(*groups, REFERENCES, metrics=["chrf"])["chrf"]
    metric = build_metric("chrf")
    counted = [[statistics_of(metric, each, [[line] for line in REFERENCES]) for each in side] for side in groups]
    scores = [[float(each.scores(each.total[None])[0]) for each in side] for side in counted]
    means = [statistics.mean(side) for side in scores]
    of_seeds = [statistics.variance(side) / len(side) for side in scores]
    drawn = [np.mean([each.resampled() for each in side], axis=0) for side in counted]
    variance = sum(of_seeds) + statistics.variance((drawn[0] - drawn[1]).tolist())
    freedom = variance**2 / (of_seeds[0] ** 2 / 2 + of_seeds[1] ** 2 / 1)
    assert found.delta == pytest.approx(means[0] - means[1])
    assert found.high - found.delta == pytest.approx(Student(freedom).within(0.95) * variance**0.5)
    assert found.p_value == pytest.approx(Student(freedom).two_sided(found.delta / variance**0.5))
