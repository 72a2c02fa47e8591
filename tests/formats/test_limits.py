"""What one document may cost: memory, texts and, for a client that has gone, time."""

import gzip
import io
import time
import zipfile
from pathlib import Path

import pytest
from small_decks import deck_parts, packed, paragraphs

from dragoman.cli.main import main
from dragoman.errors import DataError, Error
from dragoman.formats.cancelling import cancellable
from dragoman.formats.reading import DocumentSettings, DocumentTooLarge, format_of, read_document

LANGUAGES = ("en", "it")
CUE = "1\n00:00:01,000 --> 00:00:02,000\nThe dog sleeps.\n\n"
UNIT = '<trans-unit id="1"><source>The dog sleeps.</source></trans-unit>'
FILES: dict[str, str] = {
    "a.html": "<p>The dog sleeps.</p>" * 50,
    "a.md": "The dog *sleeps*.\n\n" * 50,
    "a.srt": CUE * 50,
    "a.json": '["The dog sleeps.", "The cat sleeps."' + ', "The dog eats."' * 48 + "]",
    "a.xlf": f'<xliff version="1.2"><file><body>{UNIT * 50}</body></file></xliff>',
    "a.csv": "The dog sleeps.,The cat sleeps.\n" * 50,
    "a.yml": "".join(f"k{n}: The dog sleeps.\n" for n in range(50)),
    "a.properties": "k = The dog sleeps.\n" * 50,
    "a.strings": '"k" = "The dog sleeps.";\n' * 50,
    "a.resx": f"<root>{'<data><value>The dog sleeps.</value></data>' * 50}</root>",
    "a.po": "".join(f'msgid "The dog sleeps {n}."\nmsgstr ""\n\n' for n in range(50)),
}


ARCHIVES = ("a.docx", "a.epub", "a.odt", "a.pptx", "a.xlsx")


@pytest.fixture(params=[*FILES])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.write_text(FILES[request.param])
    return path


def test_a_document_with_too_many_texts_is_refused(path: Path) -> None:
    texts = len(read_document(path, LANGUAGES).texts)
    assert len(read_document(path, LANGUAGES, settings=DocumentSettings(texts=texts)).texts) == texts
    with pytest.raises(DataError, match=f"{texts} texts; divide it, or raise document.texts"):
        read_document(path, LANGUAGES, settings=DocumentSettings(texts=texts - 1))


def test_a_document_that_may_take_too_much_memory_is_refused_before_it_is_read(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 200)  # damaged, in some formats
    with pytest.raises(DataError, match="more than 1 MiB of memory"):
        read_document(path, LANGUAGES, settings=DocumentSettings(memory=2**20))


@pytest.mark.parametrize("name", ARCHIVES)
def test_what_an_archive_unpacks_to_counts(tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", "<w:p/>" * 1_000_000)
    path = tmp_path / name
    path.write_bytes(packed.getvalue())
    assert len(packed.getvalue()) < 20_000
    with pytest.raises(DataError, match="more than 256 MiB of memory"):
        read_document(path, LANGUAGES, settings=DocumentSettings(memory=2**28))


def archived(name: str, count: int = 50) -> bytes:
    """Return a document of this kind with this number of texts."""
    written = io.BytesIO()
    if name == "a.odt":
        namespace = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
        return packed({"content.xml": f'<a xmlns:text="{namespace}">{"<text:p>The dog sleeps.</text:p>" * count}</a>'})
    if name == "a.epub":
        item = '<item id="p" href="p.xhtml" media-type="application/xhtml+xml"/>'
        return packed(
            {
                "META-INF/container.xml": '<a><rootfiles><rootfile full-path="b.opf"/></rootfiles></a>',
                "b.opf": f'<package><manifest>{item}</manifest><spine><itemref idref="p"/></spine></package>',
                "p.xhtml": f"<html><body>{'<p>The dog sleeps.</p>' * count}</body></html>",
            }
        )
    if name == "a.pptx":
        return packed(deck_parts(*(paragraphs(f"The dog sleeps {number}.") for number in range(count))))
    if name == "a.docx":
        document = pytest.importorskip("docx").Document()
        for _ in range(count):
            document.add_paragraph("The dog sleeps.")
        document.save(written)
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for number in range(count):
            book.worksheets[0].append([f"The dog sleeps {number}."])
        book.save(written)
    return written.getvalue()


@pytest.mark.parametrize("name", [*FILES, "a.txt", *ARCHIVES])
def test_a_reader_and_a_writer_stop_when_their_check_raises(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(archived(name) if name in ARCHIVES else FILES.get(name, "A dog.\n\n" * 50).encode())
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 10:
            raise Error("the client has gone")

    kind = format_of(path) or "text"
    with cancellable(check), pytest.raises(Error, match="the client has gone"):
        read_document(path, LANGUAGES, kind)
    assert calls == 11
    document = read_document(path, LANGUAGES, kind)  # outside of the block nothing is checked
    calls = 0
    with cancellable(check), pytest.raises(Error, match="the client has gone"):
        document.translated([text.upper() for text in document.texts])
    assert calls == 11


def test_the_parser_of_markdown_stops_within_a_document(tmp_path: Path) -> None:
    path, began = tmp_path / "a.md", time.process_time()
    path.write_text("> a\n>>>>>>>\n" * 400)  # takes seconds

    def check() -> None:
        if time.process_time() - began > 0.2:
            raise Error("the client has gone")

    with cancellable(check), pytest.raises(Error, match="the client has gone"):
        read_document(path, LANGUAGES)


@pytest.mark.parametrize("part", ["word/document.xml", "word/document.bin"])
def test_signs_in_all_parts_of_an_archive_count(tmp_path: Path, part: str) -> None:
    path, packed = tmp_path / "a.docx", io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(part, "<w:p/>" * 100_000)
    path.write_bytes(packed.getvalue())
    with pytest.raises(DocumentTooLarge, match="more than 32 MiB of memory"):
        read_document(path, LANGUAGES, settings=DocumentSettings(memory=2**25))


def test_a_packed_file_is_not_unpacked_beyond_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(gzip.compress(b"word " * 2_000_000))
    with pytest.raises(DocumentTooLarge, match="more than 1 MiB of memory"):
        read_document(path, LANGUAGES, settings=DocumentSettings(memory=2**20))


def test_a_text_that_begins_as_an_archive_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"PK\x03\x04" + b"<b>" * 10_000)
    with pytest.raises(DocumentTooLarge, match="more than 1 MiB of memory"):
        read_document(path, LANGUAGES, settings=DocumentSettings(memory=2**20))


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_count_whatever_ends_them(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(f"a{end}".encode() * 5_000)
    read_document(path, LANGUAGES, "text", settings=DocumentSettings(memory=2**22))
    with pytest.raises(DocumentTooLarge):
        read_document(path, LANGUAGES, "text", settings=DocumentSettings(memory=2**21))


def test_lines_of_many_texts_that_stay_are_counted_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>{n, plural, one {dog} and {dogs}}</p>\n<p lang=fr>Un chien.</p>\n" * 100)
    places = [int(left.place.removeprefix("line ")) for left in read_document(path, LANGUAGES).left]
    assert sorted(places) == [*range(1, 201)]


def test_the_limits_are_settings_of_the_command(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.html"
    page.write_text(FILES["a.html"])
    command = ["translate", str(run_folder), "--input", str(page), "--output", str(tmp_path / "b.html")]
    assert main([*command, "--set", "document.texts=10"]) == 2
    assert "raise document.texts (10)" in capsys.readouterr().err
    assert main([*command, "--set", "document.texts=100", "--set", "beam_size=1"]) == 0


@pytest.mark.parametrize(("name", "before"), [("a.html", "<p>"), ("a.md", ""), ("a.srt", CUE.partition("The")[0])])
def test_a_text_that_is_too_long_is_refused(tmp_path: Path, name: str, before: str) -> None:
    path = tmp_path / name
    path.write_text(before + "word " * 39_000)
    assert len(read_document(path, LANGUAGES).texts) == 1
    path.write_text(before + "word " * 41_000)
    with pytest.raises(DataError, match="more than 200,000 characters; divide it"):
        read_document(path, LANGUAGES)


@pytest.mark.parametrize("attribute", [" alt=a", "\na", "/a"])
def test_a_tag_with_too_many_attributes_is_refused(tmp_path: Path, attribute: str) -> None:
    path = tmp_path / "a.html"
    path.write_text(f"<p>A dog.<img{attribute * 300_000}>")
    with pytest.raises(DataError, match=r"too much for one document|a paragraph, entry or tag of more than 200,000"):
        read_document(path, LANGUAGES, settings=DocumentSettings(memory=2**27))
    path.write_text(f"<p>A dog.<img src='data:{'x/' * 90_000}'>")
    assert read_document(path, LANGUAGES).texts == ["A dog."]
