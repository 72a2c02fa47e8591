"""Files of Qt Linguist: messages without a translation get one, and every other character of the file stays."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import DocumentSettings, read_document

etree = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")

MESSAGES = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1">
<context>
    <name>Window</name>
    <message>
        <location filename="a.cpp" line="3"/>
        <source>&amp;File &lt;b&gt;now&lt;/b&gt; R&amp;D</source>
        <extracomment>not me</extracomment>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n file(s) of %1<byte value="x9"/></source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Line one.
Line two, E&amp;xit.</source>
        <comment>a</comment>
    </message>
    <message><source>Done</source><translation>Fatto</translation></message>
    <message><source>A draft</source><translation type="unfinished">Una bozza</translation></message>
    <message><source>%1</source><translation type="unfinished"/></message>
    <message><source>Old</source><translation type="vanished"></translation></message>
</context>
</TS>
"""


def read(path: Path, content: str = MESSAGES, target: str = "it", needs_review: bool = True) -> Document:
    path.write_text(content, encoding="utf-8")
    return read_document(path, ("en", target), settings=DocumentSettings(needs_review=needs_review))


def upper(text: str) -> str:
    return "".join(piece if piece[:1] in "<%{" else piece.upper() for piece in re.split(r"(<.*?>|%\w|{{\d}})", text))


def test_only_messages_without_a_translation_change(tmp_path: Path) -> None:
    document = read(tmp_path / "a.ts")
    assert document.texts == [
        "File <b>now</b> R&D", "%n file of %1{{1}}", "%n files of %1{{1}}", "Line one.", "Line two, <g1/>Exit.",
    ]  # fmt: skip
    written = document.translated([*map(upper, document.texts)]).decode()
    tree = etree.fromstring(written.encode())
    assert tree.get("language") == "it"
    assert "<translation>Fatto" in written and '"unfinished">Una bozza' in written and '"vanished"></tr' in written
    assert '"unfinished">&amp;FILE &lt;b&gt;NOW&lt;/b&gt; R&amp;D</translation>' in written
    assert '<numerusform>%n FILES OF %1<byte value="x9"/></numerusform>' in written
    assert '</comment>\n        <translation type="unfinished">LINE ONE.\nLINE TWO, &amp;EXIT.</translation>' in written
    assert "<source>%1</source><translation>%1</translation>" in written
    assert document.place(3) == "line 21" and "not me" in written
    for element in tree.iter("translation"):
        element.getparent().remove(element)
    before = etree.fromstring(MESSAGES.encode())
    assert [e.text for e in tree.iter() if e.text and e.text.strip()] == [
        e.text for e in before.iter() if e.text and e.text.strip() and not e.tag.startswith(("tr", "num"))
    ]


def test_what_is_translated_is_the_same_when_read_again(tmp_path: Path) -> None:
    document = read(tmp_path / "a.ts", MESSAGES.replace("<TS ", "<TS language='it' "))
    written = document.translated([*document.texts]).decode()
    again = read(tmp_path / "b.ts", written)
    assert not again.texts and again.translated([]).decode() == written


def test_finished_translations_are_not_marked(tmp_path: Path) -> None:
    document = read(tmp_path / "a.ts", needs_review=False)
    assert document.translated([*document.texts]).decode().count("unfinished") == 1  # of the draft


@pytest.mark.parametrize(("language", "forms"), [("it", 2), ("ja", 1), ("pl", 3), ("ar", 6), ("he", 2), ("hu", 1)])
def test_forms_are_those_of_qt(language: str, forms: int, tmp_path: Path) -> None:
    document = read(tmp_path / "a.ts", target=language)
    written = document.translated([*map(upper, document.texts)])
    words = [form.text for form in etree.fromstring(written).iter("numerusform")]
    assert len(words) == forms and words.count("%n FILE OF %1") == (forms > 1)
    assert words[:1] == ["%n FILES OF %1"] or language != "ar"
    assert len(document.notes) == (forms > 2)
    for tool in filter(shutil.which, ["lconvert"]):
        (tmp_path / "b.ts").write_bytes(written)
        subprocess.run([tool, "-i", "b.ts", "-o", "c.ts"], cwd=tmp_path, check=True)
        converted = etree.parse(tmp_path / "c.ts")
        assert [form.text.strip() for form in converted.iter("numerusform")] == words


def test_a_translation_that_changes_an_argument_stays_empty(tmp_path: Path) -> None:
    document = read(tmp_path / "a.ts")
    written = document.translated([text.replace("%1", "%2") for text in document.texts]).decode()
    assert '<translation type="unfinished">\n            <numerusform></numerusform>\n        </translation>' in written
    assert "2 texts left (first: line 14): the translation changes an argument" in document.remarks[0]


def test_an_earlier_translation_is_kept(tmp_path: Path) -> None:
    earlier = read(tmp_path / "old.ts", needs_review=False)
    earlier = earlier.translated([*map(upper, earlier.texts)]).decode().replace("LINE ONE.\nLINE TWO, &amp;EXIT.", "")
    document = read(tmp_path / "a.ts")
    document.keep(read(tmp_path / "old.ts", earlier))
    assert document.texts == ["Line one.", "Line two, <g1/>Exit."]
    written = document.translated([*map(upper, document.texts)]).decode()
    assert "<translation>&amp;FILE" in written and "<numerusform>%n FILE OF" in written
    assert written.count("unfinished") == 2


def test_an_earlier_draft_stays_a_draft(tmp_path: Path) -> None:
    earlier = '<translation type="unfinished">Il file</translation>'
    earlier = MESSAGES.replace('<translation type="unfinished"></translation>', earlier)
    document = read(tmp_path / "a.ts", needs_review=False)
    document.keep(read(tmp_path / "old.ts", earlier))
    assert "File" not in document.texts[0]
    written = document.translated([*map(upper, document.texts)]).decode()
    assert '<translation type="unfinished">Il file</translation>' in written
    assert written.count("unfinished") == 2 and "<translation>LINE ONE" in written


def test_other_files_and_languages_are_refused(tmp_path: Path) -> None:
    for content in "export const a: number = 1;\n", "G@\x11\x10" * 100:
        with pytest.raises(DataError, match=r"a\.ts is no XML; .* Qt Linguist"):
            read(tmp_path / "a.ts", content)
    for name, language in ("language", "French"), ("sourcelanguage", "French"):
        with pytest.raises(DataError, match=f"names {language}"):
            read(tmp_path / "a.ts", MESSAGES.replace("<TS ", f'<TS {name}="fr" '))


@pytest.mark.parametrize(
    "content",
    [
        "<TS/>",
        "<TS><context><message/></context><message><source>a</source></message></TS>",
        "<TS language=''><context><message><source>A dog</source><translation/></message></context></TS>",
        "<TS>" + "<context><message><source>a</source></message></context>" * 500 + "</TS>",
        "<TS><context><message numerus='yes'><source>%n(s)</source></message></context></TS>",
        "<TS><context><message><translation type='unfinished'/><source>A dog</source></message></context></TS>",
        "<TS><context><message><source>A dog</source><source>A cat</source></message></context></TS>",
    ],
)
def test_odd_files_are_read(content: str, tmp_path: Path) -> None:
    document = read(tmp_path / "a.ts", content)
    assert etree.fromstring(document.translated([*document.texts])).get("language") == "it"
