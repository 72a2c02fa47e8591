"""Translation memories, XLIFF, catalogues and workbooks as pairs."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest
from one_direction import prepare_data

from dragoman.errors import DataError
from dragoman.formats.po import FUZZY, OBSOLETE
from dragoman.formats.rows import LACKING, NOT_TO_TRANSLATE, UNTRANSLATED
from dragoman.formats.tmx import OTHER_REGIONS
from dragoman.formats.xliff import UNFINISHED
from dragoman.formats.xlsx import TITLES
from dragoman.text.columns import Naming
from dragoman.text.guess import guess_task
from dragoman.text.readers import open_pairs
from dragoman.text.settings import DataSettings

openpyxl = pytest.importorskip("openpyxl", reason="the extra documents is not installed")
pytest.importorskip("lxml", reason="the extra documents is not installed")
polib = pytest.importorskip("polib", reason="the extra documents is not installed")

PAIRS = [("The dog & %s.", "Il cane & %s."), ("two words", "due parole")]
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: it\\n"\n\n'


def tmx(units: str, before: str = "") -> bytes:
    return f'<?xml version="1.0"?>{before}<tmx><header srclang="en-US"/><body>{units}</body></tmx>'.encode()


def unit(**texts: str) -> str:
    variants = (f'<tuv xml:lang="{tag.replace("_", "-")}"><seg>{text}</seg></tuv>' for tag, text in texts.items())
    return f"<tu>{''.join(variants)}</tu>"


def xliff(units: str) -> bytes:
    name = "urn:oasis:names:tc:xliff:document:1.2"
    languages = 'source-language="en" target-language="it"'
    return f'<xliff version="1.2" xmlns="{name}"><file {languages}><body>{units}</body></file></xliff>'.encode()


def xliff_2(units: str) -> bytes:
    name = "urn:oasis:names:tc:xliff:document:2.0"
    return f'<xliff xmlns="{name}" version="2.0" srcLang="en" trgLang="it"><file id="f">{units}</file></xliff>'.encode()


def workbook(*sheets: list[tuple[str, ...]]) -> bytes:
    book, file = openpyxl.Workbook(write_only=True), io.BytesIO()
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(row)
    book.save(file)
    return file.getvalue()


NEEDED = ' state="needs-translation"'
SIDES = "<source>{}</source><target{}>{}</target>"
DOG = ("The <{0}>dog</{0}> &amp; <{1}>.", "Il <{0}>cane</{0}> &amp; <{1}>.")
G = [text.format("g", 'x equiv-text="%s"/').replace("<g>", '<g id="1">') for text in DOG]
PC = [text.format("pc", 'ph equiv="%s"/') for text in DOG]
HI = [text.format("hi", "ph>%s</ph") for text in DOG]

FILES = {
    "a.tmx": tmx(
        unit(it=HI[1], en_US=HI[0])
        + unit(en_GB="two <bpt>&lt;b></bpt>words<ept>&lt;/b></ept>", IT="due\n parole")
        + unit(en="alone")
    ),
    "a.xlf": xliff(
        f"<trans-unit>{SIDES.format(G[0], '', G[1])}<alt-trans>{SIDES.format('a', '', 'b')}</alt-trans></trans-unit>"
        f"<trans-unit>{SIDES.format('two words', '', 'due parole')}</trans-unit>"
        f"<group translate='no'><trans-unit>{SIDES.format('a', '', 'b')}</trans-unit></group>"
        f"<trans-unit>{SIDES.format('a', NEEDED, 'b')}</trans-unit>"
        "<trans-unit><source>a</source></trans-unit>"
    ),
    "a.xliff": xliff_2(
        f"<unit><segment>{SIDES.format(PC[0], '', PC[1])}</segment><ignorable><source> </source></ignorable>"
        f"<segment>{SIDES.format('two words', '', 'due parole')}</segment></unit>"
        f"<unit translate='no'><segment>{SIDES.format('a', '', 'b')}</segment></unit>"
        f"<unit><segment state='initial'>{SIDES.format('a', '', 'b')}</segment></unit>"
    ),
    "a.po": (
        f'{HEADER}msgid "The dog & %s."\nmsgstr "Il cane & %s."\n\nmsgid "two words"\nmsgstr "due parole"\n\n'
        '#, fuzzy\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n\n#~ msgid "d"\n#~ msgstr "e"\n'
    ).encode(),
    "a.xlsx": workbook([("Notes",)], [("English", "Italiano"), *PAIRS]),
}
LEFT_OUT = {
    "a.tmx": {OTHER_REGIONS: 2, LACKING: 1},
    "a.xlf": {NOT_TO_TRANSLATE: 1, UNFINISHED: 1, UNTRANSLATED: 1},
    "a.xliff": {NOT_TO_TRANSLATE: 1, UNFINISHED: 1},
    "a.po": {FUZZY: 1, UNTRANSLATED: 1, OBSOLETE: 1},
    "a.xlsx": {},
}


def write(path: Path, content: bytes | str) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def pairs_of(address: str, naming: Naming = Naming()) -> list[tuple[str, str]]:  # noqa: B008
    return [(pair.source, pair.target) for pair in open_pairs(address, naming)]


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_pairs_and_counts_what_it_leaves_out(tmp_path, name):
    reading = open_pairs(write(tmp_path / name, FILES[name]))
    assert [(pair.source, pair.target) for pair in reading] == PAIRS
    assert +reading.repairs == LEFT_OUT[name]
    assert [language[:2] for language in reading.languages] == ["en", "it"]


def test_files_of_several_formats_are_read_one_after_another(tmp_path):
    one, other = (write(tmp_path / name, FILES[name]) for name in ("a.xlsx", "a.po"))
    assert [(pair.source, pair.target) for pair in open_pairs((one, other))] == PAIRS * 2
    write(tmp_path / "b.tmx", tmx(unit(it="Il cane.", en="The dog.").replace("<tu>", '<tu srclang="it">')))
    write(tmp_path / "c.po", f'{HEADER}msgid "a"\nmsgstr ""\n')
    reading = open_pairs(str(tmp_path / "*"))
    assert sorted((pair.source, pair.target) for pair in reading) == sorted([*PAIRS * 2, ("The dog.", "Il cane.")])
    assert any("1 of 4 files left out: " in doubt and "c.po holds no translated" in doubt for doubt in reading.doubts)


def test_tags_and_accelerators_are_taken_out_of_all_texts_as_translate_does(tmp_path):
    entry = 'msgid "Save <b>_All</b> <file>"\nmsgstr "Salva <b>_tutto</b> <file>"\n'
    path = write(tmp_path / "a.po", f'{HEADER}msgid "translator-credits"\nmsgstr "Ada"\n\n{entry}')
    reading = open_pairs(path)
    assert [(pair.source, pair.target) for pair in reading] == [("Save All <file>", "Salva tutto <file>")]
    assert reading.repairs[NOT_TO_TRANSLATE] == 1
    path = write(tmp_path / "a.tmx", tmx(unit(en="See &lt;g0>the dog&lt;/g0>.", it="Vedi &lt;g0>il cane&lt;/g0>.")))
    assert pairs_of(path) == [("See the dog.", "Vedi il cane.")]


def test_a_memory_without_segments_is_named_so(tmp_path):
    content = tmx(unit(en="dog", it="cane") * 2).replace(b"<seg>", b"").replace(b"</seg>", b"")
    with pytest.raises(DataError, match="2 entries whose <tuv> lack the <seg>"):
        open_pairs(write(tmp_path / "a.tmx", content))


def test_a_text_that_is_empty_is_none(tmp_path):
    reading = open_pairs(write(tmp_path / "a.tmx", tmx(unit(en="dog", it="cane") + unit(en="a", it=""))))
    assert len(list(reading)) == 1 and reading.repairs[LACKING] == 1
    rows = [("English", "Italiano"), *PAIRS, ("a", "")]
    reading = open_pairs(write(tmp_path / "a.xlsx", workbook(rows)))
    assert len(list(reading)) == 2 and reading.repairs[UNTRANSLATED] == 1


def test_a_workbook_may_have_a_title_and_columns_without_a_name(tmp_path):
    rows = [("Texts of 2026",), ("English", "Italiano"), (*PAIRS[0], "a remark"), PAIRS[1]]
    reading = open_pairs(write(tmp_path / "a.xlsx", workbook(rows)))
    assert [(pair.source, pair.target) for pair in reading] == PAIRS
    assert reading.repairs[TITLES] == 1


def test_a_workbook_without_rows_suggests_no_task(tmp_path) -> None:
    path = write(tmp_path / "a.xlsx", workbook([]))
    assert guess_task(DataSettings(path=path)) is None
    with pytest.raises(DataError, match="holds only blank lines"):
        open_pairs(path)


@pytest.mark.parametrize("name", [name for name in FILES if name != "a.xlsx"])
def test_packed_files_are_read(tmp_path, name):
    assert pairs_of(write(tmp_path / f"{name}.gz", gzip.compress(FILES[name]))) == PAIRS


def test_the_report_says_what_was_left_out(tmp_path):
    units = "".join(unit(en=f"Dog number {row}.", it=f"Cane numero {row}.") for row in range(60)) + unit(en="alone")
    report = prepare_data(write(tmp_path / "a.tmx", tmx(units)), tmp_path / "out")
    assert report.rows == 60
    assert f"{LACKING}: 1" in list(report.notes())


def test_one_of_several_languages_is_chosen(tmp_path):
    path = write(tmp_path / "a.tmx", tmx(unit(de="Hund", en="dog", it="cane") * 3))
    with pytest.raises(DataError, match="several columns may be the pair: 'en' and 'de'.*data.source_column"):
        open_pairs(path)
    assert pairs_of(path, Naming(source_language="de", target_language="it"))[0] == ("Hund", "cane")
    assert pairs_of(path, Naming("en", "it"))[0] == ("dog", "cane")
    path = write(tmp_path / "b.tmx", tmx(unit(de="Hund", en_GB="dog", it_IT="cane") * 3))
    assert pairs_of(path, Naming("en", "it"))[0] == ("dog", "cane")


def test_regions_side_by_side_stay_apart(tmp_path):
    path = write(tmp_path / "a.tmx", tmx(unit(en="bus", pt_BR="ônibus", pt_PT="autocarro") + unit(en="a", pt_PT="b")))
    assert pairs_of(path, Naming("en", "pt-PT")) == [("bus", "autocarro"), ("a", "b")]


def test_plural_forms_are_two_pairs(tmp_path):
    entry = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "un %d"\nmsgstr[1] "pochi %d"\nmsgstr[2] "tanti %d"\n'
    assert pairs_of(write(tmp_path / "a.po", HEADER + entry)) == [("%d file", "un %d"), ("%d files", "tanti %d")]


def test_a_segmented_target_is_paired_with_its_segments(tmp_path):
    marks = "".join('<mrk mtype="seg" mid="{0}">{1}{0}.</mrk> '.format(part, "{0}") for part in (1, 2))
    target = f"<seg-source>{marks.format('s')}</seg-source><target>{marks.format('t')}</target>"
    path = write(tmp_path / "a.xlf", xliff(f"<trans-unit><source>s1. s2.</source>{target}</trans-unit>"))
    assert pairs_of(path) == [("s1.", "t1."), ("s2.", "t2.")]


LAUGHS = "<!DOCTYPE tmx [<!ENTITY a 'lol'>" + "".join(
    f"<!ENTITY {new} '{f'&{old};' * 10}'>" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tmx", tmx(unit(en="&i;", it="x"), f"{LAUGHS}]>"), "a.tmx:1"),
        ("a.tmx", tmx(unit(en="&e;", it="x"), "<!DOCTYPE tmx [<!ENTITY e SYSTEM 'file:///etc/hosts'>]>"), "entity &e;"),
        ("a.tmx", tmx(unit(en="a&nbsp;b", it="x")), "'nbsp' not defined"),
        ("a.tmx", FILES["a.tmx"][:-6], "not well-formed XML: Premature end"),
        ("a.tmx", tmx(unit(en="a\0b", it="x")), "not well-formed XML"),
        ("a.tmx", tmx(unit(en="città", it="x")).decode().encode("latin-1"), "not well-formed XML"),
        ("a.tmx", tmx(""), "holds no translated entries"),
        ("a.tmx", tmx(unit(en="a")), "one column"),
        ("a.tmx", tmx(" " * (9 << 20)), "more than 8 MiB follow entry 0"),
        ("a.xlf", xliff("<trans-unit><source>a</source></trans-unit>"), "no translated entries .1 untranslated"),
        ("a.po", f"{HEADER}hello\n", "a.po:6 is not a line of a catalogue"),
        ("a.po", f'{HEADER}msgid The cat\nmsgstr "x"\n', "a.po:6 is not a line of a catalogue .PO.: msgid The cat"),
        ("a.po", f'{HEADER}msgid "a"\nmsgstr "b\n', 'a.po:7 is not a line .*: msgstr "b'),
        ("a.po", b"/etc/hosts", "is not a line of a catalogue|no translated entries"),
        ("a.po", HEADER.replace("UTF-8", "klingon"), "encoding klingon"),
        ("a.po", f'{HEADER}msgid "a"\nmsgstr "à"\n'.encode("latin-1"), "not in the encoding UTF-8"),
        ("a.po", f'{HEADER}#, fuzzy\nmsgid "a"\nmsgstr "b"\n', "no translated entries .1 fuzzy"),
        ("a.xlsx", "English\tItaliano\n", "is not a workbook"),
        ("a.xlsx", FILES["a.xlsx"][:-100], "is not a workbook"),
        ("a.xlsx.gz", gzip.compress(FILES["a.xlsx"]), "packed workbook"),
    ],
)
def test_a_broken_file_is_one_line_of_error(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=message) as error:
        pairs_of(path)
    assert "\n" not in str(error.value)


def test_a_workbook_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path):
    path = Path(write(tmp_path / "a.xlsx", FILES["a.xlsx"]))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as book, book.open("xl/x.xml", "w") as part:
        for _ in range(70):
            part.write(bytes(1 << 20))
    with pytest.raises(DataError, match="xl/x.xml unpacks to 70 MiB"):
        pairs_of(str(path))
