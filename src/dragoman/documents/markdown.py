"""Markdown (CommonMark, with tables and strikethrough): paragraphs, headings, items and cells, with the emphasis, links
and code in them. A translated paragraph stands in one line.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dragoman.documents.document import Spliced, Where
from dragoman.documents.inline import Part
from dragoman.documents.reading import decoded

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_FRONT_MATTER = re.compile(r"\ufeff?(?:(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*(?:\r?\n|\Z))?", re.DOTALL | re.MULTILINE)
_TARGET = r"\](?:\((?:[^()\\]|\\.|\([^()\\]*\))*\)|\[[^\]]*\])?"
_LOOKS = {
    "code_inline": r"(`+)(?!`).*?(?<!`)\1(?!`)",
    "link_open": r"\[",
    "link_close": _TARGET,
    "image": rf"!\[(?P<alt>(?:[^\[\]\\]|\\.)*){_TARGET}",
    "hardbreak": r"[ \t]*\\?\n[ \t]*",
    "softbreak": r"[ \t]*\n[ \t]*",
}
"""What pieces of a paragraph look like that do not say so themselves."""
_KEPT = re.compile(
    r"""(?<!\\)(?:
        (?P<note>\[\^[^\]\s]{1,100}\]:)
      | \[\^[^\]\s]{1,100}\] | \[!\w{1,20}\] | \A\[[ x]\](?=\s)
      | \{[:\#.%{][^{}]{0,200}\}+
      | https?://[^\s<>\[\]]*[\w/]
      | \$(?![\s\d])[^$\n]{0,200}(?<!\s)\$(?!\w)
      | <(?P<code>code|kbd|samp|var)\b[^<>]{0,200}>.{0,200}?</(?P=code)>
    )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""What stays as it is: footnotes and their marks, boxes of notes and tasks, attributes, addresses, formulas, code."""
_WHOLE = ("code_inline", "image", "link_close")
"""Pieces in which nothing else begins."""
_SPECIAL = re.compile(r"[\\*`\[\]<|]|(?<!\w)_+(?=[^\s_])|(?<=[^\s_])_+(?!\w)")
_ITEM = re.compile(r"\A(\d+(?=[.)])|(?=[#>+-]))(.)(?=\s)")  # what would make an item or a heading of a text


class Markdown(Spliced):
    """A text in Markdown."""

    keeps_empty = False  # ** ** is no emphasis, and **** no mark at all

    def __init__(self, content: str, encoding: str) -> None:
        super().__init__(content, encoding)
        front = _FRONT_MATTER.match(content)
        begin = front.end() if front else 0
        self._lines = [match.span() for match in _LINE.finditer(content, begin)]
        parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
        place = begin
        for token in parser.parse(content[begin:]):
            if token.type == "inline" and token.map and (where := self._places(token, place)):
                place = where[-1]
                for parts in self._texts(token, where):
                    self.add(parts)

    def written(self, words: str, is_inner: bool) -> str:
        if is_inner:  # what stands for a picture, as it is written
            return re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", words)
        words = _SPECIAL.sub(lambda found: "".join(f"\\{character}" for character in found[0]), words)
        return _ITEM.sub(r"\1\\\2", words)

    def _places(self, token: Token, begin: int) -> list[int]:
        """Where each character of a paragraph stands in the file, and where it ends; none if it cannot be found."""
        places: list[int] = []
        assert token.map
        for number, line in enumerate(token.content.split("\n"), token.map[0]):
            first, last = self._lines[number]
            found = self.content.find(line, max(first, begin), last)
            if found < 0:
                return []
            places += range(found, found + len(line) + 1)
        return places

    def _texts(self, token: Token, places: Sequence[int]) -> list[list[Part[Where]]]:
        """The texts of a paragraph, which hard breaks and footnotes part; if its pieces do not look as they should, all
        of it as words.
        """
        texts, begin, end = [list[Part[Where]]()], 0, 0
        kept = [*_KEPT.finditer(token.content)][::-1]
        pieces = iter(token.children or ())
        for piece in pieces:
            found = re.compile(_look(piece), re.DOTALL).match(token.content, end)
            if found is None:
                return [[Part("words", (places[0], places[-1]), token.content)]]
            begin, end = max(begin, end), found.end()
            while kept and kept[-1].start() < end:
                one = kept.pop()
                if one.start() >= begin and piece.type not in _WHOLE and piece.markup != "autolink":
                    words = Part("words", (places[begin], places[one.start()]), token.content[begin : one.start()])
                    single = Part("single", (places[one.start()], places[one.end()]))
                    texts += [[*texts.pop(), words], [single]] if one["note"] else [[*texts.pop(), words, single]]
                    begin = one.end()
            if piece.type == "image" and found["alt"]:
                self.add_inner((places[found.start("alt")], places[found.end("alt")]), found["alt"])
            if piece.markup == "autolink":
                next(pieces)  # its text
                next(pieces)  # its end
            if piece.type == "hardbreak":
                texts.append([])
            elif begin < end:
                words = " " if piece.type == "softbreak" else piece.content[begin - end :]
                texts[-1].append(Part(_kind(piece), (places[begin], places[end]), words))
        return texts


def _look(piece: Token) -> str:
    """What a piece of a paragraph looks like, as a regular expression."""
    if piece.markup == "autolink":
        return r"<[^<>]*>"
    return _LOOKS.get(piece.type, re.escape(piece.markup or piece.content))


def _kind(piece: Token) -> Literal["words", "open", "close", "single"]:
    if piece.type in ("text", "text_special", "softbreak"):
        return "words"
    if piece.type == "html_inline" and not piece.content.endswith("/>"):
        return "close" if piece.content.startswith("</") else "open"
    if piece.markup != "autolink" and piece.type.endswith(("_open", "_close")):
        return "open" if piece.type.endswith("_open") else "close"
    return "single"


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Markdown:
    """A text in Markdown and its paragraphs."""
    return Markdown(*decoded(content, path))
