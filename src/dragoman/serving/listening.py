"""The listening server process: connection timeouts, loading of models in the background, and graceful shutdown."""

import asyncio
import gc
import ipaddress
import json
import socket
import sys
from contextlib import suppress
from functools import partial
from threading import Thread, Timer
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dragoman.errors import CheckpointError, ConfigError
from dragoman.serving.keys import network_of, plain_address
from dragoman.serving.places import BoundedPool
from dragoman.serving.server import Server
from dragoman.serving.service import Service

HEAD_BYTES = 16_384
"""Maximum size of the address and the headers of a request."""
PIPELINED, BACKLOG = 100, 2048
"""Maximum number of requests that follow an unanswered one, and of connections that wait to be accepted."""
HEAD_SECONDS, IDLE_SECONDS, READ_SECONDS = 10, 60, 60
"""Timeouts: a new connection without a request, a used one without the next, and a client that does not read."""
CONNECTIONS = 4
"""Maximum number of connections without a place, for each place. A further one displaces another (`BoundedPool`)."""
DRAIN_SECONDS, CLOSE_SECONDS, LAST_SECONDS = 25.0, 3, 0.5
"""Time for active requests when the server stops, for connections to close then, and for a last request of each."""
SWITCH_SECONDS = 0.001
"""Python's thread switch interval: each step of a search waits for its turn."""


class Connection(HttpToolsProtocol):
    """Connection of one client. It is closed if a request is slow to start, or if the client does not read.

    Requests that a proxy could read differently (400) and large heads (431) are refused and end the connection.
    """

    shared: Server
    resting: BoundedPool
    """Connections of the server without a place for a request: idle, incomplete or waiting ones."""
    _pool: BoundedPool | None = None
    _active: RequestResponseCycle | None = None
    """The request that is being answered; `cycle` is the last one that was read."""
    _timer: asyncio.TimerHandle | None = None
    _unread = 0
    """Bytes since the last complete head or piece of a body; the parser may have to keep them."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.client:
            self.client = plain_address(self.client[0]), self.client[1]
        self._abort_after(HEAD_SECONDS)
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._abort_after(None)
        self.enter(None)
        if self._active is not None and not self._active.response_complete:
            self._active.disconnected = True  # uvicorn informs only the last request that it read
            self._active.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEAD_BYTES:
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        assert self.parser is not None
        if self._unread > HEAD_BYTES:  # it arrived together with a body, or is too large
            self._unread = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        version, hosts = self.parser.get_http_version(), sum(name == b"host" for name, _ in self.headers)
        is_valid = hosts == 1 if version == "1.1" else version == "1.0" and hosts <= 1
        # An address may not name a host, which would contradict the header.
        if self._unread > HEAD_BYTES or not is_valid or self.url[:1] != b"/" or len(self.pipeline) > PIPELINED:
            raise ValueError("refused")  # which the parser turns into its own error
        self._unread = 0
        if not self.flow.write_paused:
            self._abort_after(None)
        self.scope.setdefault("state", {})["connection"] = self
        super().on_headers_complete()
        if not self.pipeline:
            self._active = self.cycle
        self.headers = []  # fields after the body are not headers

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._active = self.pipeline[-1][0]
        else:
            self._abort_after(IDLE_SECONDS)
        self._rest()
        super().on_response_complete()

    def enter(self, pool: BoundedPool | None, owner: str = "") -> None:
        """Leave the previous pool and enter this one; or none, because a request has got a place."""
        if self._pool is not None:
            self._pool.discard(self.transport)
        self._pool = pool
        if pool is not None:
            pool.add(owner, self.transport)

    def _rest(self) -> None:
        address = self.client[0] if self.client else ""
        pool = None if self.transport.is_closing() else self.resting
        self.enter(pool, "" if self.shared.is_proxy(address) else network_of(address))

    def shutdown(self) -> None:
        """Close a connection without a request a little later, because one may be on its way."""
        if self.cycle is None or self.cycle.response_complete:
            self._abort_after(LAST_SECONDS)
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        self._abort_after(READ_SECONDS)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._abort_after(IDLE_SECONDS if self.cycle.response_complete else None)
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        self.cycle.keep_alive = False  # the parser ignores what follows a request for another protocol

    def send_400_response(self, msg: str) -> None:
        """Send an error and close, unless an earlier request is not answered yet: then abort."""
        active, status = self._active, 431 if self._unread > HEAD_BYTES else 400
        if (
            active is not None
            and not active.response_complete
            and (active is not self.cycle or active.response_started or not active.more_body)
        ):
            self.transport.abort()
        if self.transport.is_closing():
            return
        msg = f"this is no valid HTTP request, or its address and headers have more than {HEAD_BYTES:,} bytes"
        body = json.dumps({"error": msg, "message": msg}).encode()
        fields = b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n" % len(body)
        if self.shared.settings.allow_origin:  # an origin may not have been read; the text is no secret
            fields += b"Access-Control-Allow-Origin: *\r\n"
        self.transport.write(STATUS_LINE[status] + fields + b"\r\n" + body)
        self.transport.close()
        self.shared.metrics.answered("none", status, 0.0, None)

    def _abort_after(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class Listening(uvicorn.Server):
    """Server that loads its models while it is already listening.

    On SIGTERM or Ctrl-C it is no longer ready, and exits when the active requests are answered. A second signal refuses
    these. If a model cannot be loaded, it exits, because a partial server would look like a complete one.
    """

    def __init__(self, app: FastAPI, service: Service) -> None:
        known = {"shared": app.state.server, "resting": BoundedPool(CONNECTIONS * service.limits.requests)}
        config: dict[str, Any] = {"http": type("Connection", (Connection,), known), "ws": "none", "lifespan": "on"}
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners and all connections, also those that only the system has accepted yet."""
        connect = partial(self.config.http_protocol_class, self.config, self.server_state, self.lifespan.state)
        for listener in sockets or ():
            listener.setblocking(False)
            with suppress(BlockingIOError):
                for _ in range(BACKLOG):
                    await asyncio.get_running_loop().connect_accepted_socket(connect, listener.accept()[0])
        await super().shutdown(sockets)

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
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=is_dual)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    # A response is sent in two parts, and the second would wait until the client has acknowledged the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
