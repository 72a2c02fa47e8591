"""A connection: which requests it takes from the wire, and how it refuses the others."""

import asyncio
import json
import socket
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from dragoman.serving.listening import HEAD_BYTES, PIPELINED, Connection, listen
from dragoman.serving.places import BoundedPool
from dragoman.serving.server import Server, ServerSettings
from dragoman.serving.service import Service

HOST = b"Host: here\r\n"
POST = b'POST /translate HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\n{"q": "a"}'
CHUNKED = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)})
        self.sent, self.is_aborted, self._is_closing = b"", False, False

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = self.is_aborted = True


class Conversation:
    """A connection on which some bytes arrive; the application reads each request and answers 204."""

    def __init__(self, *parts: bytes) -> None:
        self.wire, self.seen = Wire(), list[tuple[dict[str, Any], bytes]]()
        asyncio.run(self._converse(parts))
        self.statuses = [int(answer[:3]) for answer in self.wire.sent.split(b"HTTP/1.1 ")[1:]]

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, has_more = body + message["body"], message["more_body"]
        self.seen.append((scope, body))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _converse(self, parts: tuple[bytes, ...]) -> None:
        config, state = uvicorn.Config(self._app, interface="asgi3", log_config=None), ServerState()
        config.load()
        known = {"shared": Server(Service([]), ServerSettings()), "resting": BoundedPool(9)}
        connection = type("Known", (Connection,), known)(config, state, {})
        connection.connection_made(self.wire)
        for part in parts:
            if not self.wire.is_closing():
                connection.data_received(part)
                await asyncio.sleep(0)
        for _ in range(1_000):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.gather(*state.tasks)


def test_requests_are_read_in_any_parts() -> None:
    for parts in ((POST,), (POST[:40], POST[40:]), [POST[at : at + 1] for at in range(len(POST))]):
        conversation = Conversation(*parts)
        assert conversation.statuses == [204] and conversation.seen[0][1] == b'{"q": "a"}'


@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2, 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b" X: y\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST * 2 + b"\r\n",
        b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\n" + HOST + b"\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        CHUNKED + b"2\r\n{}xx",
    ],
)
def test_ambiguous_requests_end_their_connection(request_: bytes) -> None:
    conversation = Conversation(request_, b"GET /second HTTP/1.1\r\n" + HOST + b"\r\n")
    assert conversation.statuses == [400] and not conversation.seen and conversation.wire.is_closing()
    assert set(json.loads(conversation.wire.sent.partition(b"\r\n\r\n")[2])) == {"error", "message"}


@pytest.mark.parametrize("piece", [1_000, 100_000])
@pytest.mark.parametrize("address", [True, False])
def test_a_head_has_a_maximum_size(address: bool, piece: int) -> None:
    def conversation(size: int) -> Conversation:
        long = b"a" * size
        head = b"GET /%s HTTP/1.1\r\n%s%s\r\n" % ((long, HOST, b"") if address else (b"", HOST, b"X: %s\r\n" % long))
        return Conversation(*(head[at : at + piece] for at in range(0, len(head), piece)))

    assert conversation(HEAD_BYTES - 200).statuses == [204]
    large = conversation(HEAD_BYTES + 5_000)
    assert large.statuses == [431] and not large.seen and large.wire.is_closing()


def test_a_body_may_be_larger_than_a_head() -> None:
    body = b"x" * 3 * HEAD_BYTES
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body)
    for parts in ((head + body,), (head, body[:10], body[10:])):
        assert Conversation(*parts).seen[0][1] == body


def test_fields_after_a_body_are_bounded_and_are_no_headers() -> None:
    conversation = Conversation(CHUNKED + b"0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
    assert conversation.statuses == [204] and b"x-forwarded-for" not in dict(conversation.seen[0][0]["headers"])
    assert Conversation(CHUNKED, b"0\r\n", *([b"X: " + b"a" * 1_000 + b"\r\n"] * 30)).statuses == [431]


def test_a_request_for_another_protocol_is_the_last_one() -> None:
    upgrade = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    conversation = Conversation(upgrade + b"GET /second HTTP/1.1\r\n" + HOST + b"\r\n")
    assert len(conversation.seen) == 1 and b"connection: close" in conversation.wire.sent
    assert conversation.wire.is_closing()


def test_not_too_many_requests_wait_for_the_answer_to_the_first() -> None:
    get = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
    assert Conversation(get * PIPELINED).statuses == [204] * PIPELINED
    assert Conversation(get * (PIPELINED + 9)).wire.is_aborted


def test_answers_are_sent_without_delay() -> None:
    with listen("127.0.0.1", 0, is_open=False) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
