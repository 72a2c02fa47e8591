"""Batches that are prepared ahead: the values, order and errors of batches made in place; shares of processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from small import Source, few_batches, fresh_state, train_settings, translator
from torch import Tensor

from dragoman import system
from dragoman.data.batching import Batch, Batches
from dragoman.data.bins import BinnedBatches, choose_shape
from dragoman.data.encoding import encode_corpus
from dragoman.data.variation import VariedBatches
from dragoman.errors import DataError, Interrupted
from dragoman.surface.letters import Truecaser
from dragoman.surface.protected import Names, shared_spans
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers
from dragoman.training import prefetching
from dragoman.training.distributed import ALONE, World
from dragoman.training.prefetching import (
    LOOKAHEAD,
    MicroBatch,
    count_processes,
    fetch,
    fetch_in_processes,
    prefetch,
    prepare_steps,
)


def test_values_are_made_ahead_in_order_and_no_more_than_two() -> None:
    made: list[int] = []
    earlier = set(threading.enumerate())

    def make() -> Generator[int]:
        for number in range(1, 9):
            assert threading.current_thread() is not threading.main_thread()
            made.append(number)
            yield number

    taken: list[int] = []
    for value in prefetch(make()):
        taken.append(value)
        deadline = time.monotonic() + 10
        while len(made) < min(8, value + LOOKAHEAD) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)  # for what must not be made yet
        assert made == list(range(1, min(8, value + LOOKAHEAD) + 1))
    assert taken == list(range(1, 9)) and set(threading.enumerate()) == earlier


@pytest.mark.parametrize(("size", "batches"), [(1, 3), (2, 3), (3, 3), (3, 8)])
def test_each_batch_of_a_step_belongs_to_one_process_and_shares_are_even(size: int, batches: int) -> None:
    data = Source(few_batches(batches))
    shares = [fetch(data, range(batches), World(rank, size)) for rank in range(size)]
    owners = [sum(share[place].batch is not None for share in shares) for place in range(batches)]
    assert owners == [1] * batches
    counts = [sum(part.batch is not None for part in share) for share in shares]
    assert max(counts) - min(counts) <= 1


# Batches that other processes make


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Return the processes that the test starts."""
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(prefetching.subprocess, "Popen", Noted)
    return started


def assert_same(step: list[MicroBatch], expected: list[MicroBatch]) -> None:
    for (size, batch), (expected_size, expected_batch) in zip(step, expected, strict=True):
        assert (batch is None) == (expected_batch is None)
        pairs = [(size, expected_size), *([] if batch is None else [(batch, expected_batch)])]
        for value, expected_value in pairs:
            for name, part in vars(value).items():
                wanted = getattr(expected_value, name)
                assert torch.equal(part, wanted) if isinstance(part, Tensor) else part == wanted, name


@pytest.mark.parametrize("binned", [False, True])
def test_processes_make_the_batches_of_this_process_in_order(
    binned: bool, helpers: list[subprocess.Popen[bytes]]
) -> None:
    source, world = Source(few_batches(5)), World(1, 2)
    source = BinnedBatches(source, choose_shape(source)) if binned else source
    steps = [[number % 5, (number + 2) % 5] for number in range(7)]
    made = [*fetch_in_processes(source, steps, world, 2)]
    assert len(made) == 7 and len(helpers) == 2
    for step, micro_batches in zip(steps, made, strict=True):
        assert_same(micro_batches, fetch(source, step, world))
    assert all(helper.returncode is not None for helper in helpers)


@dataclass
class Damaged(Source):
    """Its batch 3 cannot be read."""

    def batch(self, indices: int) -> Batch:
        if indices == 3:
            raise DataError("row 7 is damaged")
        return super().batch(indices)


def test_an_error_of_another_process_is_raised_at_its_step(helpers: list[subprocess.Popen[bytes]]) -> None:
    steps = fetch_in_processes(Damaged(few_batches()), [[0], [1], [3], [4], [0]], ALONE, 2)
    assert [len(next(steps)), len(next(steps))] == [1, 1]
    with pytest.raises(DataError, match="row 7 is damaged"):
        next(steps)
    assert len(helpers) == 2 and all(helper.returncode is not None for helper in helpers)


def test_a_process_that_is_killed_interrupts_the_run(helpers: list[subprocess.Popen[bytes]]) -> None:
    steps = fetch_in_processes(Source(few_batches()), [[number % 5] for number in range(9)], ALONE, 1)
    next(steps)
    if sys.platform != "win32":
        assert os.getpgid(helpers[0].pid) != os.getpgid(0), "a Ctrl-C would reach it"
    helpers[0].kill()
    with pytest.raises(Interrupted, match=r"has ended .* continues from the last checkpoint"):
        for _ in steps:
            pass


SCRIPT = """
import os, signal
from small import Source, few_batches
from dragoman.training import prefetching
from dragoman.training.distributed import ALONE

start = prefetching.subprocess.Popen
def noted(*arguments, **options):
    helper = start(*arguments, **options)
    print(helper.pid, flush=True)
    return helper
prefetching.subprocess.Popen = noted
for number, _ in enumerate(prefetching.fetch_in_processes(Source(few_batches()), [[0]] * 99, ALONE, 2)):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    started = [int(number) for number in done.stdout.split()]
    assert len(started) == 2, "the script itself runs once"
    deadline = time.monotonic() + 60
    while any(map(is_running, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, started))
    assert "Traceback" not in done.stderr


def is_running(process: int) -> bool:
    """Return True unless the process has ended, also if nobody has waited for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def varied_batches(folder: Path) -> VariedBatches:
    pairs = [(f"Tom saw {number} cats.", f"Tom ha visto {number} gatti.") for number in range(90)]
    settings = TokenizerSettings(kind="bpe", vocabulary_size=350, minimum_frequency=1, joint=True)
    tokenizers = learn_tokenizers(lambda: pairs, settings)
    names = Names(Truecaser(["saw", "cats"], "en"), "en")
    order = Batches(encode_corpus(pairs, tokenizers, folder, linked=True), 100, 64, seed=1)
    find_copies = partial(shared_spans, names=names)
    return VariedBatches(order, tokenizers, find_copies, joined=0.3, rough=0.2, protected=0.4)


def test_steps_that_processes_prepare_are_those_of_the_loop(
    tmp_path: Path, helpers: list[subprocess.Popen[bytes]]
) -> None:
    batches, settings = varied_batches(tmp_path / "corpus"), train_settings(steps=12, accumulate=2)
    state = fresh_state(translator(dtype=torch.float32), settings)
    state.step, state.epoch, state.batch = 2, 0, 4
    in_loop, prepared = ([*prefetch(prepare_steps(batches, settings, state, ALONE, count))] for count in (0, 2))
    assert len(in_loop) == 10 and len(helpers) == 2
    for (micro_batches, *place), (expected, *expected_place) in zip(prepared, in_loop, strict=True):
        assert place == expected_place
        assert_same(micro_batches, expected)
    with closing(prefetch(prepare_steps(batches, settings, state, ALONE, 1))) as steps:
        next(steps)
    assert len(helpers) == 3 and all(helper.returncode is not None for helper in helpers)


def test_a_processor_prepares_batches_itself(tmp_path: Path, helpers: list[subprocess.Popen[bytes]]) -> None:
    batches, settings = varied_batches(tmp_path / "corpus"), train_settings(steps=3)
    state = fresh_state(translator(dtype=torch.float32), settings)
    assert len([*prepare_steps(batches, settings, state, ALONE)]) == 3 and helpers == []


@pytest.mark.parametrize(
    ("cores", "here", "processes"),
    [(1, 1, 0), (2, 1, 0), (3, 1, 1), (8, 1, 4), (16, 1, 8), (64, 1, 8), (64, 8, 4), (16, 8, 0)],
)
def test_half_of_the_cores_make_batches(cores: int, here: int, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "cores", lambda: cores)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    assert count_processes() == processes
