"""LibreTranslate's API, field for field, so that its clients work with this server."""

import asyncio
import json
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

import pydantic
from fastapi import APIRouter, Request, UploadFile
from starlette.responses import FileResponse

from dragoman.formats.registry import installed_suffixes
from dragoman.languages import base_language, english_name
from dragoman.serving.documents import Documents, storing
from dragoman.serving.fields import Code, Fields, body_of, read
from dragoman.serving.limits import Refused
from dragoman.serving.server import server_of
from dragoman.serving.service import Service, TextAnswer
from dragoman.serving.shared_search import Job
from dragoman.text.detection import Guess

MOST_SUGGESTED_BYTES = 100 * 2**20
"""Maximum size of the suggestion file."""
T = TypeVar("T")
Words = Annotated[str, pydantic.Field(min_length=1)]


class LibreTranslateFields(Fields):
    """Fields of a request. A missing or empty one is refused in LibreTranslate's words, which clients look for."""

    @staticmethod
    def problem(name: str, detail: Any) -> str:
        if detail["type"] == "missing" or detail["input"] in ("", []):
            return f"Invalid request: missing {name.partition('.')[0]} parameter"
        return Fields.problem(name, detail)


class TextToDetect(LibreTranslateFields):
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


class FileToTranslate(LibreTranslateFields):
    """Document with languages."""

    file: UploadFile
    source: Code
    target: Code


class Suggestion(LibreTranslateFields):
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
    supportedFilesFormat: tuple[str, ...] = pydantic.Field(default_factory=installed_suffixes)


routes = APIRouter(tags=["LibreTranslate"], lifespan=storing)


@routes.post("/translate", openapi_extra=body_of(TextToTranslate), response_model_exclude_none=True)
async def translate(request: Request) -> TranslatedText:
    """Translate a text or a list of texts."""
    fields, server = await read(request, TextToTranslate), server_of(request)
    texts, more = [fields.q] if isinstance(fields.q, str) else fields.q, max(0, fields.alternatives)

    def call(job: Job) -> list[TextAnswer]:
        check_languages(server.service, fields.source, fields.target)
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


@routes.get("/spec")
async def spec(request: Request) -> dict[str, Any]:
    """Describe all routes, as `/openapi.json` does; LibreTranslate's clients look for the description here."""
    return request.app.openapi()


@routes.get("/languages")
async def languages(request: Request) -> list[Language]:
    """List the languages with their target languages."""
    targets: dict[str, list[str]] = {}
    for source, target in server_of(request).service.pairs():
        targets.setdefault(source, []).append(target)
        targets.setdefault(target, [])
    return [Language(code=code, name=english_name(code), targets=sorted(targets[code])) for code in sorted(targets)]


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


@routes.post("/translate_file", openapi_extra=body_of(FileToTranslate, "multipart/form-data"))
async def translate_file(request: Request) -> dict[Literal["translatedFileUrl"], str]:
    """Translate a document, and return the address of its download."""
    fields = await read(request, FileToTranslate, max_files=1)
    documents: Documents = request.state.documents
    check_languages(server_of(request).service, fields.source, fields.target)
    document = await documents.receive(request, fields.file, fields.file.filename or "")
    await request.close()
    await documents.translate(request, document, (fields.source, fields.target))
    name = PurePosixPath(document.name)
    secret = f"{document.id}.{name.stem[:100]}_{fields.target}{name.suffix}"
    return {"translatedFileUrl": f"{request.base_url}download_file/{quote(secret)}"}


@routes.get("/download_file/{name}", response_class=FileResponse)
async def download_file(request: Request, name: str) -> FileResponse:
    """Send a translated document; it can be downloaded once."""
    documents: Documents = request.state.documents
    secret, _, filename = name.partition(".")
    return documents.download(request, documents.find(request, secret), filename)


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


def check_languages(service: Service, source: str, target: str) -> None:
    """Refuse a language of no model (400), in LibreTranslate's words, which clients look for."""
    known = set[str]().union(*service.languages)
    for code in (source, target):
        if base_language(code) not in known and code != "auto":
            raise Refused(400, f"{code} is not supported")


def _language(guess: Guess) -> DetectedLanguage:
    return DetectedLanguage(confidence=round(100 * guess.confidence, 1), language=guess.language)


def _alternatives(answer: TextAnswer) -> list[str]:
    texts = dict.fromkeys(alternative.text for alternative in answer.translation.alternatives)
    return [text for text in texts if text != answer.translation.text]
