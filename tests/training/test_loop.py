"""The training loop: resumed = uninterrupted, cut = whole, and what it does with numbers that are none."""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import (
    Source,
    batch_of,
    few_batches,
    fresh_state,
    language_model,
    objective,
    random_batch,
    run_steps,
    sentences,
    train_settings,
    translator,
)
from torch import Tensor, nn

from dragoman.data.batching import Batch
from dragoman.errors import DataError, Diverged, OutOfMemory
from dragoman.model.dropout import StepKey
from dragoman.training.checkpoint import TrainState
from dragoman.training.loop import Every, StepReport, Trainer
from dragoman.training.objective import CrossEntropy, mean_loss
from dragoman.training.settings import TrainSettings

FLOAT = torch.float32
RATES: dict[str, Any] = {"dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1}


def model_for(settings: TrainSettings) -> tuple[nn.Module, TrainState]:
    model = translator(dtype=FLOAT, **RATES)
    return model, fresh_state(model, settings)


def test_a_head_learns_the_links_of_its_batches() -> None:
    links = torch.tensor([-1, 1, 2, 3, -1, 2, -1, 1, 1, 3, 3, 2])
    batch, settings = replace(random_batch([3, 5, 2], [3, 1, 5]), links=links), train_settings(steps=40)
    assert len(links) == batch.size.target_tokens
    losses = {}
    for weight in (0.0, 1.0):
        model = translator(dtype=FLOAT, dropout=0.0, alignment_head=(0, 2))
        state = fresh_state(model, settings)
        run_steps(model, CrossEntropy(Source([batch]), alignment_weight=weight), settings, state)
        loss = CrossEntropy(Source([batch]), alignment_weight=1.0).loss(model, batch, StepKey(1, 1))
        assert loss.alignment is not None
        losses[weight] = loss.alignment.item() / 9
    assert losses[1.0] < 0.5 < 1.0 < losses[0.0]


def copied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in weights.items()}


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("ideas", [{}, {"optimiser": "muon"}], ids=["plain", "muon"])
@pytest.mark.parametrize("stopped", [1, 4, 5, 9])
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(precision: str, stopped: int, ideas: dict[str, Any]) -> None:
    settings = train_settings(steps=10, precision=precision, accumulate=2, ema=0.5, **ideas)
    data = Source(few_batches(5))
    model, whole = model_for(settings)
    run_steps(model, objective(data, settings), settings, whole)

    first_model, first = model_for(settings)
    run_steps(first_model, objective(data, settings), settings, first, stop=lambda: first.step == stopped)
    assert first.step == stopped
    model, second = model_for(settings)
    second.masters.restore(copied(first.masters.weights), copied(first.masters.state()))
    second.average = None if first.average is None else first.average.clone()
    for name, count in first.counts().items():
        setattr(second, name, count)
    run_steps(model, objective(data, settings), settings, second)

    assert second.counts() == whole.counts()
    assert sorted(second.averages) == sorted(whole.averages) != []
    for name, weight in whole.masters.weights.items():
        assert torch.equal(weight, second.masters.weights[name]), name
        assert torch.equal(whole.averages[name], second.averages[name]), name


@pytest.mark.parametrize("family", [translator, language_model])
def test_a_step_cut_into_micro_batches_is_the_same_step(family) -> None:
    sources, targets = sentences([3, 5, 2, 4]), sentences([4, 1, 6, 2], seed=1)
    given = sources if family is translator else None

    def cut(first: int, last: int) -> Batch:
        return batch_of(given[first:last] if given else None, targets[first:last])

    weights = []
    for batches in ([cut(0, 4)], [cut(0, 1), cut(1, 4)]):
        model = family(**RATES)  # double precision, so that the masters are the weights themselves
        settings = train_settings(steps=1, accumulate=len(batches))
        state = fresh_state(model, settings)
        run_steps(model, objective(InOrder(batches), settings), settings, state)
        weights.append(state.masters.weights)
    assert_close(weights[0], weights[1])


class InOrder(Source):
    def epoch(self, number: int) -> list[int]:
        return list(range(len(self.batches)))


def test_a_run_ends_after_exactly_its_steps_and_goes_through_every_epoch_in_order() -> None:
    @dataclass
    class Watched(Source):
        epochs: list[int] = field(default_factory=list)
        taken: list[int] = field(default_factory=list)

        def epoch(self, number: int) -> list[int]:
            self.epochs.append(number)
            return super().epoch(number)

        def batch(self, indices: int) -> Batch:
            self.taken.append(indices)
            return super().batch(indices)

    settings, data = train_settings(steps=4, accumulate=2), Watched(few_batches(3))
    model, state = model_for(settings)
    run_steps(model, objective(data, settings), settings, state)
    expected = [i for number in range(3) for i in Source.epoch(data, number)][:8]
    assert data.taken == expected
    assert (state.step, state.epoch, state.batch) == (4, 2, 2)
    assert state.tokens == sum(data.batches[i].size.tokens for i in expected)
    run_steps(model, objective(data, settings), settings, state)
    assert state.step == 4 and len(data.taken) == 8, "a finished run does nothing more"


def test_the_loss_of_a_report_is_that_of_its_batches() -> None:
    settings, batches = train_settings(steps=1, accumulate=2, label_smoothing=0.0), few_batches(2)
    model = translator(dtype=FLOAT, dropout=0.0)
    expected, reports = mean_loss(model, batches), []
    run_steps(
        model,
        objective(Source(batches), settings),
        settings,
        fresh_state(model, settings),
        log=reports.append,
    )
    [report] = reports
    assert report.loss == report.plain_loss == pytest.approx(expected, rel=1e-5)
    assert report.step == 1 and report.rate == pytest.approx(0.005) and math.isfinite(report.norm)
    assert report.tokens == sum(batch.size.tokens for batch in batches)


def poison(model: Any, steps: set[int], state: TrainState) -> None:
    """Makes the gradient of these steps infinite."""
    model.output.register_hook(lambda gradient: gradient * math.inf if state.step in steps else gradient)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_step_whose_gradient_is_not_finite_is_skipped_and_counted(precision: str) -> None:
    settings = train_settings(steps=6, precision=precision)
    model, state = model_for(settings)
    poison(model, {2, 3}, state)
    seen: list[tuple[int, dict[str, Tensor]]] = []
    watch = (Every(1), lambda s: seen.append((s.step, copied(s.masters.weights))))
    run_steps(model, objective(Source(few_batches()), settings), settings, state, [watch])
    assert (state.step, state.skipped, state.skipped_in_a_row) == (6, 2, 0)
    after = dict(seen)
    for name, weight in state.masters.weights.items():
        assert torch.equal(after[1][name], after[3][name]), name
        assert weight.isfinite().all()
    assert any(not torch.equal(after[3][name], after[4][name]) for name in after[3])


def test_ten_such_steps_in_a_row_end_the_run_with_advice() -> None:
    settings = train_settings(steps=30)
    model, state = model_for(settings)
    poison(model, {1} | set(range(3, 30)), state)
    with pytest.raises(
        Diverged, match=r"10 steps in a row .* \(the last was step 12\); lower train.learning_rate"
    ) as caught:
        run_steps(model, objective(Source(few_batches()), settings), settings, state)
    assert caught.value.exit_code == 5
    assert (state.skipped, state.skipped_in_a_row) == (11, 10)


def test_a_batch_that_does_not_fit_says_what_to_lower() -> None:
    class Full(nn.Module):
        output = torch.zeros(5, 4)

        def forward(self, *_: object, **__: object) -> Tensor:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    settings = train_settings(steps=1)
    _, state = model_for(settings)
    with pytest.raises(
        OutOfMemory, match="a step of 14 target tokens does not fit in memory; lower batches.batch_tokens"
    ):
        run_steps(Full(), objective(Source(few_batches(1)), settings), settings, state)


@pytest.mark.parametrize("message", ["shapes cannot be multiplied", "an illegal memory access was encountered"])
def test_our_own_mistakes_keep_their_name(message: str) -> None:
    class Broken(nn.Module):
        output = torch.zeros(5, 4)

        def forward(self, *_: object, **__: object) -> Tensor:
            raise RuntimeError(message)

    settings = train_settings(steps=1)
    _, state = model_for(settings)
    with pytest.raises(RuntimeError, match=message):
        run_steps(Broken(), objective(Source(few_batches(1)), settings), settings, state)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [0.0]
    monkeypatch.setattr("dragoman.training.loop.time.monotonic", lambda: now[0])
    return now  # pyright: ignore[reportReturnType]


def test_callbacks_are_due_by_steps_by_minutes_and_at_the_end(clock: list[float]) -> None:
    assert [step for step in range(1, 11) if Every(steps=4).is_due(step, 10, 0.0)] == [4, 8]
    assert [step for step in range(1, 11) if Every(steps=4, at_end=True).is_due(step, 10, 0.0)] == [4, 8, 10]
    assert not Every().is_due(10, 10, 0.0)
    clock[0] = 119.0
    assert not Every(minutes=2).is_due(3, 10, 0.0)
    clock[0] = 120.0
    assert Every(minutes=2).is_due(3, 10, 0.0)


def test_minutes_count_from_when_a_callback_was_last_called(clock: list[float]) -> None:
    settings, done = train_settings(steps=9), []

    def tick(_: TrainState) -> None:
        clock[0] += 30

    model, state = model_for(settings)
    callbacks = [(Every(steps=1), tick), (Every(minutes=1.5), lambda s: done.append(s.step))]
    run_steps(model, objective(Source(few_batches()), settings), settings, state, callbacks)
    assert done == [3, 6, 9]


def test_the_average_remembers_a_share_of_the_run_however_long_it_is() -> None:
    """Weights that grow by one a step show the mean age of what is remembered."""
    for steps, share in ((300, 0.1), (3_000, 0.1), (3_000, 0.02), (50, 1.0)):
        state = fresh_state(nn.Linear(1, 1, bias=False), train_settings())
        for state.step in range(1, steps + 1):
            state.masters.weights["weight"].data.fill_(state.step)
            state.average_in(share)
        age = steps - state.weights["weight"].item()
        assert age == pytest.approx(share * steps / (1 + share), rel=0.02, abs=1.0), (steps, share)


def test_an_average_that_remembers_one_step_is_the_weights() -> None:
    settings = train_settings(steps=4, ema=0.25)
    model, state = model_for(settings)
    run_steps(model, objective(Source(few_batches()), settings), settings, state)
    assert all(state.weights[name].data_ptr() == average.data_ptr() for name, average in state.averages.items())
    for name, weight in state.masters.weights.items():
        torch.testing.assert_close(state.averages[name], weight)


def test_mean_loss_knows_no_dropout_and_weighs_tokens_alike() -> None:
    model = translator(dropout=0.5)
    one, two = random_batch([3], [2]), random_batch([4, 4], [7, 9], seed=3)
    together = (mean_loss(model, [one]) * 3 + mean_loss(model, [two]) * 18) / 21
    assert mean_loss(model, [one, two]) == pytest.approx(together, rel=1e-12)


def test_training_leaves_nothing_in_the_folder_it_runs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = train_settings(steps=2)
    model, state = model_for(settings)
    run_steps(model, objective(Source(few_batches()), settings), settings, state)
    assert list(tmp_path.iterdir()) == []


def test_the_average_moves_by_one_over_the_steps_that_it_remembers() -> None:
    state = fresh_state(nn.Linear(1, 1, bias=False), train_settings())
    average = None
    for state.step in range(1, 9):
        weight = float(state.step**2)
        state.masters.weights["weight"].data.fill_(weight)
        state.average_in(0.5)
        average = weight if average is None else average + (weight - average) * min(1.0, 1 / (0.5 * state.step))
        assert state.averages["weight"].item() == pytest.approx(average), state.step


# Batches that are prepared ahead


@pytest.fixture
def asynchronous(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop takes the processor for a device that computes while the host goes on."""
    monkeypatch.setattr("dragoman.training.loop.is_asynchronous", lambda _: True)


EARLIER: set[threading.Thread] = set()
"""Threads that other tests have left."""


@pytest.fixture(autouse=True)
def earlier_threads() -> None:
    EARLIER.clear()
    EARLIER.update(threading.enumerate())


def threads() -> list[str]:
    """The threads that the test has started and that are alive."""
    return [thread.name for thread in threading.enumerate() if thread not in EARLIER]


@pytest.mark.parametrize("stopped", [3, 8])
def test_batches_made_ahead_train_to_the_bytes_of_batches_made_in_place(
    stopped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, found = train_settings(steps=8, accumulate=2), []
    for runs_ahead in (False, True):
        monkeypatch.setattr("dragoman.training.loop.is_asynchronous", lambda _, runs_ahead=runs_ahead: runs_ahead)
        model, state = model_for(settings)
        data = objective(Source(few_batches(5)), settings)
        run_steps(model, data, settings, state, stop=lambda state=state: state.step == stopped)
        found.append((state.counts(), state.masters.flat.clone()))
    assert found[0][0] == found[1][0] and found[0][0]["step"] == stopped
    assert torch.equal(found[0][1], found[1][1])


@dataclass
class Broken(Source):
    """The batch of step 4 cannot be made."""

    error: BaseException = field(default_factory=MemoryError)
    made: int = 0

    def batch(self, indices: int) -> Batch:
        self.made += 1
        if self.made == 4:
            raise self.error
        return super().batch(indices)


@pytest.mark.usefixtures("asynchronous")
@pytest.mark.parametrize("error", [DataError("row 7 is damaged"), OutOfMemory("no room"), KeyError("pairs")])
def test_an_error_in_making_a_batch_is_raised_at_its_step(error: Exception) -> None:
    settings, told = train_settings(steps=9), []
    model, state = model_for(settings)
    with pytest.raises(type(error)) as caught:
        run_steps(
            *(model, objective(Broken(few_batches(5), error), settings), settings, state),
            log=lambda report: told.append(report.step),
        )
    assert caught.value is error
    assert told == [1, 2] and (state.step, state.batch) == (3, 3)
    assert threads() == []


def raises(error: BaseException) -> Any:
    raise error


@pytest.mark.usefixtures("asynchronous")
@pytest.mark.parametrize("end", [KeyboardInterrupt(), RuntimeError("shapes"), Diverged("far")])
def test_no_thread_outlives_the_loop(end: BaseException) -> None:
    settings = train_settings(steps=9)
    model, state = model_for(settings)
    seen: list[list[str]] = []

    def look(_: TrainState) -> None:
        seen.append(threads())
        if state.step == 5:
            raise end

    with pytest.raises(type(end)):
        run_steps(model, objective(Source(few_batches(5)), settings), settings, state, [(Every(1), look)])
    assert len(seen) == 5 and all(len(each) == 1 for each in seen) and threads() == []


# Steps that are read late


def order_of(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> str:
    """When steps are queued (q), read (r) and saved (s): every third and the last."""
    settings, events = train_settings(steps=7), list[str]()
    model, state = model_for(settings)
    with monkeypatch.context() as watch:
        step = Trainer.step
        watch.setattr(Trainer, "step", lambda *given: [step(*given), events.append(f"q{state.step}")][0])
        run_steps(
            *(model, objective(Source(few_batches()), settings), settings, state),
            [(Every(3, at_end=True), lambda state: events.append(f"s{state.step}"))],
            stop=lambda: state.step == stop_at,
            log=lambda report: events.append(f"r{report.step}"),
        )
    return " ".join(events)


def test_a_processors_step_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert order_of(monkeypatch) == "q1 r1 q2 r2 q3 r3 s3 q4 r4 q5 r5 q6 r6 s6 q7 r7 s7"


@pytest.mark.usefixtures("asynchronous")
def test_a_gpus_step_is_read_after_the_next_is_queued_but_before_a_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert order_of(monkeypatch) == "q1 q2 r1 q3 r2 r3 s3 q4 q5 r4 q6 r5 r6 s6 q7 r7 s7"
    assert order_of(monkeypatch, stop_at=5) == "q1 q2 r1 q3 r2 r3 s3 q4 q5 r4 r5"


def test_what_is_read_late_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, found = train_settings(steps=9, precision="bf16", ema=0.5), []
    for late in (False, True):
        monkeypatch.setattr("dragoman.training.loop.is_asynchronous", lambda _, late=late: late)
        model, state = model_for(settings)
        poison(model, {2, 3, 7}, state)
        told, saved = list[StepReport](), list[Any]()
        run_steps(
            *(model, objective(Source(few_batches()), settings), settings, state),
            [(Every(2), lambda state, saved=saved: saved.append((state.counts(), copied(state.weights))))],
            log=told.append,
        )
        lines = [str(report._replace(seconds=0.0, batches=[])) for report in told]
        found.append((lines, saved, state.counts(), state.masters.flat))
    assert found[0][0] == found[1][0] and len(found[0][0]) == 9
    assert found[0][2] == found[1][2] and found[0][2]["skipped"] == 3
    assert torch.equal(found[0][3], found[1][3])
    for (counts, weights), (other_counts, other_weights) in zip(found[0][1], found[1][1], strict=True):
        assert counts == other_counts
        assert all(torch.equal(weight, other_weights[name]) for name, weight in weights.items())


@pytest.mark.usefixtures("asynchronous")
def test_ten_skipped_steps_that_are_read_late_end_the_run_one_step_later() -> None:
    settings, told = train_settings(steps=30), list[StepReport]()
    model, state = model_for(settings)
    poison(model, set(range(3, 30)), state)
    with pytest.raises(Diverged, match=r"10 steps in a row .* \(the last was step 12\)"):
        run_steps(model, objective(Source(few_batches()), settings), settings, state, log=told.append)
    assert (state.step, state.skipped, state.skipped_in_a_row) == (13, 10, 10)
    assert [report.step for report in told if report.is_skipped] == list(range(3, 13))
    assert threads() == []
