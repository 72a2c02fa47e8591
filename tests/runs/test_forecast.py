"""What a run will take, told before it is begun, and held against what it then takes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from families import Trained
from small import parse
from small_runs import SETTINGS, STEPS, some_pairs, times, train_command, train_small, weights, write_corpus

from dragoman.cli.main import main
from dragoman.errors import ConfigError
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


def test_a_dry_run_of_another_run_needs_a_free_name(trained: Trained, tmp_path: Path) -> None:
    folder = trained("translation", tmp_path)
    before = weights(folder)
    data, runs = tmp_path / "corpus.tsv", tmp_path / "runs"
    with pytest.raises(ConfigError, match=r"was begun with other settings .model.d_model was 16, is 32.; use"):
        forecast(data, overrides=[*SETTINGS, "model.d_model=32"], runs=runs, device="cpu")
    other = forecast(data, overrides=[*SETTINGS, "model.d_model=32"], runs=runs, name="other", device="cpu")
    assert (other.recipe.model.d_model, other.prepared) == (32, runs / "other")
    (runs / "taken").mkdir()
    (runs / "taken" / "notes").touch()
    with pytest.raises(ConfigError, match="taken is not a run, and not empty .notes.; take another --name"):
        forecast(data, overrides=SETTINGS, runs=runs, name="taken", device="cpu")
    assert weights(folder) == before


def test_a_dry_run_is_of_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "phrasebook", "--dry-run", "--seeds", "2"]) == 2
    assert "leave --seeds out" in capsys.readouterr().err
