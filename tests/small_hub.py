"""A local server with the layout of the Hugging Face hub: models in folders, each with one commit."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

COMMIT = "a1b2c3d4" * 5


@contextmanager
def hub_of(models: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Serves the folders `OWNER/NAME` below `models`, and sends the hub's library there, with a cache of its own.
    Yields the paths that were asked for, as they come.
    """
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            asked.append(path)
            parts = path.strip("/").split("/")
            if parts[:2] == ["api", "models"] and (models / parts[2] / parts[3]).is_dir():
                self.tell_model("/".join(parts[2:4]), parts[4:])
            elif len(parts) > 4 and parts[2] == "resolve" and parts[3] in ("main", "v2", COMMIT):
                self.give_file(models.joinpath(*parts[:2], *parts[4:]))
            else:
                self.refuse("RepoNotFound")

        def tell_model(self, name: str, rest: list[str]) -> None:
            if rest[1:2] and rest[1] not in ("main", "v2", COMMIT):
                self.refuse("RevisionNotFound")
                return
            files = sorted(path for path in (models / name).rglob("*") if path.is_file())
            names = [path.relative_to(models / name).as_posix() for path in files]
            if rest[:1] == ["tree"]:
                tree = [
                    {"type": "file", "path": each, "size": path.stat().st_size, "oid": self.tag(path)}
                    for each, path in zip(names, files, strict=True)
                ]
                self.give(json.dumps(tree).encode())
                return
            facts = {"_id": "1", "id": name, "sha": COMMIT, "private": False, "tags": [], "downloads": 0, "likes": 0}
            self.give(json.dumps({**facts, "siblings": [{"rfilename": each} for each in names]}).encode())

        def give_file(self, path: Path) -> None:
            if path.is_file():
                self.give(path.read_bytes(), {"ETag": f'"{self.tag(path)}"', "X-Repo-Commit": COMMIT})
            else:
                self.refuse("EntryNotFound")

        def tag(self, path: Path) -> str:
            return hashlib.sha1(path.read_bytes()).hexdigest()

        def give(self, content: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(200)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def refuse(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address, form = f"http://127.0.0.1:{server.server_port}", hub.constants.HUGGINGFACE_CO_URL_TEMPLATE
    monkeypatch.setattr(hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", form.replace(hub.constants.ENDPOINT, address))
    monkeypatch.setattr(hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(cache / "hub"))
    (cache / "dragoman").mkdir(parents=True)
    monkeypatch.setattr("dragoman.store.folder.cache_folder", lambda: cache / "dragoman")  # kernels stay where they are
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
