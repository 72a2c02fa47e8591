"""Progress of long work for a caller of Python: a bar on a terminal or in a notebook, and nothing elsewhere."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress as Drawing
from small_translators import lines, make

import dragoman
from dragoman.cli import bars
from dragoman.progress import Progress, as_progress, silent


class Terminal(StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Open a terminal in the test itself, because pytest replaces standard error after the fixtures."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(2_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def test_long_work_has_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(bars, "PATIENCE", 0.01)
    with dragoman.Bars().track("train", 4, "steps") as advance:
        advance(2)
        wait_for(lambda: "train" in terminal.getvalue())
        advance(2)
    assert "4 of 4 steps" in terminal.getvalue()


def test_short_work_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with dragoman.Bars().track("train", 4, "steps") as advance:
        advance(4)
    assert terminal.getvalue() == ""


def test_a_pipe_gets_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    monkeypatch.setattr(bars, "SECONDS_BETWEEN_CELLS", 0.0)
    monkeypatch.setattr(sys, "stderr", StringIO())
    with dragoman.Bars().track("train", 4, "steps") as advance:
        advance(4)
    assert sys.stderr.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]


def test_a_notebook_has_one_line_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def display(content: dict[str, str], **_: Any) -> Any:
        shown.append(content["text/plain"])
        return SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=None))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    monkeypatch.setattr(bars, "SECONDS_BETWEEN_CELLS", 0.0)
    with dragoman.Bars().track("train", 4, "steps") as advance:
        advance(2, loss="3.1")
        advance(2)
    assert [line.partition(",")[0] for line in shown] == [
        "████████░░░░░░░░ train: 2 of 4 steps",
        "████████████████ train: 4 of 4 steps",
        "████████████████ train: 4 of 4 steps",
    ]


def test_threads_share_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    open_terminal(monkeypatch)
    monkeypatch.setattr(bars, "PATIENCE", 0.01)
    shared, barrier, ended = dragoman.Bars(), Barrier(4), list[int]()

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(20):
            with shared.track(f"work {number}", 10) as advance:
                advance(10)
        ended.append(number)

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == [0, 1, 2, 3]


def test_bars_are_the_default_and_an_argument_turns_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    tracked: list[str] = []

    class Noting(dragoman.Bars):
        def track(self, label: str, total: int | None = None, unit: str = "") -> Any:
            tracked.append(label)
            return silent.track(label, total, unit)

    open_terminal(monkeypatch)
    noting = Noting()
    monkeypatch.setattr("dragoman.progress._bars", lambda: noting)
    make().translate(lines(3))
    assert tracked == ["translate"]
    make().translate(lines(3), progress=False)
    make().translate(lines(3), progress=silent)
    assert tracked == ["translate"]


@pytest.mark.parametrize("progress", [silent, dragoman.Bars()])
def test_a_progress_of_ones_own_is_used(progress: Progress, monkeypatch: pytest.MonkeyPatch) -> None:
    open_terminal(monkeypatch)
    assert as_progress(progress) is progress
    assert as_progress(False) is silent
    assert isinstance(as_progress(True), dragoman.Bars)


# The cost of progress


@pytest.mark.parametrize("error", [None, type("WriteOnly", (), {"write": print})(), StringIO(), Terminal()])
def test_nothing_is_created_for_a_caller_who_sees_no_bar(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)  # which tests of the guide load
    monkeypatch.setattr(sys, "stderr", error)
    is_seen = isinstance(error, Terminal)
    assert (as_progress(True) is silent) != is_seen
    shared = dragoman.Bars()
    with shared.track("train", 4, "steps") as advance:
        advance(4, loss="3.1")
        assert (shared._drawing is not None) == is_seen


def test_a_variable_hides_bars_also_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    open_terminal(monkeypatch)
    assert as_progress(True) is not silent
    monkeypatch.setitem(sys.modules, "IPython", sys)
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    assert as_progress(True) is silent


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_caller_who_sees_no_bar_does_not_load_rich(is_closed: bool) -> None:
    code = f"""
import sys
from dragoman.progress import as_progress
if {is_closed}:
    sys.stderr.close()
with as_progress(True).track("train", 4, "steps") as advance:
    advance(4, loss="3.1")
sys.exit("rich" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.PIPE)


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_sampled_ten_times_a_second_and_its_amount_is_exact(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, output, updates = Clock(), StringIO(), list[float]()
    monkeypatch.setattr("rich.progress.Progress.update", lambda *_, **__: updates.append(clock.now))
    screen = Console(file=output, force_terminal=is_terminal, width=200, get_time=clock)
    shared = dragoman.Bars(screen)
    with shared.track("count", 10_000, "lines") as advance:
        assert shared._drawing is not None
        (task,) = shared._drawing.tasks
        for number in range(10_000):
            clock.now = 100 + (number + 1) / 10_000
            advance(1, last=str(number))
            assert task.completed == number + 1 and task.fields["facts"] == {"last": str(number)}
    assert len(updates) + len(task.fields["samples"]) <= 12
    assert "10,000 of 10,000 lines, 0:00:01, 10,000 lines/s, last 9999" in output.getvalue()


def test_a_bar_shows_what_was_done_shortly_before_a_pause() -> None:
    clock, output = Clock(), StringIO()
    shared = dragoman.Bars(Console(file=output, force_terminal=True, width=200, get_time=clock))
    with shared.track("translate", 1_000, "lines") as advance:
        for _ in range(2):
            clock.now += 10
            for _ in range(100):
                advance()
        assert shared._drawing is not None
        shown = list[str]()
        for _ in range(3):
            shown.append(bars.state_of(shared._drawing.tasks[0]))
            clock.now += 1
    assert shown == [f"200 of 1,000 lines, 0:01:{seconds} left, 10 lines/s" for seconds in (20, 19, 18)]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_amount_is_exact_however_the_work_ends(is_terminal: bool) -> None:
    output = StringIO()
    shared = dragoman.Bars(Console(file=output, force_terminal=is_terminal, width=200, get_time=Clock()))
    with suppress(KeyError), shared.track("outer", 10, "steps") as advance:
        with shared.track("inner", 5, "steps") as advance_inner:
            advance_inner(2)
            advance_inner(1)
        advance(3)
        advance(4)
        if is_terminal:
            raise KeyError
    assert "outer" in output.getvalue() and "7 of 10 steps, 0:00:00" in output.getvalue().split("outer")[-1]


@given(st.lists(st.tuples(st.floats(0.2, 60.0), st.integers(0, 5)), max_size=60))
def test_the_rate_of_slow_work_is_that_of_rich(steps: list[tuple[float, int]]) -> None:
    clock = Clock()
    screen = Console(file=StringIO(), force_terminal=False, get_time=clock)
    drawing = Drawing(console=screen, disable=True, speed_estimate_period=bars.SECONDS_OF_RATE)
    number, shared = drawing.add_task("train", total=100), dragoman.Bars(screen)
    with shared.track("train", 100, "steps") as advance:
        assert shared._drawing is not None
        for seconds, count in steps:
            clock.now += seconds
            drawing.update(number, advance=count)
            advance(count)
            if not count:
                continue  # rich then forgets old samples, and has no rate
            rate, left = drawing.tasks[0].speed, drawing.tasks[0].time_remaining
            state = bars.parts_of(shared._drawing.tasks[0])
            if clock.now >= 101 and rate:
                assert state[2] == (f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s")
                assert not left or state[1] == f"{bars.duration(max(1.0, left))} left"
            else:
                assert len(state) == 2
