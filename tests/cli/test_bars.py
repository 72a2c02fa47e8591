"""Progress of long work for a caller of Python: a bar on a terminal or in a notebook, and nothing elsewhere."""

import sys
import time
from collections.abc import Callable
from io import StringIO
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest
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

    noting = Noting()
    monkeypatch.setattr("dragoman.progress._bars", lambda: noting)
    make().translate(lines(3))
    assert tracked == ["translate"]
    make().translate(lines(3), progress=False)
    make().translate(lines(3), progress=silent)
    assert tracked == ["translate"]


@pytest.mark.parametrize("progress", [silent, dragoman.Bars()])
def test_a_progress_of_ones_own_is_used(progress: Progress) -> None:
    assert as_progress(progress) is progress
    assert as_progress(False) is silent
    assert isinstance(as_progress(True), dragoman.Bars)
