"""The order of exchanges among processes: each has a number and a name, which must agree on all ranks.

A waiting rank records the exchanges that it has begun in the store. A rank that finds another name under the same
number raises. So a rank that swaps two exchanges ends the run, which would otherwise wait forever. Two swapped sums of
equal size do not make anyone wait: they are added up wrongly, and the run ends at the next `any`, which every step has.
"""

import json
import zlib
from collections import deque

from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage]

REMEMBERED = 100
"""Uncompared exchanges that a rank keeps; ranks are never more than a few exchanges apart."""


class OutOfStep(RuntimeError):
    """Two ranks began different exchanges: a bug in Dragoman."""


class Exchanges:
    """The exchanges that one rank has begun."""

    def __init__(self, rank: int, store: Store) -> None:
        self.rank, self.number, self.name = rank, 0, ""
        self.fingerprint = 0
        """A checksum of all names so far: equal on two ranks that began the same exchanges in the same order."""
        self._store = store
        self._uncompared: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)

    def begin(self, name: str) -> None:
        """Begins an exchange and gives it the next number."""
        self.number, self.name = self.number + 1, name
        self.fingerprint = zlib.crc32(name.encode(), self.fingerprint)
        self._uncompared.append((self.number, name))

    def agree(self) -> None:
        """Forgets the exchanges so far, because all ranks had the same fingerprint."""
        self._uncompared.clear()

    def compare(self) -> None:
        """Compares each exchange so far with the name that another rank recorded under its number, or records it.

        Raises:
            OutOfStep: another rank began another exchange under the same number.
        """
        while self._uncompared:
            number, name = self._uncompared[0]
            ours = json.dumps([self.rank, name])
            other, theirs = json.loads(self._store.compare_set(f"exchange {number}", "", ours))
            self._refuse_difference(number, name, theirs, other)
            self._uncompared.popleft()

    def expect(self, theirs: str, other: int) -> None:
        """Compares the current exchange with its name on rank `other`.

        Raises:
            OutOfStep: the names differ.
        """
        self._refuse_difference(self.number, self.name, theirs, other)

    def _refuse_difference(self, number: int, ours: str, theirs: str, other: int) -> None:
        if ours != theirs:
            raise OutOfStep(
                f"the processes of the run are out of step: exchange {number} is {ours} on rank {self.rank}, "
                f"but {theirs} on rank {other}"
            )
