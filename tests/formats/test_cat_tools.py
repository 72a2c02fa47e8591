"""XLIFF of CAT tools: new segments get translations and states, and what a tool locks or confirms stays as it was."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.formats.document import Document
from dragoman.formats.reading import DocumentSettings, read_document

etree: Any = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")

XLIFF = "urn:oasis:names:tc:xliff:document:1.2"
FILE = '<file original="a" source-language="en-US" target-language="it-IT" datatype="x"><header><f><![CDATA[<b>&]]></f>'
STUDIO = f"""\ufeff<?xml version="1.0" encoding="utf-8"?><xliff xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0" \
xmlns="{XLIFF}" version="1.2">{FILE}<reference><internal-file form="base64">UEsDBBQ=</internal-file></reference>\
<tag-defs xmlns="http://sdl.com/FileTypes/SdlXliff/1.0"><tag id="4"><bpt name="b">b</bpt></tag></tag-defs></header>\
<body><trans-unit id="u0" translate="no"><source><x id="0" /></source></trans-unit>\
<trans-unit id="u1"><source><g id="3">The dog. The <g id="4">cat</g> sleeps. A bird. 12.</g> A locked fish.</source>\
<seg-source><g id="3"><mrk mtype="seg" mid="1">The dog.</mrk> <mrk mtype="seg" mid="2">The <g id="4">cat</g> \
sleeps<x id="9" />.</mrk> <mrk mtype="seg" mid="3">A bird.</mrk> <mrk mtype="seg" mid="4">12.</mrk></g> \
<mrk mtype="seg" mid="5"><g id="6">A locked fish.</g></mrk></seg-source><target><g id="3"><mrk mtype="seg" mid="1" /> \
<mrk mtype="seg" mid="2"><g id="4" /></mrk> <mrk mtype="seg" mid="3" /> <mrk mtype="seg" mid="4" /></g> \
<mrk mtype="seg" mid="5"><g id="6" /></mrk></target><sdl:seg-defs>\
<sdl:seg id="1" origin="not-translated" percent="0" /><sdl:seg id="2" conf="Draft" origin="not-translated" />\
<sdl:seg id="3" conf="Translated" origin="interactive" />\
<sdl:seg id="4" /><sdl:seg id="5" locked="true" /></sdl:seg-defs></trans-unit>\
<trans-unit id="u2"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="6">One.</mrk> <mrk mtype="seg" \
mid="7">Two.</mrk></seg-source><target><mrk mtype="seg" mid="6">Uno.</mrk> <mrk mtype="seg" mid="7" /></target>\
<sdl:seg-defs><sdl:seg id="6" conf="ApprovedSignOff" origin="tm" percent="100" /><sdl:seg id="7" /></sdl:seg-defs>\
</trans-unit></body></file></xliff>"""


def memoq(**units: str) -> str:
    """Return a file of memoQ with these units: attributes by sources, which lack targets."""
    written = (
        f'<trans-unit id="{number}" {attributes}><source xml:space="preserve">{source.replace("_", " ")}</source>'
        f'<target xml:space="preserve"></target></trans-unit>'
        for number, (source, attributes) in enumerate(units.items(), 1)
    )
    body = f"{FILE}</header><body>{''.join(written)}</body></file>"
    return f'<xliff xmlns:mq="MQXliff" xmlns="{XLIFF}" version="1.2">{body}</xliff>'


PHRASE = f"""<?xml version="1.0"?><xliff xmlns:m="http://www.memsource.com/mxlf/2.0" m:level="2" xmlns="{XLIFF}" \
version="1.2">{FILE}</header><body><group id="0"><trans-unit id="a:0" m:confirmed="0" m:locked="false" m:score="0.0" \
m:trans-origin="null"><source>A {{1&gt;red {{b&gt;old&lt;b}} house&lt;1}} of {{2}} rooms {{x}}</source><target/>\
<alt-trans origin="machine-trans"><target>Proposta</target></alt-trans><m:tunit-metadata><m:mark id="1"><m:content>i\
</m:content></m:mark></m:tunit-metadata><m:tunit-target-metadata/></trans-unit></group>\
<group id="1"><trans-unit id="a:1" m:confirmed="0" m:locked="true"><source>A locked dog</source><target/></trans-unit>\
<trans-unit id="a:2" m:confirmed="1" m:locked="false"><source>A dog left out</source><target/></trans-unit></group>\
</body></file></xliff>"""


def read(tmp_path: Path, content: str, name: str = "a.xlf", **settings: Any) -> Document:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return read_document(tmp_path / name, ("en", "it"), settings=DocumentSettings(**settings))


def units(content: bytes) -> dict[str, Any]:
    tree = etree.fromstring(content, etree.XMLParser(strip_cdata=False))
    return {unit.get("id"): unit for unit in tree.iter("{*}trans-unit")}


@pytest.mark.parametrize("name", ["a.sdlxliff", "a.xlf"])
@pytest.mark.parametrize(("needs_review", "state"), [(True, "Draft"), (False, "Translated")])
def test_segments_of_studio_get_translations_and_states(
    tmp_path: Path, name: str, needs_review: bool, state: str
) -> None:
    document = read(tmp_path, STUDIO, name, needs_review=needs_review)
    assert document.texts == ["The dog.", "The <g1>cat</g1> sleeps<g2/>.", "Two."]
    assert document.place(1) == "line 1, segment 2"
    written = document.translated(["Il cane.", "Dorme<g2/> il <g1>gatto</g1>.", "Due."])
    target = units(written)["u1"].find("{*}target")
    assert etree.tostring(target).decode().replace(f' xmlns="{XLIFF}"', "").replace(
        ' xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0"', ""
    ) == (
        '<target><g id="3"><mrk mtype="seg" mid="1">Il cane.</mrk> <mrk mtype="seg" mid="2">Dorme<x id="9"/> il '
        '<g id="4">gatto</g>.</mrk> <mrk mtype="seg" mid="3"/> <mrk mtype="seg" mid="4">12.</mrk></g> '
        '<mrk mtype="seg" mid="5"><g id="6"/></mrk></target>'
    )
    definitions = {
        segment.get("id"): dict(segment.attrib) for unit in units(written).values() for segment in unit.iter("{*}seg")
    }
    new = {"conf": state, "origin": "mt", "origin-system": "Dragoman"}
    assert [definitions[name] for name in "1247"] == [{"id": name, **new} for name in "1247"]
    assert definitions["3"] == {"id": "3", "conf": "Translated", "origin": "interactive"}
    assert definitions["5"] == {"id": "5", "locked": "true"}
    assert definitions["6"] == {"id": "6", "conf": "ApprovedSignOff", "origin": "tm", "percent": "100"}
    assert "".join(units(written)["u2"].find("{*}target").itertext()) == "Uno. Due."


def test_all_else_of_a_file_of_studio_stays(tmp_path: Path) -> None:
    document = read(tmp_path, STUDIO)
    written = document.translated(document.texts).decode()
    assert written.startswith("\ufeff<?xml")
    begin, end = STUDIO.index("<xliff"), STUDIO.index('<trans-unit id="u1"')
    assert STUDIO[begin:end].replace(" />", "/>") in written
    assert "state=" not in written
    again = read(tmp_path, written)
    assert again.texts == []


@pytest.mark.parametrize(("needs_review", "state"), [(True, "MachineTranslated"), (False, "ManuallyConfirmed")])
def test_units_of_memoq_are_translated_unless_locked_or_confirmed(
    tmp_path: Path, needs_review: bool, state: str
) -> None:
    content = memoq(
        A_dog='mq:status="NotStarted"',
        A_cat='mq:status="PartiallyEdited" mq:locked="no"',
        A_fox='mq:status="NotStarted" mq:locked="locked"',
        A_hen='mq:status="ManuallyConfirmed"',
        An_owl='mq:status="Proofread"',
    )
    document = read(tmp_path, content, "a.mqxliff", needs_review=needs_review)
    assert document.texts == ["A dog", "A cat"]
    written = units(document.translated(["Un cane", "Un gatto"]))
    assert [unit.findtext("{*}target") for unit in written.values()] == ["Un cane", "Un gatto", "", "", ""]
    states = [unit.get("{MQXliff}status") for unit in written.values()]
    assert states == [state, state, "NotStarted", "ManuallyConfirmed", "Proofread"]


def test_codes_of_memoq_stay_around_the_words_of_their_tags(tmp_path: Path) -> None:
    content = memoq(X='mq:status="NotStarted"').replace(
        ">X<", '>Press <bpt id="1" ctype="bold">{}</bpt>Start<ept id="1">{}</ept> <ph id="2">&lt;br/&gt;</ph>now<'
    )
    document = read(tmp_path, content)
    assert document.texts == ["Press <g1>Start</g1> <g2/>now"]
    target = units(document.translated(["Ora<g2/> premi <g1>Avvio</g1>"]))["1"].find("{*}target")
    assert [(child.get("id"), child.text, child.tail) for child in target] == [
        ("2", "<br/>", " premi "), ("1", "{}", "Avvio"), ("1", "{}", None),
    ]  # fmt: skip


@pytest.mark.parametrize(("needs_review", "confirmed"), [(True, "0"), (False, "2")])
def test_codes_in_texts_of_phrase_are_tags(tmp_path: Path, needs_review: bool, confirmed: str) -> None:
    document = read(tmp_path, PHRASE, "a.mxliff", needs_review=needs_review)
    assert document.texts == ["A <g1>red <g2>old</g2> house</g1> of <g3/> rooms {x}"]
    written = units(document.translated(["Una <g1>casa <g2>vecchia</g2> rossa</g1> di <g3/> stanze {x}"]))
    unit, phrase = written["a:0"], "{http://www.memsource.com/mxlf/2.0}"
    assert unit.findtext("{*}target") == "Una {1>casa {b>vecchia<b} rossa<1} di {2} stanze {x}"
    assert unit.get(f"{phrase}confirmed") == confirmed and unit.get(f"{phrase}trans-origin") == "mt"
    assert unit.findtext("{*}alt-trans/{*}target") == "Proposta"
    assert [mark.get("id") for mark in unit.find(f"{phrase}tunit-target-metadata")] == ["1"]
    before = units(PHRASE.encode())
    for name in ("a:1", "a:2"):
        assert etree.tostring(written[name]) == etree.tostring(before[name])


def test_a_copy_of_the_source_in_a_unit_that_memoq_has_not_started_is_translated(tmp_path: Path) -> None:
    content = memoq(A_dog='mq:status="NotStarted"').replace("></target>", ">A dog</target>")
    assert read(tmp_path, content).texts == ["A dog"]
    assert read(tmp_path, content.replace("NotStarted", "PartiallyEdited")).texts == []


def test_a_unit_with_many_segments_takes_time_in_proportion(tmp_path: Path) -> None:
    count = 2_000
    marks = "".join(f'<mrk mtype="seg" mid="{number}">A dog {number}.</mrk>' for number in range(count))
    empty = "".join(f'<mrk mtype="seg" mid="{number}"/>' for number in range(count))
    unit = f"<source>A dog</source><seg-source>{marks}</seg-source><target>{empty}</target>"
    body = f'{FILE}</header><body><trans-unit id="1">{unit}</trans-unit></body></file>'
    content = f'<xliff xmlns="{XLIFF}" version="1.2">{body}</xliff>'
    document = read(tmp_path, content)
    written = units(document.translated([text.replace("dog", "cat") for text in document.texts]))
    assert "".join(written["1"].find("{*}target").itertext()) == "".join(f"A cat {number}." for number in range(count))
