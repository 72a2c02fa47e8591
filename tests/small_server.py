"""A server in this process, on a port of its own."""

import http.client
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, NamedTuple

from fastapi import FastAPI

from dragoman.serving.app import create_app
from dragoman.serving.listening import Listening, listen
from dragoman.serving.server import ServerSettings
from dragoman.serving.service import Service


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class SmallServer(NamedTuple):
    """A server that listens."""

    app: FastAPI
    listening: Listening
    port: int
    thread: Thread

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
        chunked: bool = False,
    ) -> Answer:
        """Sends a request; bytes as they are, and anything else as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        all_headers = dict(headers or {})
        if content is not None and not isinstance(content, bytes) and not chunked:
            content = json.dumps(content).encode()
            all_headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, content, all_headers, encode_chunked=chunked)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()


@contextmanager
def small_server(service: Service, settings: ServerSettings | None = None) -> Generator[SmallServer]:
    """Serves until the block ends. The models of the service are loaded at its beginning."""
    app, loaded = create_app(service, settings), Event()
    listening, listener = Listening(app, service), listen("127.0.0.1", 0, False)
    load = service.load
    service.load = lambda: (load(), loaded.set())[0]  # pyright: ignore[reportAttributeAccessIssue]
    thread = Thread(target=listening.answer, args=(listener,), daemon=True)
    thread.start()
    loaded.wait(60)
    try:
        yield SmallServer(app, listening, listener.getsockname()[1], thread)
    finally:
        listening.handle_exit(2, None)
        listening.handle_exit(2, None)
        thread.join(30)
