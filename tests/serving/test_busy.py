"""A connection while as many requests are under way as the server takes."""

import asyncio
import json
import socket
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from dragoman.serving.listening import Connection, is_whole_post, listen
from dragoman.serving.server import Metrics
from dragoman.serving.service import Service

POST = (
    b'POST /translate HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"q": "a"}'
)
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)})
        self.sent = b""

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


def answers(*parts: bytes, places: int = 1, under_way: int = 1) -> tuple[bytes, bytes]:
    """What is answered to the parts of a request, and what the application saw of it; its own answer is 204."""
    seen = b""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal seen
        seen = (await receive())["body"]
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def converse() -> bytes:
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        config.load()
        state, wire = ServerState(), Wire()
        waiting = [asyncio.create_task(asyncio.Event().wait()) for _ in range(under_way)]
        state.tasks.update(waiting)  # pyright: ignore[reportArgumentType]
        known = {"places": places, "metrics": Metrics(Service([]))}
        connection = type("Known", (Connection,), known)(config, state, {})
        connection.connection_made(wire)
        for part in parts:
            connection.data_received(part)
        await asyncio.gather(*state.tasks.difference(waiting))
        connection.connection_lost(None)
        return wire.sent

    return asyncio.run(converse()), seen


def test_a_request_beyond_the_places_is_refused_before_the_application_sees_it() -> None:
    sent, seen = answers(POST)
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in head and not seen
    assert f"Content-Length: {len(body)}".encode() in head
    assert set(json.loads(body)) == {"error", "message"}


@pytest.mark.parametrize(
    ("parts", "places"),
    [((POST,), 2), ((POST[:40], POST[40:]), 1)],
    ids=["a place is free", "it comes in two parts"],
)
def test_other_requests_are_read(parts: tuple[bytes, ...], places: int) -> None:
    sent, seen = answers(*parts, places=places)
    assert sent.startswith(b"HTTP/1.1 204 ") and seen == b'{"q": "a"}'


def test_a_refused_connection_goes_on() -> None:
    assert answers(POST, POST)[0].count(b"HTTP/1.1 503 ") == 2


@pytest.mark.parametrize("data", [POST + b"x", POST[:-1], POST.replace(b"POST", b"GET"), CHUNKED, b"POST \r\n\r\n"])
def test_only_whole_requests_are_taken_as_such(data: bytes) -> None:
    assert is_whole_post(POST) and not is_whole_post(data)


def test_answers_are_sent_without_delay() -> None:
    with listen("127.0.0.1", 0, is_open=False) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
