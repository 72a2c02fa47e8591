"""Our own API, under /v1: all that a translation says of itself, other words for its places, and why it is as it is."""

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
from dragoman.explaining.writing import render
from dragoman.formats.document import lines_in, with_lines
from dragoman.formats.registry import DOCUMENT_SUFFIXES
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import MEANINGS, Translation
from dragoman.inference.translator import Translator
from dragoman.serving.fields import Fields, body_of, read
from dragoman.serving.limits import Refused
from dragoman.serving.rewriting import other_words, rewritten
from dragoman.serving.server import server_of
from dragoman.serving.service import Answer, OtherLanguage, Service, joined, refusing
from dragoman.serving.shared_search import Job
from dragoman.surface.terms import compiled
from dragoman.system import use_threads

DOUBTFUL = math.log(0.1)
"""A word is doubtful if the model gave one of its tokens a smaller log-probability: a probability below 10 %. Of the
doubtful words of a small model on Tatoeba's test set, 85 % stand in no reference; of all its words, 32 %."""
MOST_EXPLAINED = 60
"""Most tokens of a text that is explained; a page, and the time that it takes, grow with their square."""
_ONE_AT_A_TIME = Lock()
"""Held while a text is explained, because that takes as long as translating hundreds."""
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')


class Named(Fields):
    """The languages of a request, and its key."""

    source: str = "auto"
    """The language of the text by its code, or `auto`."""
    target: str | None = None
    """The language to translate into; may be left out if there is one."""
    api_key: str | None = None


class Asked(Named):
    """A request for translations."""

    text: str | list[str]
    """A text, or several."""
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    """How many further translations of each text are wanted."""
    beam_size: int | None = pydantic.Field(default=None, ge=1)
    """Hypotheses that the search keeps; the model's own number if left out."""
    align: bool = False
    """Whether to say which word came from which, and which words are doubtful."""
    terms: dict[str, list[str]] | None = None
    """The forms, one of which translates each term; none: the term stays. The server's own terms if left out."""
    prefix: str = ""
    """The translation begins so; for one text of format `text`."""
    stream: bool = False
    """Whether the translation is sent while it is made, as server-sent events; for one text."""

    @property
    def settings(self) -> dict[str, Any]:
        terms = {} if self.terms is None else {"terms": tuple((term, *forms) for term, forms in self.terms.items())}
        return {"alternatives": self.alternatives, "beam_size": self.beam_size, "align": self.align, **terms}


class AskedPage(Named):
    """A request for the page that explains a translation."""

    text: str


class AskedWords(AskedPage):
    """A request for other words in the place of one."""

    translation: str
    """The whole translation."""
    word: int
    """The number of the word, as in `target_words`."""


def _also(kind: str) -> dict[int | str, dict[str, Any]]:
    """What the schema says of a good answer of this kind."""
    return {200: {"content": {kind: {}}}}


routes = APIRouter(prefix="/v1", tags=["Dragoman"])


@routes.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """The models and their directions, and what one request may ask for."""
    server = server_of(request)
    service = server.service
    listed = [
        {"name": model.name, "source": model.source, "target": target, "ready": model.translator is not None}
        for model in service.models
        for target in model.targets or [""]
    ]
    return {
        "ready": service.is_ready,
        "models": listed,
        "limits": service.limits.model_dump(include={"characters", "texts", "alternatives", "document_bytes"}),
        "key_required": server.keys is not None,
        "document_formats": DOCUMENT_SUFFIXES,
    }


@routes.post("/translate", openapi_extra=body_of(Asked), responses=_also("text/event-stream"))
async def translate(request: Request) -> Response:
    """The translation of each text, with scores, tokens, flags, and the words that it came from."""
    asked, server = await read(request, Asked), server_of(request)
    if asked.stream:
        events = await server.stream(request, lambda job: streamed(server.service, asked, job))
        return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
    told = await server.work(request, lambda job: translated(server.service, asked, job))
    return JSONResponse({"translations": told})


@routes.post("/words", openapi_extra=body_of(AskedWords))
async def words(request: Request) -> dict[str, Any]:
    """What else could stand in the place of a word of a translation, the likeliest first. The `prefix` of each, given
    to /v1/translate, has the sentence rewritten from there.
    """
    asked, server = await read(request, AskedWords), server_of(request)
    return {"words": await server.work(request, lambda job: others(server.service, asked, job))}


@routes.post("/explain", openapi_extra=body_of(AskedPage), response_class=Response, responses=_also("text/html"))
async def explain(request: Request) -> Response:
    """A page that explains how a sentence is translated, with every number. It loads nothing."""
    asked, server = await read(request, AskedPage), server_of(request)
    page = await server.work(request, lambda job: explained(server.service, asked, job))
    policy = next(_POLICY.finditer(page))[1]
    return HTMLResponse(page, headers={"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"})


def prepared(
    service: Service, asked: Named, text: str, job: Job, **settings: Any
) -> tuple[Translator, SearchOptions, Answer]:
    """What translates one text, how it searches, and the answer without its translation.

    Raises:
        Refused: as in `Service.translate`.
    """
    model, goal, detected = service.route(text, asked.source, asked.target)
    options = service.options(model, goal, **settings)
    service.limits.check([text], settings.get("alternatives", 0), options.beam_size)
    return service.translator(model, job), options, Answer(Translation(text), model.source, goal, detected)


def translated(service: Service, asked: Asked, job: Job) -> list[dict[str, Any]]:
    """The translations of a request, in plain values."""
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    if not asked.prefix:
        is_html = asked.format == "html"
        answers = service.translate(texts, asked.source, asked.target, job, is_html=is_html, **asked.settings)
    elif asked.format == "html" or len(texts) != 1:
        raise Refused(400, "prefix is for one text of the format text")
    else:
        translator, options, answer = prepared(service, asked, texts[0], job, **asked.settings)
        with refusing():
            answers = [answer._replace(translation=rewritten(translator, texts[0], asked.prefix, options))]
    return [facts(service, asked, answer) for answer in answers]


def others(service: Service, asked: AskedWords, job: Job) -> list[dict[str, Any]]:
    """Other words for a place, in plain values."""
    translator, options, _ = prepared(service, asked, asked.text, job)
    with refusing():
        found = other_words(translator, asked.text, asked.translation, asked.word, options)
    return [each._asdict() for each in found]


def streamed(service: Service, asked: Asked, job: Job) -> Iterator[str]:
    """The translation of one text as server-sent events. Without an event, it is refused as `translated`."""
    if not isinstance(asked.text, str):
        raise Refused(400, "stream is for one text, not for a list")
    try:
        found = prepared(service, asked, asked.text, job, **asked.settings)
    except OtherLanguage:
        found = None  # left as it is, or refused below
    if found is None or asked.prefix or asked.format == "html":
        (told,) = translated(service, asked, job)
        yield event("piece", {"text": told["text"]}) + event("translation", told)
        return
    translator, options, answer = found
    has_begun = False
    try:
        with refusing():
            for piece in pieces(translator, asked.text, options):
                if isinstance(piece, Translation):
                    yield event("translation", facts(service, asked, answer._replace(translation=piece)))
                elif piece:
                    yield event("piece", {"text": piece})
                    has_begun = True
    except Refused as error:
        if not has_begun:
            raise
        yield event("error", {"error": str(error)})


def pieces(translator: Translator, text: str, options: SearchOptions) -> Iterator[str | Translation]:
    """The translation of a text of several lines in pieces as they are made, then the whole."""
    parts: list[Translation] = []
    for line in re.findall(r"[^\r\n]+|[\r\n]+", text):
        for core in lines_in(line):
            before, _, line = line.partition(core)
            yield before
            parts.append((yield from translator.stream(core, options)))
        yield line
    yield joined(text, parts, partial(with_lines, text))


def event(name: str, data: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def facts(service: Service, asked: Asked, answer: Answer) -> dict[str, Any]:
    """A translation in plain values."""
    translation, source, target, detected, was_translated = answer
    terms = compiled(asked.settings.get("terms", service.terms))
    found = dict.fromkeys(terms.sources[number] for _, number in terms.found(translation.source))
    told = {
        "source": source,
        "target": target,
        "translated": was_translated,
        "detected": detected and {"language": detected.language, "confidence": round(100 * detected.confidence, 1)},
        "tokens": [
            {"token": token, "log_prob": log_prob}
            for token, log_prob in zip(translation.tokens, translation.token_log_probs, strict=True)
        ],
        "flags": [{"name": flag, "meaning": MEANINGS[flag]} for flag in translation.flags],
        "used_terms": [term for term in found if term not in translation.unused_terms],
        "alternatives": [_named(each, "text", "score", "log_prob") for each in translation.alternatives],
        **_named(translation, "text", "score", "log_prob", "unknown_words", "lost", "unused_terms", "rewritten"),
    }
    if asked.align:
        told |= _named(translation, "source_words", "target_words", "alignment")
        told["doubtful_words"] = [word for word, low in enumerate(translation.word_log_probs) if low < DOUBTFUL]
    return told


def _named(translation: Translation, *names: str) -> dict[str, Any]:
    return {name: getattr(translation, name) for name in names}


def explained(service: Service, asked: AskedPage, job: Job) -> str:
    """The page of `dragoman explain`.

    Raises:
        Refused: the text is too long, or holds nothing that the model reads (400).
    """
    service.limits.check([asked.text], 0, 1)
    model, goal, _ = service.route(asked.text, asked.source, asked.target)
    assert model.translator is not None
    with refusing():
        (line,) = model.translator.read([asked.text], service.options(model, goal))
        tokens = sum(len(segment.ids) for segment in line.parts)
        if tokens > MOST_EXPLAINED:
            raise DecodeError(f"at most {MOST_EXPLAINED} tokens are explained, but this text has {tokens}")
        with _ONE_AT_A_TIME, use_threads(model.translator.threads):
            job.check()
            record = model.recorder.record(model.recorder.tagged(asked.text, model.targets[goal]))
    return render(replace(record, model=model.name), "html").decode()  # a client learns no paths
