"""The process that listens: slow connections end, models load meanwhile, and it stops in order."""

import asyncio
import ipaddress
import socket
import sys
from threading import Thread, Timer
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.errors import CheckpointError, ConfigError
from dragoman.serving.service import Service

HEAD_SECONDS, IDLE_SECONDS = 10, 60
"""How long a new connection may take until its first request is there, and a used one until the next."""
READ_SECONDS = 60
"""How long a client may read nothing of an answer that waits for it."""
CONNECTIONS_A_REQUEST = 4
"""Connections that may be open, as a multiple of the requests that may be under way. Further ones are closed."""
HEAD_BYTES = 16 * 1024
DRAIN_SECONDS = 25.0
"""How long requests under way may take when the server stops."""
CLOSE_SECONDS = 3
"""How long connections then may take to close."""
SWITCH_SECONDS = 0.001
"""How long a thread computes in Python before another may. The search is one of many, and each step waits for it."""


class Connection(H11Protocol):
    """One client's connection. It is closed if a request takes long to begin, or the client does not read."""

    most = 1_000
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._abort_after(HEAD_SECONDS)
        if len(self.connections) > self.most:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._keep()

    def on_response_complete(self) -> None:
        self._abort_after(IDLE_SECONDS)
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._abort_after(READ_SECONDS)
        super().pause_writing()

    def resume_writing(self) -> None:
        if not self.cycle.response_complete:
            self._keep()
        super().resume_writing()

    def _abort_after(self, seconds: float) -> None:
        self._keep()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _keep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Listening(uvicorn.Server):
    """A server that loads its models while it already listens.

    On SIGTERM or Ctrl-C it is no longer ready, and ends when the requests under way are answered. A second signal
    refuses these. If a model cannot be loaded, it ends: half a server would look like a whole one.
    """

    def __init__(self, app: FastAPI, service: Service) -> None:
        most = CONNECTIONS_A_REQUEST * service.limits.requests
        config = uvicorn.Config(
            app,
            http=type("Connection", (Connection,), {"most": most}),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=CLOSE_SECONDS,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        super().__init__(config)
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
        last = Timer(seconds + CLOSE_SECONDS - 1, self._end)  # whatever may keep the service from stopping
        last.daemon = True
        last.start()
        self._service.stop(seconds)
        self._end()

    def _end(self) -> None:
        self.should_exit = True

    def _load(self) -> None:
        try:
            self._service.load()
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
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not is_open and not ipaddress.ip_address(address[0]).is_loopback:
            raise ConfigError(
                f"others can reach {host}: give --keys FILE, so that only those with a key are answered, or --open"
            )
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from None
