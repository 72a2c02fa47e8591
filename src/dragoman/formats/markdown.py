"""Markdown: paragraphs, headings, items, cells and titles, with the emphasis, links and code in them. A translated
paragraph becomes one line.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markdown_it.token import Token

from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Left, Spliced, Where
from dragoman.formats.inline import InlinePart, check_length
from dragoman.formats.lines import without_packing
from dragoman.formats.markdown_syntax import (
    COMPONENTS,
    EXPRESSION,
    HEAD,
    MOST_NESTED,
    SHOWN,
    VALUE,
    build_parser,
    compiled,
)
from dragoman.formats.reading import decoded
from dragoman.surface.sentences import has_words

_KINDS = {"open": "open", "close": "close", "special": "words", "softbreak": "words", "hardbreak": "break"}
_QUOTES = {'"': "'", "'": "’", "`": "'"}  # and what replaces them in what they quote
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_FRONT_MATTER = re.compile(r"\ufeff?(?:(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*(?:\r?\n|\Z))?", re.DOTALL | re.MULTILINE)
_MOST_MARKS = 10_000  # in a paragraph, because the time to parse them can grow with the square of their number
_MARK = re.compile(r"[^\w\s.,;'\"()-]")
_NO_WORDS = re.compile(r"<(script|pre|style|textarea)\b.*|<!--.*?(?:-->|\Z)|<[^<>]*>|&\w+;", re.DOTALL | re.IGNORECASE)
_SPECIAL = re.compile(r"[\\*`\[\]<|]|(?<!\w)_+(?=[^\s_])|(?<=[^\s_])_+(?!\w)")
_ITEM = re.compile(r"\A(\d+(?=[.)])|(?=[#>+-]))(.)(?=\s)")  # would make an item or a heading of a text


class Markdown(Spliced):
    """A text in Markdown, or in MDX if it is read `with_components`."""

    keeps_empty = False  # ** ** is no emphasis, and **** no mark at all

    def __init__(self, content: str, encoding: str, with_components: bool = False) -> None:
        super().__init__(content, encoding)
        end = len(content) - len(_FRONT_MATTER.sub("", content, count=1))
        for text in compiled(SHOWN, re.MULTILINE).finditer(content, 0, end):
            if has_words(text["value"]):
                self.left.append(Left("it is in the front matter", self.line_of(content, text.span("value"))))
        self._lines = [match.span() for match in _LINE.finditer(content, end)]
        self._escaped = {ord(mark): f"\\{mark}" for mark in re.findall(r"\\([${}~^=])", content)}
        self._parser, self._references, above = build_parser(with_components), dict[str, Any](), ""
        for token in self._parser.parse(content[end:], self._references):
            check_cancelled()
            reason = _reason(token)
            if token.type in ("fence", "html_block", "raw") and token.map and not reason:
                self._add_shown(self._lines[token.map[0]][0], self._lines[token.map[1] - 1][1])
            if token.type == "inline" and not reason:
                if places := self._places(token, end, is_cell=above in ("td_open", "th_open")):
                    self._add_texts(token.content, places)
                    end = places[-1]
                elif has_words(token.content):
                    reason = "it was not found in the file"
            if reason and token.map:
                self.left.append(Left(reason, self.line_of(content, self._lines[token.map[0]])))
            above = token.type
        for first, last in (reference["map"] for reference in self._references.get("references", {}).values()):
            self._add_shown(self._lines[first][0], self._lines[last - 1][1])
        self._inner.sort(key=lambda block: block.where)
        slugs = {re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-") for line in content.splitlines()}
        slugs -= {*re.findall(r"(?:\b(?:id|name)=[\"']?|\((?=[\w-]+\)=))([\w-]+)", content)}
        if links := [link for link in re.findall(r"\](?:\(|:[ ]*)#([^\s()]+)", content) if link.lower() in slugs]:
            self.notes.append(f"links to translated headings that may break: {len(links):,} (first: #{links[0]})")

    def written(self, words: str, inner: Where | None) -> str:
        before = self.content[max(0, inner[0] - 20) : inner[0]].rstrip()[-1:] if inner else ""
        if before == "[":  # the text of a picture
            return re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", words)
        if before in _QUOTES:
            return words.replace(before, _QUOTES[before])
        if inner:
            is_plain = compiled(VALUE, re.IGNORECASE).fullmatch(f" {words}", 1)
            return words if is_plain else "'" + words.replace("'", "’") + "'"
        words = _SPECIAL.sub(lambda marks: "".join(f"\\{mark}" for mark in marks[0]), words)
        return _ITEM.sub(r"\1\\\2", words.translate(self._escaped))

    def _add_shown(self, begin: int, end: int) -> None:
        """Add the titles of links and what attributes and options show, such as `alt`, in a piece of markup."""
        head = compiled(HEAD, re.IGNORECASE | re.MULTILINE).match(self.content, begin, end)
        export = self.content[begin:end] if self.content.startswith("export", begin) else ""
        if compiled(EXPRESSION).search(compiled(SHOWN, re.MULTILINE).sub("", head[0]) if head else export):
            self.left.append(Left("it is in an expression", self.line_of(self.content, (begin, end))))
        for text in compiled(SHOWN, re.MULTILINE).finditer(self.content, *head.span()) if head else []:
            begin = text.start("value")
            value = compiled(VALUE, re.IGNORECASE).fullmatch(self.content, begin, begin + len(text["value"].rstrip()))
            if value:
                name = value.lastgroup or 0
                self.add_inner([InlinePart("words", value.span(name), value[name])])
            elif has_words(text["value"]):
                self.left.append(
                    Left("its value is not one plain or quoted line", self.line_of(self.content, text.span()))
                )

    def _places(self, token: Token, begin: int, is_cell: bool) -> list[int]:
        """Return the position in the file of each character of a paragraph, and its end; nothing if it is not found."""
        check_length(len(token.content))
        places: list[int] = []
        for number, line in enumerate(token.content.split("\n"), (token.map or [0])[0]):
            first, last = self._lines[number]
            last = first + token.meta["end"] if token.meta else last
            bare = line.lstrip(" \t")  # of which the parser may have written other ones
            raw = bare.replace("|", r"\|") if is_cell else bare
            place = (self.content.find if is_cell else self.content.rfind)(raw, max(first, begin), last)
            if place < 0:
                return []
            marks = re.finditer(r"\\\||." if is_cell else ".", raw)
            places += [place] * (len(line) - len(bare)) + [place + mark.start() for mark in marks] + [place + len(raw)]
        return places

    def _add_texts(self, content: str, places: Sequence[int]) -> None:
        """Add the texts of a paragraph, which hard breaks and lines of tags divide."""
        parts, end, place, opened = list[InlinePart[Where]](), 0, 0, list[int]()
        tags = compiled(rf"^[ \t]*{COMPONENTS}$|(?<=>)$(?=\n[ \t]*<[A-Z])", re.MULTILINE).finditer(content)
        breaks = {place for tag in tags for place in (tag.start() - 1, tag.end())}
        for piece in self._parser.inline.parse(content, self._parser, self._references, []):
            if piece.type == "text":
                place += len(piece.content)
                continue
            begin, after = piece.map or (place, place + len(piece.markup or "["))
            begin = place if piece.type == "link_close" else begin  # its map begins where the link does
            begin = len(content[:begin].rstrip(" ")) if piece.type == "hardbreak" else begin
            parts.append(InlinePart("words", (places[end], places[begin]), content[end:begin]))
            kind: Any = _KINDS.get(piece.type.rpartition("_")[2], "single")
            where, is_image = (places[begin], places[after]), piece.type == "image"
            if piece.type in ("link_open", "mark_open"):
                opened.append(after)
            elif is_image or (piece.type in ("link_close", "mark_close") and opened):
                label, label_end = (begin + 2, begin + 2 + len(piece.content)) if is_image else (opened.pop(), begin)
                is_name = content[label_end:after] == "][]" or (label_end + 1 == after and piece.type != "mark_close")
                named = (places[label], places[after if is_name else label_end]) if is_image else where
                if is_name:
                    name = re.sub(r"\s*\n[\s>]*", " ", self.content[places[label] : places[label_end]])
                    self.ends[named] = f"][{name}]"
                if is_image and re.search(r"[`<\[{$]", piece.content):
                    self.left.append(
                        Left("it has markup and is the text of a picture", self.line_of(self.content, where))
                    )
                elif is_image:
                    self.add_inner([InlinePart("words", named, piece.content)])
            self._add_shown(*where)
            if begin in breaks:
                self.add(parts)
                parts = []
            elif kind == "close" and where not in self.ends and parts[last := _last(parts)].kind == "open":
                parts[last:] = [InlinePart("single", (parts[last].piece[0], where[1]))]  # without words between
            else:
                parts.append(InlinePart(kind, where, " " if piece.type == "softbreak" else piece.content))
            end = place = after
        self.add([*parts, InlinePart("words", (places[end], places[-1]), content[end:])])


def _last(parts: Sequence[InlinePart[Where]]) -> int:
    return next((n for n in range(len(parts) - 1, 0, -1) if parts[n].kind != "single" and not parts[n].is_blank), 0)


def _reason(token: Token) -> str:
    """Return why the words of a token are left, or nothing if they are translated or there are none."""
    if token.type != "inline" and token.level >= MOST_NESTED - 1:
        return "it is nested too deeply"
    if token.type == "inline" and len(_MARK.findall(token.content)) > _MOST_MARKS:
        return "it has too much markup"
    if token.type == "html_block" and has_words(_NO_WORDS.sub(" ", token.content)):
        return "it is in a block of HTML"
    return token.info if token.type == "raw" else ""


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Markdown:
    """Read a text in Markdown, or in MDX if its name says so."""
    return Markdown(*decoded(content, path), with_components=without_packing(path).suffix.lower() == ".mdx")
