"""Documents through a model, from the command line and from Python."""

import re
from pathlib import Path
from typing import Any

import pytest
import small_translators

import dragoman
from dragoman.cli.main import main
from dragoman.formats.document import Left
from dragoman.formats.reading import read_document
from dragoman.inference import documents

PAGE = '<html lang="en"><h1>The cat</h1><p>the <b>red</b> dog sleeps.</p><pre>the cat</pre></html>'


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    return path


def test_command_and_function_write_the_same_document(run_folder: Path, page: Path) -> None:
    one, other = page.with_name("one.html"), page.with_name("other.html")
    assert main(["translate", str(run_folder), "--input", str(page), "--output", str(one), "--quiet"]) == 0
    summary = dragoman.translate_document(run_folder, page, other, progress=False)
    assert one.read_bytes() == other.read_bytes()
    assert (summary.texts, summary.counts["translated"], summary.counts["left"], summary.unit) == (2, 2, 0, "text")
    written = one.read_text()
    assert written.endswith("</p><pre>the cat</pre></html>")
    assert [written.count(tag) for tag in ('lang="it"', "<h1>", "<b>", "</b>", "<g1>")] == [1, 1, 1, 1, 0]
    assert {path.name for path in page.parent.iterdir()} == {"page.html", "one.html", "other.html"}


def stops_after_chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Interrupt translating when the list that is returned, of one chunk, is used up."""
    translate, chunks = dragoman.Translator.translate, [1]

    def translate_or_stop(*arguments: Any, **settings: Any) -> Any:
        if not chunks:
            raise KeyboardInterrupt
        chunks.pop()
        return translate(*arguments, **settings)

    monkeypatch.setattr(dragoman.Translator, "translate", translate_or_stop)
    return chunks


def test_a_stopped_document_goes_on(run_folder: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page.write_text("".join(f"<p>the cat {number}" for number in range(1_500)))
    whole, stopped = page.with_name("whole.html"), page.with_name("stopped.html")
    command = ["translate", str(run_folder), "--beam-size", "1", "--quiet", "--input", str(page), "--output"]
    assert main([*command, str(whole)]) == 0
    chunks = stops_after_chunks(monkeypatch)
    assert main([*command, str(stopped)]) == 130
    assert {path.name for path in page.parent.glob("stopped*")} == {"stopped.html.part", "stopped.html.part.json"}
    chunks[:] = [1]
    assert main([*command, str(stopped)]) == 0
    assert stopped.read_bytes() == whole.read_bytes()
    assert not [*page.parent.glob("*.part*")]


def test_a_stopped_function_is_resumed_and_counts_all_texts(
    run_folder: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.write_text("".join(f"<p>the cat {number}" for number in range(30)))
    whole, stopped = page.with_name("whole.html"), page.with_name("stopped.html")
    monkeypatch.setattr("dragoman.inference.documents.LINES", 10)
    translator = dragoman.Translator.load(run_folder, progress=False)
    summary = dragoman.translate_document(translator, page, whole, progress=False)
    chunks = stops_after_chunks(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        dragoman.translate_document(translator, page, stopped, progress=False)
    chunks[:] = [1, 1]
    resumed = dragoman.translate_document(translator, page, stopped, progress=False)
    assert stopped.read_bytes() == whole.read_bytes()
    assert (resumed.texts, resumed.counts, resumed.places) == (30, summary.counts, summary.places)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "is a document, so it needs a file as its --output"),
        (["--output", "/dev/null"], "needs a file as its --output"),
        (["--output", "x.html", "--format", "json"], "takes no JSON"),
        (["--output", "x.pdf"], "stays html; name --output so, not x.pdf"),
        (["--output", "x.html", "--n-best", "2"], "takes no decode.raw, align or n_best"),
        (["--raw", "--document-format", "html"], "--raw translates its lines"),
        (["--output", "x.html", "--document-format", "word"], "'word' is no format; give one of html, markdown"),
    ],
)
def test_what_a_document_cannot_take_is_refused(
    run_folder: Path, page: Path, capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert main(["translate", str(run_folder), "--input", str(page), *options]) == 2
    assert complaint in capsys.readouterr().err


def test_a_document_that_is_no_text_is_translated_too(run_folder: Path, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="the extra documents is not installed")
    book = openpyxl.Workbook()
    book.active.append(["name", "price"])
    book.active.append(["the cat", 12])
    book.save(tmp_path / "book.xlsx")
    written = tmp_path / "libro.xlsx"
    command = ["translate", str(run_folder), "--input", str(tmp_path / "book.xlsx"), "--output", str(written)]
    assert main([*command, "--only", "name", "--quiet"]) == 0
    name, price = next(openpyxl.load_workbook(written).active.iter_rows(min_row=2, values_only=True))
    assert (isinstance(name, str), price) == (True, 12)


@pytest.mark.parametrize(("name", "other"), [("a.docm", "b.docx"), ("a.xlsx", "b.xltx")])
def test_an_office_document_keeps_its_ending(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, other: str
) -> None:
    (tmp_path / name).write_bytes(b"")
    command = ["translate", str(run_folder), "--input", str(tmp_path / name), "--output", str(tmp_path / other)]
    assert main(command) == 2
    assert f"stays {name[1:]}; name --output so, not {other}" in capsys.readouterr().err


def test_columns_of_lines_are_refused(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("the cat\n")
    assert main(["translate", str(run_folder), "--input", str(tmp_path / "a.txt"), "--only", "name"]) == 2
    assert "--only names columns or keys of a document" in capsys.readouterr().err


def test_a_document_ends_with_a_line_that_counts_its_texts(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, output = tmp_path / "page.html", tmp_path / "out.html"
    page.write_text("<p>the cat\n<p>the dog zzzz\n")

    def read(*given: Any) -> Any:
        document = read_document(*given)
        document.left += [Left("a formula compares with it", "line 7"), Left("a formula compares with it", "line 9")]
        return document

    monkeypatch.setattr("dragoman.formats.reading.read_document", read)
    command = ["translate", str(run_folder), "--input", str(page), "--output", str(output)]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "2 texts left (first: line 7): a formula compares with it" in said
    assert re.search(r"4 texts: 2 translated, 2 left, [12] flagged \((line 1, )?line 2\)$", said.strip())
    output.unlink()
    assert main([*command, "--fail-on", "left"]) == 9


def test_a_document_without_texts_is_reported(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>7 <b>8</b>")
    assert main(["translate", str(run_folder), "--input", str(page), "--output", str(tmp_path / "out.html")]) == 0
    assert "no text was found" in capsys.readouterr().err


@pytest.mark.parametrize("settings", [{}, {"n_best": 2}, {"align": True}])
def test_empty_lines_are_translated_together_as_alone(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(documents, "LINES", 4)
    monkeypatch.setattr(documents, "EMPTY_LINES", 7)
    translator, options = small_translators.make(), small_translators.asked(beam_size=2, **settings)
    lines = ["the cat", *[""] * 19, "the dog", "", " "]
    summary, alone = dragoman.Summary(), dragoman.Summary()
    chunks = list(dragoman.translate_lines(translator, lines, options, False, summary=summary))
    expected = [translator.translate([line], options, False)[0] for line in lines]
    for translation in expected:
        alone.add(translation)
    assert [translation for chunk in chunks for translation in chunk] == expected
    assert [len(chunk) for chunk in chunks] == [4, 7, 7, 4, 1] and summary == alone
