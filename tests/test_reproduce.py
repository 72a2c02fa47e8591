"""A recipe that says what is to be expected, and a machine that meets it or does not."""

from pathlib import Path
from typing import Any

import pytest
from small_runs import SETTINGS, STEPS, times, write_corpus

from dragoman.cli.main import main
from dragoman.config import override
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.evaluate import read_scores
from dragoman.recipe.recipe import find_recipe
from dragoman.recipe.reproduce import reproduce
from dragoman.recipe.run import SCORES

SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.0.0"


def write_recipe(folder: Path, low: float = 0.0, signature: str = SIGNATURE) -> Path:
    """A recipe of the small run, limited by the clock, with the steps that its score took."""
    tables: Any = override({}, [setting for setting in SETTINGS if not setting.startswith("train.steps")])
    tables["data"] |= {"folder": str(write_corpus(folder / "text" / "corpus.tsv").parent), "path": "corpus.tsv"}
    tables["train"] |= {"minutes": 600}
    tables["expected"] = {
        "score": 100.0, "low": low, "high": 100.0, "signature": signature, "search": "greedy",
        "steps": STEPS, "minutes": 1.0, "gflops": 400.0,
    }  # fmt: skip
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value!r}\n" for key, value in keys.items())
        for group, keys in tables.items()
    ]
    (folder / "small.toml").write_text("\n".join(lines))
    return folder / "small.toml"


def test_a_score_that_is_met_is_told_and_found_again(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    found = reproduce(recipe, runs=tmp_path / "runs", device="cpu")
    assert found.met and found.found == read_scores(found.folder / SCORES)["test"]["bleu"]
    assert "expected 100.0 [0.0, 100.0]: met (nrefs:1" in str(found)
    text = (found.folder / "recipe.toml").read_text()
    assert f"steps = {STEPS}" in text, "as long as the score took, whatever the clock says"
    assert "expected" not in text
    before = times(found.folder)
    assert reproduce(recipe, runs=tmp_path / "runs", device="cpu") == found
    assert times(found.folder) == before


def test_a_score_that_is_not_met_is_exit_code_9(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = write_recipe(tmp_path, low=99.9)
    assert main(["reproduce", str(recipe), "--runs", str(tmp_path / "runs"), "--device", "cpu", "--quiet"]) == 9
    assert "expected 100.0 [99.9, 100.0]: not met" in capsys.readouterr().err


def test_a_score_of_another_kind_is_not_met(tmp_path: Path) -> None:
    found = reproduce(write_recipe(tmp_path, signature="nrefs:1|case:lc|version:2"), runs=tmp_path, device="cpu")
    assert not found.met and "they cannot be compared" in str(found)


def test_a_recipe_that_was_not_run_cannot_be_reproduced(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recipe wmt14-en-de has no \[expected\] score.*dragoman train wmt14-en-de"):
        reproduce("wmt14-en-de", runs=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_reproduction_is_of_one_process_and_of_its_own_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_recipe(tmp_path)
    with pytest.raises(ConfigError, match="train.steps=3 cannot be set here"):
        reproduce(recipe, runs=tmp_path, overrides=["train.steps=3"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="a reproduction is made by one process; torchrun is for dragoman train"):
        reproduce(recipe, runs=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("score = 100.0", "expected: score must lie between low and high"),
        ("scor = 1", "unknown setting scor; did you mean score"),
    ],
)
def test_an_expectation_that_cannot_be_is_refused(change: str, message: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    recipe.write_text(
        recipe.read_text().replace("high = 100.0", f"high = 50.0\n{change}" if "scor " in change else "high = 50.0")
    )
    with pytest.raises(ConfigError, match=message):
        find_recipe(recipe)


# Text that lies elsewhere


def test_text_lies_in_the_folder_that_is_named(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    moved = (tmp_path / "text").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"corpus.tsv does not exist"):
        reproduce(recipe, runs=tmp_path / "runs", device="cpu")
    found = reproduce(recipe, runs=tmp_path / "runs", device="cpu", overrides=[f"data.folder={moved}"])
    assert found.met


def test_a_recipe_of_the_library_says_where_its_text_is_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.recipe.run import train

    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"train.en does not exist.*; the text comes from https://github.com/multi30k"):
        train("multi30k-en-de", runs=tmp_path / "runs")
    with pytest.raises(DataError, match=r"nowhere/train.en does not exist.*--set data.folder=FOLDER"):
        train("multi30k-en-de", overrides=["data.folder=nowhere"], runs=tmp_path / "runs")
