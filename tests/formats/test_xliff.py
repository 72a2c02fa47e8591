"""XLIFF: units that lack a translation get one, with the elements of their source."""

import re
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.formats.reading import DocumentSettings, read_document

etree = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")

OLD = """<?xml version='1.0' encoding='UTF-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file original="a" source-language="en" datatype="html"><body>
    <trans-unit id="1"><source>I see <g id="1">the <g id="2">red</g></g> house<x id="3"/>.</source></trans-unit>
    <trans-unit id="2"><source><g id="1">One &amp; two</g></source><target/></trans-unit>
    <trans-unit id="3"><source>The cat</source><target>Il micio</target></trans-unit>
    <trans-unit id="4" translate="no"><source>Not me</source></trans-unit>
    <group translate="no"><trans-unit id="5"><source>Nor me</source></trans-unit></group>
    <trans-unit id="6"><source>12 <x id="1"/></source></trans-unit>
    <trans-unit id="7"><source>{VAR_PLURAL, plural, one {Not me} and {<x id="1"/> dogs}}</source></trans-unit>
  </body></file>
</xliff>"""
NEW = (
    '<xliff version="2.0" srcLang="en" xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f"><unit id="1">'
    '<segment><source>The <pc id="1">dog</pc> sleeps. <ph id="2"/></source></segment></unit></file></xliff>'
)

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))


def translated(path: Path, content: str, old: str = "", new: str = "") -> tuple[list[str], str]:
    path.write_text(content, encoding="utf-8")
    document = read_document(path, ("en", "it"))
    written = document.translated([text.replace(old, new) for text in document.texts])
    etree.fromstring(written)
    return [*document.texts], written.decode()


def test_units_without_a_target_get_the_elements_of_their_source(tmp_path: Path) -> None:
    texts, written = translated(tmp_path / "a.xlf", OLD, "the <g2>red</g2></g1> house", "casa <g2>rossa</g2></g1>")
    assert texts == ["I see <g1>the <g2>red</g2></g1> house<g3/>.", "One & two"]
    state = 'state="needs-review-translation" state-qualifier="mt-suggestion"'
    assert f'<target {state}>I see <g id="1">casa <g id="2">rossa</g></g><x id="3"/>.</target>' in written
    assert f'<target {state}><g id="1">One &amp; two</g></target>' in written
    assert written.count("<target") == 4
    assert '<target state="needs-translation">{VAR_PLURAL' in written
    assert "<target>Il micio</target>" in written
    assert 'source-language="en" datatype="html" target-language="it"' in written


def test_segments_of_the_second_version_say_that_they_are_translated(tmp_path: Path) -> None:
    texts, written = translated(tmp_path / "b.xliff", NEW)
    assert texts == ["The <g1>dog</g1> sleeps."]
    assert '<segment state="translated">' in written and 'trgLang="it"' in written
    assert '<target>The <pc id="1">dog</pc> sleeps. <ph id="2"/></target>' in written


def test_a_new_unit_whose_target_repeats_its_source_is_not_translated(tmp_path: Path) -> None:
    units = (
        f'<trans-unit><source>One<x id="1"/></source><target state="{state}">{target}</target></trans-unit>'
        for state, target in [("new", "One"), ("new", "Uno"), ("final", "One")]
    )
    texts, written = translated(tmp_path / "a.xlf", f"<xliff><file>{''.join(units)}</file></xliff>", "One", "Uno")
    assert texts == ["One"]
    assert written.count('suggestion">Uno<x id="1"/></target>') == 1 and written.count('final">One<') == 1


@pytest.mark.parametrize(
    ("unit", "is_left"),
    [("char", True), ("pixel", False)],
)
def test_a_translation_longer_than_its_unit_allows_is_left(tmp_path: Path, unit: str, is_left: bool) -> None:
    path = tmp_path / "a.xlf"
    units = [
        f'<trans-unit maxwidth="8" size-unit="{unit}"><source>{one}<x id="1"/></source></trans-unit>\n'
        for one in ("One", "Two")
    ]
    path.write_text(f"<xliff><file>{''.join(units)}</file></xliff>")
    document = read_document(path, ("en", "it"))
    written = document.translated(["Uno", "Numero due"]).decode()
    assert ">Uno<" in written
    assert ('state="needs-translation">Two<x id="1"/></target>' in written) == is_left
    assert [left.place for left in document.left] == ["line 2"] * is_left
    assert len(document.texts) == 2 - is_left


def test_halves_are_pairs_and_protected_words_stay(tmp_path: Path) -> None:
    source = (
        'One <bpt id="1">b</bpt>two<ept id="1">/b</ept> <x id="START_LINK"/>three<x id="CLOSE_LINK"/> <sc id="2"/>four'
        '<ec startRef="2"/> <mrk mtype="protected">not me</mrk> <mrk translate="no">nor me</mrk> five<?x y?><!-- z -->.'
    )
    content = f'<xliff><file><trans-unit id="1"><source>{source}</source></trans-unit></file></xliff>'
    texts, written = translated(tmp_path / "a.xlf", content, "five", "six")
    assert texts == ["One <g1>two</g1> <g2>three</g2> <g3>four</g3> <g4/> <g5/> five<g6/><g7/>."]
    assert source.replace("five", "six") in written


def test_marks_of_no_width_part_no_word(tmp_path: Path) -> None:
    source = 'The wa<!-- z -->ter, sta<it id="1" pos="open"/>tion, si<bx id="2"/>ster or<x id="3"/>hat'
    content = f"<xliff><file><trans-unit><source>{source}</source></trans-unit></file></xliff>"
    texts, written = translated(tmp_path / "a.xlf", content, "station", "stazione")
    assert texts == ["The water<g1/>, station<g2/>, <g3/>sister or<g4/>hat"]
    assert 'The water<!-- z -->, stazione<it id="1" pos="open"/>, <bx id="2"/>sister or<x id="3"/>hat' in written


@pytest.mark.parametrize(
    ("languages", "complaint"),
    [
        ('source-language="en-US" target-language="it_IT"', None),
        ('source-language="und"', None),
        ('source-language="en" target-language=""', None),
        ('source-language="de" target-language="it"', r"names German \(de\) as source language, not English"),
        (
            'source-language="en" target-language="fr-CA"',
            r"French \(Canada\) \(fr-CA\) as target language, not Italian",
        ),
        ('source-language="en" target-language="en"', "English .* as target language"),
    ],
)
def test_a_file_for_other_languages_is_refused(tmp_path: Path, languages: str, complaint: str | None) -> None:
    unit, path = "<trans-unit><source>One</source></trans-unit>", tmp_path / "a.xlf"
    path.write_text(f'<xliff><file source-language="en">{unit}</file><file {languages}>{unit}</file></xliff>')
    read_document(path, ("und", "und"))
    if complaint is None:
        assert read_document(path, ("en", "it")).texts == ["One", "One"]
    else:
        with pytest.raises(DataError, match=complaint):
            read_document(path, ("en", "it"))


def test_the_second_version_names_its_languages_at_the_root(tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(NEW.replace('srcLang="en"', 'srcLang="en" trgLang="de"'))
    with pytest.raises(DataError, match="German .* as target language"):
        read_document(path, ("en", "it"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("<xliff><file>", "a.xlf:1 is not well-formed XML"),
        ("<tmx/>", "is XML, but no XLIFF: it is tmx"),
        ('<!DOCTYPE x [<!ENTITY s SYSTEM "/etc/hosts">]>\n<xliff>One &s;</xliff>', "a.xlf:2 uses the entity &s;"),
        (f'<!DOCTYPE x [<!ENTITY l0 "laugh">{LAUGHS}]><xliff>&l11;</xliff>', "amplification"),
        ("<xliff>" + 500 * "<g>", "is not well-formed XML"),
        ("<xliff>\0", r"out of allowed range , line 1"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        translated(tmp_path / "a.xlf", content)


def unit(content: str, attributes: str = "") -> str:
    return f"<xliff><file><trans-unit {attributes}>{content}</trans-unit></file></xliff>"


def segments(*texts: str, between: str = " ") -> str:
    return between.join(f'<mrk mtype="seg" mid="{number}">{text}</mrk>' for number, text in enumerate(texts, 1))


@pytest.mark.parametrize(
    "target",
    ["", "<target/>", f"<target>{segments('', '', '')}</target>", "<target state='new'>One x. Two. 3.</target>"],
)
def test_a_source_in_segments_is_translated_segment_by_segment(tmp_path: Path, target: str) -> None:
    texts = 'One <g id="1">x</g>.', "Two.", "3."
    content = f"<source>{' '.join(texts)}</source><seg-source><g>{segments(*texts)}</g></seg-source>{target}"
    found, written = translated(tmp_path / "a.xlf", unit(content), "Two", "Due")
    assert found == ["One <g1>x</g1>.", "Two."]
    assert f'suggestion"><g>{segments(texts[0], "Due.", "3.")}</g></target>' in written
    assert written.count("<target") == 1 and f"</source><seg-source><g>{segments(*texts)}" in written


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"<seg-source>{segments('One.', 'Two.')}</seg-source><target>{segments('Uno.')}</target>", "lacks a segment"),
        (f"<seg-source>{segments('One.', 'Two.', between=' or ')}</seg-source>", "no segment"),
        ("<source>user.name.label</source>", "a key"),
        ("<source>One<ph id='1'>x<sub>two</sub></ph></source>", "in a code"),
    ],
)
def test_a_unit_that_cannot_be_filled_stays_and_is_reported(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(unit(content if "<source>" in content else f"<source>One.\tTwo.</source>{content}"))
    document = read_document(path, ("en", "it"))
    (left,) = document.left
    assert reason in left.reason and not document.texts
    assert content.replace("></mrk>", "/>").replace("'", '"') in document.translated([]).decode()


def test_messages_with_branches_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(OLD)
    assert [left.place for left in read_document(path, ("en", "it")).left] == ["line 10"]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_encodings_stay(tmp_path: Path, encoding: str, end: str) -> None:
    path = tmp_path / "a.xlf"
    path.write_bytes(OLD.replace("UTF-8", encoding).replace("\n", end).encode(encoding))
    document = read_document(path, ("en", "it"))
    written = document.translated(document.texts).decode(encoding)
    assert written.count(end) == written.count("\n") == OLD.count("\n") + 1
    assert etree.fromstring(written.encode(encoding)) is not None


def test_a_target_keeps_its_spaces_as_its_source_does(tmp_path: Path) -> None:
    content = unit('<source xml:space="preserve"> One  </source>')
    assert '<target xml:space="preserve" state' in translated(tmp_path / "a.xlf", content)[1]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("  Open the\n<g id='1'>red\n door</g>.\n\n", ['Open the<br id="1"/><g2>red<br id="3"/>door</g2>.']),
        ("One.\tTwo <x id='1'/>\n Three.", ["One.", "Two", "Three."]),
        ("Name\tthe <x id='1'/>value", ["Name", "the <g1/>value"]),
    ],
)
def test_line_breaks_and_tabs_stay_if_the_file_says_so(tmp_path: Path, source: str, texts: list[str]) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(unit(f"<source>{source}</source>", "xml:space='preserve'"))
    document = read_document(path, ("en", "it"))
    assert document.texts == texts and document.place(len(texts) - 1) == document.place(0)
    written = document.translated(
        [text.upper().replace("<G", "<g").replace("</G", "</g").replace("<BR ID", "<br id") for text in texts]
    )
    words = re.sub(r"(?<![<\w])\w+(?![\w>]|[^<]*>)", lambda word: word[0].upper(), source)
    assert f">{words}</target>" in written.decode().replace('"1"', "'1'")


def test_the_forms_of_a_message_are_texts(tmp_path: Path) -> None:
    texts, written = translated(
        tmp_path / "a.xlf", unit("<source>One cat|<x id='1'/> cats | none</source>"), "cat", "dog"
    )
    assert texts == ["One cat", "cats", "none"] and '>One dog|<x id="1"/> dogs | none</target>' in written


@pytest.mark.parametrize(("needs_review", "state"), [(True, "needs-review-translation"), (False, "translated")])
def test_a_setting_decides_whether_translations_need_review(tmp_path: Path, needs_review: bool, state: str) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(unit("<source>One</source>"))
    settings = DocumentSettings(needs_review=needs_review)
    assert f'state="{state}"' in read_document(path, ("en", "it"), settings=settings).translated(["Uno"]).decode()


def test_only_the_empty_segments_of_a_unit_are_translated(tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    content = f"<seg-source>{segments('One.', 'Two.')}</seg-source><target>{segments('Uno.', '')}</target>"
    path.write_text(unit(f"<source>One. Two.</source>{content}"))
    document = read_document(path, ("en", "it"))
    assert list(document.texts) == ["Two."] and not document.left
    written = document.translated(["Due."]).decode()
    assert segments("Uno.", "Due.") in written and 'state="needs-review-translation"' in written
