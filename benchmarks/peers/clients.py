"""Clients of an HTTP server in one process: they keep connections alive and take little of the machine themselves."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

LOST = 0
"""The status of an answer that never came."""
PATIENCE_SECONDS = 60.0
"""How long clients wait for an answer."""
STAY_SECONDS, AWAY_SECONDS = 0.05, 0.5
"""How long a client that vanishes waits for an answer, and how long until another comes, in the mean."""


class Answer(NamedTuple):
    """What became of one request."""

    began: float
    """By `time.perf_counter`."""
    seconds: float
    status: int
    body: bytes = b""


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self) -> None:
        self._came = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: Any = None
        self.open = False

    @classmethod
    async def to(cls, port: int) -> "Connection":
        """A new connection to a server on this machine."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.open = transport, True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answer and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed before the answer"))

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, end, rest = self._came.partition(b"\r\n\r\n")
        if not end or self._answer is None or self._answer.done():
            return
        fields = head.lower()
        if len(rest) >= int(fields.split(b"\r\ncontent-length:", 1)[1].partition(b"\r\n")[0]):
            self._came = b""
            self.open = b"\r\nconnection: close" not in fields
            self._answer.set_result((int(head[9:12]), rest))

    async def ask(self, request: bytes, since: float | None = None, patience: float = PATIENCE_SECONDS) -> Answer:
        """Sends a request and waits for its answer, timed from `since` or from now."""
        began, loop = since or time.perf_counter(), asyncio.get_running_loop()
        self._answer = loop.create_future()
        end = loop.call_later(patience, self.leave)
        self._transport.write(request)
        try:
            status, body = await self._answer
        except OSError:
            status, body = LOST, b""
        finally:
            end.cancel()
        return Answer(began, time.perf_counter() - began, status, body)

    def leave(self) -> None:
        """Closes the connection at once, also in the middle of a request."""
        self.open = False
        self._transport.abort()


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """A request as it goes over the wire."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def translation(text: str | Sequence[str], source: str, target: str, **others: object) -> bytes:
    """A request for a translation in LibreTranslate's format."""
    asked = {"q": text, "source": source, "target": target, **others}
    return post("/translate", json.dumps(asked, ensure_ascii=False).encode())


async def closed_loop(port: int, requests: Iterator[bytes], clients: int, going: Callable[[], bool]) -> list[Answer]:
    """Clients that each wait for an answer before they ask again."""

    async def client() -> None:
        connection = await Connection.to(port)
        while going():
            if not connection.open:
                connection = await Connection.to(port)
            answers.append(await connection.ask(next(requests)))
        connection.leave()

    answers: list[Answer] = []
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return answers


async def open_loop(
    port: int, requests: Iterator[bytes], rate: float, seconds: float, chance: random.Random
) -> list[Answer]:
    """Requests that arrive at random moments, so many a second, whether or not earlier ones are answered."""

    async def request(due: float) -> None:
        try:
            connection = idle.pop() if idle else await Connection.to(port)
        except OSError:
            answers.append(Answer(due, time.perf_counter() - due, LOST))
            return
        answers.append(await connection.ask(next(requests), due))
        if connection.open:
            idle.append(connection)

    answers: list[Answer] = []
    idle: list[Connection] = []
    begin = due = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        while (due := due + chance.expovariate(rate)) < begin + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(request(due))
    for connection in idle:
        connection.leave()
    return answers


async def vanishing(
    port: int, requests: Iterator[bytes], clients: int, going: Callable[[], bool], chance: random.Random
) -> int:
    """Clients that close their connection a moment after they have asked; returns how often they did."""

    async def client() -> None:
        nonlocal count
        while going():
            connection = await Connection.to(port)
            with suppress(TimeoutError):
                async with asyncio.timeout(chance.expovariate(1 / STAY_SECONDS)):
                    await connection.ask(next(requests))
            connection.leave()
            count += 1
            await asyncio.sleep(chance.expovariate(1 / AWAY_SECONDS))

    count = 0
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return count
