"""Several processes act as one: they take the same steps, end together, and report once."""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from families import Trained
from safetensors.torch import load_file, save_file
from small import (
    Source,
    fresh_state,
    objective,
    parse,
    random_batch,
    run_steps,
    train_settings,
    translator,
)
from small_runs import command, exit_codes, kill_at, some_pairs, train_command, train_small, weights, write_corpus

from dragoman import system
from dragoman.compiled import kernels
from dragoman.data.batching import Batch
from dragoman.errors import OutOfMemory
from dragoman.runs import trial
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import Recipe
from dragoman.training import distributed, loop
from dragoman.training.distributed import ALONE, World, join

STEPS = 20


def uneven_batches() -> list[Batch]:
    """Batches that all differ in their number of tokens."""
    return [random_batch([3, 5, 2][: 1 + n % 3], [4 + n, 1, 6][: 1 + n % 3], seed=10 * n) for n in range(7)]


def train_here(folder: Path, accumulate: int, precision: str) -> None:
    """Trains as one of the processes that there are, and writes down its reports and weights."""
    kernels.prepare()
    numbers = "bf16" if precision == "bf16" else "float32"
    settings = train_settings(steps=STEPS, accumulate=accumulate, precision=numbers, ema=0.5)
    dtype = torch.float64 if precision == "float64" else torch.float32
    model = translator(dtype=dtype, dropout=0.1, attention_dropout=0.1, activation_dropout=0.1)
    state, told = fresh_state(model, settings), []
    with join() as world:
        run_steps(
            *(model, objective(Source(uneven_batches()), settings), settings, state),
            world=world,
            log=lambda report: told.append([report.loss, report.plain_loss, report.norm, report.tokens]),
        )
        name = f"{world.rank} of {world.size}"
    save_file({name: weight.detach() for name, weight in state.weights.items()}, folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps(told))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("processes", "accumulate", "precision"),
    [(2, 2, "float32"), (2, 3, "float32"), (3, 4, "float32"), (2, 3, "float64"), (3, 4, "float64"), (3, 4, "bf16")],
)
def test_several_processes_train_as_one_does(processes: int, accumulate: int, precision: str, tmp_path: Path) -> None:
    arguments = (tmp_path, accumulate, precision)
    # The last bit of a float32 sum may turn a bit of a bf16 weight.
    share = {"bf16": 1e-3, "float32": 1e-5, "float64": 1e-9}[precision]
    train_here(*arguments)
    assert exit_codes(processes, train_here, *arguments) == [0] * processes
    one = torch.tensor(json.loads((tmp_path / "0 of 1.json").read_text()), dtype=torch.float64)
    alone = load_file(tmp_path / "0 of 1.safetensors")
    for rank in range(processes):
        name = tmp_path / f"{rank} of {processes}"
        several = torch.tensor(json.loads(name.with_suffix(".json").read_text()), dtype=torch.float64)
        assert several.shape == (STEPS, 4)
        assert_close(several / one, torch.ones_like(one), share)
        assert_close(load_file(name.with_suffix(".safetensors")), alone, share)
    first = (tmp_path / f"0 of {processes}.safetensors").read_bytes()
    assert (tmp_path / f"1 of {processes}.safetensors").read_bytes() == first, "replicas are equal to the bit"


def test_every_batch_of_a_step_belongs_to_one_process() -> None:
    for size in (1, 2, 3, 8):
        owners = [[rank for rank in range(size) if World(rank, size).owns(place)] for place in range(11)]
        assert owners == [[place % size] for place in range(11)]


def test_a_process_on_its_own_exchanges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    with join() as world:
        assert world is ALONE
        tensor = torch.ones(3)
        world.sum(tensor)
        assert tensor.tolist() == [1, 1, 1]
        assert (world.any(True), world.any(False)) == (True, False)
        assert (world.share(lambda: "said"), world.after_first(lambda: "done")) == ("said", "done")


def agree(folder: Path) -> None:
    """Does every kind of exchange, in one world and then in another."""
    found = []
    for turn in range(2):
        with join() as world:
            found.append(exchanged(world, turn, folder / str(turn)))
    (folder / f"{system.rank()}.json").write_text(json.dumps(found))


def exchanged(world: World, turn: int, file: Path) -> list[Any]:
    row = torch.full((3,), world.rank + 1.0)
    world.sum(row)
    told = world.share(lambda: {"turn": turn, "by": world.rank})
    made = world.after_first(lambda: make_once(file))
    return [row.tolist(), world.any(world.rank == 1), world.any(False), told, made]


def make_once(path: Path) -> str:
    """Writes a file unless it is there, as data is prepared only once."""
    if not path.exists():
        path.write_text(f"made by {system.rank()}")
    return path.read_text()


@pytest.mark.thorough
def test_every_kind_of_exchange_gives_all_ranks_the_same(tmp_path: Path) -> None:
    assert exit_codes(3, agree, tmp_path) == [0, 0, 0]
    for rank in range(3):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found == [[[6.0, 6.0, 6.0], True, False, {"turn": turn, "by": 0}, "made by 0"] for turn in range(2)]


# Whole runs


def together(do: Callable[..., Any], folder: Path, *arguments: Any) -> tuple[list[int], str]:
    """The exit codes of two processes, and all that they printed."""
    folder.mkdir(exist_ok=True)
    if not (folder / "corpus.tsv").exists():
        write_corpus(folder / "corpus.tsv")
    codes = exit_codes(2, heard, folder / "said", do, folder, *arguments)
    said = (folder / "said").read_text()
    (folder / "said").unlink()
    return codes, said


def heard(said: Path, do: Callable[..., Any], *arguments: Any) -> None:
    """Sends to a file what a process prints, and what libraries print in it."""
    with open(said, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = open(said, "a", buffering=1)  # noqa: SIM115 (as long as the process lives)
    do(*arguments)


def run_command(folder: Path, *overrides: str) -> None:
    command(*train_command(folder, *overrides), "--verbose")


def on_rank(folder: Path, rank: int, step: int, act: Callable[[], Any]) -> None:
    """Runs the command; this rank does something else as the step begins."""
    original, calls = loop.Trainer.step, 0

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == step and os.environ["RANK"] == str(rank):
            act()
        return original(*given, **named)

    loop.Trainer.step = counted
    distributed.LAST_WORDS = timedelta(seconds=1)
    run_command(folder)


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def need_more() -> None:
    raise OutOfMemory("a step of 9 target tokens does not fit in memory")


def killed(folder: Path, step: int, *overrides: str) -> None:
    kill_at("dragoman.training.loop.Trainer.step", step, run_command, folder, *overrides)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that was never cut off."""
    folder = tmp_path_factory.mktemp("two")
    codes, said = together(run_command, folder)
    assert codes == [0, 0], said
    assert said.count("train.accumulate = 2 (a batch of every step for each process)") == 1
    assert said.count("translate with it") == 1, "the first process speaks for both"
    return folder / "runs" / "corpus"


@pytest.mark.thorough
def test_a_run_of_two_is_that_of_one_with_accumulation(two: Path, tmp_path: Path) -> None:
    one = train_small(tmp_path, "train.accumulate=2").folder
    for line, expected in zip(read_metrics(two), read_metrics(one), strict=True):
        assert line.keys() == expected.keys() and line["step"] == expected["step"]
        if "loss" in line:
            assert line["tokens"] == expected["tokens"]
            assert line["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    ours, theirs = (load_file(run / "final" / "model.safetensors") for run in (two, one))
    assert_close(ours, theirs)


@pytest.mark.thorough
@pytest.mark.parametrize("step", [1, 7])
def test_two_killed_and_resumed_end_in_the_bytes_of_two_unbroken(step: int, two: Path, tmp_path: Path) -> None:
    assert together(killed, tmp_path, step)[0] == [-signal.SIGKILL] * 2
    codes, said = together(run_command, tmp_path)
    assert codes == [0, 0], said
    assert weights(tmp_path / "runs" / "corpus") == weights(two)


@pytest.mark.thorough
def test_with_every_part_of_the_engine_on_they_do_too(tmp_path: Path) -> None:
    parts = ("precision=bf16", "optimiser=muon", "ema=0.5", "accumulate=4", "alignment_weight=0.5")
    settings = [f"train.{part}" for part in parts]
    assert together(run_command, tmp_path / "unbroken", *settings)[0] == [0, 0]
    for steps in (6, 5):  # after the first checkpoint, and after the second
        assert together(killed, tmp_path / "killed", steps, *settings)[0] == [-signal.SIGKILL] * 2
    codes, said = together(run_command, tmp_path / "killed", *settings)
    assert codes == [0, 0], said
    assert weights(tmp_path / "killed" / "runs" / "corpus") == weights(tmp_path / "unbroken" / "runs" / "corpus")


@pytest.mark.thorough
@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_stops_both_after_the_same_step(rank: int, two: Path, tmp_path: Path) -> None:
    codes, said = together(on_rank, tmp_path, rank, 5, terminate)
    assert codes == [3, 3], said
    assert (
        len(
            re.findall(
                r"^stopped at step 5 of 12 after [\d:]+; continue with: torchrun … -m dragoman train ", said, re.M
            )
        )
        == 1
    )
    assert json.loads((tmp_path / "runs" / "corpus" / "run.json").read_text())["status"] == "stopped"
    codes, said = together(run_command, tmp_path)
    assert codes == [0, 0] and "continuing from step 5" in said
    assert weights(tmp_path / "runs" / "corpus") == weights(two)


@pytest.mark.thorough
def test_a_signal_to_one_in_the_last_step_stops_both_and_the_same_command_finishes(two: Path, tmp_path: Path) -> None:
    codes, said = together(on_rank, tmp_path, 1, 12, terminate)
    assert codes == [3, 3] and len(re.findall("^stopped at step 12 of 12", said, re.M)) == 1, said
    codes, said = together(run_command, tmp_path)
    assert codes == [0, 0], said
    assert weights(tmp_path / "runs" / "corpus") == weights(two)


@pytest.mark.thorough
def test_an_error_of_one_ends_both_and_is_reported_once(tmp_path: Path) -> None:
    codes, said = together(on_rank, tmp_path, 1, 3, need_more)
    assert codes == [6, 6], said
    assert said.count("error: a step of 9 target tokens does not fit") == 1 and "Traceback" not in said


@pytest.mark.thorough
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_dies_does_not_leave_the_other_waiting(rank: int, two: Path, tmp_path: Path) -> None:
    codes, said = together(on_rank, tmp_path, rank, 6, kill)
    assert codes == [-signal.SIGKILL, 3][:: 1 if rank == 0 else -1], said
    assert (
        len(
            re.findall(
                r"^another process of the run has ended without an error message after [\d:]+; the same command",
                said,
                re.M,
            )
        )
        == 1
    )
    assert together(run_command, tmp_path)[0] == [0, 0]
    assert weights(tmp_path / "runs" / "corpus") == weights(two)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("train.accumulate=1", "train.accumulate is 1, so 2 processes cannot share a step's batches; use"),
        ("train.accumulat=2", "train.accumulat"),
    ],
)
def test_a_bad_setting_is_one_line(setting: str, told: str, tmp_path: Path) -> None:
    codes, said = together(run_command, tmp_path, setting)
    assert codes == [2, 2], said
    assert sum(line.startswith("error: ") for line in said.splitlines()) == 1
    assert told in said and "Traceback" not in said
    assert not (tmp_path / "runs" / "corpus").exists()


@pytest.mark.thorough
def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    codes, said = together(mistype, tmp_path)
    assert codes == [2, 2]
    assert said == "error: No such option: --nonsense (see dragoman train --help)\n"


def mistype(_folder: Path) -> None:
    command("train", "--nonsense")


@pytest.fixture(scope="module")
def model(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run to fine-tune."""
    return trained("translation", tmp_path_factory.mktemp("model"))


def tune(_folder: Path, *arguments: str) -> None:
    command("fine-tune", *arguments, "--device", "cpu")


@pytest.mark.thorough
def test_what_cannot_be_fine_tuned_is_said_once(model: Path, tmp_path: Path) -> None:
    nowhere, text = tmp_path / "nowhere", tmp_path / "missing.tsv"
    for arguments, code, told in (
        ((str(nowhere), str(text)), 4, f"error: {nowhere} does not exist"),
        ((str(model), str(text)), 2, f"error: {text} does not exist"),
    ):
        codes, said = together(tune, tmp_path, *arguments)
        assert codes == [code, code], said
        assert said.count("error: ") == said.count(told) == 1, said


@pytest.mark.thorough
def test_two_fine_tune_a_model_together(model: Path, tmp_path: Path) -> None:
    settings = ("data.dev_size=4", "data.test_size=4", "batches.batch_tokens=100", "train.steps=2")
    chosen = [part for setting in settings for part in ("--set", setting)]
    text = write_corpus(tmp_path / "new.tsv", some_pairs(60))
    codes, said = together(tune, tmp_path, str(model), str(text), "--runs", str(tmp_path / "runs"), *chosen)
    assert codes == [0, 0], said
    run = tmp_path / "runs" / "corpus-new"
    assert parse((run / "recipe.toml").read_text(), "", Recipe).train.accumulate == 2
    for once in ("new.tsv: en to it", "before, new test: test.jsonl", "after, old test: test.jsonl"):
        assert said.count(once) == 1, said


@pytest.mark.thorough
def test_a_run_goes_on_with_as_many_processes_or_not_at_all(tmp_path: Path) -> None:
    assert together(on_rank, tmp_path, 0, 5, terminate)[0] == [3, 3]
    with pytest.raises(Exception, match=r"world_size: 2 then, 1 now.*--anyway") as caught:
        train_small(tmp_path)
    assert getattr(caught.value, "exit_code", None) == 4
    assert train_small(tmp_path, anyway=True).steps == 12


def timed(folder: Path) -> None:
    trial.TRIAL_SECONDS = 0.2
    arguments = train_command(folder, "train.minutes=0.02")
    limit = arguments.index("train.steps=12")
    command(*arguments[: limit - 1], *arguments[limit + 1 :])


@pytest.mark.thorough
def test_minutes_become_steps_by_a_trial_of_all_processes(tmp_path: Path) -> None:
    codes, said = together(timed, tmp_path)
    assert codes == [0, 0], said
    recipe = parse((tmp_path / "runs" / "corpus" / "recipe.toml").read_text(), "", Recipe)
    assert recipe.train.accumulate == 2 and recipe.train.steps
    assert len([line for line in read_metrics(tmp_path / "runs" / "corpus") if "loss" in line]) == recipe.train.steps


def run_more(folder: Path) -> None:
    command("train", str(folder / "runs" / "corpus"), "--more", "--set", "train.steps=8", "--device", "cpu")


def more_killed(folder: Path, step: int) -> None:
    kill_at("dragoman.training.loop.Trainer.step", step, run_more, folder)


@pytest.mark.thorough
def test_two_train_a_finished_run_on_to_the_same_bytes(two: Path, tmp_path: Path) -> None:
    for name in ("unbroken", "killed"):
        folder = tmp_path / name / "runs" / "corpus"
        shutil.copytree(two, folder)
        shutil.copy(two.parent.parent / "corpus.tsv", tmp_path / name / "corpus.tsv")
    codes, said = together(run_more, tmp_path / "unbroken")
    assert codes == [0, 0], said
    assert together(more_killed, tmp_path / "killed", 6)[0] == [-signal.SIGKILL] * 2
    codes, said = together(run_more, tmp_path / "killed")
    assert codes == [0, 0], said
    assert said.count("no steps are added") == 1
    unbroken, killed = (tmp_path / name / "runs" / "corpus" for name in ("unbroken", "killed"))
    assert weights(unbroken) == weights(killed) != weights(two)
