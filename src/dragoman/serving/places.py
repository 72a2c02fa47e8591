"""Fair shares of a server's places for active requests, and of connections without one. Used on the event loop."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.serving.limits import Refused

WAIT_SECONDS = 5.0
"""Time to wait for a turn or for models to load: some clients leave a service for half an hour after a single 503."""
Gone = asyncio.Future[None] | None


class Places:
    """Places for active requests, shared between clients.

    A client may hold at most the number of places that are then free: a single client gets half of them, and each of n
    clients one part in n + 1. A request without a place waits for its turn. The client with the fewest places is next;
    among equals, the one that has waited longest.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._held = Counter[str]()
        self._turns: dict[str, dict[asyncio.Future[None], int]] = {}
        """Waiting requests of each client in order, with the maximum number of places that the client may hold."""

    @asynccontextmanager
    async def place(self, client: str, most: int | None = None, leaving: Gone = None) -> AsyncIterator[None]:
        """Hold a place within the block, or refuse it after `WAIT_SECONDS` (503).

        The client holds at most `most` places. Once `leaving` is done, it waits no longer (499).
        """
        turn = asyncio.get_running_loop().create_future()
        self._turns.setdefault(client, {})[turn] = most or self._free + self._held.total()
        self._grant()
        try:
            if not turn.done():
                events = {turn, leaving or turn}
                await asyncio.wait(events, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                is_gone = leaving is not None and leaving.done()
                raise Refused(499 if is_gone else 503, "the server is busy; try again in a moment", 1)
            yield
        finally:
            if turn.done():
                self._held[client] -= 1
                self._free += 1
            else:
                del self._turns[client][turn]
            self._grant()

    def _grant(self) -> None:
        while ready := [
            client
            for client, turns in self._turns.items()
            if turns and self._held[client] < min(self._free, next(iter(turns.values())))
        ]:
            client = min(ready, key=self._held.__getitem__)
            turns = self._turns[client] = self._turns.pop(client)  # as the last of those with equally many places
            turn = next(iter(turns))
            del turns[turn]
            self._held[client] += 1
            self._free -= 1
            turn.set_result(None)
        self._turns = {client: turns for client, turns in self._turns.items() if turns}
        self._held = +self._held  # without zeros


class BoundedPool:
    """Connections of a kind, each with an owner.

    If there are too many, the owner with the most loses its oldest, so that an attacker displaces only itself. Those
    without an owner (`""`) are closed only if there are no others.
    """

    def __init__(self, most: int) -> None:
        self._most, self._owners = most, dict[asyncio.Transport, str]()

    def add(self, owner: str, connection: asyncio.Transport) -> None:
        """Add a connection; close one if the pool is full."""
        self._owners[connection] = owner
        if len(self._owners) > self._most:
            greediest = self._greediest()
            oldest = next(connection for connection, owner in self._owners.items() if owner == greediest)
            self.discard(oldest)
            oldest.abort()

    def discard(self, connection: asyncio.Transport) -> None:
        """Remove a connection, if it is in the pool."""
        self._owners.pop(connection, None)

    def is_closed_to(self, owner: str) -> bool:
        """Return True if the next connection of this owner would displace an older one."""
        return len(self._owners) >= self._most and self._greediest() == owner

    def _greediest(self) -> str:
        counts = Counter(owner for owner in self._owners.values() if owner)
        return counts.most_common(1)[0][0] if counts else ""
