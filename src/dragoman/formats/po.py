"""Catalogues of messages (gettext, PO): messages with a translation for training, those without for translating.

Fuzzy entries are neither: they wait for a person. New translations are fuzzy too, unless a setting says otherwise.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from gettext import c2py
from itertools import accumulate, pairwise
from operator import itemgetter
from pathlib import Path
from textwrap import fill
from typing import Any

from dragoman.errors import DataError, optional
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.column_names import language_column
from dragoman.formats.document import Document, Left
from dragoman.formats.inline import check_length
from dragoman.formats.lines import REPLACED, EncodingErrors, open_bytes, reading, without_packing
from dragoman.formats.reading import check_languages
from dragoman.formats.rows import NOT_TO_TRANSLATE, UNTRANSLATED, Texts, Untranslated
from dragoman.languages import is_code
from dragoman.surface.sentences import BRANCHES, has_words
from dragoman.surface.tags import without_tags

FUZZY = "fuzzy entries left out"
OBSOLETE = "obsolete entries left out"
CREDITS = ("translator-credits", "translator_credits", "Your names", "Your emails")
"""Messages whose translations are the names of the translators."""
LARGEST_CATALOGUE = 1 << 25
"""Bytes of a catalogue, which is read as a whole and takes about 20 times as much memory."""
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_LINE_OF_CATALOGUE = re.compile(
    r"\s*(?:#.*|(?:(?:msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?\"(?:[^\"\\]++|\\.)*+\"\s*|domain\b.*)?"
)

_BETWEEN = re.compile(
    r"""(^[ ]*-{1,2}\w.*?(?:\t|[ ]{2,}) | \t+ | [ ]{2,} | ^[ ]+ | [ ]+$
      | \r?\n(?![a-z]) | (?<![^\n]{30})\r?\n | (?<=[.:;!?])\r?\n)""",
    re.VERBOSE | re.MULTILINE,
)
"""The separators between texts of a message: an option and the space after it, space, or the end of a line, unless a
long line goes on in the next with a small letter.
"""
_SPECIFIER = r"[-+#0' ]{0,5}(?:\*|\d{1,9})?(?:\.(?:\*|\d{0,9}))?(?:hh|ll|[hlLqjzt])?[a-zA-Z@]"
_ARGUMENT = re.compile(rf"((%(?:\(\w+\)|\d+\$){_SPECIFIER}|%%|%\d+\b|\{{[^{{}}\s]*\}})|%(?:{_SPECIFIER})?)")
"""An argument of a format string, and again if it is named, so that its place is free."""
_FORMATTED = re.compile("(?!no-).*-format")
_FORMS = re.compile(r"nplurals\s*=\s*(\d)(?:\s*;\s*plural\s*=\s*([^;]*))?")


def rows(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, Texts]]:
    """Yield the translated messages of a catalogue, each with the line of its entry. Of plural forms, the singular is
    paired with the first form, and the plural with the last.

    Messages are in English, as gettext recommends, unless the header names another language (X-Source-Language).

    Raises:
        DataError, MissingExtra: as in `read_catalogue`.
        Untranslated: no message is translated.
    """
    before = repairs.copy()
    catalogue, *_ = read_catalogue(path, encoding_errors, repairs)
    header = catalogue.metadata
    source = language_column(header.get("X-Source-Language", "")) or "en"
    ending = without_packing(path).stem.rpartition(".")[2]
    named = language_column(ending) if is_code(ending.partition("_")[0]) else "target"
    target = language_column(header.get("Language", "")) or named
    if source == target:
        source, target = "source", "target"
    messages = 0
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
            messages += 1
            pairs = [(entry.msgid, forms[0]), (entry.msgid_plural, forms[-1])]
            for pair in pairs if entry.msgid_plural else pairs[:1]:
                texts = (without_tags(text).plain for text in pair)
                yield entry.linenum or 1, dict(zip((source, target), texts, strict=True))
    if not messages:
        raise Untranslated.from_counts(path, repairs - before)


def read_catalogue(path: Path, encoding_errors: EncodingErrors, repairs: Counter[str]) -> tuple[Any, str, str]:
    """Read a catalogue with polib, and return it with its text and encoding.

    Raises:
        DataError: it is too large, not in its own encoding, or broken; names the line.
        MissingExtra: polib is not installed.
    """
    with optional("polib", "documents"):
        import polib
    with open_bytes(path) as file, reading(str(path)):
        data = file.read(LARGEST_CATALOGUE + 1)
    if len(data) > LARGEST_CATALOGUE:
        raise DataError(f"{path} is a catalogue of more than {LARGEST_CATALOGUE >> 20} MiB; split it")
    named = _CHARSET.search(data)
    encoding = named[1].decode() if named and named[1] != b"CHARSET" else "utf-8"
    try:
        if codecs.lookup(encoding).name == "utf-8" and data.startswith(codecs.BOM_UTF8):
            encoding = "utf-8-sig"
        text = data.decode(encoding)
    except (LookupError, UnicodeDecodeError) as error:
        if isinstance(error, LookupError) or encoding_errors != "replace":
            raise DataError(f"{path} is not in the encoding {encoding}, which its header names: {error}") from None
        text = data.decode(encoding, "replace")
        repairs[REPLACED] += text.count("\ufffd")
    text += "\n"  # with a line end, polib never takes it for the name of a file
    for number, line in enumerate(text.split("\n"), 1):  # the library passes over what it does not understand
        check_cancelled()
        if not _LINE_OF_CATALOGUE.fullmatch(line.removesuffix("\r")):
            raise DataError(f"{path}:{number} is not a line of a catalogue (PO): {line.strip()[:80]}")
    try:
        return polib.pofile(text), text.removesuffix("\n"), encoding
    except (OSError, ValueError, IndexError, AttributeError) as error:  # what the library raises for broken files
        line = re.search(r"line (\d+)\)?(.*)", str(error), re.DOTALL)
        place, text = (f":{line[1]}", line[2].lstrip(": \n")) if line else ("", str(error))
        text = " ".join(text.split())[:80]
        raise DataError(f"{path}{place} is not a line of a catalogue (PO){f': {text}' if text else ''}") from None


class Catalogue(Document):
    """A catalogue, in which only the lines of new translations and of an incomplete header change."""

    def __init__(self, catalogue: Any, text: str, encoding: str, target: str) -> None:
        super().__init__()
        self._catalogue, self._encoding, self._target = catalogue, encoding, target.replace("-", "_")
        self._kept = list[Any]()  # entries with an earlier translation
        self._lines = text.splitlines(keepends=True)  # as polib counts them
        self._end = "\r\n" if self._lines and self._lines[0].endswith("\r\n") else "\n"
        for entry in catalogue:
            entry.linenum = entry.linenum or 1  # polib begins with 0 if the file has no header
        self._entries = [entry for entry in catalogue.untranslated_entries() if entry.msgid not in ("", *CREDITS)]
        for entry in catalogue.fuzzy_entries():
            if not all((entry.msgstr_plural or {0: entry.msgstr}).values()):
                self.left.append(Left("it is fuzzy, but lacks a translation", f"line {entry.linenum:,}"))
        messages = ((entry, message) for entry in self._entries for message in (entry.msgid, entry.msgid_plural))
        # The lines and columns of all messages, because programs show them as such.
        texts = [(entry, text) for entry, message in messages for text in _pieces(message or "")[::2]]
        self.texts = [text.replace("\n", " ") for _, text in texts if has_words(text)]
        self._entry_of = [entry for entry, text in texts if has_words(text)]
        self._original_header = dict(catalogue.metadata)
        self._header = self._complete_header()
        self._choose_forms()

    def _choose_forms(self) -> None:
        """Take the number of plural forms from the header."""
        forms = _FORMS.search(self._header.get("Plural-Forms", ""))
        self._forms = int(forms[1]) if forms else 0
        self._is_first_for_more = self._forms > 2 and _is_first_for_more(forms[2] if forms else "")

    def place(self, number: int) -> str:
        return f"line {self._entry_of[number].linenum:,}"

    def keep(self, existing: Document) -> None:
        if not isinstance(existing, Catalogue):
            raise TypeError(f"{type(existing).__name__} is no catalogue")
        stays = {"POT-Creation-Date", "Report-Msgid-Bugs-To", "Content-Type", "Content-Transfer-Encoding"}
        if any(entry.msgid_plural for entry in self._catalogue.translated_entries()):
            stays.add("Plural-Forms")
        self._header |= {name: value for name, value in existing._header.items() if name not in stays}
        self._choose_forms()
        there = {(entry.msgctxt, entry.msgid): entry for entry in existing._catalogue.translated_entries()}
        if others := there.keys() - {(entry.msgctxt, entry.msgid) for entry in self._catalogue}:
            self.notes.append(f"earlier translations left out because the source lacks their messages: {len(others):,}")
        for entry in self._entries:
            known: Any = there.get((entry.msgctxt, entry.msgid))
            is_same = known and (known.msgid_plural or "") == (entry.msgid_plural or "")
            if is_same and len(known.msgstr_plural) in (0, self._forms or len(known.msgstr_plural)):
                entry.msgstr, entry.msgstr_plural = known.msgstr, known.msgstr_plural
                self._kept.append(entry)
        kept = {*map(id, self._kept)}
        self._entries = [entry for entry in self._entries if id(entry) not in kept]
        new = [text for text in zip(self.texts, self._entry_of, strict=True) if id(text[1]) not in kept]
        self.texts, self._entry_of = [text for text, _ in new], [entry for _, entry in new]

    def translated(self, translations: Sequence[str]) -> bytes:
        following = iter(translations)
        lines: list[str | None] = [*self._lines]
        for entry in self._kept:
            self._replace_translation(lines, entry.linenum - 1, entry)
        for entry in self._entries:
            check_cancelled()
            singular, before = _translated(entry.msgid, following), dict(entry.msgstr_plural)
            if singular == entry.msgid and BRANCHES.search(singular):  # it could not be divided
                continue
            if entry.msgid_plural:
                plural = _translated(entry.msgid_plural, following)
                count = self._forms or len(entry.msgstr_plural) or 2
                # If the first form is also used for 21, it must not lack the number.
                lacks_number = entry.msgid.count("%") < entry.msgid_plural.count("%")
                is_unlike = count == 1 or (self._is_first_for_more and lacks_number)
                new = {form: plural if form or is_unlike else singular for form in range(count)}
                entry.msgstr_plural = new | {form: text for form, text in before.items() if text}
            else:
                entry.msgstr = singular
            messages = entry.msgid, entry.msgid_plural or entry.msgid, *(entry.msgstr_plural.values() or [entry.msgstr])
            arguments = [sorted(_ARGUMENT.findall(message), key=itemgetter(1)) for message in messages]
            is_formatted = any(map(_FORMATTED.match, entry.flags)) and not BRANCHES.search(entry.msgid)
            if is_formatted and any(form not in arguments[:2] for form in arguments[2:]):
                self.left.append(Left("the translation changes an argument, such as %s", f"line {entry.linenum:,}"))
            else:
                self._replace_translation(lines, entry.linenum - 1, entry)
                if self.needs_review and any(map(has_words, messages)):
                    self._mark_as_fuzzy(lines, entry.linenum - 1)
        if self.needs_review and len(self.left) < len(self._entries):
            self.notes.append("new translations are fuzzy, so msgfmt leaves them out; see document.needs_review")
        places = {left.place for left in self.left}
        self.texts = [text for number, text in enumerate(self.texts) if self.place(number) not in places]
        encoded = self._content(lines, self._encoding)
        if encoded is None:
            self._header["Content-Type"] = "text/plain; charset=UTF-8"
            encoded = self._content(lines, "utf-8") or b""
        return encoded

    def _content(self, lines: Sequence[str | None], encoding: str) -> bytes | None:
        """Return the file with its header, or None if the encoding lacks a character."""
        lines = [*lines]
        if self._header != self._original_header:
            self._catalogue.metadata = self._header
            entry = self._catalogue.metadata_as_entry()
            begin = next((number for number, line in enumerate(lines) if (line or "").startswith("msgid")), 0)
            if re.match(r'msgid\s+""\s*msgstr', " ".join(filter(None, lines[begin : begin + 2]))):
                lines[:begin] = [None if (line or "").strip() == "#, fuzzy" else line for line in lines[:begin]]
                self._replace_translation(lines, begin, entry)
            else:
                lines[0] = self._end.join([*f"{entry}".split("\n"), lines[0] or ""])
        try:
            return "".join(filter(None, lines)).encode(encoding)
        except UnicodeEncodeError:
            return None

    def _replace_translation(self, lines: list[str | None], first: int, entry: Any) -> None:
        """Replace the translation of an entry, whose lines begin at `first`. The number of all lines stays the same."""
        begin = next(number for number in range(first, len(lines)) if _line_begins(lines, number, "msgid"))
        while _line_begins(lines, begin, "msgid", '"'):
            begin += 1
        next_entry = begin
        while next_entry < len(lines) and not _line_begins(lines, next_entry, "msgid", "msgctxt", "#", "domain"):
            next_entry += 1
        old = [number for number in range(begin, next_entry) if _line_begins(lines, number, "msgstr", '"')]
        written = f"{entry}".rstrip("\n").split("\n")
        translation = next(number for number, line in enumerate(written) if line.startswith("msgstr"))
        text = "".join(f"{line}{self._end}" for line in written[translation:])
        if not old:  # an entry without a translation
            lines[begin - 1] = f"{(lines[begin - 1] or '').rstrip()}{self._end}{text}"
        for number in old:
            lines[number] = text if number == old[0] else None

    def _mark_as_fuzzy(self, lines: list[str | None], first: int) -> None:
        """Add the flag to an entry, whose lines begin at `first`."""
        end = next(n for n in range(first, len(lines)) if _line_begins(lines, n, "#,", "#|", "msgctxt", "msgid"))
        line = lines[end] or ""
        is_flags = _line_begins(lines, end, "#,")
        lines[end] = line.replace("#,", "#, fuzzy,", 1) if is_flags else f"#, fuzzy{self._end}{line}"

    def _complete_header(self) -> dict[str, str]:
        """Return the header with language, charset and plural forms; a template leaves them open."""
        header = dict(self._original_header)
        if not header.get("Language"):
            header["Language"] = self._target
        is_utf8 = codecs.lookup(self._encoding).name.startswith("utf-8")
        if is_utf8 and "CHARSET" in header.get("Content-Type", "CHARSET"):
            header["Content-Type"] = "text/plain; charset=UTF-8"
        if "EXPRESSION" in header.get("Plural-Forms", "EXPRESSION") and any(e.msgid_plural for e in self._catalogue):
            header["Plural-Forms"] = _plural_forms(self._target)
        return header


def _line_begins(lines: Sequence[str | None], number: int, *beginnings: str) -> bool:
    return number < len(lines) and (lines[number] or "").lstrip().startswith(beginnings)


def _is_first_for_more(rule: str) -> bool:
    """Return True if the rule of a header uses the first plural form for more numbers than 0 and 1, such as 21."""
    try:
        form = c2py(rule)
    except ValueError:
        return True
    return any(form(number) == 0 for number in range(2, 200))


def _plural_forms(language: str) -> str:
    """Return the number of plural forms of a language and the rule that chooses one, as a header names them."""
    with optional("babel", "documents"):
        from babel import UnknownLocaleError
        from babel.messages.plurals import get_plural
    try:
        forms = get_plural(language)
    except (UnknownLocaleError, ValueError):
        return "nplurals=2; plural=(n != 1);"
    return f"nplurals={forms.num_plurals}; plural={forms.plural_expr};"


def _pieces(message: str) -> list[str]:
    """Return the texts of a message, and what separates them. A message with branches is one text."""
    return [message] if BRANCHES.search(message) else _BETWEEN.split(message)


def _translated(message: str, translations: Iterator[str]) -> str:
    """Return a message with the next translations for its texts. A text that had several lines is broken again."""
    pieces = _pieces(message)
    for place in range(0, len(pieces), 2):
        lines, has_text = pieces[place].split("\n"), has_words(pieces[place])
        if has_text:
            pieces[place] = next(translations)
        if has_text and len(lines) > 1:
            pieces[place] = fill(pieces[place], max(map(len, lines)), break_long_words=False, break_on_hyphens=False)
    return "".join(pieces)


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Catalogue:
    """Read a catalogue and its untranslated messages.

    Raises:
        DataError: it is damaged, or for other languages.
        MissingExtra: polib is not installed.
    """
    catalogue, text, encoding = read_catalogue(path, "strict", Counter())
    header = catalogue.metadata.get
    check_languages(path, header("X-Source-Language"), header("Language"), languages)
    offsets = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    begins = (min(entry.linenum or 1, len(offsets) - 1) for entry in catalogue)
    for first, last in pairwise([0, *begins, len(offsets) - 1]):
        check_length(offsets[last] - offsets[first])
    return Catalogue(catalogue, text, encoding, languages[1])
