"""Archives: the names of their parts, in whatever encoding they are, and their comment."""

from io import BytesIO
from zipfile import ZipFile

import pytest

from dragoman.formats.archives import open_archive, with_parts


def archive_of(*names: str) -> bytes:
    """Return an archive of files."""
    written = BytesIO()
    with ZipFile(written, "w") as archive:
        archive.comment = b"Made by hand"
        for name in names:
            archive.writestr(name, "old")
    return written.getvalue()


def unmarked(content: bytes) -> bytes:
    """Return an archive whose names lack the mark of UTF-8, which follows a version of ZIP (2.0)."""
    return content.replace(b"\x14\0\0\x08", b"\x14\0\0\0")


@pytest.mark.parametrize("name", ["chapître.xhtml", "глава.xhtml", "章.xhtml"])
def test_names_in_utf_8_are_read_and_get_their_mark(name: str) -> None:
    content = unmarked(archive_of("a.xhtml", name))
    assert ZipFile(BytesIO(content)).namelist() != ["a.xhtml", name]
    with open_archive(content) as archive, ZipFile(BytesIO(with_parts(archive, {name: b"new"}))) as written:
        assert archive.namelist() == written.namelist() == ["a.xhtml", name]
        assert archive.read(name) == b"old"
        assert written.read(name) == b"new"
        assert written.getinfo(name).flag_bits & 0x800


def test_names_in_the_encoding_of_dos_stay() -> None:
    content = unmarked(archive_of("a.css", "b?.css")).replace(b"b?.css", b"\x81\x82.css")
    with open_archive(content) as archive, ZipFile(BytesIO(with_parts(archive, {}))) as written:
        assert archive.namelist() == written.namelist() == ["a.css", "üé.css"]


def test_the_comment_of_an_archive_stays() -> None:
    with open_archive(archive_of("a")) as archive:
        assert ZipFile(BytesIO(with_parts(archive, {"a": b"new"}))).comment == b"Made by hand"
