"""LibreTranslate's API, field for field, so that its clients work with this server."""

import asyncio
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, TypeVar, cast
from urllib.parse import quote

import pydantic
from fastapi import APIRouter, FastAPI, Form, Request, UploadFile
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from dragoman.formats.registry import DOCUMENT_SUFFIXES
from dragoman.languages import english_name
from dragoman.serving.fields import Code, Fields, body_of, read
from dragoman.serving.limits import Refused
from dragoman.serving.server import server_of
from dragoman.serving.service import TextAnswer
from dragoman.serving.shared_search import Job
from dragoman.text.detection import Guess

KEPT_SECONDS, MOST_KEPT = 600, 50
"""Time for which a translated document waits for its download, and maximum number that wait; the oldest is dropped."""
MOST_SUGGESTED_BYTES = 100 * 2**20
"""Maximum size of the suggestion file."""
T = TypeVar("T")
Words = Annotated[str, pydantic.Field(min_length=1)]


class TextToDetect(Fields):
    """Text, or list of texts."""

    q: Words | Annotated[list[str], pydantic.Field(min_length=1)]


class TextToTranslate(TextToDetect):
    """Text, or list of texts, with languages and options."""

    source: Code
    """Code of its language, or `auto`."""
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    """Number of additional translations."""


class FileToTranslate(Fields):
    """Document with languages."""

    file: UploadFile
    source: Code
    target: Code


class Suggestion(Fields):
    """Text with a suggested better translation."""

    q: Words
    s: Words
    source: Code
    target: Code


class DetectedLanguage(pydantic.BaseModel):
    """Language with a confidence from 0 to 100."""

    confidence: float
    language: str


class TranslatedText(pydantic.BaseModel):
    """Translation, or list of translations of a list of texts. Values that were not requested are omitted."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    alternatives: list[str] | list[list[str]] | None = None


class Language(pydantic.BaseModel):
    """A language; in the list of all languages also those that it can be translated into."""

    code: str
    name: str
    targets: list[str] | None = None


class FrontendSettings(pydantic.BaseModel):
    """Settings of a web page."""

    apiKeys: bool
    charLimit: int
    filesTranslation: bool = True
    frontendTimeout: int = 500
    keyRequired: bool
    language: dict[Literal["source", "target"], Language]
    suggestions: bool
    supportedFilesFormat: tuple[str, ...] = DOCUMENT_SUFFIXES


class Documents:
    """Store of translated documents until they are downloaded, with a limit on concurrent translations."""

    def __init__(self, folder: Path, slots: int) -> None:
        """Store documents in `folder`; at most `slots` are translated at a time."""
        self.folder, self.slots = folder, asyncio.Semaphore(slots)
        self._waiting: dict[str, Path] = {}

    def keep(self, path: Path, name: str) -> str:
        """Keep a document for `KEPT_SECONDS`; return a secret name for its download."""
        secret = f"{secrets.token_urlsafe(24)}.{name}"
        self._waiting[secret] = path
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._drop, secret, path)
        if len(self._waiting) > MOST_KEPT:
            self._drop(*next(iter(self._waiting.items())))
        return secret

    def take(self, secret: str) -> Path:
        """Return the document with this name and forget it; refuse an unknown name (404)."""
        if secret not in self._waiting:
            raise Refused(404, "there is no document with this name; it can be downloaded once, within ten minutes")
        return self._waiting.pop(secret)

    def _drop(self, secret: str, path: Path) -> None:
        self._waiting.pop(secret, None)
        path.unlink(missing_ok=True)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Documents]]:
    with TemporaryDirectory(prefix="dragoman-") as folder:
        yield {"documents": Documents(Path(folder), app.state.server.service.limits.documents)}


routes = APIRouter(tags=["LibreTranslate"], lifespan=_lifespan)


@routes.post("/translate", openapi_extra=body_of(TextToTranslate), response_model_exclude_none=True)
async def translate(request: Request) -> TranslatedText:
    """Translate a text or a list of texts."""
    fields, server = await read(request, TextToTranslate), server_of(request)
    texts, more = [fields.q] if isinstance(fields.q, str) else fields.q, max(0, fields.alternatives)

    def call(job: Job) -> list[TextAnswer]:
        is_html = fields.format == "html"
        return server.service.translate(texts, fields.source, fields.target, job, alternatives=more, is_html=is_html)

    def shaped(values: list[T]) -> list[T] | T:
        return values[0] if isinstance(fields.q, str) else values

    answers = await server.work(request, call)
    detected = [_language(answer.detected) for answer in answers if answer.detected]
    return TranslatedText(
        translatedText=shaped([answer.translation.text for answer in answers]),
        detectedLanguage=shaped(detected) if detected else None,
        alternatives=shaped([_alternatives(answer) for answer in answers]) if more else None,
    )


@routes.post("/detect", openapi_extra=body_of(TextToDetect))
async def detect(request: Request) -> list[DetectedLanguage]:
    """Return the probable languages of a text, the most probable first; `en` with 0 if no model reads its language."""
    fields, server = await read(request, TextToDetect), server_of(request)
    text = fields.q if isinstance(fields.q, str) else "\n".join(fields.q)
    server.service.limits.check([text], 0, 1)
    guesses = await server.work(request, lambda job: server.service.detect(text))
    return [_language(guess) for guess in guesses or [Guess("en", 0.0)]]


@routes.get("/languages")
async def languages(request: Request) -> list[Language]:
    """List the languages with their target languages."""
    pairs = server_of(request).service.pairs()
    return [
        Language(
            code=code, name=english_name(code), targets=sorted(target for source, target in pairs if source == code)
        )
        for code in sorted({code for pair in pairs for code in pair})
    ]


@routes.get("/frontend/settings", response_model_exclude_none=True)
async def frontend_settings(request: Request) -> FrontendSettings:
    """Return the settings that LibreTranslate's web page asks for."""
    server = server_of(request)
    target = server.service.pairs()[0][1]
    source = Language(code="auto", name="Auto Detect")
    return FrontendSettings(
        apiKeys=server.settings.keys is not None,
        charLimit=server.service.limits.characters,
        keyRequired=server.settings.keys is not None,
        language={"source": source, "target": Language(code=target, name=english_name(target))},
        suggestions=server.settings.suggestions is not None,
    )


@routes.post("/translate_file")
async def translate_file(
    request: Request, fields: Annotated[FileToTranslate, Form()]
) -> dict[Literal["translatedFileUrl"], str]:
    """Translate a document, and return the address of its download."""
    server, documents = server_of(request), cast(Documents, request.state.documents)
    name = PurePosixPath((fields.file.filename or "").replace("\\", "/"))
    if name.suffix.lower() not in DOCUMENT_SUFFIXES:
        raise Refused(400, f"the name of a document must end with one of {', '.join(DOCUMENT_SUFFIXES)}")
    if documents.slots.locked():
        raise Refused(503, "the server is translating its maximum number of documents; try again in a moment", 5)

    def call(job: Job) -> Path:
        with TemporaryDirectory(dir=documents.folder) as folder:
            path = Path(folder, f"document{name.suffix}")
            with open(path, "wb") as copy:
                shutil.copyfileobj(fields.file.file, copy)
            try:
                content = server.service.document(path, fields.source, fields.target, job)
            except Refused as error:
                raise Refused(error.status, str(error).replace(str(path), name.name), error.retry_after) from error
        translated = documents.folder / secrets.token_hex()
        translated.write_bytes(content)
        return translated

    async with documents.slots:
        path = await server.work(request, call)
    secret = documents.keep(path, f"{name.stem[:100]}_{fields.target}{name.suffix}")
    return {"translatedFileUrl": f"{request.base_url}download_file/{quote(secret)}"}


@routes.get("/download_file/{name}", response_class=FileResponse)
async def download_file(request: Request, name: str) -> FileResponse:
    """Send a translated document; it can be downloaded once."""
    path = cast(Documents, request.state.documents).take(name)
    filename = name.partition(".")[2]
    return FileResponse(
        path, media_type="application/octet-stream", filename=filename, background=BackgroundTask(path.unlink)
    )


@routes.post("/suggest", openapi_extra=body_of(Suggestion))
async def suggest(request: Request) -> dict[Literal["success"], bool]:
    """Append a better translation to the suggestion file."""
    suggestion, server = await read(request, Suggestion), server_of(request)
    if server.settings.suggestions is None:
        raise Refused(403, "this server accepts no suggestions")
    server.service.limits.check([suggestion.q, suggestion.s], 0, 1)
    await asyncio.to_thread(_append, server.settings.suggestions, suggestion.model_dump())
    return {"success": True}


def _append(path: Path, suggestion: dict[str, Any]) -> None:
    line = json.dumps(suggestion, ensure_ascii=False) + "\n"
    try:
        with open(path, "ab", buffering=0) as file:  # one write per line, so that lines are never mixed
            if file.tell() > MOST_SUGGESTED_BYTES:
                raise Refused(403, "the suggestion file is full")
            file.write(line.encode())
    except OSError as error:
        raise Refused(503, f"the suggestion file cannot be written: {error.strerror}") from None


def _language(guess: Guess) -> DetectedLanguage:
    return DetectedLanguage(confidence=round(100 * guess.confidence, 1), language=guess.language)


def _alternatives(answer: TextAnswer) -> list[str]:
    texts = dict.fromkeys(alternative.text for alternative in answer.translation.alternatives)
    return [text for text in texts if text != answer.translation.text]
