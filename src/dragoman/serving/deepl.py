"""DeepL's API for texts and documents, languages and usage. Glossaries are in `glossaries`."""

import asyncio
import math
import secrets
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import pydantic
from fastapi import APIRouter, Request, UploadFile
from starlette.responses import FileResponse

from dragoman.languages import base_language, english_name
from dragoman.serving.accounts import in_month
from dragoman.serving.documents import Documents
from dragoman.serving.fields import Code, Fields, body_of, read
from dragoman.serving.glossaries import direction_of, glossaries_of, terms_in
from dragoman.serving.limits import Refused
from dragoman.serving.server import server_of
from dragoman.serving.service import TextAnswer
from dragoman.serving.shared_search import Job

UNLIMITED = 10**12
"""Character limit that DeepL reports to accounts without a limit."""
REGIONS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Target languages for which DeepL's clients require a region."""
REFUSED_FIELDS = (
    *("custom_instructions", "non_splitting_tags", "splitting_tags", "style_id"),
    *("translation_memory_id", "translation_memory_threshold"),
)
REFUSED_PATHS = ("/v2/admin", "/v2/write", "/v3")
SECONDS_A_CHARACTER = 0.001
"""Rough estimate of the time that a document takes."""


def _split_commas(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class DeepLOptions(Fields, extra="allow"):
    """Languages and options of texts and documents. A bad value is refused in DeepL's words."""

    target_lang: Code
    source_lang: Code | None = None
    """Detected if missing."""
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    glossary_id: str | None = None
    glossary_ids: Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_commas), pydantic.Field(max_length=5)] = ()

    @staticmethod
    def problem(name: str, detail: Any) -> str:
        if detail["type"] == "missing":
            return f"Parameter '{name}' not specified."
        return f"Value for '{name}' not supported: {detail['msg']}"


class DeepLTexts(DeepLOptions):
    """Texts with languages and options. `context` is ignored, and formatting is always preserved."""

    text: Annotated[list[str], pydantic.BeforeValidator(_as_list)]
    context: str = ""
    ignore_tags: Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_commas)] = ()
    """XML tags whose content is not translated."""
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = None
    outline_detection: bool = True
    preserve_formatting: bool = False
    show_billed_characters: bool = False
    split_sentences: Annotated[Literal["0", "1", "nonewlines"], pydantic.BeforeValidator(str)] = "1"
    tag_handling: Literal["xml", "html"] | None = None
    tag_handling_version: Literal["v1", "v2"] = "v2"


class DeepLDocument(DeepLOptions):
    """Document with languages and options."""

    file: UploadFile
    filename: str = ""
    """Name instead of that of the upload."""
    output_format: str | None = None
    """Suffix of the translated document, which must be that of the document."""


class DocumentKey(Fields):
    """Secret of a document."""

    document_key: str


class DocumentHandle(DocumentKey):
    """Document with its secret."""

    document_id: str


class DocumentStatus(pydantic.BaseModel):
    """Status of a document. Values that do not apply are omitted."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None
    message: str | None = None


class Translated(pydantic.BaseModel):
    """Translation. Values that were not requested are omitted."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None
    model_type_used: str | None = None
    tag_handling_version: str | None = None


class LanguagesQuery(Fields):
    """Side of the requested languages."""

    type: Literal["source", "target"] = "source"


class DeepLLanguage(pydantic.BaseModel):
    """Language; a target language says if it supports formality."""

    language: str
    name: str
    supports_formality: bool | None = None


routes = APIRouter(tags=["DeepL"])


@routes.post("/v2/translate", openapi_extra=body_of(DeepLTexts), response_model_exclude_none=True)
async def translate(request: Request) -> dict[Literal["translations"], list[Translated]]:
    """Translate texts."""
    fields, service = await read(request, DeepLTexts), server_of(request).service
    unsupported = {
        "outline_detection=false": not fields.outline_detection,
        "ignore_tags without tag_handling=xml": fields.ignore_tags and fields.tag_handling != "xml",
    }
    _check(request, fields, unsupported)
    texts, is_marked_up = fields.text, fields.tag_handling is not None
    if fields.split_sentences != "1" and not is_marked_up:
        texts = [" ".join(text.splitlines()) for text in texts]
    terms_for = await _terms_for(request, fields)

    def call(job: Job) -> list[TextAnswer]:
        settings: dict[str, Any] = {"split": "long"} if fields.split_sentences == "0" else {}
        source, kept = fields.source_lang or "auto", fields.ignore_tags if fields.tag_handling == "xml" else None
        return service.translate(
            texts,
            source,
            fields.target_lang,
            job,
            is_html=is_marked_up,
            kept_tags=kept,
            limits=service.limits.for_long_texts,
            **terms_for(fields.text),
            **settings,
        )

    answers = await server_of(request).work(request, call)
    return {
        "translations": [
            Translated(
                detected_source_language=base_language(answer.source).upper(),
                text=answer.translation.text if answer.translated else text,
                billed_characters=len(text) * answer.translated if fields.show_billed_characters else None,
                model_type_used=fields.model_type and fields.model_type.removeprefix("prefer_"),
                tag_handling_version=fields.tag_handling_version if is_marked_up else None,
            )
            for text, answer in zip(fields.text, answers, strict=True)
        ]
    }


@routes.post("/v2/document", openapi_extra=body_of(DeepLDocument, "multipart/form-data"))
async def translate_document(request: Request) -> DocumentHandle:
    """Receive a document, which is translated in the background."""
    documents: Documents = request.state.documents
    try:
        fields = await read(request, DeepLDocument, max_files=1)
        _check(request, fields, {})
        filename = fields.filename or fields.file.filename or ""
        if fields.output_format and fields.output_format.lower() != filename.rpartition(".")[2].lower():
            raise Refused(400, "Value for 'output_format' not supported: a document keeps its format")
        settings_for = await _terms_for(request, fields)
        document = await documents.receive(request, fields.file, filename, secrets.token_hex(32).upper())
    finally:
        await request.close()
    documents.start(request, document, (fields.source_lang or "auto", fields.target_lang), settings_for)
    return DocumentHandle(document_id=document.id, document_key=document.key)


@routes.get("/v2/document/{document_id}", response_model_exclude_none=True, include_in_schema=False)
@routes.post("/v2/document/{document_id}", response_model_exclude_none=True, openapi_extra=body_of(DocumentKey))
async def document_status(request: Request, document_id: str) -> DocumentStatus:
    """Report how far the translation of a document is."""
    documents: Documents = request.state.documents
    document = documents.find(request, document_id, (await read(request, DocumentKey)).document_key)
    seconds = {"translating": math.ceil(SECONDS_A_CHARACTER * document.characters), "done": 0}
    return DocumentStatus(
        document_id=document.id,
        status=document.status,
        seconds_remaining=seconds.get(document.status),
        billed_characters=document.characters if document.status == "done" else None,
        error_message=document.error or None,
        message=document.error or None,
    )


@routes.get("/v2/document/{document_id}/result", response_class=FileResponse)
@routes.post("/v2/document/{document_id}/result", response_class=FileResponse, openapi_extra=body_of(DocumentKey))
async def document_result(request: Request, document_id: str) -> FileResponse:
    """Send a translated document; it can be downloaded once."""
    documents: Documents = request.state.documents
    document = documents.find(request, document_id, (await read(request, DocumentKey)).document_key)
    if document.status == "error":
        raise Refused(400, document.error)
    if document.status != "done":
        raise Refused(503, "Document translation is not done", 1)
    return documents.download(request, document, document.name)


def _check(request: Request, fields: DeepLOptions, unsupported: dict[str, Any]) -> None:
    """Refuse languages of no model, and options that this server does not have, if they have a value (400)."""
    service = server_of(request).service
    service.check_ready()
    for name, code, side in (("target_lang", fields.target_lang, 1), ("source_lang", fields.source_lang, 0)):
        if code and base_language(code) not in service.languages[side]:
            what = "into" if side else "from"
            raise Refused(400, f"Value for '{name}' not supported: no model here translates {what} {code}")
    if fields.source_lang and base_language(fields.source_lang) == base_language(fields.target_lang):
        raise Refused(400, "Source and target language are equal")
    if fields.formality in ("more", "less"):
        raise Refused(
            400,
            f"Target language {fields.target_lang} does not support formality here, because no model has it; "
            f"leave it out, or use prefer_{fields.formality}, which is ignored",
        )
    unsupported |= {name: value for name, value in (fields.model_extra or {}).items() if name in REFUSED_FIELDS}
    if names := [name for name, value in unsupported.items() if value]:
        raise Refused(400, f"this server does not support {', '.join(names)}; leave it out")


async def _terms_for(request: Request, fields: DeepLOptions) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Return a function from texts to the settings of a search with the glossaries of a request."""
    ids = [id_ for id_ in (fields.glossary_id, *fields.glossary_ids) if id_]
    if not ids:
        return lambda texts: {}
    own = await asyncio.to_thread(glossaries_of, request)
    glossaries = [own.get(id_) for id_ in ids]
    if fields.source_lang is None:
        raise Refused(400, "with a glossary, source_lang must be given")
    direction = direction_of(fields.source_lang, fields.target_lang)
    for glossary in glossaries:
        glossary.entries(direction)
    return lambda texts: {"terms": terms_in(texts, glossaries, direction)}


@routes.get("/v2/usage")
async def usage(request: Request) -> dict[Literal["character_count", "character_limit"], int]:
    """Return the number of characters translated in this month (UTC), and the limit."""
    server = server_of(request)
    key = server.key_of(request)
    limit = UNLIMITED if key is None or key.characters_a_month is None else key.characters_a_month
    return {"character_count": in_month(server.accounts.days(key)), "character_limit": limit}


@routes.get("/v2/languages", response_model_exclude_none=True)
async def languages(request: Request) -> list[DeepLLanguage]:
    """List the source languages, or with `type=target` the target languages."""
    is_target = (await read(request, LanguagesQuery)).type == "target"
    codes = sorted({pair[is_target] for pair in server_of(request).service.pairs()})
    if is_target:
        codes = [regional for code in codes for regional in REGIONS.get(code, (code,))]
    formality = False if is_target else None
    return [
        DeepLLanguage(language=code.upper(), name=english_name(code), supports_formality=formality) for code in codes
    ]


async def _refuse(request: Request) -> None:
    raise Refused(
        404, f"this server does not support {request.url.path}; it supports texts, documents, usage and glossaries"
    )


for _path in REFUSED_PATHS:
    _methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    routes.add_api_route(_path + "{rest:path}", _refuse, methods=_methods, include_in_schema=False)
