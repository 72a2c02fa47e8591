"""A recipe that says what is to be expected, and a machine that meets it or does not."""

from pathlib import Path
from typing import Any

import pytest
from small_runs import SETTINGS, STEPS, times, train_small, write_corpus

from dragoman.cli.main import main
from dragoman.config import check, override
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.metrics import Score
from dragoman.evaluating.scores import read_scores
from dragoman.runs.judgement import Expected, Judgement
from dragoman.runs.lookup import find_recipe
from dragoman.runs.train import train

SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.0.0"


def write_recipe(folder: Path, scores: str = "[0.0, 1.0, 2.0]", signature: str = SIGNATURE) -> Path:
    """A recipe of the small run."""
    tables: Any = override({}, SETTINGS)
    tables["data"] |= {"folder": str(write_corpus(folder / "text" / "corpus.tsv").parent), "path": "corpus.tsv"}
    tables["expected"] = {"signature": signature, "search": "greedy"}
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value!r}\n" for key, value in keys.items())
        for group, keys in tables.items()
    ]
    (folder / "small.toml").write_text("\n".join(lines) + f"scores = {scores}\n")
    return folder / "small.toml"


def judged(recipe: Path, *overrides: str, **options: Any) -> Judgement:
    found = train(recipe, overrides=overrides, runs=recipe.parent / "runs", device="cpu", **options).judgement
    assert found is not None
    return found


def test_a_score_that_is_met_is_told_and_found_again(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    found, run = judged(recipe), tmp_path / "runs" / "small"
    assert found.met and found.score == read_scores(run / "scores.json")["test"]["bleu"]
    bar = (
        "at least -2.0 is expected (the mean 1.0 of 3 seeds, less the larger of 1.0 and 3 deviations of 1.0, so a loss "
        "of less than 3.0 goes unseen)"
    )
    assert f", {bar}: met (nrefs:1" in str(found)
    assert "expected" not in (run / "recipe.toml").read_text()
    before = times(run)
    assert judged(recipe) == found
    assert times(run) == before
    later = train(run, more=True, overrides=["train.steps=1"], device="cpu").judgement
    assert later is not None and later.met is None and "was trained further than the recipe" in str(later)


def test_a_score_that_is_not_met_is_exit_code_9(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = write_recipe(tmp_path, "[99.0, 99.0, 99.0]")
    assert main(["train", str(recipe), "--runs", str(tmp_path / "runs"), "--device", "cpu", "--quiet"]) == 9
    bar = "at least 98.0 is expected (the mean 99.0 of 3 seeds, less the larger of 1.0 and 3 deviations of 0.0"
    told = capsys.readouterr().err
    assert bar in told and ": not met" in told


def test_a_score_of_another_kind_is_not_met(tmp_path: Path) -> None:
    found = judged(write_recipe(tmp_path, signature="nrefs:1|case:lc|version:2"))
    assert found.met is False and "they cannot be compared" in str(found)


def test_a_run_that_changes_the_recipe_is_not_judged_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write_recipe(tmp_path, "[99.0, 99.0, 99.0]")
    options = ["--runs", str(tmp_path / "runs"), "--device", "cpu", "--quiet", "--set", "train.steps=3"]
    assert main(["train", str(recipe), *options]) == 0
    assert "not judged by the recipe's expected score: train.steps changed the recipe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("setting", "changed"),
    [
        ("train.minutes=1", ("train.minutes",)),
        ("decode.beam_size=7", ("decode.beam_size",)),
        (f"train.steps={STEPS}", ()),
        ("train.seed=5", ()),
        ("train.save_minutes=1", ()),
        ("data.folder=elsewhere", ()),
    ],
)
def test_what_changes_a_recipe(setting: str, changed: tuple[str, ...], tmp_path: Path) -> None:
    expectation = find_recipe(write_recipe(tmp_path), [setting]).expectation
    assert expectation is not None and expectation.changed == changed


def test_a_recipe_without_expected_scores_judges_nothing(tmp_path: Path) -> None:
    assert train_small(tmp_path).judgement is None


NATS = "nll|unit:character|window:64|vocabulary:260"


@pytest.mark.parametrize(
    ("scores", "value", "met", "bar"),
    [
        (
            (1.5, 1.51, 1.52),
            1.50,
            True,
            "at most 1.540 is expected (the mean 1.510 of 3 seeds, plus the larger of",
        ),
        ((1.5, 1.51, 1.52), 1.539, True, "and 3 deviations of 0.010, so a loss of less than 0.030 goes unseen)"),
        ((1.5, 1.51, 1.52), 1.541, False, "nats a character 1.541, at most 1.540"),
        ((1.51, 1.51, 1.51), 1.531, False, "at most 1.530"),
        ((1.51, 1.51, 1.51), 0.9, True, "met"),
    ],
)
def test_of_nats_fewer_are_better(scores: tuple[float, ...], value: float, met: bool, bar: str) -> None:
    facts: Any = {"signature": NATS, "search": "windows"}
    expected = Expected(metric="nats_per_character", scores=scores, **facts)
    score = Score("nats a character", value, None, None, f"{NATS}|version:7", "")
    found = Judgement(expected, score)
    assert found.met == met and bar in str(found)


def test_a_language_model_is_judged_by_nats(tmp_path: Path) -> None:
    (tmp_path / "rhyme.txt").write_text("one for the master, one for the dame, one for the boy\n" * 200)
    lines = [
        'task = "language_model"', "[data]", 'path = "rhyme.txt"', f"folder = {str(tmp_path)!r}",
        "[model]", "d_model = 16", "heads = 2", "d_ff = 24", "decoder_layers = 1",
        "[batches]", "sentence_tokens = 32", "batch_tokens = 512", "[train]", "steps = 3",
        "[expected]", 'metric = "nats_per_character"', "scores = [9.0, 9.1, 9.2]",
        'search = "windows"', 'signature = "nll|unit:character|window:32|vocabulary:260|version:1"',
    ]  # fmt: skip
    (tmp_path / "rhyme.toml").write_text("\n".join(lines) + "\n")
    found = judged(tmp_path / "rhyme.toml")
    assert found.met and found.score == read_scores(tmp_path / "runs" / "rhyme" / "scores.json")["test"]["character"]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ("[39.9]", r"expected: scores should .*at least 3 items"),
        ("[39.9, 39.8]", r"expected: scores should .*at least 3 items"),
        ("[39.9, 39.8, 400]", r"expected: scores.2 should be less than or equal to 100"),
        ("[39.9, 39.8, 39.9]\nlow = 1.0", "unknown setting low"),
        ("[39.9, 39.8, 39.9]\nscore = 1", "unknown setting score; did you mean scores"),
    ],
)
def test_an_expectation_that_cannot_be_is_refused(scores: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        find_recipe(write_recipe(tmp_path, scores))


# How sharp the bar is: configurations of LOG.md that are not the recipe's, on the recipe's test set


QUARTER, IDEAS, PAPER, TEN_TIMES = (
    "T7. Does the recipe stay ahead after a quarter of an hour?",
    "T6. Which training ideas help?",
    "T8. One matrix for all embeddings? `modern` or `paper`?",
    "T11. Do the same ideas help on ten times the text?",
)
OTHERS: list[tuple[str, str, str, int, dict[float, bool]]] = [
    # recipe, what is another, the entry of LOG.md, steps, score of each seed -> whether it meets the bar
    ("multi30k-en-de", "linear", QUARTER, 3_005, {38.9: False, 40.0: True, 39.9: True}),
    ("multi30k-en-de", "AdamW 5.6e-3", QUARTER, 3_385, {39.7: True, 39.3: True}),
    ("multi30k-en-de", "width 192, d_ff 512", QUARTER, 1_643, {38.5: False, 39.2: False, 38.7: False}),
    ("multi30k-en-de", "half the steps", IDEAS, 1_500, {37.6: False}),
    ("multi30k-en-de", "AdamW 4e-3, linear, half the steps", IDEAS, 1_690, {36.9: False}),
    ("multi30k-en-de", "paper, 2e-3, half the steps", PAPER, 1_500, {33.7: False}),
    ("multi30k-en-de", "paper, half the steps", PAPER, 1_500, {21.0: False}),
    ("tatoeba-en-it", "wsd 8e-3, three quarters of the steps", TEN_TIMES, 3_277, {52.8: True}),
    (
        "tatoeba-en-it",
        "small, AdamW, linear (benchmarks/README.md)",
        "How much text gives what?",
        4_000,
        {53.1: True},
    ),
    ("tatoeba-en-it", "width 128, half the steps", TEN_TIMES, 2_280, {49.4: False}),
    ("tatoeba-en-it", "small, AdamW, a quarter of the steps", TEN_TIMES, 1_050, {44.6: False}),
]


def expected_of(recipe: str) -> Expected:
    expectation = find_recipe(recipe).expectation
    assert expectation is not None
    return check(expectation.table, recipe, Expected)


@pytest.mark.parametrize(("recipe", "other", "entry", "steps", "scores"), OTHERS, ids=[each[1] for each in OTHERS])
def test_which_other_configurations_meet_the_bar(
    recipe: str, other: str, entry: str, steps: int, scores: dict[float, bool]
) -> None:
    """What the bar can see: half the steps, another architecture; and what it cannot: a schedule or an optimiser."""
    expected = expected_of(recipe)
    for value, meets in scores.items():
        found = Judgement(expected, Score("BLEU", value, None, None, expected.signature, ""))
        assert found.met == meets, f"{other}, {steps:,} steps: {found} ({entry})"


@pytest.mark.parametrize(("recipe", "low"), [("multi30k-en-de", 39.2), ("tatoeba-en-it", 52.7)])
def test_the_recipes_own_seeds_meet_their_bar(recipe: str, low: float) -> None:
    expected = expected_of(recipe)
    assert round(expected.worst, 1) == low < min(expected.scores)


# Text that lies elsewhere


def test_text_lies_in_the_folder_that_is_named(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    moved = (tmp_path / "text").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"corpus.tsv does not exist"):
        judged(recipe)
    assert judged(recipe, f"data.folder={moved}").met


def test_a_recipe_of_the_library_says_where_its_text_is_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"train.en does not exist.*; the text comes from https://github.com/multi30k"):
        train("multi30k-en-de", runs=tmp_path / "runs")
    with pytest.raises(DataError, match=r"nowhere/train.en does not exist.*--set data.folder=FOLDER"):
        train("multi30k-en-de", overrides=["data.folder=nowhere"], runs=tmp_path / "runs")
