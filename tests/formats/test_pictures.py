"""Pictures in documents: they are copied, cost little of the memory allowed, and are never read as text."""

import random
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from dragoman.errors import DataError
from dragoman.formats.reading import PICTURES, DocumentSettings, read_document

LIMITS = DocumentSettings(memory=16 << 20)
BOOK = {
    "mimetype": b"application/epub+zip",
    "META-INF/container.xml": b'<c><rootfiles><rootfile full-path="a.opf"/></rootfiles></c>',
    "a.opf": b'<p><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
    b'<spine><itemref idref="a"/></spine></p>',
    "a.xhtml": b'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>The cat sleeps.</p></body></html>',
}


def book(path: Path, **others: bytes) -> Path:
    with ZipFile(path, "w") as archive:
        for name, content in (BOOK | {name.replace("_", "."): content for name, content in others.items()}).items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("sign", PICTURES)
def test_pictures_count_little(sign: bytes, tmp_path: Path) -> None:
    pixels = random.Random(1).randbytes(1 << 21)
    path = book(tmp_path / "a.epub", x_png=sign + pixels)
    document = read_document(path, ("en", "it"), settings=LIMITS)
    assert list(document.texts) == ["The cat sleeps."]
    with ZipFile(BytesIO(document.translated(["Il gatto dorme."]))) as archive:
        assert archive.read("x.png") == sign + pixels
    with pytest.raises(DataError, match="more than 16 MiB"):
        read_document(book(tmp_path / "b.epub", x_png=pixels), ("en", "it"), settings=LIMITS)
    large = book(tmp_path / "c.epub", x_png=sign + pixels * 3)
    with pytest.raises(DataError, match="more than 16 MiB"):
        read_document(large, ("en", "it"), settings=LIMITS)


@pytest.mark.parametrize("sign", PICTURES)
def test_a_picture_is_never_read_as_a_page(sign: bytes, tmp_path: Path) -> None:
    page = sign + b'<?xml version="1.0" encoding="latin-1"?><p>The cat sleeps.</p>'
    with pytest.raises(DataError, match="is a picture"):
        read_document(book(tmp_path / "a.epub", a_xhtml=page), ("en", "it"))
