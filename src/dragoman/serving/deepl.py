"""DeepL's API for text: translations, languages, usage, and glossaries that are lost when the server stops."""

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
from dragoman.serving.service import TextAnswer
from dragoman.serving.shared_search import Job

UNLIMITED = 10**12
"""Character limit that DeepL reports to accounts without a limit."""
MOST_GLOSSARIES, MOST_CHARACTERS = 1_000, 10_000_000
"""Maximum number of glossaries of an account, and of their characters; each entry counts as 100 more."""
REGIONS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Target languages for which DeepL's clients require a region."""
REFUSED_FIELDS = (
    *("custom_instructions", "non_splitting_tags", "splitting_tags", "style_id"),
    *("translation_memory_id", "translation_memory_threshold"),
)
REFUSED_PATHS = (
    *("/v2/admin", "/v2/document", "/v2/write", "/v3/languages", "/v3/style_rules"),
    *("/v3/translation_memories", "/v3/voice"),
)
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f]")
LanguageCodes = tuple[str, str]
"""Source and target language."""
GlossaryName = Annotated[str, pydantic.Field(min_length=1, max_length=1_000)]


def _split_commas(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class DeepLTexts(Fields, extra="allow"):
    """Texts with languages and options. `context` is ignored, and formatting is always preserved."""

    text: Annotated[list[str], pydantic.BeforeValidator(_as_list)]
    target_lang: Code
    source_lang: Code | None = None
    """Detected if missing."""
    context: str = ""
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    glossary_id: str | None = None
    glossary_ids: Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_commas), pydantic.Field(max_length=5)] = ()
    ignore_tags: Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_commas)] = ()
    """XML tags whose content is not translated."""
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = None
    outline_detection: bool = True
    preserve_formatting: bool = False
    show_billed_characters: bool = False
    split_sentences: Annotated[Literal["0", "1", "nonewlines"], pydantic.BeforeValidator(str)] = "1"
    tag_handling: Literal["xml", "html"] | None = None
    tag_handling_version: Literal["v1", "v2"] = "v2"


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


class LanguagePair(Fields):
    """Source and target language."""

    source_lang: Code
    target_lang: Code

    @property
    def direction(self) -> LanguageCodes:
        """Both languages without regions, because a glossary applies to all regions."""
        return base_language(self.source_lang), base_language(self.target_lang)


class Dictionary(LanguagePair):
    """Entries of a glossary for one direction, as lines of two columns separated by a tab or a comma."""

    entries: str
    entries_format: Literal["tsv", "csv"] = "tsv"


class NewGlossary(Fields):
    """New glossary. The fields of a single dictionary may also be given directly."""

    name: GlossaryName
    dictionaries: tuple[Dictionary, ...] = ()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _in_a_list(cls, fields: Any) -> Any:
        return fields | {"dictionaries": [fields]} if "entries" in fields else fields


class GlossaryChange(NewGlossary):
    """New name or additional entries of a glossary."""

    name: GlossaryName = ""


class DictionaryInfo(LanguagePair):
    """Number of entries of a glossary for one direction."""

    entry_count: int


class GlossaryInfo(pydantic.BaseModel):
    """Glossary without its entries. Version 2 of the API reports its first dictionary, version 3 all."""

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
    """Glossary: terms and their translations, by direction."""

    name: str
    dictionaries: dict[LanguageCodes, dict[str, str]]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def info(self) -> GlossaryInfo:
        """The glossary without its entries."""
        created = self.created.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        dictionaries = [_info(direction, entries) for direction, entries in self.dictionaries.items()]
        first = dictionaries[0].model_dump() if dictionaries else {}
        return GlossaryInfo(
            glossary_id=self.id, name=self.name, creation_time=created, dictionaries=dictionaries, **first
        )

    def entries(self, direction: LanguageCodes) -> dict[str, str]:
        """Return the terms and their translations for a direction; refuse one without entries (404)."""
        if direction not in self.dictionaries:
            raise Refused(404, f"the glossary {self.id} has no entries for {' to '.join(direction)}")
        return self.dictionaries[direction]


class Account:
    """Usage and glossaries of a key; without keys, all clients share one account."""

    def __init__(self) -> None:
        self.characters = 0
        self.glossaries: dict[str, Glossary] = {}

    def glossary(self, glossary_id: str) -> Glossary:
        """Return the glossary with this id; refuse an unknown one (404)."""
        if glossary_id not in self.glossaries:
            raise Refused(404, "there is no glossary with this id; glossaries are lost when the server stops")
        return self.glossaries[glossary_id]

    def keep(self, glossary: Glossary) -> GlossaryInfo:
        """Store a new or changed glossary; refuse one that exceeds the limits (456)."""
        glossaries = self.glossaries | {glossary.id: glossary}
        dictionaries = [entries for stored in glossaries.values() for entries in stored.dictionaries.values()]
        characters = sum(len(term) + len(form) + 100 for entries in dictionaries for term, form in entries.items())
        if len(glossaries) > MOST_GLOSSARIES or characters > MOST_CHARACTERS:
            raise Refused(456, "the limit for glossaries is exceeded; delete some, or some of their entries")
        self.glossaries = glossaries
        return glossary.info


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, defaultdict[str | None, Account]]]:
    yield {"accounts": defaultdict(Account)}


def _account(request: Request) -> Account:
    return request.state.accounts[getattr(request.state, "key", None)]


routes = APIRouter(tags=["DeepL"], lifespan=_lifespan)


@routes.post("/v2/translate", openapi_extra=body_of(DeepLTexts), response_model_exclude_none=True)
async def translate(request: Request) -> dict[Literal["translations"], list[Translated]]:
    """Translate texts."""
    fields, service, account = await read(request, DeepLTexts), server_of(request).service, _account(request)
    _refuse_unsupported(fields)
    glossaries = [account.glossary(id_) for id_ in (fields.glossary_id, *fields.glossary_ids) if id_]
    texts, is_marked_up = fields.text, fields.tag_handling is not None
    if fields.split_sentences != "1" and not is_marked_up:
        texts = [" ".join(text.splitlines()) for text in texts]

    def call(job: Job) -> list[TextAnswer]:
        settings: dict[str, Any] = {"split": "long"} if fields.split_sentences == "0" else {}
        if glossaries:
            settings["terms"] = _terms(glossaries, fields)
        source, kept = fields.source_lang or "auto", fields.ignore_tags if fields.tag_handling == "xml" else None
        return service.translate(
            texts, source, fields.target_lang, job, is_html=is_marked_up, kept_tags=kept, **settings
        )

    answers = await server_of(request).work(request, call)
    account.characters += sum(map(len, fields.text))
    return {
        "translations": [
            Translated(
                detected_source_language=base_language(answer.source).upper(),
                text=answer.translation.text if answer.translated else text,
                billed_characters=len(text) if fields.show_billed_characters else None,
                model_type_used=fields.model_type and fields.model_type.removeprefix("prefer_"),
                tag_handling_version=fields.tag_handling_version if is_marked_up else None,
            )
            for text, answer in zip(fields.text, answers, strict=True)
        ]
    }


def _refuse_unsupported(fields: DeepLTexts) -> None:
    unsupported = {name: value for name, value in (fields.model_extra or {}).items() if name in REFUSED_FIELDS}
    unsupported["outline_detection=false"] = not fields.outline_detection
    unsupported["ignore_tags without tag_handling=xml"] = fields.ignore_tags and fields.tag_handling != "xml"
    if names := [name for name, value in unsupported.items() if value]:
        raise Refused(400, f"this server does not support {', '.join(names)}; leave it out")


@routes.get("/v2/usage")
async def usage(request: Request) -> dict[Literal["character_count", "character_limit"], int]:
    """Return the number of characters translated since the server started, and the limit."""
    return {"character_count": _account(request).characters, "character_limit": UNLIMITED}


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


@routes.get("/v2/glossary-language-pairs")
async def glossary_language_pairs(request: Request) -> dict[Literal["supported_languages"], list[LanguagePair]]:
    """List the directions for which glossaries can be made."""
    directions = dict.fromkeys(
        (base_language(source), base_language(target)) for source, target in server_of(request).service.pairs()
    )
    return {
        "supported_languages": [LanguagePair(source_lang=source, target_lang=target) for source, target in directions]
    }


@routes.post("/v2/glossaries", status_code=201, response_model_exclude=V3_ONLY, openapi_extra=body_of(NewGlossary))
@routes.post("/v3/glossaries", status_code=201, response_model_exclude=V2_ONLY, openapi_extra=body_of(NewGlossary))
async def make_glossary(request: Request) -> GlossaryInfo:
    """Create a glossary."""
    new = await read(request, NewGlossary)
    return _account(request).keep(Glossary(new.name, _terms_of(request, new.dictionaries)))


@routes.get("/v2/glossaries", response_model_exclude={"glossaries": {"__all__": V3_ONLY}})
@routes.get("/v3/glossaries", response_model_exclude={"glossaries": {"__all__": V2_ONLY}})
async def glossaries(request: Request) -> dict[Literal["glossaries"], list[GlossaryInfo]]:
    """List the glossaries."""
    return {"glossaries": [glossary.info for glossary in _account(request).glossaries.values()]}


@routes.get("/v2/glossaries/{glossary_id}", response_model_exclude=V3_ONLY)
@routes.get("/v3/glossaries/{glossary_id}", response_model_exclude=V2_ONLY)
async def glossary(request: Request, glossary_id: str) -> GlossaryInfo:
    """Describe a glossary."""
    return _account(request).glossary(glossary_id).info


@routes.patch("/v3/glossaries/{glossary_id}", response_model_exclude=V2_ONLY, openapi_extra=body_of(GlossaryChange))
async def change_glossary(request: Request, glossary_id: str) -> GlossaryInfo:
    """Rename a glossary, or add entries to it, which replace existing entries of the same terms."""
    change = await read(request, GlossaryChange)
    added = _terms_of(request, change.dictionaries)
    old = _account(request).glossary(glossary_id)
    merged = {direction: old.dictionaries.get(direction, {}) | entries for direction, entries in added.items()}
    changed = replace(old, name=change.name or old.name, dictionaries=old.dictionaries | merged)
    return _account(request).keep(changed)


@routes.delete("/v2/glossaries/{glossary_id}", status_code=204)
@routes.delete("/v3/glossaries/{glossary_id}", status_code=204)
async def delete_glossary(request: Request, glossary_id: str) -> None:
    """Delete a glossary."""
    del _account(request).glossaries[_account(request).glossary(glossary_id).id]


@routes.get("/v2/glossaries/{glossary_id}/entries", response_class=Response)
async def entries_in_lines(request: Request, glossary_id: str) -> Response:
    """Return the entries of a glossary's first dictionary as tab-separated lines."""
    glossary = _account(request).glossary(glossary_id)
    lines = _in_lines(glossary.entries(next(iter(glossary.dictionaries), ("", ""))))
    return Response(lines, media_type="text/tab-separated-values")


@routes.get("/v3/glossaries/{glossary_id}/entries")
async def entries(
    request: Request, glossary_id: str, fields: Annotated[LanguagePair, Query()]
) -> dict[Literal["dictionaries"], list[Dictionary]]:
    """Return the entries of a glossary for one direction."""
    source, target = fields.direction
    lines = _in_lines(_account(request).glossary(glossary_id).entries((source, target)))
    return {"dictionaries": [Dictionary(source_lang=source, target_lang=target, entries=lines)]}


@routes.put("/v3/glossaries/{glossary_id}/dictionaries", openapi_extra=body_of(Dictionary))
async def replace_entries(request: Request, glossary_id: str) -> DictionaryInfo:
    """Replace the entries of a glossary for one direction."""
    new = _terms_of(request, [await read(request, Dictionary)])
    old = _account(request).glossary(glossary_id)
    _account(request).keep(replace(old, dictionaries=old.dictionaries | new))
    return _info(*next(iter(new.items())))


@routes.delete("/v3/glossaries/{glossary_id}/dictionaries", status_code=204)
async def delete_entries(request: Request, glossary_id: str, fields: Annotated[LanguagePair, Query()]) -> None:
    """Delete the entries of a glossary for one direction."""
    old = _account(request).glossary(glossary_id)
    deleted = old.entries(fields.direction)
    rest = {direction: entries for direction, entries in old.dictionaries.items() if entries is not deleted}
    _account(request).keep(replace(old, dictionaries=rest))


async def _refuse(request: Request) -> None:
    raise Refused(404, f"this server does not support {request.url.path}; it supports texts, usage and glossaries")


for _path in REFUSED_PATHS:
    _methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    routes.add_api_route(_path + "{rest:path}", _refuse, methods=_methods, include_in_schema=False)


def _info(direction: LanguageCodes, entries: dict[str, str]) -> DictionaryInfo:
    return DictionaryInfo(source_lang=direction[0], target_lang=direction[1], entry_count=len(entries))


def _in_lines(entries: dict[str, str]) -> str:
    return "\n".join(f"{term}\t{form}" for term, form in entries.items())


def _terms_of(request: Request, dictionaries: Sequence[Dictionary]) -> dict[LanguageCodes, dict[str, str]]:
    """Return the entries by direction, after a check that models serve these directions (else refused with 400)."""
    service = server_of(request).service
    service.check_ready()
    for dictionary in dictionaries:
        service.model(dictionary.source_lang, dictionary.target_lang)
    terms = {dictionary.direction: _entries(dictionary) for dictionary in dictionaries}
    if len(terms) < len(dictionaries):
        raise Refused(400, "regions such as en-GB and en-US share a dictionary: give one for each pair of languages")
    return terms


def _entries(dictionary: Dictionary) -> dict[str, str]:
    is_tsv = dictionary.entries_format == "tsv"
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if is_tsv else {}
    try:
        rows = [row for row in csv.reader(dictionary.entries.splitlines(), strict=True, **dialect) if row]
    except csv.Error as error:
        raise Refused(400, f"the entries are not {dictionary.entries_format}: {error}") from None
    if not rows:
        raise Refused(400, "a glossary must have entries for its languages")
    entries: dict[str, str] = {}
    seen: dict[str, str] = {}
    for row in rows:  # in CSV, the codes of the languages may follow
        if len(row) not in ((2,) if is_tsv else (2, 4)) or _CONTROL.search("".join(row)):
            raise Refused(400, f"an entry must be a term and its translation, but one is {str(row)[:200]}")
        term, form = row[0].strip(), row[1].strip()
        if not (term and form) or seen.setdefault(term.casefold(), form) != form:
            raise Refused(400, f"the term {term!r} has no translation, or two different ones")
        entries[term] = form
    return entries


def _terms(glossaries: Sequence[Glossary], fields: DeepLTexts) -> list[tuple[str, str]]:
    """Return the terms that may occur in the texts; if glossaries share a term, the first one wins."""
    if fields.source_lang is None:
        raise Refused(400, "with a glossary, source_lang must be given")
    direction = base_language(fields.source_lang), base_language(fields.target_lang)
    text = normalize("NFC", "\n".join(fields.text)).casefold()
    terms: dict[str, tuple[str, str]] = {}
    for glossary in glossaries:
        for entry in glossary.entries(direction).items():
            term = normalize("NFC", entry[0]).casefold()
            if all(word in text for word in re.findall(r"\w+", term)):  # every term in the search costs time
                terms.setdefault(term, entry)
    return list(terms.values())
