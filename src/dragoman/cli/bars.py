"""Two ways to show progress: bars on a terminal, and elsewhere a plain line now and then."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Drawing
from rich.text import Text

from dragoman.cli.console import say, visible
from dragoman.progress import Advance

SECONDS_BETWEEN_LINES = 30.0
SECONDS_OF_RATE = 60.0


class Bars:
    """One bar for each piece of work in progress. The outermost bar stays on the screen when it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawing: Drawing | None = None

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        """See `dragoman.progress.Progress`."""
        inner = self._drawing is not None
        with self._drawn() as drawing:
            state = Count(total, unit)
            bar = drawing.add_task(escape(visible(label)), total=total, state=state)

            def advance(count: int = 1, **facts: str) -> None:
                state.add(count, facts)
                drawing.update(bar, advance=count)

            yield advance
            state.stop()
            if inner:
                drawing.remove_task(bar)

    @contextmanager
    def _drawn(self) -> Iterator[Drawing]:
        """The drawing in progress, or a new one for the outermost piece of work."""
        if self._drawing is not None:
            yield self._drawing
            return
        # Standard output is not redirected, because a result meant for a file must not end up on the screen.
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=16), CountColumn())
        try:
            with Drawing(*columns, console=self._console, redirect_stdout=False) as self._drawing:
                yield self._drawing
        finally:
            self._drawing = None


class CountColumn(ProgressColumn):
    """The words beside a bar."""

    def render(self, task: Task) -> Text:
        return Text(visible(str(task.fields["state"])), overflow="ellipsis", no_wrap=True)


class Lines:
    """A plain line every `SECONDS_BETWEEN_LINES`, and one when the outermost piece of work is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._depth = 0

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        """See `dragoman.progress.Progress`."""
        state = Count(total, unit)
        last = time.monotonic()

        def advance(count: int = 1, **facts: str) -> None:
            nonlocal last
            state.add(count, facts)
            if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                say(self._console, f"{label}: {state}")

        self._depth += 1
        try:
            yield advance
        finally:
            self._depth -= 1
        state.stop()
        if self._depth == 0:
            say(self._console, f"{label}: {state}")


class Count:
    """How far a piece of work is, in words."""

    def __init__(self, total: int | None, unit: str) -> None:
        self._total = total
        self._unit = unit
        self._done = 0
        self._facts: dict[str, str] = {}
        self._started = time.monotonic()
        self._stopped: float | None = None
        self._lately: deque[tuple[float, int]] = deque()

    def add(self, done: int, facts: dict[str, str]) -> None:
        self._done += done
        self._facts.update(facts)
        now = time.monotonic()
        if not self._lately or now - self._lately[-1][0] >= 1:
            self._lately.append((now, self._done))
        while len(self._lately) > 2 and now - self._lately[0][0] > SECONDS_OF_RATE:
            self._lately.popleft()

    def stop(self) -> None:
        self._stopped = time.monotonic()

    def __str__(self) -> str:
        facts = [f"{name.replace('_', ' ')} {value}" for name, value in self._facts.items()]
        return ", ".join([self._so_far(), *self._pace(), *facts])

    def _so_far(self) -> str:
        of = f" of {self._total:,}" if self._total is not None else ""
        one = (self._done if self._total is None else self._total) == 1
        return f"{self._done:,}{of} {self._unit.removesuffix('s') if one else self._unit}".rstrip()

    def _pace(self) -> list[str]:
        now = self._stopped or time.monotonic()
        rate = self._rate(now)
        if not rate:
            return [duration(now - self._started)]
        shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        pace = f"{shown} {self._unit or 'units'}/s"
        if self._total is None or self._done >= self._total or self._stopped:
            return [duration(now - self._started), pace]
        return [f"{duration((self._total - self._done) / rate)} left", pace]

    def _rate(self, now: float) -> float | None:
        """Units a second in the last minute. The first call does not count: it adds what was done before a resume."""
        if not self._lately or now - self._lately[0][0] < 1:
            return None
        since, before = self._lately[0]
        return (self._done - before) / (now - since)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
