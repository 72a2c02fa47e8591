"""The listening server process: connection timeouts, loading of models in the background, and graceful shutdown."""

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
from dragoman.serving.server import Metrics
from dragoman.serving.service import Service

HEAD_SECONDS, IDLE_SECONDS, READ_SECONDS = 10, 60, 60
"""Timeouts: a new connection without a request, a used one without the next, and a client that does not read."""
CONNECTIONS = 4
"""Maximum number of open connections for each concurrent request. Further ones are closed immediately."""
DRAIN_SECONDS, CLOSE_SECONDS = 25.0, 3
"""Time for active requests when the server stops, and time for connections to close after that."""
SWITCH_SECONDS = 0.001
"""Python's thread switch interval: each step of a search waits for its turn."""
_BODY = b'{"error":"the server is busy; try again in a moment","message":"the server is busy; try again in a moment"}'
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)
_POST = re.compile(rb"POST [^\r]+(?:\r\n(?!expect|transfer-encoding)[^\r]+)*\r\n\r\n", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,15})\r\n", re.IGNORECASE)


class Connection(H11Protocol):
    """Connection of one client. It is closed if a request is slow to start, or if the client does not read.

    While `places` requests are active, a further one that arrives in one piece is refused before it is parsed: parsing
    all refused requests would slow a busy server down.
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
        """True if the last request is answered, and nothing of the next one has arrived."""
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
    """Return True if the bytes are one POST request with its whole body.

    >>> is_whole_post(b"POST /translate HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    True
    """
    head = _POST.match(data)
    length = head and _LENGTH.search(head[0])
    return bool(head and length and len(data) - head.end() == int(length[1]))


class Listening(uvicorn.Server):
    """Server that loads its models while it is already listening.

    On SIGTERM or Ctrl-C it is no longer ready, and exits when the active requests are answered. A second signal refuses
    these. If a model cannot be loaded, it exits, because a partial server would look like a complete one.
    """

    def __init__(self, app: FastAPI, service: Service) -> None:
        limits = {"most": CONNECTIONS * service.limits.requests, "places": service.limits.requests}
        protocol = type("Connection", (Connection,), {**limits, "metrics": app.state.server.metrics})
        config: dict[str, Any] = {
            "http": protocol,
            "ws": "none",
            "lifespan": "on",
            "h11_max_incomplete_event_size": 16_384,
        }
        config |= {"timeout_keep_alive": IDLE_SECONDS, "timeout_graceful_shutdown": CLOSE_SECONDS}
        config |= {"log_config": None, "access_log": False, "server_header": False, "proxy_headers": False}
        super().__init__(uvicorn.Config(app, **config))
        self._service = service
        self._failed: BaseException | None = None

    def answer(self, listener: socket.socket) -> None:
        """Answer requests until a signal stops the server; raise `CheckpointError` if a model cannot be loaded."""
        sys.setswitchinterval(SWITCH_SECONDS)
        Thread(target=self._load, name="load", daemon=True).start()
        self.run([listener])
        if self._failed is not None:
            raise self._failed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the shutdown; a second signal ends it without waiting."""
        seconds = 0.0 if self._service.is_stopping else DRAIN_SECONDS
        self._service.is_stopping = True
        Thread(target=self._stop, args=(seconds,), daemon=True).start()

    def _stop(self, seconds: float) -> None:
        deadline = Timer(seconds + 1, self._end)  # in case the service does not stop
        deadline.daemon = True
        deadline.start()
        self._service.stop(seconds)
        self._end()

    def _end(self) -> None:
        self.should_exit = True

    def _load(self) -> None:
        try:
            self._service.load()
            gc.freeze()  # permanent objects are not scanned again, and others less often
            gc.set_threshold(20_000, 20, 20)
            if failures := [model.failed for model in self._service.models if model.failed]:
                raise CheckpointError("; ".join(failures))
        except BaseException as error:
            self._failed = error
            self._end()


def listen(host: str, port: int, is_open: bool) -> socket.socket:
    """Listen on an address. Raise `ConfigError` if other machines can reach it, unless the server `is_open`: it has
    keys, or was opened to all.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not is_open and not ipaddress.ip_address(address[0]).is_loopback:
            raise ConfigError(f"others can reach {host}: give --keys FILE, to require a key, or --open")
        listener = socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    # A response is sent in two parts, and the second would wait until the client has acknowledged the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
