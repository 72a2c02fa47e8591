"""What a run will take, told before it is begun, and held against what it then takes."""

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from families import Trained
from small import parse
from small_runs import SETTINGS, STEPS, some_pairs, times, train_command, train_small, weights, write_corpus

from dragoman.cli.main import main
from dragoman.errors import ConfigError, OutOfMemory
from dragoman.runs import trial
from dragoman.runs.forecast import forecast
from dragoman.runs.recipe import Recipe
from dragoman.runs.train import train
from dragoman.store.folder import load_model


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.0)


def run_command(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "dragoman", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_memory_and_parameters_are_what_the_run_then_has(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.tsv")
    command = train_command(tmp_path, "model.d_model=512", "model.d_ff=4096", "model.decoder_layers=4")
    told = run_command(*command, "--dry-run")
    run_command(*command)
    run = tmp_path / "runs" / "corpus"
    figures = dict(re.findall(r"(parameters|memory) +([\d,]+)", told))
    expected = {name: int(figure.replace(",", "")) for name, figure in figures.items()}
    assert expected["parameters"] == sum(weight.numel() for weight in load_model(run).model.parameters())
    peak = json.loads((run / "run.json").read_text())["peak_memory_bytes"] / 2**20
    assert expected["memory"] == pytest.approx(peak, rel=0.2)


def test_a_forecast_counts_what_the_recipe_says(tmp_path: Path) -> None:
    data = write_corpus(tmp_path / "corpus.tsv")
    found = forecast(data, overrides=SETTINGS, runs=tmp_path / "runs", device="cpu")
    assert found.recipe.train.steps == STEPS and found.recipe.model.d_model == 16
    words = sum(len(side.split()) for pair in some_pairs() for side in pair)
    assert found.tokens == pytest.approx((words + 3 * 200) * 184 / 200, rel=0.01)
    assert found.epochs > 0 and found.seconds > 0


def test_training_goes_on_from_the_text_that_a_forecast_prepared(tmp_path: Path) -> None:
    data = write_corpus(tmp_path / "corpus.tsv")
    options: Any = {"runs": tmp_path / "runs", "device": "cpu"}
    run = forecast(data, overrides=SETTINGS, **options).prepared
    assert run is not None and not (run / "recipe.toml").exists() and not (run / "checkpoints").exists()
    before = times(run / "corpus")
    assert forecast(data, overrides=[*SETTINGS, "train.steps=3"], **options).prepared == run
    assert train(run, device="cpu").steps == 3, "as the last forecast was asked"
    assert times(run / "corpus") == before, "nothing is prepared twice"


def test_text_that_a_forecast_prepared_with_other_settings_is_prepared_again(tmp_path: Path) -> None:
    data = write_corpus(tmp_path / "corpus.tsv")
    options: Any = {"runs": tmp_path / "runs", "device": "cpu"}
    forecast(data, overrides=[*SETTINGS, "tokenizer.kind=bpe", "tokenizer.vocabulary_size=300"], **options)
    run = train(data, overrides=SETTINGS, **options).folder
    assert run == tmp_path / "runs" / "corpus"
    assert weights(run) == weights(train_small(tmp_path / "plain").folder)


def test_a_run_that_was_begun_is_told_of_as_it_was_begun(trained: Trained, tmp_path: Path) -> None:
    folder = trained("translation", tmp_path)
    before = weights(folder)
    assert forecast(folder, device="cpu").recipe == parse((folder / "recipe.toml").read_text(), "", Recipe)
    assert weights(folder) == before


def test_a_dry_run_needs_no_free_name(trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = trained("translation", tmp_path)
    before = kept_files(tmp_path)
    other = [*SETTINGS, "model.d_model=32", "tokenizer.kind=bpe", "tokenizer.vocabulary_size=300", "train.steps=7"]
    caplog.set_level("INFO", "dragoman")
    found = forecast(tmp_path / "corpus.tsv", overrides=other, runs=tmp_path / "runs", device="cpu")
    assert (found.recipe.model.d_model, found.recipe.train.steps) == (32, 7)
    assert found.recipe.tokenizer.kind == "bpe"
    assert f"{folder} was begun with other settings; this is what a new run would take" in caplog.text
    assert forecast(folder, device="cpu", overrides=["train.steps=7"]).recipe.train.steps == 7
    (folder / "run.json").write_text("{}")
    assert forecast(tmp_path / "corpus.tsv", overrides=other, runs=tmp_path / "runs", device="cpu").epochs > 0
    (folder / "run.json").unlink()
    assert forecast(tmp_path / "corpus.tsv", overrides=other, runs=tmp_path / "runs", device="cpu").epochs > 0
    assert kept_files(tmp_path) == before, "a dry run writes nothing"


def kept_files(folder: Path) -> dict[str, int]:
    """All files but the `run.json` that a test damages, and when each was last changed."""
    return {path: when for path, when in times(folder).items() if Path(path).is_file() and "run.json" not in path}


# Batches fitted to memory


@pytest.fixture
def room_for(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a machine that holds batches of so many tokens."""

    def set_room(tokens: int) -> None:
        def train_heaviest(self: trial.Trial) -> None:
            if int(self.recipe.batches.batch_tokens) > tokens:
                raise OutOfMemory("full")

        monkeypatch.setattr(trial.Trial, "train_heaviest", train_heaviest)

    return set_room


@pytest.mark.parametrize(("room", "tokens", "parts"), [(1024, 1024, 1), (1000, 512, 2), (200, 128, 8)])
def test_a_step_is_cut_into_as_few_batches_as_fit(
    room: int, tokens: int, parts: int, room_for: Any, tmp_path: Path
) -> None:
    room_for(room)
    text = (train_small(tmp_path, "batches.batch_tokens=auto").folder / "recipe.toml").read_text()
    assert f"batch_tokens = {tokens} # auto: tried, and fits in memory" in text
    assert f"accumulate = {parts} # for 1,024 tokens a step" in text


def test_fitting_leaves_a_gpu_its_reserve_too(room_for: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    room_for(1024)
    asked: list[tuple[float, str]] = []
    monkeypatch.setattr(trial, "gpu_memory_share", lambda share, device: asked.append((share, device)) or nullcontext())
    train_small(tmp_path, "batches.batch_tokens=auto")
    assert asked == [(trial.SHARE_OF_MEMORY, "cpu")]


def test_a_fitted_run_repeats_where_there_is_less_room(room_for: Any, tmp_path: Path) -> None:
    room_for(512)
    first = train_small(tmp_path, "batches.batch_tokens=auto").folder
    room_for(64)
    again = train(first / "recipe.toml", runs=tmp_path, name="again", device="cpu").folder
    assert weights(again) == weights(first)


def test_a_model_that_never_fits_is_said(room_for: Any, tmp_path: Path) -> None:
    room_for(1)
    with pytest.raises(OutOfMemory, match="not even batches of 32 tokens fit in memory; take a smaller model.size"):
        train_small(tmp_path, "batches.batch_tokens=auto")


def test_who_asks_for_fitting_leaves_accumulation_to_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"batches.batch_tokens = 'auto' chooses train.accumulate; leave it out"):
        train_small(tmp_path, "batches.batch_tokens=auto", "train.accumulate=2")
    with pytest.raises(ConfigError, match="batch_tokens"):
        train_small(tmp_path, "batches.batch_tokens=many")


def test_a_dry_run_is_of_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "phrasebook", "--dry-run", "--seeds", "2"]) == 2
    assert "leave --seeds out" in capsys.readouterr().err
