"""Translation memories (TMX), XLIFF and gettext's catalogues (PO) as numbered records of a text for each language.

The number of a record is its place in the file, and counts what is left out too: of a catalogue the line of the entry,
otherwise the entry itself, from 1. So a translation can find its way back. What is no training text (untranslated,
fuzzy, obsolete entries) is left out, and counted. XML is streamed in bounded memory; nothing outside a file is read.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, optional
from dragoman.formats.lines import REPLACED, EncodingErrors, open_bytes, reading, without_packing
from dragoman.languages import is_code
from dragoman.surface.protected import code_in
from dragoman.surface.tags import without_tags

Texts = dict[str, str]
"""Language -> text."""

LACKING = "entries that lack a language left out"
UNTRANSLATED = "untranslated entries left out"
NOT_TO_TRANSLATE = "entries marked as not to be translated left out"
UNFINISHED = "entries in a state before translation or review left out"
FUZZY = "fuzzy entries left out"
OBSOLETE = "obsolete entries left out"
OTHER_REGIONS = "texts in another region's form of a language read with it"
FURTHER = "further texts in the same language left out"

CREDITS = ("translator-credits", "translator_credits", "Your names", "Your emails")
"""Messages of a catalogue in whose place the names of its translators stand."""
LARGEST_ENTRY = 1 << 23
"""Bytes of XML without the end of an entry. They take up to 50 times as much memory."""
LARGEST_CATALOGUE = 1 << 25
"""Bytes of a catalogue, which is read whole and takes about 20 times as much memory."""
_PIECE = 1 << 16
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset("bpt ept ph it ut x bx ex sc ec sm em cp sub".split())
"""Elements that stand for code of the original document; the text in all others is read."""
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_LINE_OF_CATALOGUE = re.compile(
    r"\s*(?:#.*|(?:(?:msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?\"(?:[^\"\\]|\\.)*\"\s*|domain\b.*)?"
)
_LINE_BREAK = re.compile(r"(x-)?(lb|br|line-?break)|<br\b.*", re.IGNORECASE)


def tmx_records(path: Path, _encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, Texts]]:
    """The units of a translation memory; the language that it was translated from comes first.

    The forms of a language in several regions (en-US, en-GB) are one column, named for the first, unless one unit has
    two of them. Chinese is written in two ways, so its regions stay apart.
    """
    names: dict[str, str] = {}  # of the column of each language without its region
    columns = set[str]()

    def texts_of(unit: Any) -> Iterator[Texts]:
        original = _tag(unit.get("srclang") or unit.getroottree().xpath("string(/*/*[local-name()='header']/@srclang)"))
        found: Texts = {}
        for variant in unit.iterfind("{*}tuv"):
            segment = variant.find("{*}seg")
            if segment is None or not (tag := _tag(variant.get(_LANGUAGE) or variant.get("lang") or "")):
                continue
            language = tag.partition("-")[0]
            if not (text := _text(segment, path)):
                continue
            name = names.setdefault(tag if language == "zh" else language, tag)
            if tag in columns or name in found:
                name = tag
            repairs[OTHER_REGIONS] += name != tag
            repairs[FURTHER] += name in found
            columns.add(name)
            found.setdefault(name, text)
        first = [name for name in found if name == original] or [
            name for name in found if name.partition("-")[0] == original.partition("-")[0]
        ]
        if not found:
            repairs[UNTRANSLATED] += 1
        else:
            yield {name: found[name] for name in (*first[:1], *found)}

    return _records(path, ("{*}tu",), texts_of, repairs)


def xliff_records(path: Path, _encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, Texts]]:
    """Source and target of the units of XLIFF 1.2, or of the segments of XLIFF 2. The parts of a segmented target are
    paired with those of its `seg-source`; proposals (`alt-trans`) are not read.
    """

    def texts_of(unit: Any) -> Iterator[Texts]:
        source, target = unit.find("{*}source"), unit.find("{*}target")
        above = [unit, *unit.iterancestors()]
        state = (unit if target is None else target).get("state") or unit.get("state") or ""
        if next((node.get("translate") for node in above if node.get("translate")), "") == "no":
            repairs[NOT_TO_TRANSLATE] += 1
        elif source is None or target is None or not "".join(target.itertext()).strip():
            repairs[UNTRANSLATED] += 1
        elif state in ("new", "initial") or state.startswith("needs-"):
            repairs[UNFINISHED] += 1
        else:
            languages = [_first_of(above, "source-language", "srcLang"), _first_of(above, "target-language", "trgLang")]
            if not all(languages) or languages[0] == languages[1]:
                languages = ["source", "target"]
            segmented = _segments(unit.find("{*}seg-source")), _segments(target)
            parts = [(source, target)]
            if segmented[0] and segmented[0].keys() == segmented[1].keys():
                parts = [(segmented[0][key], segmented[1][key]) for key in segmented[0]]
            for sides in parts:
                yield dict(zip(languages, (_text(side, path) for side in sides), strict=True))

    return _records(path, ("{*}trans-unit", "{*}segment"), texts_of, repairs)


def po_records(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, Texts]]:
    """The messages of a catalogue. Of plural forms, the singular stands with the first form, the plural with the last.

    Messages are in English, as gettext recommends, unless the header names another language (X-Source-Language).

    Raises:
        DataError: as `read_catalogue`.
    """
    before = repairs.copy()
    catalogue = read_catalogue(path, encoding_errors, repairs)
    header = catalogue.metadata
    source = _tag(header.get("X-Source-Language", "")) or "en"
    ending = without_packing(path).stem.rpartition(".")[2]
    target = _tag(header.get("Language", "")) or (_tag(ending) if is_code(ending.partition("_")[0]) else "target")
    if source == target:
        source, target = "source", "target"
    held = 0
    for entry in catalogue:
        forms = [entry.msgstr_plural[form] for form in sorted(entry.msgstr_plural)] or [entry.msgstr]
        if entry.obsolete:
            repairs[OBSOLETE] += 1
        elif entry.fuzzy:
            repairs[FUZZY] += 1
        elif entry.msgid in CREDITS:
            repairs[NOT_TO_TRANSLATE] += 1
        elif not all(forms):
            repairs[UNTRANSLATED] += 1
        else:
            held += 1
            pairs = [(entry.msgid, forms[0]), (entry.msgid_plural, forms[-1])]
            for pair in pairs if entry.msgid_plural else pairs[:1]:
                texts = (without_tags(text).plain for text in pair)
                yield entry.linenum or 1, dict(zip((source, target), texts, strict=True))
    if not held:
        raise _nothing(path, repairs - before)


def read_catalogue(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Any:
    """A catalogue, as polib has it.

    Raises:
        DataError: it is too large, not in its own encoding, or broken; names the line.
        MissingExtra: polib is not installed.
    """
    with optional("polib", "documents"):
        import polib
    text = _decoded(path, encoding_errors, repairs)
    for number, line in enumerate(text.split("\n"), 1):  # the library passes over what it does not understand
        if not _LINE_OF_CATALOGUE.fullmatch(line.removesuffix("\r")):
            raise DataError(f"{path}:{number} is not a line of a catalogue (PO): {line.strip()[:80]}")
    try:
        return polib.pofile(text)
    except (OSError, ValueError, IndexError, AttributeError) as error:  # what the library raises for broken files
        line = re.search(r"line (\d+)\)?(.*)", str(error), re.DOTALL)
        where, what = (f":{line[1]}", line[2].lstrip(": \n")) if line else ("", str(error))
        what = " ".join(what.split())[:80]
        raise DataError(f"{path}{where} is not a line of a catalogue (PO){f': {what}' if what else ''}") from None


def _decoded(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> str:
    with open_bytes(path) as file, reading(str(path)):
        data = file.read(LARGEST_CATALOGUE + 1)
    if len(data) > LARGEST_CATALOGUE:
        raise DataError(f"{path} is a catalogue of more than {LARGEST_CATALOGUE >> 20} MiB; split it")
    named = _CHARSET.search(data)
    encoding = named[1].decode() if named and named[1] != b"CHARSET" else "utf-8"
    try:
        encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        text = data.decode(encoding)
    except (LookupError, UnicodeDecodeError) as error:
        if isinstance(error, LookupError) or encoding_errors != "replace":
            raise DataError(f"{path} is not in the encoding {encoding}, which its header names: {error}") from None
        text = data.decode(encoding, "replace")
        repairs[REPLACED] += text.count("\ufffd")
    return text + "\n"  # with a line end, polib never takes it for the name of a file


def _records(
    path: Path, tags: tuple[str, ...], texts_of: Callable[[Any], Iterator[Texts]], repairs: Counter[str]
) -> Iterator[tuple[int, Texts]]:
    """The texts of each element with one of these `tags`, with one of them in memory. libxml2's own limits of depth,
    of texts and of entities hold; entities are not resolved, and no other file is opened.

    Raises:
        DataError: the file is not well-formed, or too much of it is one entry.
    """
    with optional("lxml", "documents"):
        from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]
    parser = etree.XMLPullParser(
        ("end",), tag=tags, resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True,
        remove_pis=True, huge_tree=False,
    )  # fmt: skip
    number = held = since = 0
    before = repairs.copy()
    with open_bytes(path) as file, reading(str(path)):
        while True:
            try:
                piece = file.read(_PIECE)
                if piece:
                    parser.feed(piece)
                else:
                    parser.close()
            except etree.XMLSyntaxError as error:
                found = [(entry.line, entry.message) for entry in parser.feed_error_log] or [(error.lineno, error.msg)]
                line, complaint = found[-1]
                complaint = " ".join(str(complaint).split())
                raise DataError(f"{path}:{line or 1} is not well-formed XML: {complaint}") from None
            since += len(piece)
            for _, unit in parser.read_events():
                number, since = number + 1, 0
                for texts in texts_of(unit):
                    held += 1
                    yield number, texts
                _forget(unit)
            if since > LARGEST_ENTRY:
                size = f"{LARGEST_ENTRY >> 20} MiB"
                raise DataError(f"{path}: more than {size} follow entry {number} without the end of another")
            if not piece:
                break
    if not held:
        raise _nothing(path, repairs - before)


def _forget(unit: Any) -> None:
    """Empties a unit that was read, and removes all that stands before it."""
    unit.clear(keep_tail=False)
    for node in (unit, *unit.iterancestors()):
        if (parent := node.getparent()) is not None:
            del parent[: parent.index(node)]


class Untranslated(DataError):
    """Nothing in a file is translated."""


def _nothing(path: Path, left_out: Counter[str]) -> Untranslated:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in left_out.items())
    return Untranslated(f"{path} holds no translated entries{f' ({counts})' if counts else ''}")


def _text(element: Any, path: Path) -> str:
    """The text of a segment without tags and the code of its original document, with single spaces.

    A pair of tags is dropped, because `translate` takes pairs out of a text and puts them back; the words between them
    stay. A code that stands alone stays if it is a variable or the like (`%s`, `{0}`), because a sentence lacks a word
    without it: training makes it a placeholder (`protected`). Others are dropped, and a line break becomes a space.
    """
    return " ".join(without_tags("".join(_pieces(element, path))).plain.split())


def _pieces(element: Any, path: Path) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if not isinstance(child.tag, str):
            where = f"{path}:{child.sourceline}"
            raise DataError(f"{where} uses the entity {child.text}, which is not read; write its text")
        name = child.tag.rpartition("}")[2]
        if name in _CODES:
            yield _variable(child) if name in ("ph", "x") else ""
        else:
            yield from _pieces(child, path)
        yield child.tail or ""


def _variable(code: Any) -> str:
    if not code.text and not code.attrib:
        return ""
    shown = [code.text, *map(code.get, ("equiv-text", "equiv", "disp"))]
    native = next((text.strip() for text in shown if text and text.strip()), "")
    spans = code_in(native)
    if spans and (spans[0].begin, spans[0].end) == (0, len(native)) and not native.startswith(("<", "&")):
        return native
    kinds = (native, code.get("ctype"), code.get("type"), code.get("subType", "").partition(":")[2], code.get("id"))
    return " " * any(_LINE_BREAK.fullmatch(kind) for kind in kinds if kind)


def _segments(element: Any) -> dict[str, Any]:
    marks = [] if element is None else element.iterfind(".//{*}mrk[@mtype='seg']")
    return {mark.get("mid", ""): mark for mark in marks}


def _first_of(nodes: list[Any], *names: str) -> str:
    return _tag(next((value for node in nodes for name in names if (value := node.get(name))), ""))


def _tag(name: str) -> str:
    """A code of a language as a name of a column.

    >>> _tag("EN-us"), _tag("pt_BR.UTF-8"), _tag("zh-hant"), _tag("*all*")
    ('en-US', 'pt-BR', 'zh-Hant', '')
    """
    language, *rest = re.split("[-_]", re.split("[.@]", name.strip())[0])
    forms = (part.upper() if len(part) == 2 else part.title() if len(part) == 4 else part for part in rest)
    return "-".join((language.lower(), *forms)) if re.fullmatch("[A-Za-z]{2,8}", language) else ""
