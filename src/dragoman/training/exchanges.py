"""The order of exchanges among processes: each has a number and a name, which must agree on all ranks.

A rank that waits writes down which exchanges it has begun. Whoever finds another name under the same number raises, so
that two exchanges in another order on one rank end the run instead of making it wait for ever.
"""

import json
import zlib
from collections import deque

from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage]

REMEMBERED = 100
"""Exchanges that a rank keeps until they are compared; ranks are only a few exchanges apart."""


class OutOfStep(RuntimeError):
    """Two ranks began different exchanges: a mistake in the order of our own calls."""


class Exchanges:
    """The exchanges that one rank has begun."""

    def __init__(self, rank: int, store: Store) -> None:
        self.rank, self.number, self.name = rank, 0, ""
        self.fingerprint = 0
        """Of all names so far, in their order: equal on two ranks that began the same exchanges."""
        self._store = store
        self._uncompared: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)

    def begin(self, name: str) -> None:
        """Gives an exchange the next number."""
        self.number, self.name = self.number + 1, name
        self.fingerprint = zlib.crc32(name.encode(), self.fingerprint)
        self._uncompared.append((self.number, name))

    def agree(self) -> None:
        """Forgets the exchanges so far, because all ranks have shown the same fingerprint of them."""
        self._uncompared.clear()

    def compare(self) -> None:
        """Compares each exchange so far with what another rank wrote down under its number, or writes it down.

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
        """Compares the present exchange with its name on rank `other`.

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
