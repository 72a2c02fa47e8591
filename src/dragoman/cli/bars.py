"""How far long work is: bars on a terminal, and elsewhere a plain line now and then."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Drawing
from rich.text import Text

from dragoman.cli.console import say, visible
from dragoman.progress import Advance

SECONDS_BETWEEN_LINES = 30.0
SECONDS_OF_RATE = 120.0
"""Window over which the rate is measured."""


class Bars:
    """On a terminal one bar for each piece of work in progress; the outermost stays when it is done. Elsewhere a line
    every `SECONDS_BETWEEN_LINES`, and one when the outermost piece of work is done.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawing: Drawing | None = None

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        """See `dragoman.progress.Progress`."""
        is_inner = self._drawing is not None
        with self._drawn() as drawing:
            number = drawing.add_task(visible(label), total=total, unit=unit, facts={})
            task = drawing.tasks[-1]
            last = self._console.get_time()

            def advance(count: int = 1, **facts: str) -> None:
                nonlocal last
                task.fields["facts"].update(facts)
                drawing.update(number, advance=count)
                if drawing.disable and self._console.get_time() - last >= SECONDS_BETWEEN_LINES:
                    last = self._console.get_time()
                    say(self._console, f"{label}: {state_of(task)}")

            yield advance
            drawing.stop_task(number)
            if is_inner:
                drawing.remove_task(number)
            elif drawing.disable:
                say(self._console, f"{label}: {state_of(task)}")

    @contextmanager
    def _drawn(self) -> Iterator[Drawing]:
        """The drawing in progress, or a new one for the outermost piece of work. Without a terminal it only counts."""
        if self._drawing is not None:
            yield self._drawing
            return
        drawing = Drawing(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            StateColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            redirect_stdout=False,  # a result meant for a file must not end up on the screen
            speed_estimate_period=SECONDS_OF_RATE,
        )
        try:
            with drawing as self._drawing:
                yield drawing
        finally:
            self._drawing = None


class StateColumn(ProgressColumn):
    """The words beside a bar."""

    def render(self, task: Task) -> Text:
        return Text(visible(state_of(task)), overflow="ellipsis", no_wrap=True)


def state_of(task: Task) -> str:
    """How far a piece of work is, in words: what is done, the time left or taken, the rate, and its facts."""
    total, unit = task.total, task.fields["unit"]
    done = f"{task.completed:,.0f}" if total is None else f"{task.completed:,.0f} of {total:,.0f}"
    is_one = (task.completed if total is None else total) == 1
    seconds = task.elapsed or 0.0
    rate = task.speed if seconds >= 1 else None
    left = task.time_remaining if rate and task.stop_time is None else None
    state = [
        f"{done} {unit.removesuffix('s') if is_one else unit}".rstrip(),
        f"{duration(left)} left" if left else duration(seconds),
    ]
    if rate:
        state.append(f"{rate:,.0f} {unit or 'units'}/s" if rate >= 10 else f"{rate:.2g} {unit or 'units'}/s")
    return ", ".join([*state, *(f"{name.replace('_', ' ')} {fact}" for name, fact in task.fields["facts"].items())])


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
