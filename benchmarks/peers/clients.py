"""Clients of an HTTP server in one process, which keep connections alive and take little of the machine."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

LOST = 0
"""The status of an answer that never came."""
PATIENCE_SECONDS = 60.0
"""How long clients wait for an answer."""


class Answer(NamedTuple):
    """The outcome of one request."""

    began: float
    """By `time.perf_counter`."""
    seconds: float
    status: int
    body: bytes = b""


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: Any = None
        self.open = False

    @classmethod
    async def connect(cls, port: int) -> "Connection":
        """Connect to a server on this machine."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.open = transport, True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answer and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed before the answer"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end or self._answer is None or self._answer.done():
            return
        fields = head.lower()
        if len(rest) >= int(fields.split(b"\r\ncontent-length:", 1)[1].partition(b"\r\n")[0]):
            self._received = b""
            self.open = b"\r\nconnection: close" not in fields
            self._answer.set_result((int(head[9:12]), rest))

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer."""
        began, loop = time.perf_counter(), asyncio.get_running_loop()
        self._answer = loop.create_future()
        end = loop.call_later(PATIENCE_SECONDS, self.leave)
        self._transport.write(request)
        try:
            status, body = await self._answer
        except OSError:
            status, body = LOST, b""
        finally:
            end.cancel()
        return Answer(began, time.perf_counter() - began, status, body)

    def leave(self) -> None:
        """Close the connection at once, also in the middle of a request."""
        self.open = False
        self._transport.abort()


def translation(text: str | Sequence[str], source: str, target: str) -> bytes:
    """Return a request for a translation in LibreTranslate's format."""
    body = json.dumps({"q": text, "source": source, "target": target}, ensure_ascii=False).encode()
    head = "POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def closed_loop(port: int, requests: Iterator[bytes], clients: int, going: Callable[[], bool]) -> list[Answer]:
    """Return the answers to clients that wait for an answer before they ask again, while `going` returns True."""

    async def client() -> None:
        connection = await Connection.connect(port)
        while going():
            if not connection.open:
                connection = await Connection.connect(port)
            answers.append(await connection.ask(next(requests)))
        connection.leave()

    answers: list[Answer] = []
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return answers
