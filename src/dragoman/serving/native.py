"""Our own API, under /v1: translations with all details, alternatives for their words, and explanations."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, Literal

import pydantic
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from dragoman.errors import DecodeError
from dragoman.formats.document import lines_in, with_lines
from dragoman.formats.registry import installed_suffixes
from dragoman.inference.options import SearchOptions
from dragoman.inference.texts import joined
from dragoman.inference.translation import MEANINGS, Translation
from dragoman.inference.translator import Translator
from dragoman.serving.fields import Fields, body_of, read
from dragoman.serving.limits import Refused
from dragoman.serving.rewriting import other_words, rewritten
from dragoman.serving.server import server_of
from dragoman.serving.service import OtherLanguage, Service, TextAnswer, refusing
from dragoman.serving.shared_search import Job
from dragoman.surface.terms import compiled
from dragoman.system import use_threads

DOUBTFUL = math.log(0.1)
"""A word is doubtful if the model gave one of its tokens a smaller log-probability: a probability below 10 %. On
Tatoeba's test set, 85 % of the doubtful words of a small model are in no reference, compared with 32 % of all words."""
MOST_EXPLAINED = 60
"""Maximum number of tokens of a text to explain; size and time of the page grow with their square."""
_EXPLAINING = Lock()
"""Held while a text is explained, because that takes as long as translating hundreds of texts."""
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')


class LanguageFields(Fields):
    """Languages and key of a request."""

    source: str = "auto"
    """Language code of the text, or `auto`."""
    target: str | None = None
    """Target language; optional if there is only one."""
    api_key: str | None = None


class TranslateFields(LanguageFields):
    """Request for translations."""

    text: str | list[str]
    """Text, or list of texts."""
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    """Number of additional translations of each text."""
    beam_size: int | None = pydantic.Field(default=None, ge=1)
    """Beam size; the model's default if missing."""
    align: bool = False
    """Return the alignment of words, and the doubtful words."""
    terms: dict[str, list[str]] | None = None
    """Allowed translations of each term; an empty list keeps the term. The server's terms if missing."""
    prefix: str = ""
    """Prefix of the translation; for one text of format `text`."""
    stream: bool = False
    """Send the translation while it is generated, as server-sent events; for one text."""

    @property
    def settings(self) -> dict[str, Any]:
        terms = {} if self.terms is None else {"terms": tuple((term, *forms) for term, forms in self.terms.items())}
        return {"alternatives": self.alternatives, "beam_size": self.beam_size, "align": self.align, **terms}


class ExplainFields(LanguageFields):
    """Request for the page that explains a translation."""

    text: str


class WordFields(ExplainFields):
    """Request for alternatives to a word."""

    translation: str
    """Complete translation."""
    word: int
    """Index of the word, as in `target_words`."""


def _also(media_type: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of successful responses of this media type."""
    return {200: {"content": {media_type: {}}}}


routes = APIRouter(prefix="/v1", tags=["Dragoman"])


@routes.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """List the models with their directions, and the limits of a request."""
    server = server_of(request)
    service = server.service
    directions = [
        {"name": model.name, "source": source, "target": target, "ready": model.translator is not None}
        for model in service.models
        for source, target in (list(model.directions) if model.translator else [("", "")])
    ]
    return {
        "ready": service.is_ready,
        "models": directions,
        "limits": service.limits.model_dump(include={"characters", "texts", "alternatives", "document_bytes"}),
        "key_required": server.keys is not None,
        "document_formats": installed_suffixes(),
    }


@routes.post("/translate", openapi_extra=body_of(TranslateFields), responses=_also("text/event-stream"))
async def translate(request: Request) -> Response:
    """Translate each text, with scores, tokens, flags and alignment."""
    fields, server = await read(request, TranslateFields), server_of(request)
    if fields.stream:
        events = await server.stream(request, lambda job: streamed(server.service, fields, job))
        return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
    translations = await server.work(request, lambda job: translated(server.service, fields, job))
    return JSONResponse({"translations": translations})


@routes.post("/words", openapi_extra=body_of(WordFields))
async def words(request: Request) -> dict[str, Any]:
    """Return alternatives to a word of a translation, the most probable first.

    The `prefix` of an alternative, sent to /v1/translate, continues the translation after it.
    """
    fields, server = await read(request, WordFields), server_of(request)
    return {"words": await server.work(request, lambda job: alternative_words(server.service, fields, job))}


@routes.post("/explain", openapi_extra=body_of(ExplainFields), response_class=Response, responses=_also("text/html"))
async def explain(request: Request) -> Response:
    """Return a self-contained page that explains how a sentence is translated, with all numbers."""
    fields, server = await read(request, ExplainFields), server_of(request)
    page = await server.work(request, lambda job: explained(server.service, fields, job))
    policy = next(_POLICY.finditer(page))[1]
    return HTMLResponse(page, headers={"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"})


def prepared(
    service: Service, fields: LanguageFields, text: str, job: Job, **settings: Any
) -> tuple[Translator, SearchOptions, TextAnswer]:
    """Return the translator and options for one text, and the answer without its translation, or refuse it."""
    route = service.route(text, fields.source, fields.target)
    options = service.options(route, **settings)
    service.limits.check([text], settings.get("alternatives", 0), options.beam_size, compiled(options.terms))
    return service.translator(route, job), options, TextAnswer(Translation(text), *route[1:])


def translated(service: Service, fields: TranslateFields, job: Job) -> list[dict[str, Any]]:
    """Return the translations of a request as plain values."""
    texts = [fields.text] if isinstance(fields.text, str) else fields.text
    if not fields.prefix:
        is_html = fields.format == "html"
        answers = service.translate(texts, fields.source, fields.target, job, is_html=is_html, **fields.settings)
    elif fields.format == "html" or len(texts) != 1:
        raise Refused(400, "prefix is for one text of the format text")
    else:
        translator, options, answer = prepared(service, fields, texts[0], job, **fields.settings)
        job.charge(len(texts[0]))
        with refusing():
            answers = [answer._replace(translation=rewritten(translator, texts[0], fields.prefix, options))]
    return [facts(service, fields, answer) for answer in answers]


def alternative_words(service: Service, fields: WordFields, job: Job) -> list[dict[str, Any]]:
    """Return alternatives to a word as plain values."""
    translator, options, _ = prepared(service, fields, fields.text, job)
    job.charge(len(fields.text))
    with refusing():
        alternatives = other_words(translator, fields.text, fields.translation, fields.word, options)
    return [alternative._asdict() for alternative in alternatives]


def streamed(service: Service, fields: TranslateFields, job: Job) -> Iterator[str]:
    """Yield the translation of one text as server-sent events. Before the first event, errors are raised."""
    if not isinstance(fields.text, str):
        raise Refused(400, "stream is for one text, not for a list")
    try:
        preparation = prepared(service, fields, fields.text, job, **fields.settings)
    except OtherLanguage:
        preparation = None  # left as it is, or refused below
    if preparation is None or fields.prefix or fields.format == "html":
        (translation,) = translated(service, fields, job)
        yield event("piece", {"text": translation["text"]}) + event("translation", translation)
        return
    translator, options, answer = preparation
    job.charge(len(fields.text))
    has_begun = False
    try:
        with refusing():
            for piece in pieces(translator, fields.text, options):
                if isinstance(piece, Translation):
                    yield event("translation", facts(service, fields, answer._replace(translation=piece)))
                elif piece:
                    yield event("piece", {"text": piece})
                    has_begun = True
    except Refused as error:
        if not has_begun:
            raise
        yield event("error", {"error": str(error)})


def pieces(translator: Translator, text: str, options: SearchOptions) -> Iterator[str | Translation]:
    """Yield pieces of the translation of a text of several lines as they are generated, then the whole."""
    parts: list[Translation] = []
    for line in re.findall(r"[^\r\n]+|[\r\n]+", text):
        for core in lines_in(line):
            before, _, line = line.partition(core)
            yield before
            parts.append((yield from translator.stream(core, options)))
        yield line
    yield joined(text, parts, partial(with_lines, text))


def event(name: str, data: dict[str, Any]) -> str:
    """Format a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def facts(service: Service, fields: TranslateFields, answer: TextAnswer) -> dict[str, Any]:
    """Return a translation as plain values."""
    translation, source, target, detected, was_translated = answer
    terms = compiled(fields.settings.get("terms", service.terms))
    found_terms = dict.fromkeys(terms.sources[number] for _, number in terms.found(translation.source))
    values = {
        "source": source,
        "target": target,
        "translated": was_translated,
        "detected": detected and {"language": detected.language, "confidence": round(100 * detected.confidence, 1)},
        "tokens": [
            {"token": token, "log_prob": log_prob}
            for token, log_prob in zip(translation.tokens, translation.token_log_probs, strict=True)
        ],
        "flags": [{"name": flag, "meaning": MEANINGS[flag]} for flag in translation.flags],
        "used_terms": [term for term in found_terms if term not in translation.unused_terms],
        "alternatives": [_values(alternative, "text", "score", "log_prob") for alternative in translation.alternatives],
        **_values(translation, "text", "score", "log_prob", "unknown_words", "lost", "unused_terms", "rewritten"),
    }
    if fields.align:
        values |= _values(translation, "source_words", "target_words", "alignment")
        values["doubtful_words"] = [word for word, low in enumerate(translation.word_log_probs) if low < DOUBTFUL]
    return values


def _values(translation: Translation, *names: str) -> dict[str, Any]:
    return {name: getattr(translation, name) for name in names}


def explained(service: Service, fields: ExplainFields, job: Job) -> str:
    """Return the page of `dragoman explain`; refuse a text that is too long or has nothing to translate (400)."""
    from dragoman.explaining.writing import render  # imports torch, which takes more memory than the server

    service.limits.check([fields.text], 0, 1)
    route = service.route(fields.text, fields.source, fields.target)
    model, options = route.model, service.options(route)
    assert model.translator is not None
    job.charge(len(fields.text))
    with refusing():
        (line,) = model.translator.directed(options).read([fields.text], options)
        tokens = sum(len(segment.ids) for segment in line.parts)
        if tokens > MOST_EXPLAINED:
            raise DecodeError(f"at most {MOST_EXPLAINED} tokens can be explained, but this text has {tokens}")
        with _EXPLAINING, use_threads(model.translator.threads):
            job.check()
            recorder = model.recorder.directed(**model.directions[route.source, route.target])
            record = recorder.record(fields.text)
    return render(replace(record, model=model.name), "html").decode()  # without the model's path
