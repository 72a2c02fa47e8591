"""A run that was cut off anywhere goes on by the same command, and ends in the same bytes."""

import errno
import json
import logging
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
import torch
from families import Trained
from marks import thorough
from small import parse
from small_runs import (
    STEPS,
    AtSteps,
    command,
    exit_code,
    kill_at,
    some_pairs,
    terminate,
    train_command,
    train_small,
    weights,
    write_corpus,
)

from dragoman import files, system
from dragoman.cli.main import main
from dragoman.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DiskFull,
    Diverged,
    Error,
    Interrupted,
    TokenizerError,
)
from dragoman.files import lock, remove, remove_partial
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import Recipe, read_recipe
from dragoman.runs.starting import fresh_state
from dragoman.runs.train import train
from dragoman.store.description import Languages, ModelFiles
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.training.checkpoint import (
    TrainState,
    list_checkpoints,
    newest_checkpoint,
    read_checkpoint_facts,
    restore,
    save_checkpoint,
)


@pytest.fixture(scope="module")
def whole(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never cut off."""
    return trained("translation", tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped at step 9, with checkpoints of steps 8 and 9."""
    folder = tmp_path_factory.mktemp("cut")
    with pytest.raises(Interrupted, match=r"stopped at step 9 of 12; continue with: dragoman train .*corpus"):
        train_small(folder, progress=AtSteps({9: terminate}))
    return folder


@pytest.fixture
def stopped(cut: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(cut, tmp_path / "copy"))


def run_of(folder: Path) -> Path:
    return folder / "runs" / "corpus"


def check_whole(run: Path, whole: Path) -> None:
    """The same weights, every step once, and nothing left aside."""
    assert weights(run) == weights(whole)
    for kind in ("loss", "dev_loss"):
        steps = [line["step"] for line in read_metrics(run) if kind in line]
        assert steps == [line["step"] for line in read_metrics(whole) if kind in line]
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    assert not list(run.rglob("*.partial"))


# Stopped on request


@pytest.mark.parametrize("step", [1, 4, 11, 12])
def test_a_stopped_run_ends_in_the_same_bytes(step: int, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_small(tmp_path, progress=AtSteps({step: terminate}))
    assert json.loads((run_of(tmp_path) / "run.json").read_text())["status"] == "stopped"
    train_small(tmp_path)
    check_whole(run_of(tmp_path), whole)


def test_a_signal_while_the_last_step_is_saved_stops_too(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_and_stop(folder: Path, state: TrainState, *given: Any) -> Path:
        if state.step == STEPS and not (folder / "step-00000012").exists():
            terminate()
        return save_checkpoint(folder, state, *given)

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.runs.session.save_checkpoint", save_and_stop)
        with pytest.raises(Interrupted, match="stopped at step 12 of 12; continue with"):
            train_small(tmp_path)
    train_small(tmp_path)
    check_whole(run_of(tmp_path), whole)


@pytest.mark.parametrize(
    "settings",
    [
        ("train.accumulate=2", "train.ema=0.5", "train.optimiser='muon'"),
        ("train.precision=bf16",),
        ("train.alignment_weight=0.5", "train.accumulate=2"),
        ("tokenizer.kind=bpe", "tokenizer.vocabulary_size=320", "variation.joined=0.5", "variation.rough=0.8"),
        ("train.patience=1", "train.validate_every=2", "train.learning_rate=1e-9"),
    ],
    ids=["accumulated, averaged and Muon", "bf16", "a head that aligns", "much varied", "patience"],
)
def test_whatever_the_settings_the_bytes_are_the_same(settings: tuple[str, ...], tmp_path: Path) -> None:
    unbroken = train_small(tmp_path / "one", *settings)
    with pytest.raises(Interrupted):
        train_small(tmp_path / "other", *settings, progress=AtSteps({min(7, unbroken.steps - 1): terminate}))
    resumed = train_small(tmp_path / "other", *settings)
    assert resumed.steps == unbroken.steps
    assert weights(resumed.folder) == weights(unbroken.folder)


@pytest.mark.parametrize("step", [3, 7])
def test_a_run_over_several_windows_goes_on_within_an_epoch(
    step: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.data.batching._WINDOW", 64)
    monkeypatch.setattr("dragoman.data.batching._BLOCK", 8)
    unbroken = train_small(tmp_path / "one")
    with pytest.raises(Interrupted):
        train_small(tmp_path / "other", progress=AtSteps({step: terminate}))
    assert read_checkpoint_facts(list_checkpoints(run_of(tmp_path / "other") / "checkpoints")[-1]).batch == step
    assert weights(train_small(tmp_path / "other").folder) == weights(unbroken.folder) != weights(whole)


def test_patience_ends_a_run_that_gets_no_better(tmp_path: Path) -> None:
    result = train_small(tmp_path, "train.patience=2", "train.validate_every=2", "train.learning_rate=1e-9")
    assert result.steps == 6  # best at 2, no better at 4 and 6
    assert [path.name for path in list_checkpoints(result.folder / "checkpoints")][-1] == "step-00000006"


def test_a_run_goes_on_by_its_folder_too(stopped: Path, whole: Path) -> None:
    train(run_of(stopped), device="cpu")
    check_whole(run_of(stopped), whole)


def test_a_signal_outside_the_loop_stops_too(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    for stage in ("runs.train.resolve_run", "runs.translation.evaluate"):
        with monkeypatch.context() as patch:
            patch.setattr(f"dragoman.{stage}", lambda *_, **__: terminate())
            with pytest.raises(Interrupted, match="stopped; continue with: dragoman train"):
                train_small(tmp_path)
        assert signal.getsignal(signal.SIGTERM) is before
    assert weights(train_small(tmp_path).folder) == weights(whole)


@pytest.mark.thorough
def test_signals_end_in_their_exit_codes(whole: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.tsv")
    once = exit_code(signalled, tmp_path, [signal.SIGTERM])
    assert once == 3
    assert newest_checkpoint(run_of(tmp_path) / "checkpoints") is not None
    assert exit_code(signalled, tmp_path, [signal.SIGINT, signal.SIGINT]) == 130
    assert exit_code(signalled, tmp_path, [signal.SIGINT]) == 3
    assert exit_code(signalled, tmp_path, [signal.SIGHUP, signal.SIGHUP]) == 3  # a terminal that closes sends several
    assert exit_code(command, *train_command(tmp_path)) == 0
    check_whole(run_of(tmp_path), whole)


def signalled(folder: Path, signals: list[signal.Signals]) -> None:
    """The command, which two steps later is sent these signals."""
    from dragoman.runs.session import Session

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and what nohup starts with this one
    log, calls = Session._log, 0

    def and_signal(*given: Any) -> None:
        nonlocal calls
        log(*given)
        calls += 1
        if calls == 2:
            for number in signals:
                signal.raise_signal(number)  # os.kill may hand both at once to another thread

    setattr(Session, "_log", and_signal)  # noqa: B010 (the type is another)
    command(*train_command(folder))


# Killed


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("os.replace", 9),
        ("os.replace", 38),
        ("dragoman.training.loop.Trainer.step", 10),
        *thorough(
            *[("os.replace", call) for call in (2, 5, 14, 22, 30, 47, 55)],
            ("dragoman.tokenizing.training._trained", 2),
            ("dragoman.data.encoding._write", 2),
            ("dragoman.runs.translation.learn_tokenizers", 1),
            ("dragoman.training.loop.Trainer.step", 3),
            ("dragoman.runs.translation.evaluate", 1),
            ("dragoman.runs.train.draw_curves", 1),
        ),
    ],
)
def test_a_run_killed_anywhere_is_completed_by_the_same_command(
    function: str, call: int, whole: Path, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "corpus.tsv")
    assert exit_code(kill_at, function, call, train_small, tmp_path) == -signal.SIGKILL
    train_small(tmp_path)
    check_whole(run_of(tmp_path), whole)


def test_settings_that_a_cut_run_accepted_are_its_own_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.runs.resolving._write", cut)  # before recipe.toml is written
        with pytest.raises(KeyboardInterrupt):
            train_small(tmp_path, "train.learning_rate=1e-3")
    with monkeypatch.context() as patch:
        patch.setattr("dragoman.runs.train.Session.begin", cut)  # after it
        with pytest.raises(KeyboardInterrupt):
            train_small(tmp_path, "train.learning_rate=2e-3")
    train_small(tmp_path, "train.learning_rate=2e-3")
    assert read_recipe(run_of(tmp_path) / "recipe.toml").train.learning_rate == 2e-3
    with pytest.raises(ConfigError, match=r"train.learning_rate was 0.002, is 0.001"):
        train_small(tmp_path, "train.learning_rate=1e-3")


@pytest.mark.parametrize("function", ["os.replace", "os.fsync"])
def test_at_every_moment_of_saving_there_is_a_checkpoint_that_loads(function: str, stopped: Path) -> None:
    assert exit_code(kill_at_every_call, function, run_of(stopped) / "checkpoints") == 0


def kill_at_every_call(function: str, folder: Path) -> None:
    """Saves step 10 again and again, each time killed one call later, until it is saved."""
    model, state = fresh_state(parse((folder.parent / "recipe.toml").read_text(), "recipe.toml", Recipe), "cpu")
    restore(folder / "step-00000009", state)
    state.step = 10
    tokenizers = Tokenizers.load(folder.parent / "tokenizer")
    after, killed = folder / "step-00000010", 0
    while True:
        arguments = (folder, state, model, ModelFiles(tokenizers, Languages("en", "it")), {}, {}, 3)
        child = os.fork()
        if not child:
            kill_at(function, killed + 1, save_checkpoint, *arguments)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        newest = newest_checkpoint(folder)
        assert newest is not None
        assert read_checkpoint_facts(newest).step == (10 if after.exists() else 9)
        remove_partial(folder)
        assert {path.name for path in folder.iterdir()} - {after.name} == {"step-00000008", "step-00000009"}
        if code == 0:
            break
        assert code == -signal.SIGKILL
        remove(after)
        killed += 1
    assert killed > 8, "a checkpoint has more files than that"


# Damaged


@pytest.mark.parametrize("damage", ["flip", "cut"])
@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "training.json"])
def test_a_damaged_checkpoint_costs_its_steps_and_not_the_run(
    damage: str, name: str, stopped: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = run_of(stopped) / "checkpoints"
    spoil(folder / "step-00000009" / name, damage)
    with caplog.at_level(logging.INFO):
        train_small(stopped)
    assert "set aside as step-00000009.broken-1" in caplog.text
    assert "continuing from step 8" in caplog.text
    assert (folder / "step-00000009.broken-1").is_dir()
    check_whole(run_of(stopped), whole)


def test_a_run_whose_checkpoints_are_all_damaged_begins_anew_only_if_asked(stopped: Path) -> None:
    for path in list_checkpoints(run_of(stopped) / "checkpoints"):
        spoil(path / "training.safetensors", "flip")
    for _ in range(2):
        with pytest.raises(CheckpointError, match="no undamaged checkpoint; start again with --fresh"):
            train_small(stopped)
    assert train_small(stopped, fresh=True).folder.name == "corpus-2"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", None, r"was a run, but its run\.json is missing"),
        ("run.json", b"{}", r"run\.json is not Dragoman's: it has no format number"),
        ("run.json", b'{"format": 1, "asked": {}, "threads": 1}', r"run\.json is damaged: status must be given"),
        ("recipe.toml", b"", r"recipe\.toml is damaged: train\.steps is missing"),
        ("recipe.toml", b"\xff\xfe", r"recipe\.toml cannot be read"),
        ("data/data.json", None, r"data\.json is missing; --fresh begins a new run"),
        ("data/data.json", b"", r"data\.json cannot be read: .*; --fresh begins a new run"),
        ("corpus/train/source.ids", b"\xff", r"source\.ids is damaged; delete .*corpus.train and encode"),
        ("corpus/train/target.offsets", b"\xff", r"target\.offsets is damaged"),
    ],
)  # fmt: skip
def test_whatever_of_a_run_is_damaged_is_named(name: str, content: bytes | None, message: str, stopped: Path) -> None:
    path = run_of(stopped) / name
    if content is None:
        path.unlink()
    elif name.startswith("corpus"):  # of the same size: a byte in the middle
        kept = path.read_bytes()
        path.write_bytes(kept[:20] + content + kept[21:])
    else:
        path.write_bytes(content)
    for anyway in (False, True):
        with pytest.raises(Error, match=message):
            train(run_of(stopped), device="cpu", anyway=anyway)


def test_lines_of_the_journal_that_cannot_be_read_are_left_out(stopped: Path, whole: Path) -> None:
    path = run_of(stopped) / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    train(run_of(stopped), device="cpu")
    check_whole(run_of(stopped), whole)


def spoil(path: Path, damage: str) -> None:
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[:-1]
    else:
        content[len(content) // 2] ^= 4
    path.write_bytes(content)


# Changed meanwhile


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("train.learning_rate=0.5", r"train.learning_rate was 0\.0\d+, is 0.5"),
        ("model.size=small", "model.size was 'tiny', is 'small'"),  # the value of a recipe that says nothing
        ("train.patience=3", "train.patience was not given, is 3"),
        ("model.decoder_layers=2", "model.decoder_layers was 1, is 2"),
        ("batches.batch_tokens=100", "batches.batch_tokens was 200, is 100"),
    ],
)
def test_changed_settings_are_refused_with_the_list_of_them(changed: str, told: str, stopped: Path) -> None:
    with pytest.raises(ConfigError, match=rf"begun with other settings \({told}\); use --fresh"):
        train_small(stopped, changed)
    with pytest.raises(ConfigError, match=told):
        train(run_of(stopped), overrides=[changed], device="cpu")


def test_what_was_chosen_may_be_asked_for(stopped: Path, whole: Path) -> None:
    train_small(stopped, "model.size=tiny", "train.schedule=wsd")
    check_whole(run_of(stopped), whole)


def test_when_to_save_may_change(stopped: Path, whole: Path) -> None:
    train(
        run_of(stopped),
        overrides=["train.save_minutes=1", "train.save_every=1", "train.keep_checkpoints=3"],
        device="cpu",
    )
    assert [path.name[-2:] for path in list_checkpoints(run_of(stopped) / "checkpoints")] == ["10", "11", "12"]
    check_whole(run_of(stopped), whole)


def test_a_recipe_changed_in_the_runs_folder_is_refused(stopped: Path) -> None:
    path = run_of(stopped) / "recipe.toml"
    path.write_text(path.read_text().replace("label_smoothing = 0.1", "label_smoothing = 0.2"))
    with pytest.raises(CheckpointError, match=r"other settings \(train.label_smoothing: 0.1 then, 0.2 now\)"):
        train_small(stopped, anyway=True)


def stop_at_nine(folder: Path) -> None:
    with pytest.raises(Interrupted):
        train_small(folder, progress=AtSteps({9: terminate}))


def test_changed_data_is_refused_unless_asked_for(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop_at_nine(tmp_path)
    write_corpus(tmp_path / "corpus.tsv", some_pairs(199))
    with pytest.raises(DataError, match=r"the train text changed.*--anyway continues.*--fresh begins a new run"):
        train_small(tmp_path)
    train_small(tmp_path, anyway=True)
    assert "continuing with the data that the run holds" in caplog.text
    check_whole(run_of(tmp_path), whole)


def test_the_same_data_may_lie_elsewhere(whole: Path, tmp_path: Path) -> None:
    stop_at_nine(tmp_path)
    (tmp_path / "corpus.tsv").rename(tmp_path / "moved.tsv")
    with pytest.raises(DataError, match="does not exist.*--anyway continues with the data that the run holds"):
        train(run_of(tmp_path), device="cpu")
    train_small(tmp_path, what=tmp_path / "moved.tsv", name="corpus")
    check_whole(run_of(tmp_path), whole)


def test_other_data_of_the_same_name_is_refused(stopped: Path) -> None:
    other = write_corpus(stopped / "other" / "corpus.tsv", some_pairs(100))
    with pytest.raises(ConfigError, match=r"begun with other settings \(data.path was .*corpus.tsv', is .*corpus.tsv'"):
        train_small(stopped, what=other)


def test_a_changed_tokenizer_is_refused(stopped: Path) -> None:
    path = run_of(stopped) / "tokenizer" / "tokenizer.source.json"
    path.write_text(path.read_text().replace('"gatt"', '"gattt"'))
    with pytest.raises(TokenizerError, match="encoded by another tokenizer"):
        train_small(stopped, anyway=True)


def test_another_machine_is_refused_unless_asked_for(
    stopped: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    envelope = system.envelope
    monkeypatch.setattr(system, "envelope", lambda **facts: {**envelope(**facts), "threads": 64})
    with pytest.raises(
        CheckpointError, match=r"another machine or by another version.*\(threads: 1 then, 64 now\); use --anyway"
    ) as caught:
        train_small(stopped)
    assert caught.value.exit_code == 4
    train_small(stopped, anyway=True)
    check_whole(run_of(stopped), whole)


def test_other_threads_are_refused(stopped: Path) -> None:
    with pytest.raises(ConfigError, match="begun with 1 threads; continue with the same number"):
        train_small(stopped, threads=2)


# A full disk, and numbers that are not finite


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, is_full: Callable[[Path], bool]) -> None:
    """Makes every file for which it is full end in the error that the system gives."""

    def refuse(path: Path | str, mode: str = "r") -> IO[Any]:
        if mode == "wb" and is_full(Path(path)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return open(path, mode)

    monkeypatch.setattr(files, "open", refuse, raising=False)


def test_a_full_disk_in_the_middle_costs_checkpoints_and_not_the_run(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[list[str]] = []
    full = False

    def fill() -> None:
        nonlocal full
        full = True

    def look() -> None:
        nonlocal full
        kept.append(sorted(path.name for path in (run_of(tmp_path) / "checkpoints").iterdir()))
        full = False

    fill_the_disk(monkeypatch, lambda path: full and "checkpoints" in path.parts)
    train_small(tmp_path, progress=AtSteps({5: fill, 11: look}))
    assert kept == [["step-00000004"]], "the last good one stays, and nothing accumulates"
    assert caplog.text.count("the disk is full") == caplog.text.count("training goes on") == 1, "said once, not twice"
    check_whole(run_of(tmp_path), whole)


def test_a_disk_that_is_full_twice_is_said_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full: list[int] = []
    fill_the_disk(monkeypatch, lambda path: bool(full) and "checkpoints" in path.parts)
    actions = {1: lambda: full.append(1), 4: full.clear, 6: lambda: full.append(1), 10: full.clear}
    with caplog.at_level(logging.INFO):
        train_small(tmp_path, "train.save_every=1", progress=AtSteps(actions))
    assert [record.getMessage()[-16:] for record in caplog.records if "the disk is full" in record.getMessage()] == [
        "training goes on"
    ] * 2
    assert caplog.text.count("a checkpoint could be written again") == 2


def test_a_run_goes_on_without_its_journal(stopped: Path, whole: Path) -> None:
    (run_of(stopped) / "metrics.jsonl").unlink()
    train(run_of(stopped), device="cpu")
    assert weights(run_of(stopped)) == weights(whole)


def test_a_full_disk_at_the_end_is_said_and_mended_by_the_same_command(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        fill_the_disk(patched, lambda path: ".final." in str(path))
        with pytest.raises(DiskFull, match="final.*was not written; free some space and run the same") as caught:
            train_small(tmp_path)
    assert caught.value.exit_code == 7
    assert not (run_of(tmp_path) / "final").exists()
    train_small(tmp_path)
    check_whole(run_of(tmp_path), whole)


def test_a_stop_that_cannot_be_saved_is_no_stop_that_was(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = False

    def fill_and_stop() -> None:
        nonlocal full
        full = True
        terminate()

    with monkeypatch.context() as patched:
        fill_the_disk(patched, lambda path: full and "checkpoints" in path.parts)
        with pytest.raises(DiskFull, match="the disk is full"):
            train_small(tmp_path, progress=AtSteps({7: fill_and_stop}))
    assert list_checkpoints(run_of(tmp_path) / "checkpoints")[-1].name == "step-00000004"
    train_small(tmp_path)
    check_whole(run_of(tmp_path), whole)


def poison(monkeypatch: pytest.MonkeyPatch, steps: range) -> None:
    """Makes the loss of these steps not a number."""
    from dragoman.training import objective

    loss, calls = objective.label_smoothed_loss, 0

    def poisoned(*given: Any, **named: Any) -> Any:
        nonlocal calls
        found = loss(*given, **named)
        if not torch.is_grad_enabled():
            return found
        calls += 1
        return found._replace(smoothed=found.smoothed * float("nan")) if calls in steps else found

    monkeypatch.setattr(objective, "label_smoothed_loss", poisoned)


def test_a_gradient_that_is_not_finite_is_skipped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    poison(monkeypatch, range(3, 5))
    run = train_small(tmp_path).folder
    assert "step 3 skipped: its gradient is not finite" in caplog.text
    facts = json.loads((run / "checkpoints" / "step-00000012" / "training.json").read_text())
    assert facts["skipped"] == 2
    assert json.loads((run / "diverged.json").read_text())["step"] == 4
    skipped = [line for line in read_metrics(run) if line["step"] == 3]
    assert [line["gradient_norm"] for line in skipped] == [None], "JSON knows no NaN"


def test_many_in_a_row_end_the_run_and_keep_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file

    poison(monkeypatch, range(2, 100))
    with pytest.raises(
        Diverged, match=r"10 steps in a row .*the last was step 11.*lower train.learning_rate"
    ) as caught:
        train_small(tmp_path)
    assert caught.value.exit_code == 5
    run = run_of(tmp_path)
    kept = json.loads((run / "diverged.json").read_text())
    assert kept["step"] == 11 and kept["pairs"][0]
    assert json.loads((run / "run.json").read_text())["status"] == "diverged"
    for path in run.rglob("*.safetensors"):
        assert all(bool(torch.isfinite(tensor).all()) for tensor in load_file(path).values()), path


def test_weights_that_leave_the_finite_numbers_end_the_run_as_diverged(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="10 steps in a row"):
        train_small(tmp_path, "train.learning_rate=1e40", "train.validate_every=1", "train.steps=30")
    assert not list(run_of(tmp_path).rglob("*.safetensors")), "what is not finite is not saved"


# Two at once


def test_a_second_process_on_the_same_run_is_refused(stopped: Path) -> None:
    with lock(run_of(stopped)):
        assert main(train_command(stopped)) == 8
