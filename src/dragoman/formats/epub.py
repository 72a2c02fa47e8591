"""Books (EPUB 2 and 3): pages in the order of reading, titles, description and table of contents, all through the HTML
reader. Other files, among them obfuscated fonts, keep their bytes.
"""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from posixpath import basename, dirname, join, normpath
from typing import Any
from urllib.parse import unquote
from zipfile import ZipFile

from dragoman.errors import DataError
from dragoman.formats import html
from dragoman.formats.archives import open_archive, opening, with_parts
from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import Document, Left
from dragoman.formats.reading import decoded, other_language
from dragoman.formats.xml import xml_tree
from dragoman.languages import english_name

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PACKAGE, _CONTENTS, _SPEECH = "application/oebps-package+xml", "application/x-dtbncx+xml", "application/smil+xml"
_PAGES = ("application/xhtml+xml", "image/svg+xml", "text/html", "text/x-oeb1-document")
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Methods that obfuscate fonts by the identifier of the book, which stays."""
_LABEL = re.compile(r"(?i)(\w+:)?((dc-)?metadata|description|doctitle|nav\w+|ncx|package|page\w+|text|title)")
"""Elements of a package and a table of contents (NCX) with texts, or around them; those in others stay."""
_TAG = re.compile(r"<([\w:.-]+)")
_LANGUAGE = re.compile(
    rb"(<(?:\w+:)?(?:language\b[^<>]*(?<!/)>\s*|(?:title|description)\b[^<>]*\bxml:lang=[\"']))([\w-]+)"
)


class Epub(Document):
    """A book, which consists of other documents."""

    def __init__(self, archive: ZipFile, path: Path, languages: tuple[str, str]) -> None:
        super().__init__()
        self._archive, self._path, self._languages = archive, path, languages
        self._files, self._parts = frozenset(archive.namelist()), dict[str, html.Html]()
        methods = self._tree(_ENCRYPTION).iter("{*}EncryptionMethod") if _ENCRYPTION in self._files else ()
        if any(method.get("Algorithm") not in _FONTS for method in methods):
            raise DataError(f"{path} is encrypted (DRM), so that its pages cannot be read; take a copy without DRM")
        roots = self._tree(_CONTAINER).iterfind("{*}rootfiles/{*}rootfile")
        self._packages = {root.get("full-path", "") for root in roots if root.get("media-type", _PACKAGE) == _PACKAGE}
        if not self._packages:
            raise DataError(f"{path} is damaged: its {_CONTAINER} names no package")
        self._named = {""}
        for name in sorted(self._packages):
            self._add_package(name)
        self.notes = [*dict.fromkeys([*self.notes, *(note for part in self._parts.values() for note in part.notes)])]
        self.texts = [text for part in self._parts.values() for text in part.texts]
        self._places = [(name, at) for name, part in self._parts.items() for at in range(len(part.texts))]

    def place(self, number: int) -> str:
        name, at = self._places[number]
        return f"{basename(name)}, {self._parts[name].place(at)}"

    def translated(self, translations: Sequence[str]) -> bytes:
        following, written = iter(translations), dict[str, bytes]()
        for name, part in self._parts.items():
            content = part.translated([*islice(following, len(part.texts))])
            written[name] = _LANGUAGE.sub(self._renamed, content) if name in self._packages else content
        return with_parts(self._archive, written)

    def _tree(self, name: str) -> Any:
        return xml_tree(self._archive.read(name), self._path / name)

    def _add_package(self, name: str) -> None:
        """Read a package and the files that it names, in the order of its spine; others, such as `nav`, follow."""
        tree, source = self._tree(name), self._languages[0]
        kinds, names = dict[str, str](), dict[str, str]()
        for item in tree.iterfind("{*}manifest/{*}item"):
            part = normpath(join(dirname(name), unquote(item.get("href", "").partition("#")[0])))
            kinds[part], names[item.get("id", "")] = item.get("media-type", ""), part
        self._named.add(named := other_language(tree.findtext("{*}metadata//{*}language"), source))
        is_fixed = any(element.text == "pre-paginated" for element in tree.iterfind("{*}metadata/{*}meta"))
        self.notes += [f"the book says that it is in {named}, but is read as {english_name(source)}"] * bool(named)
        self.notes += ["recorded speech stays in the language of the source"] * (_SPEECH in kinds.values())
        self.notes += ["pages have a fixed layout, in which a longer translation may not fit"] * is_fixed
        spine = [names.get(item.get("idref", ""), "") for item in tree.iterfind("{*}spine/{*}itemref")]
        kinds[name] = _PACKAGE
        for part in dict.fromkeys([name, *spine, *kinds]):
            check_cancelled()
            if kinds.get(part) not in (_PACKAGE, _CONTENTS, *_PAGES) or part in self._parts:
                continue
            if part in self._files:
                self._add(part, kinds[part] in _PAGES)
            else:
                self.left.append(Left("the book lacks the file", basename(part)))

    def _add(self, name: str, is_page: bool) -> None:
        content, path = self._archive.read(name), self._path / name
        if is_page:
            part = html.read(content, path, self._languages)
        else:
            text, encoding = decoded(content, path, declares=True)
            kept = {tag for tag in _TAG.findall(text) if not _LABEL.fullmatch(tag)}
            part = html.Html(text, encoding, self._languages, kept)
        if "<!ENTITY" in part.content:
            self.left.append(Left("the file declares entities", basename(name)))
        else:
            self._parts[name] = part
            self.left += [Left(reason, f"{basename(name)}, {place}") for reason, place in part.left]

    def _renamed(self, named: re.Match[bytes]) -> bytes:
        source, target = self._languages
        return named[1] + target.encode() if other_language(named[2].decode(), source) in self._named else named[0]


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Epub:
    """Read a book and the texts of its pages.

    Raises:
        DataError: it is damaged, encrypted or no book.
        MissingExtra: lxml is not installed.
    """
    with opening(path, "a book (EPUB)"):
        return Epub(open_archive(content), path, languages)
