"""LibreTranslate's API, field for field, so that its clients speak to this server too."""

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
from dragoman.serving.service import Answer
from dragoman.serving.shared_search import Job
from dragoman.text.detection import Guess

KEPT_SECONDS, MOST_KEPT = 600, 50
"""How long a translated document waits for its download, and how many do. The oldest gives way."""
MOST_SUGGESTED_BYTES = 100 * 2**20
"""Most bytes of the file of suggestions."""
T = TypeVar("T")
Words = Annotated[str, pydantic.Field(min_length=1)]


class TextToDetect(Fields):
    """A text, or a list of texts."""

    q: Words | Annotated[list[str], pydantic.Field(min_length=1)]


class TextToTranslate(TextToDetect):
    """A text, or a list of texts, and how it is translated."""

    source: Code
    """The code of its language, or `auto`."""
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    """How many further translations are wanted."""


class FileToTranslate(Fields):
    """A document."""

    file: UploadFile
    source: Code
    target: Code


class Suggestion(Fields):
    """A text, and a translation that somebody finds better than the server's."""

    q: Words
    s: Words
    source: Code
    target: Code


class DetectedLanguage(pydantic.BaseModel):
    """A language, and how sure it is, from 0 to 100."""

    confidence: float
    language: str


class TranslatedText(pydantic.BaseModel):
    """A translation; of a list of texts, a list of translations. What was not asked for is left out."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    alternatives: list[str] | list[list[str]] | None = None


class Language(pydantic.BaseModel):
    """A language, and in a list of languages those that it is translated into."""

    code: str
    name: str
    targets: list[str] | None = None


class FrontendSettings(pydantic.BaseModel):
    """What a page for people shows and allows."""

    apiKeys: bool
    charLimit: int
    filesTranslation: bool = True
    frontendTimeout: int = 500
    keyRequired: bool
    language: dict[Literal["source", "target"], Language]
    suggestions: bool
    supportedFilesFormat: tuple[str, ...] = DOCUMENT_SUFFIXES


class Documents:
    """Documents under way, and translated ones until they are downloaded."""

    def __init__(self, folder: Path, places: int) -> None:
        """`places` is the number of documents that may be under way."""
        self.folder, self.places = folder, asyncio.Semaphore(places)
        self._waiting: dict[str, Path] = {}

    def keep(self, path: Path, name: str) -> str:
        """Keeps a document for a while; returns the name to take it by, which nobody can guess."""
        secret = f"{secrets.token_urlsafe(24)}.{name}"
        self._waiting[secret] = path
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._drop, secret, path)
        if len(self._waiting) > MOST_KEPT:
            self._drop(*next(iter(self._waiting.items())))
        return secret

    def take(self, secret: str) -> Path:
        """The document of this name, which nobody else gets.

        Raises:
            Refused: there is none (404).
        """
        if secret not in self._waiting:
            raise Refused(404, "no document waits by this name; it can be downloaded once, within ten minutes")
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
    """Translates a text or a list of texts."""
    asked, server = await read(request, TextToTranslate), server_of(request)
    texts, more = [asked.q] if isinstance(asked.q, str) else asked.q, max(0, asked.alternatives)

    def call(job: Job) -> list[Answer]:
        is_html = asked.format == "html"
        return server.service.translate(texts, asked.source, asked.target, job, alternatives=more, is_html=is_html)

    def shaped(values: list[T]) -> list[T] | T:
        return values[0] if isinstance(asked.q, str) else values

    answers = await server.work(request, call)
    detected = [_language(answer.detected) for answer in answers if answer.detected]
    return TranslatedText(
        translatedText=shaped([answer.translation.text for answer in answers]),
        detectedLanguage=shaped(detected) if detected else None,
        alternatives=shaped([_alternatives(answer) for answer in answers]) if more else None,
    )


@routes.post("/detect", openapi_extra=body_of(TextToDetect))
async def detect(request: Request) -> list[DetectedLanguage]:
    """Says which languages a text may be in, the likeliest first; if it is in none of those served, `en` with 0."""
    asked, server = await read(request, TextToDetect), server_of(request)
    text = asked.q if isinstance(asked.q, str) else "\n".join(asked.q)
    server.service.limits.check([text], 0, 1)
    found = await server.work(request, lambda job: server.service.detect(text))
    return [_language(each) for each in found or [Guess("en", 0.0)]]


@routes.get("/languages")
async def languages(request: Request) -> list[Language]:
    """Says what is translated into what."""
    pairs = server_of(request).service.pairs()
    return [
        Language(code=code, name=english_name(code), targets=sorted(to for of, to in pairs if of == code))
        for code in sorted({code for pair in pairs for code in pair})
    ]


@routes.get("/frontend/settings", response_model_exclude_none=True)
async def frontend_settings(request: Request) -> FrontendSettings:
    """Says what a page for people shows and allows."""
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
    request: Request, asked: Annotated[FileToTranslate, Form()]
) -> dict[Literal["translatedFileUrl"], str]:
    """Translates a document, and says where it can be downloaded."""
    server, documents = server_of(request), cast(Documents, request.state.documents)
    name = PurePosixPath((asked.file.filename or "").replace("\\", "/"))
    if name.suffix.lower() not in DOCUMENT_SUFFIXES:
        raise Refused(400, f"the name of a document ends with one of {', '.join(DOCUMENT_SUFFIXES)}")
    if documents.places.locked():
        raise Refused(503, "as many documents as this server takes are under way; try again in a moment", 5)

    def call(job: Job) -> Path:
        with TemporaryDirectory(dir=documents.folder) as folder:
            path = Path(folder, f"document{name.suffix}")
            with open(path, "wb") as copy:
                shutil.copyfileobj(asked.file.file, copy)
            try:
                content = server.service.document(path, asked.source, asked.target, job)
            except Refused as error:
                raise Refused(error.status, str(error).replace(str(path), name.name), error.retry_after) from error
        translated = documents.folder / secrets.token_hex()
        translated.write_bytes(content)
        return translated

    async with documents.places:
        path = await server.work(request, call)
    secret = documents.keep(path, f"{name.stem[:100]}_{asked.target}{name.suffix}")
    return {"translatedFileUrl": f"{request.base_url}download_file/{quote(secret)}"}


@routes.get("/download_file/{name}", response_class=FileResponse)
async def download_file(request: Request, name: str) -> FileResponse:
    """Hands a translated document over, once."""
    path = cast(Documents, request.state.documents).take(name)
    filename = name.partition(".")[2]
    return FileResponse(
        path, media_type="application/octet-stream", filename=filename, background=BackgroundTask(path.unlink)
    )


@routes.post("/suggest", openapi_extra=body_of(Suggestion))
async def suggest(request: Request) -> dict[Literal["success"], bool]:
    """Writes a better translation to the file of suggestions."""
    asked, server = await read(request, Suggestion), server_of(request)
    if server.settings.suggestions is None:
        raise Refused(403, "this server takes no suggestions")
    server.service.limits.check([asked.q, asked.s], 0, 1)
    await asyncio.to_thread(_append, server.settings.suggestions, asked.model_dump())
    return {"success": True}


def _append(path: Path, suggestion: dict[str, Any]) -> None:
    line = json.dumps(suggestion, ensure_ascii=False) + "\n"
    try:
        with open(path, "ab", buffering=0) as file:  # a line at once, so that two never mix
            if file.tell() > MOST_SUGGESTED_BYTES:
                raise Refused(403, "the file of suggestions is full")
            file.write(line.encode())
    except OSError as error:
        raise Refused(503, f"the file of suggestions cannot be written: {error.strerror}") from None


def _language(guess: Guess) -> DetectedLanguage:
    return DetectedLanguage(confidence=round(100 * guess.confidence, 1), language=guess.language)


def _alternatives(answer: Answer) -> list[str]:
    texts = dict.fromkeys(other.text for other in answer.translation.alternatives)
    return [text for text in texts if text != answer.translation.text]
