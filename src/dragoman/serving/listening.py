"""The process that listens: slow connections end, models load meanwhile, and it stops in order."""

import asyncio
import gc
import ipaddress
import re
import socket
import sys
from threading import Thread, Timer
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.errors import CheckpointError, ConfigError
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service

HEAD_SECONDS, IDLE_SECONDS, READ_SECONDS = 10, 60, 60
"""How long a new connection may be without a request, a used one without the next, and a client without reading."""
CONNECTIONS = 4
"""Connections that may be open for each request that may be under way. Further ones are closed at once."""
DRAIN_SECONDS, CLOSE_SECONDS = 25.0, 3
"""How long requests may go on when the server stops, and how long connections then may take to close."""
SWITCH_SECONDS = 0.001
"""How long a thread computes in Python before another may: each step of a search waits for its turn."""
_TOLD = b'{"error":"the server is busy; try again in a moment","message":"the server is busy; try again in a moment"}'
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nContent-Length: %d\r\n\r\n%s" % (len(_TOLD), _TOLD)
)
_POST = re.compile(rb"POST [^\r]+(?:\r\n(?!expect|transfer-encoding)[^\r]+)*\r\n\r\n", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,15})\r\n", re.IGNORECASE)


class Connection(H11Protocol):
    """One client's connection. It is closed if a request takes long to begin, or if the client does not read.

    While `places` requests are under way, a further one that comes in one piece is refused before it is read: reading
    all that it must refuse would take a busy server most of its speed.
    """

    most, places = 1_000, 250
    metrics: Metrics
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._abort_after(HEAD_SECONDS if len(self.connections) <= self.most else 0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._abort_after(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if len(self.tasks) < self.places or not self._is_at_rest or not is_whole_post(data):
            super().data_received(data)
            return
        self._abort_after(IDLE_SECONDS)
        self.metrics.answered("none", 503, 0.0, None)
        self.transport.write(BUSY)

    @property
    def _is_at_rest(self) -> bool:
        """Whether the last request is answered, and nothing of the next one has come."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._abort_after(None)

    def on_response_complete(self) -> None:
        self._abort_after(IDLE_SECONDS)
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._abort_after(READ_SECONDS)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._abort_after(IDLE_SECONDS if self.cycle.response_complete else None)
        super().resume_writing()

    def _abort_after(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def is_whole_post(data: bytes) -> bool:
    """Whether these bytes are one request with its body.

    >>> is_whole_post(b"POST /translate HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    True
    """
    head = _POST.match(data)
    length = head and _LENGTH.search(head[0])
    return bool(head and length and len(data) - head.end() == int(length[1]))


class Listening(uvicorn.Server):
    """A server that loads its models while it already listens.

    On SIGTERM or Ctrl-C it is no longer ready, and ends when the requests under way are answered. A second signal
    refuses these. If a model cannot be loaded, it ends: half a server would look like a whole one.
    """

    def __init__(self, app: FastAPI, service: Service) -> None:
        known = {"most": CONNECTIONS * service.limits.requests, "places": service.limits.requests}
        protocol = type("Connection", (Connection,), {**known, "metrics": app.state.server.metrics})
        how: dict[str, Any] = {
            "http": protocol,
            "ws": "none",
            "lifespan": "on",
            "h11_max_incomplete_event_size": 16_384,
        }
        how |= {"timeout_keep_alive": IDLE_SECONDS, "timeout_graceful_shutdown": CLOSE_SECONDS}
        how |= {"log_config": None, "access_log": False, "server_header": False, "proxy_headers": False}
        super().__init__(uvicorn.Config(app, **how))
        self._service = service
        self._failed: BaseException | None = None

    def answer(self, listener: socket.socket) -> None:
        """Answers requests until a signal ends it.

        Raises:
            CheckpointError: a model cannot be loaded.
        """
        sys.setswitchinterval(SWITCH_SECONDS)
        Thread(target=self._load, name="load", daemon=True).start()
        self.run([listener])
        if self._failed is not None:
            raise self._failed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to stop; after a second signal without waiting."""
        seconds = 0.0 if self._service.is_stopping else DRAIN_SECONDS
        self._service.is_stopping = True
        Thread(target=self._stop, args=(seconds,), daemon=True).start()

    def _stop(self, seconds: float) -> None:
        last = Timer(seconds + 1, self._end)  # whatever keeps the service from stopping
        last.daemon = True
        last.start()
        self._service.stop(seconds)
        self._end()

    def _end(self) -> None:
        self.should_exit = True

    def _load(self) -> None:
        try:
            self._service.load()
            gc.freeze()  # what stays for good is not looked through again and again, and the rest more rarely
            gc.set_threshold(20_000, 20, 20)
            if failures := [model.failed for model in self._service.models if model.failed]:
                raise CheckpointError("; ".join(failures))
        except BaseException as error:
            self._failed = error
            self._end()


def listen(host: str, port: int, is_open: bool) -> socket.socket:
    """Listens on an address. Only if it `is_open` may that be one that other machines reach.

    Raises:
        ConfigError: others reach it, another process has it, or this machine has no such address.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not is_open and not ipaddress.ip_address(address[0]).is_loopback:
            raise ConfigError(f"others can reach {host}: give --keys FILE, to answer only who has a key, or --open")
        listener = socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    # An answer goes out in two parts, and the second would wait until the client has acknowledged the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
