"""DeepL's API for text, as its official clients speak it: translations, languages, usage and glossaries.

Glossaries last as long as the server does. What else DeepL offers is refused by name.
"""

import csv
import re
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from unicodedata import normalize

import pydantic
from fastapi import APIRouter, FastAPI, Query, Request, Response

from dragoman.languages import base_language, english_name
from dragoman.serving.fields import Code, Fields, body_of, read
from dragoman.serving.limits import Refused
from dragoman.serving.server import server_of
from dragoman.serving.service import Answer
from dragoman.serving.shared_search import Job

UNLIMITED = 10**12
"""The most characters that may be translated, as DeepL tells it those who may translate any number."""
MOST_GLOSSARIES, MOST_CHARACTERS = 1_000, 10_000_000
"""Most glossaries of an account, and most characters of them all, where each entry counts as 100 more."""
REGIONS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Languages into which DeepL's clients translate only if a region is named."""
REFUSED_FIELDS = (
    *("custom_instructions", "non_splitting_tags", "splitting_tags", "style_id"),
    *("translation_memory_id", "translation_memory_threshold"),
)
REFUSED_PATHS = (
    *("/v2/admin", "/v2/document", "/v2/write", "/v3/languages", "/v3/style_rules"),
    *("/v3/translation_memories", "/v3/voice"),
)
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f]")
Pair = tuple[str, str]
Name = Annotated[str, pydantic.Field(min_length=1, max_length=1_000)]


def _divided(given: Any) -> Any:
    return given.split(",") if isinstance(given, str) else given


class TextToTranslate(Fields, extra="allow"):
    """Texts, and how they are translated. A text is translated without `context`, and keeps its formatting anyway."""

    text: Annotated[list[str], pydantic.BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]
    target_lang: Code
    source_lang: Code | None = None
    """Left out: it is detected."""
    context: str = ""
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    glossary_id: str | None = None
    glossary_ids: Annotated[tuple[str, ...], pydantic.BeforeValidator(_divided), pydantic.Field(max_length=5)] = ()
    ignore_tags: Annotated[tuple[str, ...], pydantic.BeforeValidator(_divided)] = ()
    """Of XML, the tags in which nothing is translated."""
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = None
    outline_detection: bool = True
    preserve_formatting: bool = False
    show_billed_characters: bool = False
    split_sentences: Annotated[Literal["0", "1", "nonewlines"], pydantic.BeforeValidator(str)] = "1"
    tag_handling: Literal["xml", "html"] | None = None
    tag_handling_version: Literal["v1", "v2"] = "v2"


class Translated(pydantic.BaseModel):
    """A translation. What was not asked for is left out."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None
    model_type_used: str | None = None
    tag_handling_version: str | None = None


class LanguagesAsked(Fields):
    """Which side of a translation is asked for."""

    type: Literal["source", "target"] = "source"


class Language(pydantic.BaseModel):
    """A language; of a target, also whether its formality can be chosen."""

    language: str
    name: str
    supports_formality: bool | None = None


class LanguagePair(Fields):
    """A source and a target language."""

    source_lang: Code
    target_lang: Code

    @property
    def pair(self) -> Pair:
        """Both without regions, because a glossary is for all regions."""
        return base_language(self.source_lang), base_language(self.target_lang)


class Dictionary(LanguagePair):
    """The entries of a glossary for two languages, in lines of two columns with a tab or a comma between them."""

    entries: str
    entries_format: Literal["tsv", "csv"] = "tsv"


class NewGlossary(Fields):
    """A glossary to make. The entries for two languages may stand here without a list."""

    name: Name
    dictionaries: tuple[Dictionary, ...] = ()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _in_a_list(cls, given: Any) -> Any:
        return given | {"dictionaries": [given]} if "entries" in given else given


class GlossaryChange(NewGlossary):
    """What becomes different in a glossary: its name, or some entries."""

    name: Name = ""


class DictionaryInfo(LanguagePair):
    """How many entries a glossary has for two languages."""

    entry_count: int


class GlossaryInfo(pydantic.BaseModel):
    """A glossary without its entries. Version 2 tells one of its dictionaries, version 3 all."""

    glossary_id: str
    name: str
    ready: bool = True
    creation_time: str
    source_lang: str = ""
    target_lang: str = ""
    entry_count: int = 0
    dictionaries: list[DictionaryInfo] = []


V2_ONLY, V3_ONLY = {"ready", "source_lang", "target_lang", "entry_count"}, {"dictionaries"}


@dataclass(frozen=True)
class Glossary:
    """Terms and their translations, by source and target language."""

    name: str
    dictionaries: dict[Pair, dict[str, str]]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def info(self) -> GlossaryInfo:
        """The glossary without its entries."""
        since = self.since.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        dictionaries = [_info(pair, entries) for pair, entries in self.dictionaries.items()]
        first = dictionaries[0].model_dump() if dictionaries else {}
        return GlossaryInfo(
            glossary_id=self.id, name=self.name, creation_time=since, dictionaries=dictionaries, **first
        )

    def entries(self, pair: Pair) -> dict[str, str]:
        """The terms and their translations for two languages.

        Raises:
            Refused: there are none (404).
        """
        if pair not in self.dictionaries:
            raise Refused(404, f"the glossary {self.id} has no entries for {' to '.join(pair)}")
        return self.dictionaries[pair]


class Account:
    """What DeepL keeps for an account. Each key has one; without keys, all clients share one."""

    def __init__(self) -> None:
        self.characters = 0
        self.glossaries: dict[str, Glossary] = {}

    def glossary(self, glossary_id: str) -> Glossary:
        """The glossary with this id.

        Raises:
            Refused: there is none (404).
        """
        if glossary_id not in self.glossaries:
            raise Refused(404, "there is no glossary with this id; glossaries last as long as the server does")
        return self.glossaries[glossary_id]

    def keep(self, glossary: Glossary) -> GlossaryInfo:
        """Keeps a new glossary, or one that has changed.

        Raises:
            Refused: there is no room for it (456).
        """
        after = self.glossaries | {glossary.id: glossary}
        entries = [entry for each in after.values() for terms in each.dictionaries.values() for entry in terms.items()]
        if len(after) > MOST_GLOSSARIES or sum(len(term) + len(form) + 100 for term, form in entries) > MOST_CHARACTERS:
            raise Refused(456, "there is no room for more glossaries; delete some, or some of their entries")
        self.glossaries = after
        return glossary.info


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, defaultdict[str | None, Account]]]:
    yield {"accounts": defaultdict(Account)}


def _account(request: Request) -> Account:
    return request.state.accounts[getattr(request.state, "key", None)]


routes = APIRouter(tags=["DeepL"], lifespan=_lifespan)


@routes.post("/v2/translate", openapi_extra=body_of(TextToTranslate), response_model_exclude_none=True)
async def translate(request: Request) -> dict[Literal["translations"], list[Translated]]:
    """Translates texts."""
    asked, service, account = await read(request, TextToTranslate), server_of(request).service, _account(request)
    given = {name: value for name, value in (asked.model_extra or {}).items() if name in REFUSED_FIELDS}
    given |= {"outline_detection=false": not asked.outline_detection}
    given |= {"ignore_tags without tag_handling=xml": asked.ignore_tags and asked.tag_handling != "xml"}
    if refused := [name for name, value in given.items() if value]:
        raise Refused(400, f"this server does not offer {', '.join(refused)}; leave it out")
    glossaries = [account.glossary(each) for each in (asked.glossary_id, *asked.glossary_ids) if each]
    texts, is_marked_up = asked.text, asked.tag_handling is not None
    if asked.split_sentences != "1" and not is_marked_up:
        texts = [" ".join(text.splitlines()) for text in texts]

    def call(job: Job) -> list[Answer]:
        settings: dict[str, Any] = {"split": "long"} if asked.split_sentences == "0" else {}
        if glossaries:
            settings["terms"] = _terms(glossaries, asked)
        source, kept = asked.source_lang or "auto", asked.ignore_tags if asked.tag_handling == "xml" else None
        return service.translate(
            texts, source, asked.target_lang, job, is_html=is_marked_up, kept_tags=kept, **settings
        )

    answers = await server_of(request).work(request, call)
    account.characters += sum(map(len, asked.text))
    return {
        "translations": [
            Translated(
                detected_source_language=base_language(answer.source).upper(),
                text=answer.translation.text if answer.translated else text,
                billed_characters=len(text) if asked.show_billed_characters else None,
                model_type_used=asked.model_type and asked.model_type.removeprefix("prefer_"),
                tag_handling_version=asked.tag_handling_version if is_marked_up else None,
            )
            for text, answer in zip(asked.text, answers, strict=True)
        ]
    }


@routes.get("/v2/usage")
async def usage(request: Request) -> dict[Literal["character_count", "character_limit"], int]:
    """Says how many characters were translated since the server began, and how many may be."""
    return {"character_count": _account(request).characters, "character_limit": UNLIMITED}


@routes.get("/v2/languages", response_model_exclude_none=True)
async def languages(request: Request) -> list[Language]:
    """Says which languages are translated, or with `type=target` into which."""
    is_target = (await read(request, LanguagesAsked)).type == "target"
    codes = sorted({pair[is_target] for pair in server_of(request).service.pairs()})
    if is_target:
        codes = [each for code in codes for each in REGIONS.get(code, (code,))]
    formality = False if is_target else None
    return [Language(language=code.upper(), name=english_name(code), supports_formality=formality) for code in codes]


@routes.get("/v2/glossary-language-pairs")
async def glossary_language_pairs(request: Request) -> dict[Literal["supported_languages"], list[LanguagePair]]:
    """Says between which languages a glossary translates."""
    pairs = dict.fromkeys(
        (base_language(one), base_language(other)) for one, other in server_of(request).service.pairs()
    )
    return {"supported_languages": [LanguagePair(source_lang=one, target_lang=other) for one, other in pairs]}


@routes.post("/v2/glossaries", status_code=201, response_model_exclude=V3_ONLY, openapi_extra=body_of(NewGlossary))
@routes.post("/v3/glossaries", status_code=201, response_model_exclude=V2_ONLY, openapi_extra=body_of(NewGlossary))
async def make_glossary(request: Request) -> GlossaryInfo:
    """Makes a glossary."""
    asked = await read(request, NewGlossary)
    return _account(request).keep(Glossary(asked.name, _terms_of(request, asked.dictionaries)))


@routes.get("/v2/glossaries", response_model_exclude={"glossaries": {"__all__": V3_ONLY}})
@routes.get("/v3/glossaries", response_model_exclude={"glossaries": {"__all__": V2_ONLY}})
async def glossaries(request: Request) -> dict[Literal["glossaries"], list[GlossaryInfo]]:
    """Lists the glossaries."""
    return {"glossaries": [each.info for each in _account(request).glossaries.values()]}


@routes.get("/v2/glossaries/{glossary_id}", response_model_exclude=V3_ONLY)
@routes.get("/v3/glossaries/{glossary_id}", response_model_exclude=V2_ONLY)
async def glossary(request: Request, glossary_id: str) -> GlossaryInfo:
    """Describes a glossary."""
    return _account(request).glossary(glossary_id).info


@routes.patch("/v3/glossaries/{glossary_id}", response_model_exclude=V2_ONLY, openapi_extra=body_of(GlossaryChange))
async def change_glossary(request: Request, glossary_id: str) -> GlossaryInfo:
    """Renames a glossary, or adds entries to it, which replace others of the same terms."""
    asked = await read(request, GlossaryChange)
    added = _terms_of(request, asked.dictionaries)
    before = _account(request).glossary(glossary_id)
    merged = {pair: before.dictionaries.get(pair, {}) | entries for pair, entries in added.items()}
    after = replace(before, name=asked.name or before.name, dictionaries=before.dictionaries | merged)
    return _account(request).keep(after)


@routes.delete("/v2/glossaries/{glossary_id}", status_code=204)
@routes.delete("/v3/glossaries/{glossary_id}", status_code=204)
async def delete_glossary(request: Request, glossary_id: str) -> None:
    """Deletes a glossary."""
    del _account(request).glossaries[_account(request).glossary(glossary_id).id]


@routes.get("/v2/glossaries/{glossary_id}/entries", response_class=Response)
async def entries_in_lines(request: Request, glossary_id: str) -> Response:
    """Writes the entries of a glossary for two languages, with a tab between the columns."""
    glossary = _account(request).glossary(glossary_id)
    lines = _in_lines(glossary.entries(next(iter(glossary.dictionaries), ("", ""))))
    return Response(lines, media_type="text/tab-separated-values")


@routes.get("/v3/glossaries/{glossary_id}/entries")
async def entries(
    request: Request, glossary_id: str, asked: Annotated[LanguagePair, Query()]
) -> dict[Literal["dictionaries"], list[Dictionary]]:
    """Writes the entries of a glossary for two languages."""
    lines = _in_lines(_account(request).glossary(glossary_id).entries(asked.pair))
    source, target = asked.pair
    return {"dictionaries": [Dictionary(source_lang=source, target_lang=target, entries=lines)]}


@routes.put("/v3/glossaries/{glossary_id}/dictionaries", openapi_extra=body_of(Dictionary))
async def replace_entries(request: Request, glossary_id: str) -> DictionaryInfo:
    """Replaces the entries of a glossary for two languages."""
    new = _terms_of(request, [await read(request, Dictionary)])
    before = _account(request).glossary(glossary_id)
    _account(request).keep(replace(before, dictionaries=before.dictionaries | new))
    return _info(*next(iter(new.items())))


@routes.delete("/v3/glossaries/{glossary_id}/dictionaries", status_code=204)
async def delete_entries(request: Request, glossary_id: str, asked: Annotated[LanguagePair, Query()]) -> None:
    """Deletes the entries of a glossary for two languages."""
    before = _account(request).glossary(glossary_id)
    rest = {pair: entries for pair, entries in before.dictionaries.items() if entries is not before.entries(asked.pair)}
    _account(request).keep(replace(before, dictionaries=rest))


async def _refuse(request: Request) -> None:
    raise Refused(404, f"this server does not offer {request.url.path}; of DeepL it has texts, usage and glossaries")


for _path in REFUSED_PATHS:
    _methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    routes.add_api_route(_path + "{rest:path}", _refuse, methods=_methods, include_in_schema=False)


def _info(pair: Pair, entries: dict[str, str]) -> DictionaryInfo:
    return DictionaryInfo(source_lang=pair[0], target_lang=pair[1], entry_count=len(entries))


def _in_lines(entries: dict[str, str]) -> str:
    return "\n".join(f"{term}\t{form}" for term, form in entries.items())


def _terms_of(request: Request, dictionaries: Sequence[Dictionary]) -> dict[Pair, dict[str, str]]:
    """The entries for each two languages.

    Raises:
        Refused: they cannot be read, or no model has these languages (400).
    """
    service = server_of(request).service
    service.check_ready()
    for each in dictionaries:
        service.model(each.source_lang, each.target_lang)
    return {each.pair: _entries(each) for each in dictionaries}


def _entries(dictionary: Dictionary) -> dict[str, str]:
    how: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if dictionary.entries_format == "tsv" else {}
    try:
        rows = [row for row in csv.reader(dictionary.entries.splitlines(), strict=True, **how) if row]
    except csv.Error as error:
        raise Refused(400, f"the entries are not {dictionary.entries_format}: {error}") from None
    if not rows:
        raise Refused(400, "a glossary must have entries for its languages")
    entries: dict[str, str] = {}
    seen: dict[str, str] = {}
    for row in rows:  # in CSV, the codes of the languages may follow
        if len(row) not in ((2,) if how else (2, 4)) or _CONTROL.search("".join(row)):
            raise Refused(400, f"an entry must be a term and its translation, but one is {str(row)[:200]}")
        term, form = row[0].strip(), row[1].strip()
        if not (term and form) or seen.setdefault(term.casefold(), form) != form:
            raise Refused(400, f"the term {term!r} has no translation, or stands twice with different ones")
        entries[term] = form
    return entries


def _terms(glossaries: Sequence[Glossary], asked: TextToTranslate) -> list[tuple[str, str]]:
    """The terms that the texts may hold; of several for the same word, the first."""
    if asked.source_lang is None:
        raise Refused(400, "with a glossary, source_lang must be given")
    pair = base_language(asked.source_lang), base_language(asked.target_lang)
    text = normalize("NFC", "\n".join(asked.text)).casefold()
    terms: dict[str, tuple[str, str]] = {}
    for glossary in glossaries:
        for entry in glossary.entries(pair).items():
            term = normalize("NFC", entry[0]).casefold()
            if all(word in text for word in re.findall(r"\w+", term)):  # every term in the search costs time
                terms.setdefault(term, entry)
    return list(terms.values())
