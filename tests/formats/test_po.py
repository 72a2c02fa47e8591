"""Catalogues of a program's messages: untranslated entries are translated, and all else stays."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.po import Catalogue
from dragoman.formats.reading import read_document

polib = pytest.importorskip("polib", reason="the extra documents is not installed")

HEADER = """# Messages.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals={forms}; plural=0;\\n"

"""
ENTRIES = """#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open %s\\n"
msgstr ""

msgid ""
"One.\\n"
"  Two.\\n"
"  -h, --help  Help  me\\n"
"A sentence that is long enough to go\\n"
"on in the next line\\n"
"\\n"
"100 %"
msgstr ""

msgid "one dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

msgid "Save"
msgstr "Salva"

#, fuzzy
msgid "cat"
msgstr "cane"

#~ msgid "old"
#~ msgstr "vecchio"
"""


def written(tmp_path: Path, content: str, encoding: str = "utf-8", mark: str = "è ") -> Any:
    path = tmp_path / "a.po"
    path.write_bytes(content.encode(encoding))
    document = read_document(path, ("en", "pt-BR"))
    path.write_bytes(document.translated([mark + text for text in document.texts]))
    return polib.pofile(str(path))


def test_messages_that_lack_a_translation_get_one_line_by_line(tmp_path: Path) -> None:
    catalogue = written(tmp_path, HEADER.format(forms=2) + ENTRIES)
    first, second, dogs, save, cat, old = catalogue
    assert (first.msgstr, first.msgctxt, first.flags) == ("è Open %s\n", "menu", ["fuzzy", "c-format"])
    assert second.msgstr == (
        "è One.\n  è Two.\n  -h, --help  è Help  è me\n"
        "è A sentence that is long enough to\ngo on in the next line\n\n100 %"
    )
    assert dogs.msgstr_plural == {0: "è one dog", 1: "è %d dogs"}
    assert [save.msgstr, cat.msgstr, cat.fuzzy, old.msgstr, old.obsolete] == ["Salva", "cane", True, "vecchio", 1]
    assert catalogue.metadata["Language"] == "pt_BR"


@pytest.mark.parametrize(("forms", "plural"), [(1, ["%d dogs"]), (3, ["%d dogs", "%d dogs", "%d dogs"])])
def test_a_language_has_as_many_plural_forms_as_its_header_says(tmp_path: Path, forms: int, plural: list[str]) -> None:
    catalogue = written(tmp_path, HEADER.format(forms=forms) + ENTRIES, mark="")
    assert [*catalogue[2].msgstr_plural.values()] == plural


def test_an_encoding_stays_unless_it_lacks_a_character(tmp_path: Path) -> None:
    latin = (HEADER.format(forms=2) + ENTRIES).replace("UTF-8", "ISO-8859-1").replace("Salva", "Città")
    assert written(tmp_path, latin, "latin-1").metadata["Content-Type"] == "text/plain; charset=ISO-8859-1"
    catalogue = written(tmp_path, latin, "latin-1", mark="犬 ")
    assert catalogue.metadata["Content-Type"] == "text/plain; charset=UTF-8"
    assert catalogue[0].msgstr == "犬 Open %s\n" and catalogue[3].msgstr == "Città"


def test_a_message_for_the_names_of_translators_stays_empty(tmp_path: Path) -> None:
    entries = 'msgid "translator-credits"\nmsgstr ""\n\nmsgid "Save"\nmsgstr ""\n'
    assert [entry.msgstr for entry in written(tmp_path, HEADER.format(forms=2) + entries)] == ["", "è Save"]


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("Language: pt_PT.UTF-8", None),
        ("Language: ", None),
        ("Language: de", "German .* as target language"),
        ("X-Source-Language: it", "Italian .* as source language"),
    ],
)
def test_a_catalogue_for_other_languages_is_refused(tmp_path: Path, header: str, complaint: str | None) -> None:
    content = HEADER.format(forms=2).replace('"Plural', f'"{header}\\n"\n"Plural') + 'msgid "Save"\nmsgstr ""\n'
    if complaint is None:
        assert written(tmp_path, content)[0].msgstr == "è Save"
    else:
        with pytest.raises(DataError, match=complaint):
            written(tmp_path, content)


@pytest.mark.parametrize(
    ("flag", "source", "translation", "is_left"),
    [
        ("c-format", "%s in %d", "%s a %d", False),
        ("c-format", "%s in %d", "%d a %s", True),
        ("c-format", "%s in %d", "%s a", True),
        ("c-format", "%s in", "%s a %s", True),
        ("c-format", "%2$s in %1$s", "%1$s a %2$s", False),
        ("c-format", "%d%% of", "%% %d", False),
        ("c-format", "%d%% of", "%d% di", True),
        ("c-format", "%-5.2lf of", "%-5.2f di", True),
        ("python-format", "50% off for %s", "50%, fuori per %s", True),
        ("c-format", "%s is 90% full", "%s è al 90% pieno", True),
        ("python-format", "%(a)s in %(b)d", "%(b)d a %(a)s", False),
        ("python-format", "%(a)s in", "%(è)s a", True),
        ("python-brace-format", "{a} in {b:d}", "{b:d} a {a}", False),
        ("python-brace-format", "{name} in", "{nome} a", True),
        ("no-c-format", "100 %s in", "100 a", False),
    ],
)
def test_an_entry_whose_arguments_would_differ_is_left_untranslated(
    tmp_path: Path, flag: str, source: str, translation: str, is_left: bool
) -> None:
    path = tmp_path / "a.po"
    entry = f'#, {flag}\nmsgid "{source}"\nmsgstr ""\n\nmsgid "Save"\nmsgstr ""\n'
    path.write_text(HEADER.format(forms=2) + entry)
    document = read_document(path, ("en", "it"))
    assert document.texts == [source, "Save"]
    catalogue = polib.pofile(document.translated([translation, "Salva"]).decode())
    assert [entry.msgstr for entry in catalogue] == ["" if is_left else translation, "Salva"]
    assert [place for _, place in document.left] == ["line 7"] * is_left
    assert len(document.texts) + len(document.left) == 2


def test_plural_forms_keep_the_arguments_of_one_of_their_sources(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    entry = '#, c-format\nmsgid "one dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    path.write_text(HEADER.format(forms=2) + entry)
    document = read_document(path, ("en", "it"))
    assert 'msgstr[1] "%d cani"' in document.translated(["un cane", "%d cani"]).decode()
    document = read_document(path, ("en", "it"))
    assert 'msgstr[1] ""' in document.translated(["un cane", "%s cani"]).decode()
    assert len(document.left) == len(document.remarks) == 1


@pytest.mark.parametrize(
    ("rule", "first"),
    [("n==1 ? 0 : n%10<5 ? 1 : 2", "Un cane"), ("n%10==1 ? 0 : n%10<5 ? 1 : 2", "%d cani"), ("n==", "%d cani")],
)
def test_the_first_of_three_forms_is_singular_if_it_is_for_one_alone(tmp_path: Path, rule: str, first: str) -> None:
    path = tmp_path / "a.po"
    header = f'msgid ""\nmsgstr "Plural-Forms: nplurals=3; plural={rule};\\n"\n\n'
    path.write_text(header + 'msgid "One dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\n')
    content = read_document(path, ("en", "it")).translated(["Un cane", "%d cani"]).decode()
    assert [*polib.pofile(content)[0].msgstr_plural.values()] == [first, "%d cani", "%d cani"]


def test_a_fuzzy_entry_without_translation_is_reported_and_line_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text('#, fuzzy\nmsgid "Cat"\nmsgstr ""\n\nmsgid "One?\\r\\nTwo.\\r\\n"\nmsgstr ""\n')
    document = read_document(path, ("en", "it"))
    assert document.texts == ["One?", "Two."] and len(document.left) == 1
    assert polib.pofile(document.translated(["Uno?", "Due."]).decode())[1].msgstr == "Uno?\r\nDue.\r\n"


def test_a_damaged_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.po:7 is not a line of a catalogue"):
        written(tmp_path, HEADER.format(forms=2) + "msgid The cat\n")


def test_plural_forms_that_are_translated_already_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    entry = 'msgid "one dog"\nmsgid_plural "many dogs"\nmsgstr[0] ""\nmsgstr[1] "molti cani"\n'
    path.write_text('msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n' + entry)
    document = read_document(path, ("en", "it"))
    written = document.translated([text.upper() for text in document.texts]).decode()
    assert 'msgstr[0] "ONE DOG"\nmsgstr[1] "molti cani"' in written


def test_a_catalogue_that_names_no_plural_forms_has_two(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    path.write_text(header + 'msgid "one dog"\nmsgid_plural "%d dogs"\n')
    written = read_document(path, ("en", "it")).translated(["un cane", "%d cani"]).decode()
    assert written.rstrip().endswith('msgstr[0] "un cane"\nmsgstr[1] "%d cani"')


TEMPLATE = """# Copyright
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: PACKAGE VERSION\\n"
"Language: \\n"
"Content-Type: text/plain; charset=CHARSET\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

#~| msgid "older"
#~ msgid "old"
#~ msgstr "vecchio"

# A comment of a translator that is much longer than seventy-eight columns, and stays on one line as it was.
#: a.c:1
msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

# the last comment
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("language", "plural"),
    [("it", "nplurals=2; plural=(n != 1);"), ("ja", "nplurals=1; plural=0;"), ("xx", "nplurals=2; plural=(n != 1);")],
)
def test_a_template_becomes_a_catalogue_of_its_language(tmp_path: Path, language: str, plural: str, end: str) -> None:
    path = tmp_path / "a.pot"
    path.write_bytes(TEMPLATE.replace("\n", end).encode())
    document = read_document(path, ("en", language))
    content = document.translated(["%d cane", "%d cani"]).decode()
    catalogue = polib.pofile(content)
    assert catalogue.metadata["Plural-Forms"] == plural and catalogue.metadata["Language"] == language
    assert catalogue.metadata["Content-Type"].endswith("charset=UTF-8") and not catalogue.metadata_is_fuzzy
    (entry,) = catalogue.fuzzy_entries()
    assert [*entry.msgstr_plural.values()] == (["%d cani"] if language == "ja" else ["%d cane", "%d cani"])
    changed = {line for line in TEMPLATE.split("\n") if line not in content.split(end)}
    assert all(re.match(r"#, fuzzy|msgstr\[|\"(Lang|Cont|Plur)", line) for line in changed)
    if msgfmt := shutil.which("msgfmt"):
        path.write_text(content)
        subprocess.run([msgfmt, "-c", "-o", "-", str(path)], check=True, capture_output=True)


KINDS = (
    'msgid "one {n}"{e}msgstr ""{e}',
    'msgid ""{e}"two "{e}"words {n}"{e}msgstr ""{e}',
    '# note{e}#. hint{e}msgctxt "c"{e}msgid "three {n}"{e}{e}msgstr ""{e}{e}',
    'msgid "four {n}"{e}msgstr "quattro"{e}',
    '#, fuzzy{e}msgid "five {n}"{e}msgstr "cinque"{e}',
    '#~| msgid "older"{e}#~ msgid "old {n}"{e}#~ msgstr "vecchio"{e}',
    '#, c-format{e}msgid "%d dog {n}"{e}msgid_plural "%d dogs {n}"{e}msgstr[0] ""{e}msgstr[1] ""{e}',
    "# alone{e}",
    "{e}",
)


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(["\n", "\n", "\r\n"])), min_size=1, max_size=8),
    st.booleans(),
)
def test_every_line_but_translations_stays(pieces: list[tuple[str, str]], needs_review: bool) -> None:
    header = HEADER.format(forms=2)
    text = header + "".join(piece.format(n=number, e=end) for number, (piece, end) in enumerate(pieces))
    before = polib.pofile(text)
    document = Catalogue(before, text, "utf-8", "it")
    document.needs_review = needs_review
    content = document.translated([f"X {line}" for line in document.texts]).decode()
    after, original = polib.pofile(content), polib.pofile(text)
    assert [entry.msgid for entry in after] == [entry.msgid for entry in original]
    for new, old in zip(after, original, strict=True):
        if old in original.untranslated_entries():
            written = [new.msgstr] if not old.msgid_plural else [new.msgstr_plural[0], new.msgstr_plural[1]]
            assert written == [f"X {line}" for line in (old.msgid, old.msgid_plural) if line]
            assert new.flags == ["fuzzy"] * needs_review + old.flags
        else:
            assert (new.msgstr, new.flags, new.obsolete) == (old.msgstr, old.flags, old.obsolete)
    lines = iter(line.strip() for line in content.splitlines())
    kept = [line.strip() for line in text[len(header) :].splitlines() if not line.startswith(("msgstr", "#,"))]
    assert all(line in lines for line in kept if line)


@pytest.mark.parametrize("entry", ['msgid "{}"\n', 'msgid ""\n"{}"\n', '# {}\nmsgid "a word"\n'])
@pytest.mark.parametrize("count", [1_000, 100_000])
def test_an_entry_that_is_too_long_to_be_written_is_refused(tmp_path: Path, entry: str, count: int) -> None:
    path = tmp_path / "a.po"
    path.write_text(
        'msgid "one"\nmsgstr ""\n\n' + entry.format("a b " * count) + 'msgstr ""\n\nmsgid "two"\nmsgstr ""\n'
    )
    if count == 1_000:
        assert read_document(path, ("en", "it")).texts
    else:
        with pytest.raises(DataError, match="more than 200,000 characters"):
            read_document(path, ("en", "it"))


def test_an_earlier_translation_is_kept(tmp_path: Path) -> None:
    header = HEADER.format(forms=2)
    (tmp_path / "new.po").write_text(header + ENTRIES, encoding="utf-8")
    old = ENTRIES.replace('msgstr ""', 'msgstr "Apri %s\\n"', 1).replace('[0] ""', '[0] "un cane"')
    old = (
        old.replace('[1] ""', '[1] "%d cani"')
        .replace("Open", "Opened", 0)
        .replace('"100 %"\nmsgstr ""', '"100 %"\nmsgstr "x"')
    )
    old = old.replace('msgid ""\n"One', '#, fuzzy\nmsgid ""\n"One')
    (tmp_path / "old.po").write_text(header + old, encoding="utf-8")
    document = read_document(tmp_path / "new.po", ("en", "it"))
    texts = [*document.texts]
    document.keep(read_document(tmp_path / "old.po", ("en", "it")))
    assert document.texts == [text for text in texts if "dog" not in text and "Open" not in text]  # fuzzy ones are new
    (tmp_path / "new.po").write_bytes(document.translated([text.upper() for text in document.texts]))
    entries = {entry.msgid: entry for entry in polib.pofile(str(tmp_path / "new.po"))}
    assert entries["Open %s\n"].msgstr == "Apri %s\n" and not entries["Open %s\n"].fuzzy
    assert entries["one dog"].msgstr_plural == {0: "un cane", 1: "%d cani"}
    assert entries["Save"].msgstr == "Salva" and next(e for key, e in entries.items() if key.startswith("One.")).fuzzy


def test_a_template_takes_the_header_of_an_earlier_translation(tmp_path: Path) -> None:
    (tmp_path / "new.pot").write_text(TEMPLATE + '\nmsgid "new"\nmsgstr ""\n')
    earlier = TEMPLATE.replace("nplurals=INTEGER; plural=EXPRESSION;", "nplurals=3; plural=n==1?0:n==0?1:2;")
    earlier = earlier.replace("Language: ", "Language: it_IT").replace(
        '"Project', '"Last-Translator: Ann\\n"\n"Project'
    )
    earlier = earlier.replace('[0] ""', '[0] "un cane"').replace('[1] ""', '[1] "%d di cani"\nmsgstr[2] "%d cani"')
    (tmp_path / "old.po").write_text(earlier + '\nmsgid "gone"\nmsgstr "andato"\n')
    document = read_document(tmp_path / "new.pot", ("en", "it"))
    document.keep(read_document(tmp_path / "old.po", ("en", "it")))
    assert document.texts == ["new"]
    catalogue = polib.pofile(document.translated(["nuovo"]).decode())
    assert catalogue.metadata["Plural-Forms"].startswith("nplurals=3")
    assert (catalogue.metadata["Language"], catalogue.metadata["Last-Translator"]) == ("it_IT", "Ann")
    assert next(entry.msgstr_plural for entry in catalogue if entry.msgid_plural) == {
        0: "un cane",
        1: "%d di cani",
        2: "%d cani",
    }
    assert "earlier translations left out because the source lacks their messages: 1" in document.notes
