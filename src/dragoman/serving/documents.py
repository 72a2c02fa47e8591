"""Documents of clients, which are stored, translated, and kept for ten minutes until they are downloaded.

The disk space of a client is limited, so that it never takes that of another one. Files lie in a temporary folder; if
this process is killed, the next server removes it.
"""

import asyncio
import hmac
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from weakref import WeakValueDictionary

from fastapi import FastAPI, UploadFile
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse

from dragoman.files import LOCK, is_locked, lock, remove
from dragoman.formats.registry import installed_suffixes
from dragoman.languages import base_language
from dragoman.serving.keys import network_of
from dragoman.serving.limits import Refused
from dragoman.serving.server import Server
from dragoman.serving.service import OtherLanguage
from dragoman.serving.shared_search import Job

log = logging.getLogger(__name__)

KEPT_SECONDS = 600
"""Time for which a translated document waits for its download."""
CLIENT_SHARE, ALL_SHARES, LEAST_BYTES = 10, 40, 65_536
"""Disk space of one client and of all, in documents of the maximum size; bytes that a document counts at least."""
_PREFIX = "dragoman-documents-"
SettingsFor = Callable[[Sequence[str]], dict[str, Any]]
"""Function from the texts of a document to settings of `SearchOptions`."""


@dataclass(eq=False)
class StoredDocument:
    """Document of a client. `path` is what was received, until its translation replaces it."""

    owner: str
    name: str
    path: Path
    size: int
    key: str
    id: str
    status: Literal["queued", "translating", "done", "error"] = "queued"
    characters: int = 0
    error: str = ""


class Documents:
    """Store of documents, with a limit on concurrent translations, of which no client takes the last place."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server, self._folder, self._limits = server, folder, server.service.limits
        self._places = asyncio.Semaphore(self._limits.documents)
        self._places_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._stored: dict[str, StoredDocument] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def receive(self, request: Request, upload: UploadFile, filename: str, key: str = "") -> StoredDocument:
        """Store an upload; refuse an unknown kind (400), or one that exceeds a limit (429, 503).

        It is found by its id and `key`; without a key, by its id alone, which is secret.
        """
        name = PurePosixPath(filename.replace("\\", "/")).name
        suffix = PurePosixPath(name).suffix
        if suffix.lower() not in (suffixes := installed_suffixes()):
            known = ", ".join(suffixes)
            raise Refused(400, f"Invalid file: the name of a document must end with one of {known}")
        owner, size = self._owner(request), max(upload.size or 0, LEAST_BYTES)
        self._make_space(owner, size)
        folder, identifier = self._folder / secrets.token_hex(16), secrets.token_hex(16).upper()
        document = StoredDocument(owner, name, folder / f"document{suffix}", size, key, identifier)
        self._stored[identifier] = document
        try:
            folder.mkdir()
            with open(document.path, "wb") as file:
                await asyncio.to_thread(shutil.copyfileobj, upload.file, file)
        except BaseException as error:
            self._drop(document)
            if isinstance(error, OSError):
                raise Refused(503, f"the document cannot be stored: {error.strerror}", 60) from error
            raise
        return document

    def _make_space(self, owner: str, size: int) -> None:
        """Delete a client's oldest finished documents until its share holds `size` more bytes, or refuse it."""
        largest = max(self._limits.document_bytes, LEAST_BYTES)
        share = CLIENT_SHARE * largest
        own = [document for document in self._stored.values() if document.owner == owner]
        used = sum(document.size for document in own)
        for document in own:
            if used + size > share and document.status in ("done", "error"):
                self._drop(document)
                used -= document.size
        if used and used + size > share:
            raise Refused(429, "too many of your documents are waiting; try again later", 60)
        everything = sum(document.size for document in self._stored.values())
        if everything + size > ALL_SHARES * largest:
            raise Refused(503, "there is no space for more documents; try again later", 60)

    async def translate(
        self,
        request: Request,
        document: StoredDocument,
        languages: tuple[str, str],
        settings_for: SettingsFor = lambda texts: {},
        is_watched: bool = True,
    ) -> None:
        """Translate a document, or set its error and raise it.

        If it is watched, its client waits, and it is refused if there is no place (503). If not, it waits for one.
        """
        write = partial(self._write, document, languages, settings_for)
        own_places = self._places_of.setdefault(document.owner, asyncio.Semaphore(max(1, self._limits.documents - 1)))
        try:
            if is_watched and (own_places.locked() or self._places.locked()):
                text = "the server is translating its maximum number of documents; try again in a moment"
                raise Refused(503, text, 5)
            async with own_places, self._places:
                while document.status == "queued":
                    try:
                        await self._server.work(request, write, is_watched)
                    except Refused as busy:
                        if is_watched or document.status != "queued" or self._server.service.is_stopping:
                            raise
                        await asyncio.sleep(busy.retry_after or 1)
        except BaseException as error:
            document.status = "error"
            document.error = str(error) if isinstance(error, Refused) else "the server made a mistake"
            raise
        finally:
            seconds = 0 if is_watched and document.status == "error" else KEPT_SECONDS
            asyncio.get_running_loop().call_later(seconds, self._drop, document)

    def start(self, request: Request, document: StoredDocument, languages: tuple[str, str], terms: SettingsFor) -> None:
        """Translate a document in the background."""

        async def run() -> None:
            try:
                await self.translate(request, document, languages, terms, is_watched=False)
            except Refused:
                pass
            except Exception as error:
                log.error("a document could not be translated", exc_info=error)

        task = asyncio.create_task(run())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _write(self, document: StoredDocument, languages: tuple[str, str], settings_for: SettingsFor, job: Job) -> None:
        """Replace a document with its translation. An error names the document as its client does."""
        charge, document.status = job.charge, "translating"

        def count(characters: int) -> None:
            document.characters = characters
            charge(characters)

        job.charge = count
        try:
            content = self._server.service.document(document.path, *languages, job, settings_for)
        except Refused as error:
            text = str(error).replace(str(document.path), document.name)
            if isinstance(error, OtherLanguage) and error.detected.language == base_language(languages[1]):
                text = "Source and target language are equal"
            raise Refused(error.status, text, error.retry_after) from error
        try:
            document.path.write_bytes(content)
        except OSError as error:
            raise Refused(503, f"the document cannot be stored: {error.strerror}", 60) from error
        document.size, document.status = max(len(content), LEAST_BYTES), "done"

    def find(self, request: Request, identifier: str, key: str = "") -> StoredDocument:
        """Return a document; refuse an unknown id, a wrong key, and a document that another API key sent (404)."""
        document = self._stored.get(identifier)
        if (
            document is None
            or not hmac.compare_digest(document.key.encode(), key.encode("utf-8", "replace"))
            or (key and self._server.keys and document.owner != self._owner(request))
        ):
            raise Refused(404, "there is no document with this name; it can be downloaded once, within ten minutes")
        return document

    def download(self, request: Request, document: StoredDocument, filename: str) -> FileResponse:
        """Return a response that sends all of a translated document, and then deletes it."""
        del self._stored[document.id]
        request.scope["headers"] = [field for field in request.scope["headers"] if field[0] != b"range"]
        after = BackgroundTask(remove, document.path.parent)
        return FileResponse(document.path, 200, None, "application/octet-stream", after, filename)

    def _drop(self, document: StoredDocument) -> None:
        """Delete a document unless it was downloaded."""
        if self._stored.pop(document.id, None):
            remove(document.path.parent)

    def _owner(self, request: Request) -> str:
        key = self._server.key_of(request)
        return key.sha256 if key else network_of(request.scope["client"][0])


@asynccontextmanager
async def storing(app: FastAPI) -> AsyncIterator[dict[str, Documents]]:
    """Yield a store of documents whose folder is removed when the block ends, as are those of killed servers.

    At the end, the usage of the accounts is written too.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (folder / LOCK).is_file() and not is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    folder = new.with_name(new.name[1:])
    with lock(new):
        os.replace(new, folder)  # once it has the name that others look for, it is locked
        documents = Documents(app.state.server, folder)
        try:
            yield {"documents": documents}
        finally:
            for task in documents.tasks:
                task.cancel()
            await asyncio.gather(*documents.tasks, return_exceptions=True)
            shutil.rmtree(folder, ignore_errors=True)
            await asyncio.to_thread(app.state.server.accounts.save)
