"""What one document may cost: memory, texts and, for a client that has gone, time."""

import io
import time
import zipfile
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.errors import DataError, Error
from dragoman.formats.document import cancellable
from dragoman.formats.reading import DocumentSettings, read_document

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
    "a.po": "".join(f'msgid "The dog sleeps {n}."\nmsgstr ""\n\n' for n in range(50)),
}


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


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx"])
def test_what_an_archive_unpacks_to_counts(tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", "<w:p/>" * 1_000_000)
    path = tmp_path / name
    path.write_bytes(packed.getvalue())
    assert len(packed.getvalue()) < 20_000
    with pytest.raises(DataError, match="more than 256 MiB of memory"):
        read_document(path, LANGUAGES, settings=DocumentSettings(memory=2**28))


@pytest.mark.parametrize("name", [name for name in FILES if name != "a.po"])
def test_a_reader_stops_when_its_check_raises(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 10:
            raise Error("the client has gone")

    with cancellable(check), pytest.raises(Error, match="the client has gone"):
        read_document(path, LANGUAGES)
    assert calls == 11
    read_document(path, LANGUAGES)  # outside of the block nothing is checked


def test_the_parser_of_markdown_stops_within_a_document(tmp_path: Path) -> None:
    path, began = tmp_path / "a.md", time.process_time()
    path.write_text("> a\n>>>>>>>\n" * 400)  # takes seconds

    def check() -> None:
        if time.process_time() - began > 0.2:
            raise Error("the client has gone")

    with cancellable(check), pytest.raises(Error, match="the client has gone"):
        read_document(path, LANGUAGES)


def test_the_limits_are_settings_of_the_command(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.html"
    page.write_text(FILES["a.html"])
    command = ["translate", str(run_folder), "--input", str(page), "--output", str(tmp_path / "b.html")]
    assert main([*command, "--set", "document.texts=10"]) == 2
    assert "raise document.texts (10)" in capsys.readouterr().err
    assert main([*command, "--set", "document.texts=100", "--set", "beam_size=1"]) == 0
