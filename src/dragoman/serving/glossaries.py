"""DeepL's API for glossaries, in versions 2 and 3, and the files that hold them.

Each key has a folder, named by its SHA-256, so that a new key with an old name does not inherit its glossaries; each
glossary is a JSON file, written aside and renamed. A damaged file is renamed when it is first read.
"""

import csv
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from threading import Lock, RLock
from typing import Annotated, Any, Literal
from unicodedata import normalize

import pydantic
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response

from dragoman.config import Settings
from dragoman.errors import Error
from dragoman.files import make_folders
from dragoman.languages import base_language
from dragoman.serialization import write_json
from dragoman.serving.accounts import read_or_set_aside
from dragoman.serving.fields import Code, Fields, body_of, read
from dragoman.serving.limits import Refused
from dragoman.serving.server import server_of

MOST_GLOSSARIES, MOST_CHARACTERS = 1_000, 10_000_000
"""Maximum number of glossaries of a key, and of their characters; each entry counts as 100 more."""
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f]")
_READING = Lock()
GlossaryName = Annotated[str, pydantic.Field(min_length=1, max_length=1_000)]


class LanguagePair(Fields):
    """Source and target language."""

    source_lang: Code
    target_lang: Code

    @property
    def direction(self) -> str:
        """The direction between both languages."""
        return direction_of(self.source_lang, self.target_lang)


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


class Glossary(Settings):
    """Glossary: terms and their translations, for each direction, which is two codes such as `en-it`."""

    format: int = 1
    name: str
    dictionaries: dict[str, dict[str, str]]
    id: str = pydantic.Field(default_factory=lambda: str(uuid.uuid4()), pattern=r"^[\w-]+$")
    created: str = pydantic.Field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")

    @property
    def info(self) -> GlossaryInfo:
        """The glossary without its entries."""
        dictionaries = [_info(direction, entries) for direction, entries in self.dictionaries.items()]
        first = dictionaries[0].model_dump() if dictionaries else {}
        return GlossaryInfo(
            glossary_id=self.id, name=self.name, creation_time=self.created, dictionaries=dictionaries, **first
        )

    def entries(self, direction: str) -> dict[str, str]:
        """Return the terms and their translations for a direction; refuse one without entries (404)."""
        if direction not in self.dictionaries:
            raise Refused(404, f"the glossary {self.id} has no entries for {direction.replace('-', ' to ')}")
        return self.dictionaries[direction]


class Glossaries:
    """Glossaries of one key, in a folder that is created when the first one is stored."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.lock = folder, RLock()
        read = (read_or_set_aside(path, Glossary) for path in sorted(folder.glob("*.json")))
        self.all = {glossary.id: glossary for glossary in read if glossary is not None}

    def get(self, glossary_id: str) -> Glossary:
        """Return the glossary with this id; refuse an unknown one (404)."""
        glossary = self.all.get(glossary_id)
        if glossary is None:
            raise Refused(404, "there is no glossary with this id")
        return glossary

    def keep(self, glossary: Glossary) -> GlossaryInfo:
        """Store a new or changed glossary; refuse one that exceeds the limits (456), or a full disk (503)."""
        with self.lock:
            glossaries = {**self.all, glossary.id: glossary}
            dictionaries = [entries for stored in glossaries.values() for entries in stored.dictionaries.values()]
            characters = sum(len(term) + len(form) + 100 for entries in dictionaries for term, form in entries.items())
            if len(glossaries) > MOST_GLOSSARIES or characters > MOST_CHARACTERS:
                raise Refused(456, "the limit for glossaries is exceeded; delete some, or some of their entries")
            try:
                make_folders(self._folder)
                write_json(self._folder / f"{glossary.id}.json", glossary.model_dump())
            except (Error, OSError) as error:
                raise Refused(503, "the server cannot write glossaries; tell its operator") from error
            self.all = glossaries
        return glossary.info

    def delete(self, glossary_id: str) -> None:
        """Delete a glossary; refuse an unknown id (404)."""
        with self.lock:
            (self._folder / f"{self.get(glossary_id).id}.json").unlink(missing_ok=True)
            self.all = {id_: glossary for id_, glossary in self.all.items() if id_ != glossary_id}


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, dict[str, Glossaries]]]:
    yield {"glossaries": {}}


def glossaries_of(request: Request) -> Glossaries:
    """Return the glossaries of a request's key; refuse a request without one (403)."""
    server = server_of(request)
    key = server.key_of(request)
    if key is None or server.store is None:
        raise Refused(403, "glossaries belong to a key: start the server with --keys FILE")
    with _READING:
        if key.sha256 not in request.state.glossaries:
            request.state.glossaries[key.sha256] = Glossaries(server.store / "glossaries" / key.sha256)
        return request.state.glossaries[key.sha256]


def _body(schema: type[Fields]) -> Any:
    """Return a dependency that reads these fields, so that a route can be a plain function, which runs in a thread."""

    async def read_body(request: Request) -> Fields:
        return await read(request, schema)

    return Depends(read_body)


Own = Annotated[Glossaries, Depends(glossaries_of)]
Pair = Annotated[LanguagePair, Query()]
routes = APIRouter(tags=["DeepL"], lifespan=_lifespan)


@routes.get("/v2/glossary-language-pairs")
async def glossary_language_pairs(request: Request) -> dict[Literal["supported_languages"], list[LanguagePair]]:
    """List the directions for which glossaries can be made."""
    directions = dict.fromkeys(tuple(map(base_language, pair)) for pair in server_of(request).service.pairs())
    return {
        "supported_languages": [LanguagePair(source_lang=source, target_lang=target) for source, target in directions]
    }


@routes.post("/v2/glossaries", status_code=201, response_model_exclude=V3_ONLY, openapi_extra=body_of(NewGlossary))
@routes.post("/v3/glossaries", status_code=201, response_model_exclude=V2_ONLY, openapi_extra=body_of(NewGlossary))
def make_glossary(request: Request, own: Own, new: Annotated[NewGlossary, _body(NewGlossary)]) -> GlossaryInfo:
    """Create a glossary."""
    return own.keep(Glossary(name=new.name, dictionaries=_entries_of(request, new.dictionaries)))


@routes.get("/v2/glossaries", response_model_exclude={"glossaries": {"__all__": V3_ONLY}})
@routes.get("/v3/glossaries", response_model_exclude={"glossaries": {"__all__": V2_ONLY}})
def glossaries(own: Own) -> dict[Literal["glossaries"], list[GlossaryInfo]]:
    """List the glossaries, the oldest first."""
    return {"glossaries": [glossary.info for glossary in sorted(own.all.values(), key=attrgetter("created"))]}


@routes.get("/v2/glossaries/{glossary_id}", response_model_exclude=V3_ONLY)
@routes.get("/v3/glossaries/{glossary_id}", response_model_exclude=V2_ONLY)
def glossary(own: Own, glossary_id: str) -> GlossaryInfo:
    """Describe a glossary."""
    return own.get(glossary_id).info


@routes.patch("/v3/glossaries/{glossary_id}", response_model_exclude=V2_ONLY, openapi_extra=body_of(GlossaryChange))
def change_glossary(
    request: Request, own: Own, glossary_id: str, change: Annotated[GlossaryChange, _body(GlossaryChange)]
) -> GlossaryInfo:
    """Rename a glossary, or add entries to it, which replace existing entries of the same terms."""
    added = _entries_of(request, change.dictionaries)
    with own.lock:
        old = own.get(glossary_id)
        merged = {direction: old.dictionaries.get(direction, {}) | entries for direction, entries in added.items()}
        return own.keep(old.but(name=change.name or old.name, dictionaries=old.dictionaries | merged))


@routes.delete("/v2/glossaries/{glossary_id}", status_code=204)
@routes.delete("/v3/glossaries/{glossary_id}", status_code=204)
def delete_glossary(own: Own, glossary_id: str) -> None:
    """Delete a glossary."""
    own.delete(glossary_id)


@routes.get("/v2/glossaries/{glossary_id}/entries", response_class=Response)
def entries_in_lines(own: Own, glossary_id: str) -> Response:
    """Return the entries of a glossary's first dictionary as tab-separated lines."""
    glossary = own.get(glossary_id)
    lines = _in_lines(glossary.entries(next(iter(glossary.dictionaries), "-")))
    return Response(lines, media_type="text/tab-separated-values")


@routes.get("/v3/glossaries/{glossary_id}/entries")
def entries(own: Own, glossary_id: str, fields: Pair) -> dict[Literal["dictionaries"], list[Dictionary]]:
    """Return the entries of a glossary for one direction."""
    source, _, target = fields.direction.partition("-")
    lines = _in_lines(own.get(glossary_id).entries(fields.direction))
    return {"dictionaries": [Dictionary(source_lang=source, target_lang=target, entries=lines)]}


@routes.put("/v3/glossaries/{glossary_id}/dictionaries", openapi_extra=body_of(Dictionary))
def replace_entries(
    request: Request, own: Own, glossary_id: str, new: Annotated[Dictionary, _body(Dictionary)]
) -> DictionaryInfo:
    """Replace the entries of a glossary for one direction."""
    entries = _entries_of(request, [new])
    with own.lock:
        old = own.get(glossary_id)
        own.keep(old.but(dictionaries=old.dictionaries | entries))
    return _info(*next(iter(entries.items())))


@routes.delete("/v3/glossaries/{glossary_id}/dictionaries", status_code=204)
def delete_entries(own: Own, glossary_id: str, fields: Pair) -> None:
    """Delete the entries of a glossary for one direction."""
    with own.lock:
        old = own.get(glossary_id)
        deleted = old.entries(fields.direction)
        rest = {direction: entries for direction, entries in old.dictionaries.items() if entries is not deleted}
        own.keep(old.but(dictionaries=rest))


def _info(direction: str, entries: dict[str, str]) -> DictionaryInfo:
    source, _, target = direction.partition("-")
    return DictionaryInfo(source_lang=source, target_lang=target, entry_count=len(entries))


def _in_lines(entries: dict[str, str]) -> str:
    return "\n".join(f"{term}\t{form}" for term, form in entries.items())


def _entries_of(request: Request, dictionaries: Sequence[Dictionary]) -> dict[str, dict[str, str]]:
    """Return the entries by direction, after a check that models serve these directions (else refused with 400)."""
    service = server_of(request).service
    service.check_ready()
    for dictionary in dictionaries:
        service.model(dictionary.source_lang, dictionary.target_lang)
    entries = {part.direction: parse_entries(part.entries, part.entries_format) for part in dictionaries}
    if len(entries) < len(dictionaries):
        raise Refused(400, "regions such as en-GB and en-US share a dictionary: give one for each pair of languages")
    return entries


def direction_of(source: str, target: str) -> str:
    """Return the direction between two languages without their regions: a glossary applies to all regions."""
    return f"{base_language(source)}-{base_language(target)}"


def parse_entries(text: str, entries_format: Literal["tsv", "csv"]) -> dict[str, str]:
    """Return the entries of lines in two columns, separated by a tab or a comma; refuse bad ones (400)."""
    is_tsv = entries_format == "tsv"
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if is_tsv else {}
    try:
        rows = [row for row in csv.reader(text.splitlines(), strict=True, **dialect) if row]
    except csv.Error as error:
        raise Refused(400, f"the entries are not {entries_format}: {error}") from None
    if not rows:
        raise Refused(400, "a glossary must have entries for its languages")
    entries: dict[str, str] = {}
    for row in rows:  # in CSV, the codes of the languages may follow
        if len(row) not in ((2,) if is_tsv else (2, 4)) or _CONTROL.search("".join(row)):
            raise Refused(400, f"an entry must be a term and its translation, but one is {str(row)[:200]}")
        term, form = row[0].strip(), row[1].strip()
        if not (term and form) or entries.setdefault(term, form) != form:
            raise Refused(400, f"the term {term!r} has no translation, or two different ones")
    return entries


def terms_in(texts: Sequence[str], glossaries: Sequence[Glossary], direction: str) -> list[tuple[str, str]]:
    """Return the terms that may occur in the texts; if glossaries share a term, the first one wins."""
    words_of_texts = re.findall(r"\w+", normalize("NFC", "\n".join(texts)).casefold())
    text = "\n".join(dict.fromkeys(words_of_texts))
    terms: dict[str, tuple[str, str]] = {}
    for glossary in glossaries:
        for term, form in glossary.entries(direction).items():
            words = re.findall(r"\w+", normalize("NFC", term).casefold())
            if all(word in text for word in words):  # every term in the search costs time
                terms.setdefault(normalize("NFC", term), (term, form))
    return list(terms.values())
