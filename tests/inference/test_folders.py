"""Translate folders, use tables for review, and leave alone what is translated already."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import dragoman
from dragoman.cli.main import main
from dragoman.errors import DataError
from dragoman.formats.review import LONGEST_CELL, ReviewRow, ReviewTable
from dragoman.inference import documents
from dragoman.inference.folders import RECORD
from dragoman.inference.translation import Translation
from dragoman.progress import silent


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that the model is asked for; its translations are in capital letters."""
    texts: list[str] = []

    def translate(_: Any, some: Sequence[str], *others: Any, **settings: Any) -> list[Translation]:
        texts.extend(some)
        return [Translation(text, text.upper(), tokens=("x",), flags=("doubtful",)) for text in some]

    monkeypatch.setattr(dragoman.Translator, "translate", translate)
    return texts


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.html").write_text("<h1>the cat</h1><p>one dog</p>")
    (folder / "sub" / "b.html").write_text("<h1>the cat</h1><p>two dogs</p>")
    (folder / "n.txt").write_text("a line\n")
    (folder / "s.css").write_bytes(b"\xff body")
    (folder / ".hidden").write_text("x")
    (folder / "link.html").symlink_to(folder / "a.html")
    return folder


def states(files: Sequence[dragoman.FolderFile]) -> dict[str, str]:
    return {file.name: file.state for file in files}


def rows(path: Path) -> list[list[str]]:
    return [[*map(str, row)] for row in openpyxl.load_workbook(path).worksheets[0].iter_rows(values_only=True)]


def test_a_folder_is_translated_and_each_text_once(run_folder: Path, site: Path, asked: list[str]) -> None:
    output = site.parent / "site.it"
    files = dragoman.translate_folder(run_folder, site, output, progress=False)
    assert states(files) == {
        "a.html": "translated",
        "n.txt": "translated",
        "s.css": "copied",
        "sub/b.html": "translated",
    }
    assert sorted(asked) == ["a line", "one dog", "the cat", "two dogs"]
    assert (output / "sub/b.html").read_text() == "<h1>THE CAT</h1><p>TWO DOGS</p>"
    assert (output / "n.txt").read_text() == "A LINE\n" and (output / "s.css").read_bytes() == b"\xff body"
    assert {path.name for path in output.iterdir()} == {"a.html", "n.txt", "s.css", "sub", RECORD}
    counts = files[0].summary
    assert counts is not None and (counts.texts, counts.counts["translated"], counts.counts["flagged"]) == (2, 2, 2)


def test_only_what_has_changed_is_done_again(run_folder: Path, site: Path, asked: list[str]) -> None:
    output = site.parent / "site.it"
    dragoman.translate_folder(run_folder, site, output, progress=False)
    asked.clear()
    assert {*states(dragoman.translate_folder(run_folder, site, output, progress=False)).values()} == {"unchanged"}
    assert not asked
    (site / "a.html").write_text("<p>three cats</p>")
    (output / "sub/b.html").write_text("by a person")
    with (output / RECORD).open("a") as record:
        record.write('["n.txt", "of a killed')
    files = dragoman.translate_folder(run_folder, site, output, progress=False)
    assert states(files) == {
        "a.html": "translated",
        "n.txt": "unchanged",
        "s.css": "unchanged",
        "sub/b.html": "kept",
    }
    assert "was edited" in files[-1].problem and (output / "sub/b.html").read_text() == "by a person"
    assert asked == ["three cats"]
    states_then = states(dragoman.translate_folder(run_folder, site, output, progress=False, fresh=True))
    assert states_then["sub/b.html"] == "translated" and "TWO DOGS" in (output / "sub/b.html").read_text()
    with_beam = states(dragoman.translate_folder(run_folder, site, output, progress=False, beam_size=2))
    assert with_beam == states_then | {"s.css": "unchanged"}


def test_a_stopped_folder_goes_on(run_folder: Path, site: Path, asked: list[str], monkeypatch: Any) -> None:
    output, translate = site.parent / "site.it", dragoman.Translator.translate

    def stop_at_dogs(self: Any, texts: Sequence[str], *others: Any) -> list[Translation]:
        if "two dogs" in texts:
            raise KeyboardInterrupt
        return translate(self, texts, *others)

    with monkeypatch.context() as patch:
        patch.setattr(dragoman.Translator, "translate", stop_at_dogs)
        with pytest.raises(KeyboardInterrupt):
            dragoman.translate_folder(run_folder, site, output, progress=False)
    begun = (output / RECORD).read_text().splitlines()[-1]
    assert begun.startswith('["sub/b.html", "') and begun.endswith('""]')
    (output / "sub/b.html").write_text("written, but not recorded")
    asked.clear()
    files = dragoman.translate_folder(run_folder, site, output, progress=False)
    assert states(files)["sub/b.html"] == "translated" and states(files)["a.html"] == "unchanged"
    assert asked == ["the cat", "two dogs"]
    assert {*states(dragoman.translate_folder(run_folder, site, output, progress=False)).values()} == {"unchanged"}


def test_what_a_stopped_call_left_of_another_model_is_discarded(
    run_folder: Path, site: Path, monkeypatch: Any, asked: list[str]
) -> None:
    (site / "a.html").write_text("".join(f"<p>cat {number}</p>" for number in range(30)))
    output, translate = site.parent / "site.it", dragoman.Translator.translate

    def stop_after_ten(self: Any, texts: Sequence[str], *others: Any) -> list[Translation]:
        if "cat 10" in texts:
            raise KeyboardInterrupt
        return translate(self, texts, *others)

    monkeypatch.setattr(documents, "LINES", 10)
    for beam_size, first in ((1, "cat 10"), (2, "cat 0")):
        with monkeypatch.context() as patch:
            patch.setattr(dragoman.Translator, "translate", stop_after_ten)
            with pytest.raises(KeyboardInterrupt):
                dragoman.translate_folder(run_folder, site, output, progress=False, beam_size=1, fresh=True)
        assert (output / "a.html.part").exists()
        asked.clear()
        dragoman.translate_folder(run_folder, site, output, progress=False, beam_size=beam_size)
        assert asked[0] == first and (output / "a.html").read_text().count("CAT") == 30


def test_a_file_that_cannot_be_read_is_copied_each_time(
    run_folder: Path, site: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "broken.json").write_text('{"a": ')
    (site / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    (site / "empty.json").write_text("")
    output = site.parent / "site.it"
    command = ["translate", str(run_folder), "--input", str(site), "--output", str(output)]
    for fail_on, code in (([], 0), (["--fail-on", "left"], 9)):
        assert main([*command, *fail_on]) == code
        shown = capsys.readouterr()
        assert "sub/b.html" in shown.out and "1 unread" in shown.err
        assert f"{site / 'broken.json'} is not JSON" in shown.err
    for name in ("broken.json", "robots.txt", "empty.json"):
        assert (output / name).read_bytes() == (site / name).read_bytes()


def test_folders_that_would_be_lost_are_refused(run_folder: Path, site: Path, asked: list[str]) -> None:
    for output, message in ((site, "is the folder"), (site.parent, "around it"), (site / "a.html", "is a file")):
        with pytest.raises(DataError, match=message):
            dragoman.translate_folder(run_folder, site, output, progress=False)
    inside = site / "it"
    dragoman.translate_folder(run_folder, site, inside, progress=False)
    files = dragoman.translate_folder(run_folder, site, site / "fr", progress=False)
    assert not any(name.startswith(("it/", "fr/")) for name in states(files)) and len(files) == 4


def test_nothing_outside_of_the_new_folder_is_written(run_folder: Path, site: Path, asked: list[str]) -> None:
    output, table = site.parent / "site.it", site.parent / "site.it" / "b.xlsx"
    (output / "sub").mkdir(parents=True)
    (output / "s.css").symlink_to(site / "a.html")
    (output / "n.txt").mkdir()
    (site / "b.xlsx").write_bytes(b"x")
    before = (site / "a.html").read_bytes()
    files = dragoman.translate_folder(run_folder, site, output, progress=False, fresh=True, review=table)
    failed = {file.name: file.problem for file in files if file.state == "failed"}
    assert [*failed] == ["b.xlsx", "n.txt", "s.css"] and (site / "a.html").read_bytes() == before
    assert "is the table for review" in failed["b.xlsx"] and "leads out of the folder" in failed["s.css"]
    assert len(rows(table)) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "x"], "--only"),
        (["--format", "json"], "takes no JSON"),
        (["--into", "nothing"], "does not exist yet"),
        (["--output", "x", "--into", "."], "goes without --output"),
        (["--into", ".", "--fresh"], "goes without --fresh"),
    ],
)
def test_options_that_a_folder_does_not_take(
    options: list[str], message: str, run_folder: Path, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = [] if "--into" in options else ["--output", str(site.parent / "out")]
    assert main(["translate", str(run_folder), "--input", str(site), *output, *options]) == 2
    assert message in capsys.readouterr().err and not (site.parent / "out").exists()


def test_a_table_holds_all_texts_and_its_corrections_are_used(
    run_folder: Path, tmp_path: Path, asked: list[str]
) -> None:
    page, output, table = tmp_path / "page.html", tmp_path / "out.html", tmp_path / "table.xlsx"
    page.write_text("<p>the cat</p>\n<p>=1+1 dogs</p>\n<p>the cat</p>")
    dragoman.translate_document(run_folder, page, output, progress=False, review=table)
    assert rows(table) == [
        ["file", "place", "source", "translation (it)", "flags"],
        [str(page), "line 1", "the cat", "THE CAT", "doubtful"],
        [str(page), "line 2", "=1+1 dogs", "=1+1 DOGS", "doubtful"],
        [str(page), "line 3", "the cat", "THE CAT", "doubtful"],
    ]
    assert asked == ["the cat", "=1+1 dogs"]
    book = openpyxl.load_workbook(table)
    book.worksheets[0]["D4"], book.worksheets[0]["E4"] = "Il gatto", None
    book.worksheets[0]["F1"], book.worksheets[0]["F4"] = "comment", "Anna: so"
    book.save(table)
    corrected = table.read_bytes()
    asked.clear()
    page.write_text("<h1>42</h1>\n" + page.read_text() + "\n<p>new words</p><p>=1+1 dogs</p>")  # all texts move
    summary = dragoman.translate_document(run_folder, page, output, progress=False, review=table)
    assert asked == ["new words"] and (summary.texts, summary.counts["flagged"]) == (5, 4)
    assert (summary.total, summary.counts["translated"], summary.counts["left"]) == (5, 5, 0)
    assert table.with_name("table.xlsx~").read_bytes() == corrected
    assert [row[5] for row in rows(table)] == ["comment", "None", "None", "Anna: so", "None", "None"]
    assert "texts translated as in the table for review: 4" in summary.remarks
    assert output.read_text().split("\n") == [
        "<h1>42</h1>",
        "<p>THE CAT</p>",
        "<p>=1+1 DOGS</p>",
        "<p>Il gatto</p>",
        "<p>NEW WORDS</p><p>=1+1 DOGS</p>",
    ]
    assert len(rows(table)) == 6


def test_a_folder_with_a_table_does_again_what_was_corrected(run_folder: Path, site: Path, asked: list[str]) -> None:
    output, table = site.parent / "site.it", site / "table.xlsx"
    dragoman.translate_folder(run_folder, site, output, progress=False, review=table)
    assert {row[0] for row in rows(table)[1:]} == {"a.html", "n.txt", "sub/b.html"}
    asked.clear()
    book = openpyxl.load_workbook(table)
    (cell,) = (cell for (cell,) in book.worksheets[0].iter_rows(min_col=4, max_col=4) if cell.value == "TWO DOGS")
    cell.value = "Due cani"
    book.save(table)
    files = dragoman.translate_folder(run_folder, site, output, progress=False, review=table)
    assert states(files) == {
        "a.html": "unchanged",
        "n.txt": "unchanged",
        "s.css": "unchanged",
        "sub/b.html": "translated",
    }
    assert not asked and "<p>Due cani</p>" in (output / "sub/b.html").read_text()


def test_what_no_cell_holds_is_left_out_and_other_tables_are_refused(tmp_path: Path) -> None:
    table = ReviewTable(tmp_path / "table.xlsx", "it")
    long = "x" * (LONGEST_CELL + 1)
    table.set("a", [ReviewRow("a", "1", text, text, "") for text in ("one", long, "bell \a", "\udcff")])
    table.write()
    assert table.left_out == 3 and len(rows(table.path)) == 2
    (tmp_path / "no.xlsx").write_bytes(b"no workbook")
    book = openpyxl.Workbook()
    book.save(tmp_path / "other.xlsx")
    for name, target, message in (
        ("no.xlsx", "it", "is not a workbook"),
        ("other.xlsx", "it", "no table for review"),
        ("table.xlsx", "fr", r"no column 'translation \(fr\)'"),
    ):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(DataError, match=message):
            ReviewTable(tmp_path / name, target)
        assert (tmp_path / name).read_bytes() == before


def test_an_earlier_translation_keeps_its_texts(run_folder: Path, tmp_path: Path, asked: list[str]) -> None:
    source, target = tmp_path / "en.json", tmp_path / "it.json"
    source.write_text(json.dumps({"a": "Hello there", "b": {"c": "Good night"}, "d": "Bye bye"}))
    target.write_text(json.dumps({"b": {"c": "Buona notte"}, "old": "Vecchio testo", "a": ""}))
    assert main(["translate", str(run_folder), "--input", str(source), "--into", str(target)]) == 0
    assert json.loads(target.read_text()) == {"a": "HELLO THERE", "b": {"c": "Buona notte"}, "d": "BYE BYE"}
    assert asked == ["Hello there", "Bye bye"]


def test_a_folder_keeps_what_earlier_calls_kept(run_folder: Path, tmp_path: Path, asked: list[str]) -> None:
    source, target = tmp_path / "en", tmp_path / "it"
    for folder, values in ((source, {"a": "Hello there"}), (target, {"a": "Ciao a tutti"})):
        folder.mkdir()
        (folder / "x.json").write_text(json.dumps(values))
    (source / "p.html").write_text("<p>one dog</p>")
    (target / "p.html").write_text("<p>un cane</p>")
    for number, new in enumerate(([], ["Bye bye"], ["See you"])):
        values = {"a": "Hello there"} | {f"b{at}": text for at, text in enumerate(["Bye bye", "See you"][:number])}
        (source / "x.json").write_text(json.dumps(values))
        asked.clear()
        files = dragoman.translate_folder(run_folder, source, target, progress=False, into=True)
        assert states(files) == {"p.html": "kept", "x.json": "translated"} and asked == new
        assert json.loads((target / "x.json").read_text())["a"] == "Ciao a tutti"
    assert (
        states(dragoman.translate_folder(run_folder, source, target, progress=False, into=True))["x.json"]
        == "unchanged"
    )


def test_formats_without_names_have_no_earlier_translations(
    run_folder: Path, site: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    page = site / "a.html"
    before = (site / "sub/b.html").read_bytes()
    command = ["translate", str(run_folder), "--input", str(page), "--into", str(site / "sub/b.html")]
    assert main(command) == 2 and "use a table for review" in capsys.readouterr().err
    assert (site / "sub/b.html").read_bytes() == before and not asked


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, run_folder: Path, asked: list[str]) -> None:
    monkeypatch.setattr(documents, "REMEMBERED", 2)
    memory = documents.Memory(dragoman.Translator.load(run_folder, progress=False))
    for texts in (["a", "b", "a"], ["c", "a"], ["c"]):
        assert [translation.text for translation in memory.translate(texts, None, silent)] == [*map(str.upper, texts)]
    assert asked == ["a", "b", "c", "c"]


def test_a_text_that_is_left_after_its_translation_changes_no_place(
    run_folder: Path, tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.po"
    source.write_text('#, c-format\nmsgid "%d cats"\nmsgstr ""\n\nmsgid "Two dogs"\nmsgstr ""\n')
    assert main(["translate", str(run_folder), "--input", str(source), "--output", str(tmp_path / "out.po")]) == 0
    assert "2 texts: 1 translated, 1 left, 2 flagged (line 1, line 5)" in capsys.readouterr().err
    assert asked == ["%d cats", "Two dogs"]  # in capital letters %D is another argument
