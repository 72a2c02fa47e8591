"""How many threads a step of few rows pays for: found out while it works, because no result depends on it."""

import statistics

_TRIES = 5  # steps with each number of threads
_FEW = 8
"""Rows up to which threads may wait for each other longer than they compute."""


class Pace:
    """Lets the first steps of few rows take turns with 1, 2, 4 ... threads, up to `most`, and keeps to the fastest."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._best = 1 if most == 1 else None
        self._seconds: dict[int, list[float]] = {
            count: [] for count in (*(1 << i for i in range(most.bit_length())), most)
        }

    def threads(self, rows: int) -> int:
        """With how many threads the next step of so many rows is computed."""
        if rows > _FEW:
            return self.most
        return self._best or min(self._seconds, key=lambda count: len(self._seconds[count]))

    def wants_time(self, rows: int) -> bool:
        """Whether a step of so many rows is to be timed."""
        return self._best is None and rows <= _FEW

    def took(self, threads: int, seconds: float) -> None:
        """Takes in the time of a step."""
        self._seconds[threads].append(seconds)
        if all(len(each) >= _TRIES for each in self._seconds.values()):
            self._best = min(self._seconds, key=lambda count: statistics.median(self._seconds[count]))
