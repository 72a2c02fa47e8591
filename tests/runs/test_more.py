"""A finished run that is trained on (`--more`): from its last state, to the same bytes however often it is cut off."""

import json
import logging
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from families import Trained
from marks import thorough
from small import parse
from small_runs import (
    STEPS,
    AtSteps,
    exit_code,
    kill_at,
    some_pairs,
    terminate,
    times,
    train_small,
    weights,
    write_corpus,
)

from dragoman import system
from dragoman.cli.main import main
from dragoman.errors import CheckpointError, ConfigError, DataError, Interrupted
from dragoman.files import remove
from dragoman.runs import trial
from dragoman.runs.forecast import forecast
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import Recipe, read_recipe
from dragoman.runs.train import RunResult, train
from dragoman.store.manifest import write_manifest
from dragoman.training.checkpoint import list_checkpoints, read_checkpoint_facts
from dragoman.training.settings import TrainSettings, learning_rate

NEW = 8


@pytest.fixture(scope="module")
def first(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run."""
    folder = tmp_path_factory.mktemp("first")
    trained("translation", folder)
    return folder


@pytest.fixture(scope="module")
def whole(first: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run, trained on without a break."""
    folder = Path(shutil.copytree(first, tmp_path_factory.mktemp("whole") / "copy"))
    return train_on(folder).folder


@pytest.fixture
def finished(first: Path, tmp_path: Path) -> Path:
    """A copy of the folder."""
    return Path(shutil.copytree(first, tmp_path / "copy"))


def run_of(folder: Path) -> Path:
    return folder / "runs" / "corpus"


def train_on(folder: Path, *overrides: str, **options: Any) -> RunResult:
    overrides = overrides or (f"train.steps={NEW}",)
    return train(run_of(folder), more=True, overrides=overrides, device="cpu", **options)


def settings_of(run: Path) -> TrainSettings:
    return parse((run / "recipe.toml").read_text(), "recipe.toml", Recipe).train


def status(run: Path) -> str:
    return json.loads((run / "run.json").read_text())["status"]


def check_whole(run: Path, whole: Path) -> None:
    """The same weights, every step once, and nothing left aside."""
    assert weights(run) == weights(whole)
    for kind in ("loss", "dev_loss"):
        steps = [line["step"] for line in read_metrics(run) if kind in line]
        assert steps == [line["step"] for line in read_metrics(whole) if kind in line]
    assert status(run) == "finished"
    assert not list(run.rglob("*.partial"))


# From the last state


def test_new_steps_follow_the_old_ones(first: Path, whole: Path) -> None:
    lines = [line for line in read_metrics(whole) if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, STEPS + NEW + 1))
    assert [line["step"] for line in read_metrics(whole) if "dev_loss" in line] == [6, 12, 18, 20]
    before = [line for line in read_metrics(run_of(first)) if "loss" in line]
    assert lines[:STEPS] == before, "what the first training wrote stays"
    settings, old = settings_of(whole), settings_of(run_of(first))
    assert (settings.steps, settings.continued_from) == (STEPS + NEW, STEPS)
    assert settings.learning_rate == old.learning_rate
    rates = [line["learning_rate"] for line in lines[STEPS:]]
    assert rates[0] == max(rates) == settings.learning_rate and rates[-1] == 0
    facts = read_checkpoint_facts(list_checkpoints(whole / "checkpoints")[-1])
    assert facts.tokens == sum(line["tokens"] for line in lines)
    text = (whole / "recipe.toml").read_text()
    assert "warmup_steps = 1 # a tenth of the new steps" in text
    assert re.search(r"source_vocabulary = \d+ # from the tokenizer", text), "old reasons stay"


def test_scores_model_and_card_are_those_of_the_longer_run(first: Path, whole: Path) -> None:
    assert weights(whole) != weights(run_of(first))
    assert f"{STEPS + NEW} steps" in (whole / "final" / "README.md").read_text()
    assert (whole / "scores.json").read_text() != (run_of(first) / "scores.json").read_text()


@pytest.mark.parametrize("schedule", ["constant", "noam"])
def test_a_rate_without_an_end_goes_on_as_if_all_had_been_asked_for_at_once(schedule: str, tmp_path: Path) -> None:
    settings = (f"train.schedule={schedule}", "train.warmup_steps=3", "train.learning_rate=0.01", "train.ema=0.5")
    at_once = train_small(tmp_path / "once", *settings, f"train.steps={STEPS + NEW}").folder
    train_small(tmp_path / "twice", *settings)
    later = train_on(tmp_path / "twice").folder
    assert losses(at_once) == losses(later)
    assert weights(at_once)[0] == weights(later)[0]


def losses(run: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in read_metrics(run) if "loss" in line]


@pytest.mark.parametrize("schedule", ["linear", "cosine", "wsd"])
def test_a_rate_that_falls_to_zero_rises_and_falls_again(schedule: Any) -> None:
    rates = [learning_rate(schedule, step, 1.0, 4, 40) for step in range(1, 41)]
    again = [learning_rate(schedule, 100 + step, 1.0, 4, 140, continued_from=100) for step in range(1, 41)]
    assert again == rates


def test_best_is_replaced_only_by_something_better(finished: Path) -> None:
    before = weights(run_of(finished))[1]
    run = train_on(finished, "train.steps=8", "train.learning_rate=1e-30").folder
    assert weights(run)[1] == before
    assert read_checkpoint_facts(list_checkpoints(run / "checkpoints")[-1]).best_step <= STEPS


# Cut off


@pytest.mark.parametrize("step", [STEPS + 1, STEPS + 5])
def test_new_steps_that_are_stopped_end_in_the_same_bytes(step: int, finished: Path, whole: Path) -> None:
    with pytest.raises(Interrupted, match=f"stopped at step {step} of 20; continue with: dragoman train"):
        train_on(finished, progress=AtSteps({step: terminate}))
    assert status(run_of(finished)) == "stopped"
    train(run_of(finished), device="cpu")
    check_whole(run_of(finished), whole)


@pytest.mark.parametrize(
    "settings",
    [
        ("train.accumulate=2", "train.ema=0.5", "train.optimiser='muon'"),
        ("train.precision=bf16",),
    ],
    ids=["accumulated, averaged and Muon", "bf16"],
)
def test_whatever_the_settings_the_bytes_are_the_same(settings: tuple[str, ...], tmp_path: Path) -> None:
    train_small(tmp_path / "one", *settings)
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    unbroken = train_on(tmp_path / "one").folder
    with pytest.raises(Interrupted):
        train_on(tmp_path / "other", progress=AtSteps({STEPS + 3: terminate}))
    check_whole(train_on(tmp_path / "other").folder, unbroken)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("os.replace", 3),
        ("dragoman.training.loop.Trainer.step", 6),
        *thorough(
            *[("os.replace", call) for call in (1, 2, 4, 9, 20, 30)],
            ("dragoman.runs.resolving.write_file", 1),
            ("dragoman.runs.train.record_status", 1),
            ("dragoman.runs.train.record_status", 2),
            ("dragoman.training.loop.Trainer.step", 1),
            ("dragoman.runs.translation.evaluate", 1),
            ("dragoman.runs.train.draw_curves", 1),
        ),
    ],
)
def test_a_kill_at_any_moment_leaves_a_run_that_goes_on(function: str, call: int, finished: Path, whole: Path) -> None:
    assert exit_code(kill_at, function, call, train_on, finished) == -signal.SIGKILL
    begun = settings_of(run_of(finished)).continued_from is not None
    train(run_of(finished), device="cpu")  # goes on with the new steps, if they were begun
    assert status(run_of(finished)) == "finished"
    if not begun:
        assert weights(run_of(finished)) != weights(whole)
        train_on(finished)
    check_whole(run_of(finished), whole)


@pytest.mark.thorough
def test_any_number_of_kills_ends_in_the_same_bytes(finished: Path, whole: Path) -> None:
    kills = 0
    while exit_code(kill_at, "dragoman.training.loop.Trainer.step", 6, train_on, finished) == -signal.SIGKILL:
        kills += 1
    assert kills >= 1
    check_whole(run_of(finished), whole)


def test_the_same_command_adds_nothing_while_its_steps_are_under_way(
    finished: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with pytest.raises(Interrupted):
            train_on(finished, progress=AtSteps({STEPS + 2: terminate, STEPS + 4: terminate}))
    with caplog.at_level(logging.INFO):
        assert train_on(finished).steps == STEPS + NEW
    assert "is already being trained further, to step 20; that continues, and no steps are added" in caplog.text
    check_whole(run_of(finished), whole)


@pytest.mark.parametrize("setting", ["train.steps=9", "train.learning_rate=0.5"])
def test_other_new_steps_than_those_under_way_are_refused(setting: str, finished: Path) -> None:
    with pytest.raises(Interrupted):
        train_on(finished, progress=AtSteps({STEPS + 2: terminate}))
    key = setting.partition("=")[0]
    with pytest.raises(
        ConfigError, match=rf"is already being trained further, with {key} = .*; finish that first: dragoman"
    ):
        train_on(finished, setting)


def test_a_stretch_goes_on_by_the_first_command_of_the_run_too(finished: Path, whole: Path) -> None:
    with pytest.raises(Interrupted):
        train_on(finished, progress=AtSteps({STEPS + 2: terminate}))
    train_small(finished)
    check_whole(run_of(finished), whole)
    before = times(run_of(finished))
    train_small(finished)
    assert times(run_of(finished)) == before, "and a finished run rewrites nothing"


def test_a_damaged_checkpoint_costs_its_steps(finished: Path, whole: Path) -> None:
    with pytest.raises(Interrupted):
        train_on(finished, progress=AtSteps({STEPS + 2: terminate}))
    (run_of(finished) / "checkpoints" / "step-00000014" / "training.safetensors").write_bytes(b"")
    train(run_of(finished), device="cpu")
    check_whole(run_of(finished), whole)


def test_a_state_from_before_the_new_steps_is_refused(first: Path, finished: Path) -> None:
    with pytest.raises(Interrupted):
        train_on(finished, progress=AtSteps({STEPS + 2: terminate}))
    folder, older = run_of(finished) / "checkpoints", "step-00000008"
    remove(folder)
    shutil.copytree(run_of(first) / "checkpoints" / older, folder / older)
    with pytest.raises(CheckpointError, match="step-00000008 is older than step 12, from which --more trains the run"):
        train(run_of(finished), device="cpu")


# How much more


def test_minutes_and_epochs_count_from_where_the_run_ended(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.05)
    found = train_on(finished, "train.minutes=0.02")
    settings = settings_of(found.folder)
    assert settings.steps == found.steps > STEPS == settings.continued_from
    text = (found.folder / "recipe.toml").read_text()
    assert re.search(rf"steps = {found.steps} # {found.steps - STEPS:,} new ones: 0.02 minutes, as asked for, at", text)
    again = train_on(finished, "train.epochs=1")
    assert settings_of(again.folder).continued_from == found.steps
    assert again.steps > found.steps


def test_the_rate_is_that_of_before_unless_another_is_given(finished: Path) -> None:
    before = settings_of(run_of(finished)).learning_rate
    assert settings_of(train_on(finished).folder).learning_rate == before
    again = train_on(finished, "train.steps=2", "train.learning_rate=0.002")
    assert again.steps == STEPS + NEW + 2
    assert "learning_rate = 0.002 # as asked for" in (again.folder / "recipe.toml").read_text()
    rates = [line["learning_rate"] for line in read_metrics(again.folder) if "loss" in line]
    assert rates[-2:] == [0.002, 0.0]


def test_patience_begins_anew(tmp_path: Path) -> None:
    settings = ("train.patience=2", "train.validate_every=2", "train.learning_rate=1e-9")
    assert train_small(tmp_path, *settings).steps == 6  # best at 2, no better at 4 and 6
    found = train_on(tmp_path)
    assert settings_of(found.folder).continued_from == 6
    assert found.steps == 10, "no better at 8 and 10"


def test_a_model_that_was_trained_elsewhere_is_trained_on_here(
    finished: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version, another processor: the bytes are promised from where the new steps begin."""
    last = run_of(finished) / "checkpoints" / f"step-{STEPS:08d}"
    facts = json.loads((last / "training.json").read_text())
    facts["envelope"] |= {"dragoman": "0.0.1", "threads": 64}
    del facts["identity"]["train.continued_from"]
    (last / "training.json").write_text(json.dumps(facts))
    write_manifest(last)
    recipe = run_of(finished) / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("# continued_from is not given\n", ""))
    with pytest.raises(Interrupted):
        train_on(finished, progress=AtSteps({STEPS + 2: terminate}))
    with monkeypatch.context() as elsewhere:
        envelope = system.envelope
        elsewhere.setattr(system, "envelope", lambda **facts: {**envelope(**facts), "threads": 64})
        with pytest.raises(
            CheckpointError, match=r"another machine or by another version.*\(threads: 1 then, 64 now\); use --anyway"
        ):
            train_on(finished)
    train_on(finished)
    check_whole(run_of(finished), whole)


# What cannot be


def test_a_run_that_has_diverged_or_has_no_state_is_not_trained_further(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_small(tmp_path, progress=AtSteps({5: terminate}))
    run = run_of(tmp_path)
    facts = (run / "run.json").read_text()
    (run / "run.json").write_text(facts.replace("stopped", "diverged"))
    with pytest.raises(ConfigError, match=r"has diverged.*--fresh and a lower train\.learning_rate"):
        train_on(tmp_path)
    (run / "run.json").write_text(facts)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(ConfigError, match=r"no checkpoint yet.*begin with: dragoman train .*corpus"):
        train_on(tmp_path)


def test_a_stopped_run_is_given_more_and_ends_in_the_same_bytes_however_often_it_is_killed(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "other"
    for folder in folders:
        with pytest.raises(Interrupted):
            train_small(folder, progress=AtSteps({5: terminate}))
    with pytest.raises(ConfigError, match=r"train.steps was 12, is 20.*dragoman train .*corpus --more --minutes"):
        train(run_of(folders[0]), overrides=["train.steps=20"], device="cpu")
    assert train_on(folders[0]).steps == 5 + NEW
    for step in (7, 9):
        with pytest.raises(Interrupted):
            train_on(folders[1], progress=AtSteps({step: terminate}))
    assert train_on(folders[1]).steps == 5 + NEW
    assert weights(run_of(folders[0])) == weights(run_of(folders[1]))
    recipe = read_recipe(run_of(folders[0]) / "recipe.toml").train
    assert (recipe.continued_from, recipe.steps) == (5, 5 + NEW)


def test_the_command_that_goes_on_names_threads_that_were_asked_for(tmp_path: Path) -> None:
    other = system.threads() + 1
    with pytest.raises(Interrupted, match=rf"continue with: dragoman train .*corpus --threads {other}$"):
        train_small(tmp_path, progress=AtSteps({2: terminate}), threads=other)
    with pytest.raises(Interrupted, match=rf"continue with: dragoman train .*corpus --threads {other}$"):
        train_small(tmp_path, progress=AtSteps({4: terminate}))
    assert train_small(tmp_path, threads=other).steps == 12


@pytest.mark.parametrize("setting", ["train.minutes=5", "train.steps=30", "train.epochs=2"])
def test_a_finished_run_says_how_it_is_trained_on(setting: str, finished: Path) -> None:
    before = times(run_of(finished))
    with pytest.raises(
        ConfigError, match=r"corpus is finished; to train it further.*dragoman train .*corpus --more --minut"
    ):
        train(run_of(finished), overrides=[setting], device="cpu")
    assert times(run_of(finished)) == before


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.dropout=0.5"], r"begun with other settings \(model.dropout was 0.2, is 0.5\)"),
        (["train.patience=3"], r"begun with other settings \(train.patience was not given, is 3\)"),
        (["train={steps=3, patience=3}"], r"begun with other settings"),
        (["train.steps=3", "train.minutes=1"], "give one of train.steps, train.epochs and train.minutes"),
        (["train.steps=-3"], "train.steps should be greater than or equal to 1, but is -3"),
    ],
)
def test_other_settings_do_not_change(overrides: list[str], message: str, finished: Path) -> None:
    before = times(run_of(finished))
    with pytest.raises(ConfigError, match=message):
        train(run_of(finished), overrides=overrides, more=True, device="cpu")
    assert times(run_of(finished)) == before


def test_more_goes_with_a_finished_run_alone(finished: Path) -> None:
    run = run_of(finished)
    for what in ("phrasebook", finished / "corpus.tsv", [finished / "corpus.tsv", run], run / "recipe.toml"):
        with pytest.raises(ConfigError, match="--more trains a finished run further; name its folder"):
            train(what, more=True)
    with pytest.raises(ConfigError, match=r"further, --fresh begins a new run; give one of the two"):
        train(run, more=True, fresh=True)
    with pytest.raises(ConfigError, match=r"further, --name names a new run; give one of the two"):
        train([run], more=True, name="other")
    with pytest.raises(ConfigError, match="--dry-run estimates a run from its beginning; leave --more out"):
        forecast(run, more=True)


def test_without_its_last_state_a_run_is_not_trained_on(finished: Path) -> None:
    remove(run_of(finished) / "checkpoints")
    with pytest.raises(CheckpointError, match=r"no undamaged checkpoint of step 12.*dragoman fine-tune .*corpus DATA"):
        train_on(finished)
    assert status(run_of(finished)) == "finished"


def test_changed_text_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    before = times(train_small(tmp_path).folder)
    write_corpus(tmp_path / "corpus.tsv", some_pairs(199))
    with pytest.raises(DataError, match="the train text changed"):
        train_on(tmp_path)
    assert times(run_of(tmp_path)) == before


def test_the_recipe_of_a_run_that_was_trained_on_is_of_no_new_run(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.continued_from belongs to a run that --more trained further"):
        train(whole / "recipe.toml", runs=tmp_path / "runs", device="cpu")
    with pytest.raises(ConfigError, match=r"it must be above continued_from \(12\), but is 12"):
        parse("[train]\nsteps = 12\ncontinued_from = 12\n", "recipe", Recipe)


def test_the_command_says_the_same(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(run_of(finished))
    assert main(["train", run, "--minutes", "5", "--device", "cpu", "--quiet"]) == 2
    assert "--more --minutes N" in capsys.readouterr().err
    assert main(["train", run, "--more", "--set", f"train.steps={NEW}", "--device", "cpu", "--quiet"]) == 0
    assert settings_of(run_of(finished)).steps == STEPS + NEW
    assert main(["train", run, "--device", "cpu"]) == 0
    said = capsys.readouterr().err
    assert f"dragoman evaluate {run} SOURCE REFERENCE" in said
    assert f"dragoman train {run} --more --minutes 30" in said
