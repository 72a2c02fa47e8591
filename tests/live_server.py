"""A server in a thread of this process, with the model that ships in the package, for clients to speak to."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn

from dragoman.cli.train import FINISHED
from dragoman.serving.app import create_app
from dragoman.serving.limits import Limits
from dragoman.serving.server import ServerSettings
from dragoman.serving.service import Service


def write_key(path: Path, secret: str, **allowances: int) -> None:
    """Add a key that is known beforehand to a file of keys, with itself as its name."""
    keys = json.loads(path.read_text())["keys"] if path.exists() else []
    key = {"name": secret, "sha256": sha256(secret.encode()).hexdigest(), "created": "2026-01-01", **allowances}
    path.write_text(json.dumps({"format": 1, "keys": [*keys, key]}))


@contextmanager
def live_server(limits: Limits | None = None, **settings: Any) -> Iterator[str]:
    """The address of a server whose model is loaded. It ends with the block."""
    service = Service([FINISHED], limits)
    service.load()
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(service, ServerSettings(**settings))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, proxy_headers=False))
    thread = Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        service.stop()
        listener.close()
