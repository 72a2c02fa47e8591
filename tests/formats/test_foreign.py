"""Files that are no plain text are refused before a line is translated, and plain text never is."""

import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.errors import DataError
from dragoman.formats import foreign as kinds
from dragoman.formats.foreign import OLE, refuse_document
from dragoman.formats.lines import read_lines
from dragoman.formats.reading import read_document
from dragoman.languages import is_code

SAID = ["The dog barks.", "Where is the station?", "I would like two coffees, please.", "Good morning, Anna!"]


def _page(lines: list[str]) -> str:
    body = "".join(f"<p>{line}</p>\n" for line in lines)
    return f"<!DOCTYPE html>\n<html>\n<body>\n{body}</body>\n</html>\n"


def _cues(stamp: str) -> str:
    return "".join(f"{number}\n{stamp}\n{line}\n\n" for number, line in enumerate(SAID, 1))


DOCUMENTS = {
    "page.html": (_page(SAID), "markup"),
    "data-xml.txt": ("<s>\n" + "".join(f'  <t id="1">{line}</t>\n' for line in SAID), "markup"),
    "news.sgm": ("<doc>\n" + "".join(f'<seg id="{i}">{line}</seg>\n' for i, line in enumerate(SAID)), "markup"),
    "film.srt": (_cues("00:00:01,000 --> 00:00:03,500"), "time codes"),
    "film.vtt": ("WEBVTT\n\n" + _cues("00:01.000 --> 00:03.500 line:0"), "time codes"),
    "film-sbv.txt": (_cues("0:00:01.000,0:00:03.500"), "time codes"),
    "film-ass.txt": ("".join(f"Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,{line}\n" for line in SAID), "time codes"),
    "song-lrc.txt": ("".join(f"[00:12.00]{line}\n" for line in SAID), "time codes"),
    "it.po": ("".join(f'#: a.c:1\nmsgid "{line}"\nmsgstr ""\n\n' for line in SAID), "a catalogue of messages"),
    "a.json": ("[\n" + "".join(f'  {{\n    "text": "{line}"\n  }},\n' for line in SAID) + "]\n", "records"),
    "b.json": ("[" + ", ".join(f'{{"en": "{line}"}}' for line in SAID) + "]\n", "records"),
    "c.jsonl": ("".join(f'{{"en": "{line}", "id": 1}}\n' for line in SAID), "records"),
    "d.csv": ("id,text\n" + "".join(f'{i},"{line}"\n' for i, line in enumerate(SAID)), "cells of a table"),
    "train.conll": ("".join(f"{word}\tO\n" for line in SAID for word in [*line.split(), "."]), "cells of a table"),
    "e.txt": ("".join(f"{i}\t{line}\n" for i, line in enumerate(SAID)), "cells of a table"),
    "f.txt": ("id;text;date\n" + "".join(f"{i};{line};2024\n" for i, line in enumerate(SAID)), "cells of a table"),
    "g-properties.txt": ("".join(f"menu.item{i}={line}\n" for i, line in enumerate(SAID)), "settings"),
    "Main-strings.txt": ("".join(f'"key{i}" = "{line}";\n' for i, line in enumerate(SAID)), "settings"),
    "paper-tex.txt": ("".join(f"\\\\section{{{line}}}\n" for line in SAID).replace("\\\\", "\\"), "commands"),
}

PLAIN = {
    "sentences": SAID,
    "one line of commas": ["Yes, I do, thanks."],
    "two commas each": ["Yes, I do, thanks.", "No, not now, Anna.", "Well, then, go."],
    "inline tags": ["Click <b>here</b>.", "<b>Note</b> the date.", "<i>Anna</i> sleeps.", "<a href='x'>Home</a>"],
    "speech": ['"Come here."', '"Why?" asked Anna.', '"Because."', "He went."],
    "a list of times": ["At 10:30 the train leaves.", "10:45 is too late.", "12:00 noon", "It is 5:15."],
    "numbers": ["42", "100%", "7", "---"],
    "lists and headings": ["# Title", "- one", "* two", "1. three", "> four"],
    "stage directions": ["[Music]", "Hello!", "(He laughs.)", "[Door opens]", "Bye."],
    "lines that end in CR": ["One.\rTwo.\rThree.\r" * 9],
    "a giant line": ["The dog barks, and sleeps. " * 200_000],
    "sums": ["Total = 5", "Sum = 7", "Note: all is paid."],
    "a dialogue": ["Anna: Hello", "Tom: Hi", "Anna: How are you?"],
    "a chat": ["anna: Hello", "tom: Hi", "anna: Bye"],
    "an address": ["Anna Smith", "12 High Street", "Phone: 123"],
    "a poem": ["The sun is low;", "the night is near;", 'she says "no";', "I hold you (dear);"],
    "a glossary": ["dog: an animal", "cat: another one"],
    "a list": ["things to buy:", "  - milk", "  - eggs", "flour: 200 g;"],
    "a journey": ["From: Rome", "To: Milan", "2026-01-02 We went home"],
    "warnings": ["WARNING: High voltage", "ERROR: The disk is full"],
    "words of programs": ["import taxes are high", "return to sender", "Dog(s)", "class of 1990:", "From Rome"],
    "a recipe": ["Ingredients:", "  - flour: 200 g", "  - Sugar", "Note: do not mix.", "Time: 20 min"],
    "a recipe in small letters": ["ingredients:", "200 g flour", "2 eggs", "note: do not mix."],
    "signs of a stage": ["[Music]", "[Door opens]", "Hello!"],
    "numbered titles": ["1.1: The house", "1.2: The door"],
    "an underlined title": ["The old house", "=============", "It is old."],
    "times and names": ["a.m.: breakfast", "p.m.: dinner", "Received: one letter.", "Dialogue: 1, scene 2"],
    "code in prose": ['<?xml version="1.0"?> <a>is how such a file begins.</a>', *SAID],
    "tags of a language": [">>fra<< The dog.", ">>fra<< The cat."],
    "large numbers": ["1,000,000 people", "2,000,000 dogs", "3,000,000 cats"],
    "lists of words": ["dog, cat, horse", "red, green, blue", "bread, water, wine"],
    "a list to buy": ["2 eggs, milk, bread", "3 apples, butter, salt", "1 fish, potatoes, wine"],
    "dates in prose": ["On Monday, 3 May, we left.", "On Friday, 7 May, we came.", "On Sunday, 9 May, we slept."],
    "a timetable": ["10:30, Monday, room 5", "11:30, Tuesday, room 6", "12:30, Friday, room 7"],
    "a decorated title": ["=== Chapter 1 ===", "It was dark.", "It was cold."],
    "a small glossary": ["animals:", "  dog, which barks", "plants:", "  a tree: it grows"],
    "a list of items": ["- flour: 200 g", "- sugar: 100 g", "- two eggs"],
    "capitals": ["SELECT A BOOK FROM THE LIST", "DELETE FROM THE LIST WHAT YOU HAVE", "UPDATE IT"],
    "customs": ["import taxes", "export taxes are high", "no duty"],
    "rules": ["== == ==", "The house is old.", "=====", "--- Anna ---", "+++ the news +++", "@@ at signs"],
    "placeholders": ["Hello [[name]], how are you?", "I am in [[Rome]].", "One '''two''' three.", "Hello."],
    "quotes": ["He said '''no.", "See [1] and [[2]] or [a|b].", "1c1 is a code"],
    "nothing": [],
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_refused_for_what_it_is(name: str) -> None:
    text, kind = DOCUMENTS[name]
    with pytest.raises(DataError, match=rf"is no plain text: it.*{kind}.*or give --raw"):
        refuse_document(Path(name), text.splitlines())
    refuse_document(Path("mixed.txt"), [*text.splitlines(), *SAID * 30])


SMALL = {
    "YAML": "en:\n  title: The old house",
    "XML": "<?xml version='1.0'?>\n<a>\nThe house is old.\nIt is old.\nAnd big.\nAnd red.\n</a>",
    "settings": "; a comment\n[main]\n; another\nkey = The old house\nThe next line.",
    "settings with their names": "app.title=The old house",
    "code of a program": "export default {\n  title: 'The old house',\n  text: 'It is old.',\n}",
    "reStructuredText": "The house\n=========\n\n.. note:: The door is open.",
    "AsciiDoc": "= The house\n:author: Anna\n\nThe house is old.",
    "LaTeX": "\\documentclass{article}\nThe house is old.\nIt is old.",
    "RTF": "{\\rtf1\\ansi The house is old.}",
    "an e-mail with headers": "Return-Path: <a@example.com>\nSubject: The house\n\nThe house is old.",
    "a program": "def add(a, b):\n    return a + b",
    "code of": "#!/bin/sh\necho hello",
    "mostly code": "function hello() {\n  console.log('hello');\n}\nhello();",
    "code": "body {\n  color: red;\n  margin: 0 auto;\n}",
    "of a program": "#include <stdio.h>\nint main(void) {\n    return 0;\n}",
    "code of a": "SELECT name FROM users;\nUPDATE users SET name = 'x';",
    "a log": "2026-01-02 10:00:00 INFO Server started\n2026-01-02 10:00:01 ERROR Disk is full",
    "records of a log": "[INFO] Server started\n[ERROR] The disk is full",
    "as in YAML": "name: my house\nversion: 2\nrooms:\n  - one\n  - two",
    "it is YAML": "---\ntitle: The house\n---\nThe house is old.\nIt is big.\nIt is red.",
    "names with their values": "title: The house\ntext: It is old.",
    "it is settings": "[main]\nTitle = The house",
    "their names": "Greeting=Good day\nBye=Good night",
    "an e-mail with": "From: anna@example.com\nTo: Tom\nSubject: The house\n\nDear Tom,\nI am here.",
    "with headers": "Subject: The house\nFrom: Anna\n\nDear Tom,\nI am here.",
    "another kind of subtitles": "[Script Info]\nTitle: The house",
    "names with their": "services:\n  web:\n    image: nginx:1.25\n    ports:\n      - '80:80'",
    "their values": "menu:\n  home: The house\n  about: About us\nfooter:\n  text: All rights reserved",
    "with their values, as in": "- name: Bread\n  price: cheap\n- name: Milk\n  price: cheap",
    "cells of a table": "1,Anna,The house is old,2024-03-01\n2,Tom,I am tired,2024-03-02\n3,Ada,We go,2024-03-03",
    "cells of": "id,question,answer\n1,Where is it?,It is here\n2,Who is it?,It is Anna",
    "cells": "A1;The red chair;49,90\nA2;The black table;120,00\nA3;The lamp;25,50\nA4;The bed;300,00",
    "mostly cells": '"The house is old","12","open"\n"The door, too","13","shut"\n"And the roof","14","open"',
    "a patch": "@@ -1,2 +1,2 @@\n-The house is red.\n+The house is blue.\n The door is open.",
    "patch": "--- old.txt\n+++ new.txt\n-The house is red.",
    "it is a patch": "1c1\n< The house is red.\n---\n> The house is blue.",
    "a calendar or contacts": "BEGIN:VCALENDAR\nSUMMARY:Dinner with Anna\nEND:VCALENDAR",
    "contacts": "BEGIN:VCARD\nFN:Anna Smith\nEND:VCARD",
    "marks of a wiki": "The '''house''' is old.\nIt is big.",
    "of a wiki": "The house of [[Rome|the Romans]] is old.\nIt is big.",
    "wiki": "== The house ==\nIt is old.\nIt is big.",
    "is code of a": "SELECT name, price\nFROM products\nWHERE price > 10\nORDER BY price DESC;\nLIMIT 3",
    "is code of": "import sys\n\ndef greet(name):\n    # Say hello.\n    print(name)\n\ngreet(sys.argv[1])",
    "it is code of a program": "import json\n\ndef load(path):\n    with open(path) as file:\n        return file",
}


@pytest.mark.parametrize("kind", SMALL)
def test_a_small_file_is_refused_for_what_it_says(kind: str) -> None:
    with pytest.raises(DataError, match=f"is no plain text: .*{kind}"):
        refuse_document(Path("in.txt"), SMALL[kind].splitlines())


NAMED = (
    "yaml yml xml resx dita arb ini toml properties strings php rst adoc tex rtf eml ass sbv "
    "ics vcf patch diff py java go c cpp h rs rb sql sh css ipynb svg bib lrc ttml jsonl plist wiki"
).split()


@pytest.mark.parametrize("ending", NAMED)
def test_a_file_is_refused_by_its_name(ending: str) -> None:
    with pytest.raises(DataError, match="is no plain text: it is .*convert it into .*or give --raw"):
        refuse_document(Path(f"in.{ending.upper()}"), SAID)
    with pytest.raises(DataError, match="is no plain text"):
        refuse_document(Path(f"in.{ending}.gz"), SAID)


def test_no_language_is_refused_for_its_code() -> None:
    endings = {ending for endings, _ in kinds._FORMATS.values() for ending in endings.split()}
    assert not {ending for ending in endings if len(ending) < 4 and is_code(ending)} - {"ini", "ass", "rs"}


def test_a_hostile_line_is_judged_at_once() -> None:
    for piece in (
        "[",
        '["',
        "a.",
        "<",
        '"',
        " ",
        "-",
        "Received: from ",
        "{\\rtf",
        "a:",
        "a(",
        "= ",
        "a = b",
        "def a",
        ";",
        "'''a",
        "[[a",
        "== a",
        "a:- ",
        "1,",
    ):
        with suppress(DataError):
            refuse_document(Path("in.txt"), [1_000_000 // len(piece) * piece])


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_text_is_taken(kind: str) -> None:
    refuse_document(Path("in.txt"), PLAIN[kind])


def test_the_command_refuses_a_page_and_takes_it_raw(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.txt"
    page.write_text(_page(SAID), "utf-8")
    command = ["translate", str(run_folder), "--input", str(page), "--beam-size", "1"]
    assert main([*command, "--output", str(tmp_path / "out")]) == 2
    assert "page.txt is no plain text: its lines are mostly markup" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["page.txt"]
    assert main([*command, "--raw"]) == 0
    assert capsys.readouterr().out.count("\n") == page.read_text("utf-8").count("\n")
    assert main(["translate", str(run_folder), "the cat", "--raw"]) == 0


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        ("ppt/presentation.xml", "a presentation"),
        ("META-INF/container.xml", "a book"),
        ("designmap.xml", "a document of InDesign"),
        ("content.xml", "an OpenDocument file"),
    ],
)
def test_an_archive_of_another_program_is_named(tmp_path: Path, member: str, kind: str) -> None:
    path = tmp_path / "a.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "x")
        archive.writestr(member, "<x/>")
    with pytest.raises(DataError, match=f"a.bin is {kind}"):
        next(read_lines(path))
    for suffix in ("docx", "xlsx"):
        with pytest.raises(DataError, match="is not a Word document|is no Excel workbook"):
            read_document(path, ("en", "it"), suffix)


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx"])
def test_a_document_with_a_password_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(OLE + bytes(3_000))
    with pytest.raises(DataError, match="has a password"):
        read_document(tmp_path / name, ("en", "it"))
