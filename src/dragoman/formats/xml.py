"""XML: a file as a tree, a long file entry by entry, and the text of a segment in TMX and XLIFF.

Entities are not resolved, and no other file is opened. The limits of libxml2 hold for depth, texts and entities.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, optional
from dragoman.formats.lines import open_bytes, reading
from dragoman.formats.rows import Texts, Untranslated
from dragoman.surface.protected import code_in
from dragoman.surface.tags import without_tags

LARGEST_ENTRY = 1 << 23
"""Bytes of XML without the end of an entry. They take up to 50 times as much memory."""
_PIECE = 1 << 16
_CODES = frozenset("bpt ept ph it ut x bx ex sc ec sm em cp sub".split())
"""Elements that represent code of the original document; the text in all others is read."""
_LINE_BREAK = re.compile(r"(x-)?(lb|br|line-?break)|<br\b.*", re.IGNORECASE)


def xml_tree(content: bytes, path: Path, encoding: str | None = None, with_entities: bool = False) -> Any:
    """Parse a file of XML, by default in the encoding that it declares, into a tree of lxml.

    Raises:
        DataError: it is damaged, or declares entities and may not.
        MissingExtra: lxml is not installed.
    """
    with optional("lxml", "documents"):
        from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]
    parser = etree.XMLParser(
        encoding=encoding, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False
    )
    try:
        tree = etree.parse(BytesIO(content), parser)
    except etree.XMLSyntaxError as error:
        raise DataError(f"{path}:{error.lineno or 1} is not well-formed XML: {' '.join(error.msg.split())}") from None
    for entity in () if with_entities else tree.iter(etree.Entity):
        raise DataError(f"{path}:{entity.sourceline} uses the entity {entity.text}, which is not read; write its text")
    return tree


def xml_bytes(tree: Any) -> bytes:
    """Return a tree of lxml as a file, in the encoding that it had."""
    written, info = BytesIO(), tree.docinfo
    tree.write(written, encoding=info.encoding or "UTF-8", xml_declaration=True, standalone=info.standalone or None)
    return written.getvalue()


def stream_texts(
    path: Path, tags: tuple[str, ...], texts_of: Callable[[Any], Iterator[Texts]], repairs: Counter[str]
) -> Iterator[tuple[int, Texts]]:
    """Yield the number, from 1, and the texts of each element with one of these `tags`, with one element in memory at a
    time.

    Raises:
        DataError: the file is not well-formed, or an entry has more than `LARGEST_ENTRY` bytes.
        Untranslated: no element has texts.
        MissingExtra: lxml is not installed.
    """
    with optional("lxml", "documents"):
        from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]
    parser = etree.XMLPullParser(
        ("end",), tag=tags, resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True,
        remove_pis=True, huge_tree=False,
    )  # fmt: skip
    number = records = bytes_since = 0
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
                errors = [(entry.line, entry.message) for entry in parser.feed_error_log] or [(error.lineno, error.msg)]
                line, complaint = errors[-1]
                complaint = " ".join(str(complaint).split())
                raise DataError(f"{path}:{line or 1} is not well-formed XML: {complaint}") from None
            bytes_since += len(piece)
            for _, element in parser.read_events():
                number, bytes_since = number + 1, 0
                for texts in texts_of(element):
                    records += 1
                    yield number, texts
                element.clear(keep_tail=False)
                for node in (element, *element.iterancestors()):  # forget everything before it
                    if (parent := node.getparent()) is not None:
                        del parent[: parent.index(node)]
            if bytes_since > LARGEST_ENTRY:
                size = f"{LARGEST_ENTRY >> 20} MiB"
                raise DataError(f"{path}: more than {size} follow entry {number} without the end of another")
            if not piece:
                break
    if not records:
        raise Untranslated.from_counts(path, repairs - before)


def segment_text(segment: Any, path: Path) -> str:
    """Return the text of a segment without tags and the code of its original document, with single spaces.

    A pair of tags is dropped, because `translate` takes pairs out of a text and puts them back; the words between them
    stay. A code without a partner stays if it is a variable or the like (`%s`, `{0}`), because a sentence lacks a word
    without it: training makes it a placeholder (`protected`). Others are dropped, and a line break becomes a space.
    """
    return " ".join(without_tags("".join(_pieces(segment, path))).plain.split())


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
    """Return the variable that a code represents, a space for a line break, or nothing."""
    if not code.text and not code.attrib:
        return ""
    shown = [code.text, *map(code.get, ("equiv-text", "equiv", "disp"))]
    native = next((text.strip() for text in shown if text and text.strip()), "")
    spans = code_in(native)
    if spans and (spans[0].begin, spans[0].end) == (0, len(native)) and not native.startswith(("<", "&")):
        return native
    kinds = (native, code.get("ctype"), code.get("type"), code.get("subType", "").partition(":")[2], code.get("id"))
    return " " * any(_LINE_BREAK.fullmatch(kind) for kind in kinds if kind)
