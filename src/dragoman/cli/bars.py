"""Progress of long work: bars on a terminal or in a notebook, else a line at intervals from a command."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from math import ceil
from threading import Lock, Timer
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Drawing
from rich.text import Text

from dragoman import system
from dragoman.cli.console import say, visible
from dragoman.progress import Advance, ignore

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_CELLS = 0.5
SECONDS_BETWEEN_SAMPLES = 0.1
SECONDS_OF_RATE = 120.0
"""Window in which the rate is measured."""
PATIENCE = 1.0
"""Seconds of work before a caller of Python sees a bar."""
_WIDTH = 16


class Bars:
    """Progress bars: on a terminal one for each piece of work; the outermost stays when it is done.

    With the `console` of a command they begin at once. Without a terminal there is then a line every
    `SECONDS_BETWEEN_LINES`, and one when the outermost piece of work is done. Without a `console` they are for a caller
    of Python: only for work that takes longer than `PATIENCE`, also in a notebook, and nothing elsewhere.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=system.rank() > 0)
        self._of_command = console is not None
        self._notebook_line = NotebookLine()
        self._drawing: Drawing | None = None
        self._lock = Lock()  # concurrent threads share one drawing

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        """Track a piece of work; see `dragoman.progress.Progress`."""
        if not (self._of_command or self._console.is_terminal or self._console.is_jupyter):
            yield ignore
            return
        with self._lock:
            is_inner = self._drawing is not None
            drawing = self._drawing = self._drawing or self._new_drawing()
        with nullcontext() if is_inner else self._shown(drawing):
            samples: list[tuple[float, float]] = []  # time, and amount done by then
            number = drawing.add_task(visible(label), total=total, unit=unit, facts={}, samples=samples)
            task = next(task for task in drawing.tasks if task.id == number)
            pause = SECONDS_BETWEEN_LINES if self._of_command else SECONDS_BETWEEN_CELLS
            last = latest = next_sample = drawing.get_time()

            def advance(count: int = 1, **facts: str) -> None:
                nonlocal last, latest, next_sample
                task.completed += count  # rich reads this whenever it redraws the bar
                if facts:
                    task.fields["facts"].update(facts)
                latest = drawing.get_time()
                if latest >= next_sample:
                    next_sample = latest + min(pause, SECONDS_BETWEEN_SAMPLES)
                    if count:
                        samples.append((latest, task.completed))
                        while samples[0][0] < latest - SECONDS_OF_RATE:
                            del samples[0]
                    if drawing.disable and latest - last >= pause:
                        last = latest
                        self._report(label, task)

            yield advance
            if samples and task.completed > samples[-1][1]:
                samples.append((latest, task.completed))
            drawing.stop_task(number)
            if is_inner:
                drawing.remove_task(number)
            elif drawing.disable:
                self._report(label, task)

    def _new_drawing(self) -> Drawing:
        """Create the drawing. Without a terminal it only counts."""
        self._notebook_line = NotebookLine()
        return Drawing(
            TextColumn("{task.description}", markup=False),
            *[BarColumn(bar_width=_WIDTH)] * (self._console.width >= 60),  # on a narrower one, words take its place
            StateColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            redirect_stdout=False,  # a result meant for a file must not end up on the screen
            refresh_per_second=5,  # drawing takes more than a millisecond
        )

    @contextmanager
    def _shown(self, drawing: Drawing) -> Iterator[None]:
        begin = Timer(PATIENCE, drawing.start)
        try:
            if self._of_command or drawing.disable:
                drawing.start()
            else:
                begin.start()
            yield
        finally:
            begin.cancel()
            if begin.is_alive():
                begin.join()
            if drawing.live.is_started:
                drawing.stop()
            self._drawing = None

    def _report(self, label: str, task: Task) -> None:
        """Write the state of a piece of work if no bar is drawn."""
        if self._of_command:
            say(self._console, f"{label}: {state_of(task)}")
        elif (task.elapsed or 0.0) >= PATIENCE:  # in a notebook
            self._notebook_line.write(f"{meter(task)}{label}: {state_of(task)}")


class NotebookLine:
    """A line below a cell of a notebook, which the next line replaces."""

    def __init__(self) -> None:
        self._handle: Any = None

    def write(self, line: str) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        content = {"text/plain": line}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def meter(task: Task) -> str:
    """Return a bar in letters; none if the total is unknown."""
    filled = round(task.percentage * _WIDTH / 100)
    return "" if task.total is None else "█" * filled + "░" * (_WIDTH - filled) + " "


class StateColumn(ProgressColumn):
    """The words next to a bar."""

    def render(self, task: Task) -> "State":
        return State(tuple(map(visible, parts_of(task))))


class State(NamedTuple):
    """The parts of a state in words. The last are left out if the terminal is narrow."""

    parts: tuple[str, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        texts = (", ".join(self.parts[:count]) for count in range(len(self.parts), 1, -1))
        fitting = (text for text in texts if cell_len(text) <= options.max_width)
        yield Text(next(fitting, self.parts[0]), overflow="ellipsis", no_wrap=True)


def state_of(task: Task) -> str:
    """Return the state of a piece of work in words."""
    return ", ".join(parts_of(task))


def parts_of(task: Task) -> list[str]:
    """Return the parts of a state: amount done, time left or taken, rate and facts."""
    total, unit = task.total, task.fields["unit"]
    done = f"{task.completed:,.0f}" if total is None else f"{task.completed:,.0f} of {total:,.0f}"
    is_one = (task.completed if total is None else total) == 1
    seconds = task.elapsed or 0.0
    samples = task.fields["samples"] or [(0.0, 0.0)]
    (start, before), (end, after) = samples[0], samples[-1]
    rate = (after - before) / (end - start) if end > start and seconds >= 1 else None
    remaining = task.remaining if rate and task.stop_time is None else None
    state = [
        f"{done} {re.sub('ies$', 'y', unit).removesuffix('s') if is_one else unit}".rstrip(),
        f"{duration(max(1.0, end + ceil(remaining / rate) - task.get_time()))} left"  # counted down between samples
        if rate and remaining and remaining > 0
        else duration(seconds) + (" so far" if task.stop_time is None else ""),
    ]
    if rate:
        state.append(f"{rate:,.0f} {unit or 'units'}/s" if rate >= 10 else f"{rate:.2g} {unit or 'units'}/s")
    return [*state, *(f"{name.replace('_', ' ')} {fact}" for name, fact in list(task.fields["facts"].items()))]


def duration(seconds: float) -> str:
    """Return hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
