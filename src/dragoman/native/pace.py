"""How many threads a step of few rows pays for: found out while it works, because no result depends on it."""

import statistics

_TRIES = 5  # steps with each number of threads
_FEW = 8
"""Rows up to which threads may wait for each other longer than they compute."""
_SECONDS = 1.0
"""For so long, in seconds of steps, the fastest number of threads is kept. Other work on the machine comes and goes,
and a step whose threads wait for a processor takes many times as long.
"""


class Pace:
    """Lets steps of few rows take turns with 1, 2, 4 ... threads, up to `most`, keeps to the fastest for a while, and
    begins again.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._begin()

    def _begin(self) -> None:
        self._best = 1 if self.most == 1 else None
        self._left = _SECONDS
        self._seconds: dict[int, list[float]] = {
            count: [] for count in (*(1 << i for i in range(self.most.bit_length())), self.most)
        }

    def threads(self, rows: int) -> int:
        """With how many threads the next step of so many rows is computed."""
        if rows > _FEW:
            return self.most
        return self._best or min(self._seconds, key=lambda count: len(self._seconds[count]))

    def took(self, rows: int, threads: int, seconds: float) -> None:
        """Takes in the time of a step of so many rows with so many threads."""
        if rows > _FEW or self.most == 1:
            return
        if self._best is None:
            self._seconds[threads].append(seconds)
            if all(len(each) >= _TRIES for each in self._seconds.values()):
                self._best = min(self._seconds, key=lambda count: statistics.median(self._seconds[count]))
            return
        self._left -= seconds
        if self._left < 0:
            self._begin()
