"""HTML: the text between block tags, with inline tags in it, and what attributes show a reader."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.errors import DataError
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Left, Spliced, Where
from dragoman.formats.inline import InlinePart, check_length, refers_to_note, unescaped
from dragoman.formats.reading import decoded, other_language
from dragoman.languages import english_name
from dragoman.surface.sentences import has_words

_UNTRANSLATED = frozenset("code kbd math metadata pre rp rt rtc samp script style var".split())
_APART = frozenset(("svg", "textarea"))
"""Elements that are one piece of a sentence, and have texts of their own."""
_INLINE = _UNTRANSLATED.difference(["pre"]).union(
    _APART,
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins mark nobr q rb ruby s small span strike strong"
    " sub sup time tt u".split(),
)
_CONTROLS = frozenset("audio button canvas iframe input label meter object output progress select video".split())
"""Elements that may be a piece of a sentence, as in "Press <button>Save</button> now", but are usually apart. Of these,
only the words of a label are part of the sentence too.
"""
_BLOCKS = frozenset(
    "address article aside blockquote body caption center col colgroup datalist dd details dialog dir div dl dt"
    " fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link"
    " main menu meta nav noscript ol optgroup option p param pre search section source summary table tbody td template"
    " tfoot th thead title tr track ul".split()
)
"""Elements that no sentence contains. All others are, if words are next to them: custom and unknown elements."""
_OPEN_ENDED = frozenset("dd dt li option p rp rt td th".split())
_WITHIN = _INLINE.difference(["rp", "rt", "ruby"]).union([""])
"""Elements that may lack end tags, and what these may contain: other elements, and words ("")."""
_EMPTY = re.compile(r"<(?!(?:br|hr|lb|tab)\b)[^<>]*+>(?:</[^<>]*+>)?", re.IGNORECASE)
"""An element without content that ends no line."""
_SHOWN = frozenset("abbr alt aria-description aria-label aria-valuetext label placeholder summary title".split())
_DESCRIPTION = re.compile(r"((og|twitter):)?(description|image:alt|title)|keywords|og:site_name", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]++)(?:\s*+=\s*+(?:"(?P<two>[^"]*+)"|'(?P<one>[^']*+)'|(?P<bare>[^\s"'>]++)))?+"""
)
_CODE = re.compile(
    r"<%(?:(?!<%|%>).)*+%>|<\?(?:php\b|=|\s)(?:(?!\?>).)*+(?:\?>|\Z)|\{%-?\s*+(?P<name>comment|highlight|javascript|"
    r"schema|style(?:sheet)?)\b(?:(?!\{%-?\s*+(?:end)?(?P=name)\b).)*+\{%-?\s*+end(?P=name)\b[^%]*+%\}"
    r"|\{\{[~-]?\s*+(?:/\*(?:(?!\*/|\{\{/\*).)*+\*/|!--(?:(?!--).)*+--)\s*+[~-]?\}\}"
    r"|\{%(?:(?!\{%|%\}|</).)*+%\}|\{\#(?:(?!\{\#|\#\}|</).)*+\#\}|\{\{(?:(?!\{\{|\}\}|</).)*+\}\}+",
    re.DOTALL,
)
"""Code of templates: ERB, EJS and ASP; PHP; Jinja, Liquid, Handlebars and the like."""
_STATEMENT = re.compile(
    r"<%(?![=:#]|--)|<\?(?!=|php\s+(?:echo|print)\b)|\{%"
    r"|\{\{[~-]?\s*(?:[#/^>]|(?:block|define|else|end|if|range|template|with)\b)"
)
_COMMENTS = ("<%#", "<%--", "{#", "{{!")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)", re.IGNORECASE)
_SEPARATOR, _ROW, _TAGS = re.compile(r"[\s/]+"), re.compile(r"[^\r\n]+"), re.compile(r"<!\[CDATA\[|<[^<>]*+>")
_ROOT = re.compile(r"<(?:html|ncx|package)\b[^<>]{0,1000}>", re.IGNORECASE)
_LANGUAGE = re.compile(r"((?<![\w-])(?:xml:)?lang\s*=\s*[\"']?)([\w-]+)", re.IGNORECASE)
_BARE = re.compile(r"&(?!(?:amp|lt|gt);)|<|>")
_BARE_OR_QUOTE = re.compile(_BARE.pattern + "|[\"']")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>", "<![": "]>", "<": ">"}
_MOST_OPEN = 1_000
"""Most comments and tags that have no end."""
Kind = Literal["start", "end", "words", "other"]


class Event(NamedTuple):
    """A tag, words or something else that the parser reads at a place."""

    kind: Kind
    begin: int
    name: str = ""
    attributes: Mapping[str, str] = {}

    @property
    def is_kept(self) -> bool:
        """True if the page says that nothing in it is translated."""
        classes = self.attributes.get("class", "").split()
        return self.attributes.get("translate", "").lower() == "no" or "notranslate" in classes


class Html(Spliced):
    """A page, which says that it is in the language of its translation."""

    def __init__(self, text: str, encoding: str, languages: tuple[str, str], kept: Iterable[str] | None = None) -> None:
        """Read a page, or a piece of XML if `kept` names the tags in which nothing is translated. In XML, a tag next to
        words is inline, whatever its name.
        """
        root = _ROOT.search(text)
        named = root and _LANGUAGE.search(root[0])
        self.language, self._language = named[2] if named else languages[0], languages[0]
        text = _ROOT.sub(lambda tag: _LANGUAGE.sub(rf"\g<1>{languages[1]}", tag[0]), text, count=1)
        super().__init__(text, encoding, "xmlcharrefreplace")
        self._masked = _CODE.sub(lambda code: "x" * (len(code[0]) - 1) + " ", text)
        self._events = events = _Parser(self._masked).events
        self._wheres = [*pairwise([*(event.begin for event in events), len(text)])]
        is_xml = kept is not None or (root is not None and "xmlns" in root[0])
        alone = {place for place, where in enumerate(self._wheres) if is_xml and text.endswith("/>", *where)}
        self._closes = _closes(events, alone)
        self._is_xml, self._kept, self._inline, self._list = False, _UNTRANSLATED, _INLINE, ""
        starts = [place for place, event in enumerate(events) if event.kind == "start"]
        if kept is not None:
            self._is_xml, self._kept = True, frozenset(map(str.lower, kept))
            self._inline = frozenset(events[place].name for place in starts if any(self._words_around(place)))
        begins = [place for place in starts if not self._is_xml and self._is_in_sentence(place)]
        self._in_sentence = {*begins, *(self._closes.get(place, place) for place in begins)}
        for is_text, parts in groupby(self._pieces(), lambda piece: piece is not None):
            self.add([*filter(None, parts)]) if is_text else None
        for where in self._wheres if "<![" in text or "<!--[" in text else ():
            if self._masked.startswith(("<!--[if", "<![CDATA["), where[0]):
                self._leave("it is in a conditional comment or CDATA", where)
        is_sent = any(event.name == "option" and "value" not in event.attributes for event in events)
        self.notes += ["forms send the words of options without a value, which are translated"] * is_sent
        self.notes += ["preformatted text (pre) stays as it is"] * any(event.name == "pre" for event in events)
        self.notes += ["the code of templates stays as it is"] * (self._masked != text)

    def written(self, words: str, inner: Where | None) -> str:
        return (_BARE_OR_QUOTE if inner else _BARE).sub(lambda sign: _ESCAPES[sign[0]], words)

    def _pieces(self) -> Iterator[InlinePart[Where] | None]:
        """Yield the parts of texts, and None between two texts."""
        place = 0
        while place < len(self._events):
            check_cancelled()
            event, where = self._events[place], self._wheres[place]
            is_inline = event.name in self._inline or place in self._in_sentence
            if event.name == "wbr":
                pass  # no place for it in other words
            elif event.name == "br" and not self._is_xml:
                yield InlinePart("break", where)
            elif event.kind == "words":
                yield from self._words(where)
            elif event.kind == "other":
                yield InlinePart("after" if self.content.startswith("<!--", where[0]) else "single", where)
            elif event.kind == "end":
                yield InlinePart("close", where) if is_inline else None
            else:
                is_styled = _HIDDEN.search(event.attributes.get("style", "")) is not None
                is_hidden = is_inline and not self._is_xml and ("hidden" in event.attributes or is_styled)
                is_apart = event.name in _APART or (is_inline and event.name in _CONTROLS - {"label"})
                last = self._last(place, is_hidden or (is_apart and not self._is_xml))
                last = self._closes.get(place) if last is None and self._is_note(place) else last
                kind = "after" if is_hidden else "open" if last is None and place in self._closes else None
                place = place if last is None else last
                where = event.begin, self._wheres[place][1]
                yield InlinePart(kind or self._kind(where), where) if is_inline else None
            place += 1

    def _is_in_sentence(self, place: int) -> bool:
        """Return True if an element that is neither always inline nor a block is part of a sentence."""
        event, (before, after) = self._events[place], self._words_around(place)
        is_choice = event.attributes.get("type", "").lower() in ("checkbox", "radio")
        if is_choice or event.name in _BLOCKS or event.name in _INLINE:
            return False
        if event.name not in _CONTROLS:
            return has_words(before + after)
        return has_words(before) and before[-1] not in ".:;!?" and (after[:1].islower() or after[:1] in (*",.;)",))

    def _words_around(self, place: int) -> list[str]:
        """Return the words directly before and after an element."""
        around = place - 1, self._closes.get(place, place) + 1
        events = ((at, self._events[at] if 0 <= at < len(self._events) else None) for at in around)
        return [
            self.content[slice(*self._wheres[at])].strip() if event and event.kind == "words" else ""
            for at, event in events
        ]

    def _is_note(self, place: int) -> bool:
        """Return True if an element refers to a footnote, and is no part of a formula, a unit or a number."""
        event, last = self._events[place], self._closes.get(place)
        if event.name not in ("sub", "sup") or last is None or self._is_xml:
            return False
        shown = unescaped(_TAGS.sub("", self.content[event.begin : self._events[last].begin])).strip()
        before = _TAGS.sub("", self.content[max(0, event.begin - 100) : event.begin])[-3:]
        return refers_to_note(shown, before)

    def _last(self, place: int, is_apart: bool = False) -> int | None:
        """Add the texts of a start tag, and return the last event of an element that is one piece; None for others."""
        event, last = self._events[place], self._closes.get(place)
        is_root = _ROOT.match(self.content, event.begin) is not None
        named = None if is_root else event.attributes.get("lang", event.attributes.get("xml:lang"))
        languages = self.language, self._language
        is_foreign = all(other_language(named, language) for language in languages)
        is_kept = is_foreign or event.is_kept
        if not is_kept and not self._is_xml:
            self._add_attributes(event, self._wheres[place])
        if is_kept or event.name in self._kept:
            if last is None:
                last, is_open = place, event.name in _OPEN_ENDED
                while is_open and last + 1 < len(self._events) and self._events[last + 1].name in _WITHIN:
                    last += 1
            inside = (inner.attributes.get("translate") for inner in self._events[place + 1 : last])
            reasons = {
                "it is in another language": is_foreign,
                "it says how a word is read": event.name == "rt",
                "it should be translated, but the element around it should not": event.is_kept and "yes" in inside,
            }
            for reason in [reason for reason, is_given in reasons.items() if is_given][:1]:
                self._leave(reason, (event.begin, self._wheres[last][1]))
            return last
        while is_apart and last is not None and (place := place + 1) < last:
            if self._events[place].kind == "words":
                for row in _ROW.finditer(self.content, *self._wheres[place]):
                    self._add_texts(row.span())
            elif self._events[place].kind == "start":
                place = self._last(place) or place
        return last if is_apart else None

    def _words(self, where: Where) -> Iterator[InlinePart[Where] | None]:
        """Yield words and the code of templates in them; None for a statement, which nothing may move."""
        end = where[0]
        for code in _CODE.finditer(self.content, *where):
            yield InlinePart("words", (end, code.start()), unescaped(self.content[end : code.start()]))
            kind = "after" if code[0].startswith(_COMMENTS) else "value"
            yield None if _STATEMENT.match(code[0]) else InlinePart(kind, code.span())
            end = code.end()
        yield InlinePart("words", (end, where[1]), unescaped(self.content[end : where[1]]))

    def _add_texts(self, where: Where) -> None:
        """Add the texts of a piece that may be within another one."""
        for is_text, parts in groupby(self._words(where), lambda part: part is not None):
            self.add_inner([*filter(None, parts)]) if is_text else None

    def _leave(self, reason: str, where: Where) -> None:
        if has_words(_TAGS.sub(" ", self.content[slice(*where)])):
            self.left.append(Left(reason, self.line_of(self.content, where)))

    def _kind(self, where: Where) -> Literal["single", "after"]:
        """Return "after" for an empty element inside a word: between two small letters."""
        neighbours = self.content[where[0] - 1 : where[0]] + self.content[where[1] : where[1] + 1]
        is_in_word = len(neighbours) == 2 and neighbours.isalpha() and neighbours.islower()
        return "after" if is_in_word and _EMPTY.fullmatch(self.content, *where) else "single"

    def _add_attributes(self, event: Event, where: Where) -> None:
        has = event.attributes.get
        self._list = event.name if event.name in ("datalist", "select") else self._list
        kinds = {"input": has("type", "text").lower(), "option": self._list}
        is_description = _DESCRIPTION.fullmatch(has("name") or has("property") or has("itemprop") or "")
        for attribute in _ATTRIBUTE.finditer(self._masked, where[0] + 1 + len(event.name), where[1]):
            name = attribute[1].lower() if attribute.lastgroup else ""
            where = attribute.span(attribute.lastgroup or 0)
            kind = kinds.get(event.name) if name == "value" else ""
            if name in _SHOWN or (name == "content" and is_description) or kind in ("button", "reset", "submit"):
                self._add_texts(where)
                self.bare.add(attribute.span("bare"))
            elif name == "srcdoc" or kind in ("search", "text", "datalist"):
                self._leave("it is the value of a field or a page in an attribute", where)


class _Parser(HTMLParser):
    """A parser that collects the events of a page, in order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.events: list[Event] = []
        self._lines = [0, *accumulate(len(line) + 1 for line in content.split("\n"))]
        self.feed(content)
        self.close()

    def _add(self, kind: Kind, name: str = "", attributes: Mapping[str, str] | None = None) -> None:
        check_cancelled()
        line, column = self.getpos()
        self.events.append(Event(kind, self._lines[line - 1] + column, name, attributes or {}))

    def check_for_whole_start_tag(self, i: int) -> int:
        end = super().check_for_whole_start_tag(i)
        check_length(len(_SEPARATOR.findall(self.rawdata, i, end)))  # of attributes
        return end

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("start", tag, {name: value or "" for name, value in attrs})

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        self._add("words")

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Read `<![…]>` of any kind, of which the library knows only some."""
        is_known = self.rawdata.startswith("<![CDATA[", i)
        return super().parse_marked_section(i, report) if is_known else self.parse_bogus_comment(i, report)

    unknown_decl = handle_pi = handle_comment


def _closes(events: Sequence[Event], alone: Container[int]) -> dict[int, int]:
    """Return the place of the end tag of each element with one, by that of its start tag; tags `alone` have none."""
    opened, closes = defaultdict[str, list[int]](list), dict[int, int]()
    for place, event in enumerate(events):
        if event.kind == "start" and place not in alone:
            opened[event.name].append(place)
        elif event.kind == "end" and opened[event.name]:
            closes[opened[event.name].pop()] = place
    return closes


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Html:
    """Read a page and its texts.

    Raises:
        DataError: many comments or tags in it have no end, which the parser would look for in all that follows each.
    """
    text, encoding = decoded(content, path, declares=True)
    if content.isascii() and encoding == "utf-8" and b"utf" not in content[:2_000].lower():
        encoding = "ascii"  # it does not say what its other characters would be in, so they become references
    for begin, end in _ENDS.items():
        if (count := text.count(begin, text.rfind(end) + 1)) > _MOST_OPEN:
            raise DataError(f"{path} is damaged: {count:,} times {begin} without {end}")
    page = Html(text, encoding, languages)
    if language := other_language(page.language, languages[0]):
        page.notes.append(f"the page says that it is in {language}, but is read as {english_name(languages[0])}")
    return page
