"""Strings of apps in XML: values are translated, and every other character of the file stays."""

import plistlib
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import DocumentSettings, read_document

etree = pytest.importorskip("lxml.etree", reason="the extra documents is not installed")

ANDROID = r"""<?xml version='1.0' encoding="utf-8"?>
<!DOCTYPE resources [ <!ENTITY app "Its ] a > b"> <!-- ' ]> --> ]>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2" xmlns:tools = "http://schemas.android.com/tools">
    <!-- A comment: <string name="no">not me</string> -->
    <string  name='hello'>It\'s a &quot;good&quot; <b>day %1$s</b>, for <xliff:g id="n">%2$s</xliff:g> &amp; co</string>
    <string name="lines">One dog.\nTwo \u0062irds, &app; says.</string>
    <string name="code"><![CDATA[Read <a href="https://example.com/?a=1&b=2">the rules</a> now]]></string>
    <string name="quoted">"  Spaces stay.  "</string>
    <string name="no" translatable="false">Not me</string>
    <string name="same">@string/hello</string>
    <string-array name="days"><item>Sunday</item><item>@string/hello</item><item>Monday</item></string-array>
    <plurals name="dogs">
        <item quantity="one">%d dog</item>
        <!-- more -->
        <item quantity="other">%d dogs</item>
    </plurals>
    <color name="red">#f00</color><item type="string" name="x">An item</item><item type="id" name="y"/>
</resources>
"""
APPLE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
\t<key>%d files</key>
\t<dict>
\t\t<key>NSStringLocalizedFormatKey</key>
\t\t<string>Found %#@files@ in %2$#@folders@</string>
\t\t<key>files</key>
\t\t<dict>
\t\t\t<key>NSStringFormatSpecTypeKey</key>
\t\t\t<string>NSStringPluralRuleType</string>
\t\t\t<key>NSStringFormatValueTypeKey</key>
\t\t\t<string>d</string>
\t\t\t<key>zero</key>
\t\t\t<string>no files</string>
\t\t\t<key>other</key>
\t\t\t<string>%d files</string>
\t\t\t<key>one</key>
\t\t\t<string>a &lt;file&gt;</string>
\t\t</dict>
\t</dict>
\t<key>width</key>
\t<dict>
\t\t<key>NSStringVariableWidthRuleType</key>
\t\t<dict><key>20</key><string>Short</string><key>50</key><string>A long text</string></dict>
\t</dict>
\t<key>other</key><string>A text</string>
</dict>
</plist>
"""
NET = """\ufeff<?xml version="1.0" encoding="utf-8"?>\r
<root>\r
  <resheader name="resmimetype"><value>text/microsoft-resx</value></resheader>\r
  <data name="a" xml:space="preserve">\r
    <value>Hello, {0}. It is {1:N2} today.\r
\r
  See you. </value>\r
    <comment>A greeting</comment>\r
  </data>\r
  <data name="$this.Text"><value>A window</value></data>\r
  <data name=">>x.Name"><value>not me</value></data>\r
  <data name="x.Size" type="System.Drawing.Size, System.Drawing"><value>not, me</value></data>\r
  <data name="icon" mimetype="application/x-microsoft.net.object.bytearray.base64"><value>bm90IG1l</value></data>\r
</root>\r
"""
FILES = {"strings.xml": ANDROID, "a.stringsdict": APPLE, "a.resx": NET, "a.resw": NET}
WORDS = re.compile(r"(</?g\d+/?>|<br id=\"\d+\"/>|\{\{\d+\}\}|<[^<>]*>|%\d\$s|%d|\{\d[^}]*\})")


def read(path: Path, content: str, languages: tuple[str, str] = ("en", "de")) -> Document:
    path.write_bytes(content.encode())
    return read_document(path, languages)


def changed(document: Document, change: Callable[[str], str] = str.upper) -> str:
    """Return the file with the words of its texts changed, their tags and arguments not."""

    def new(text: str) -> str:
        return "".join(piece if number % 2 else change(piece) for number, piece in enumerate(WORDS.split(text)))

    return document.translated([*map(new, document.texts)]).decode()


@pytest.mark.parametrize("name", FILES)
def test_a_file_whose_translations_equal_its_texts_is_the_same_to_the_byte(name: str, tmp_path: Path) -> None:
    document = read(tmp_path / name, FILES[name])
    assert len(document.texts) > 2
    assert document.translated([*document.texts]) == FILES[name].encode()
    assert not document.left


@pytest.mark.parametrize("name", FILES)
def test_only_words_change(name: str, tmp_path: Path) -> None:
    document = read(tmp_path / name, FILES[name])
    written = changed(document, lambda words: re.sub("[a-z]", "x", words))
    for line, new in zip(FILES[name].splitlines(), written.splitlines(), strict=True):
        kept = [piece for piece in re.findall(r"<[^<>]*>|%\d\$\S|%d|&app;|\{\d", line) if "href" not in piece]
        assert [piece for piece in kept if piece not in new] == []
    etree.fromstring(written.encode(), etree.XMLParser(resolve_entities=False))
    assert "ot me" not in "".join(document.texts) and "ot me" in (written if name[-1] == "l" else NET)


def test_escapes_of_android_are_read_and_written(tmp_path: Path) -> None:
    document = read(tmp_path / "strings.xml", ANDROID)
    assert document.texts[0].startswith("It's a ")
    assert document.texts[1:3] == ["One dog.", "Two birds, {{1}} says."]
    new = ["", "@casa", "?{{1}}", *document.texts[3:]]
    new[0] = document.texts[0].replace("It's", 'L\'"auto" \\ <x>')
    written = document.translated(new).decode()
    assert r"""'hello'>L\'\"auto\" \\ &lt;x&gt; a """ in written
    assert r'"lines">\@casa\n\?&app;</string>' in written


def test_a_value_in_cdata_is_written_as_such(tmp_path: Path) -> None:
    document = read(tmp_path / "strings.xml", ANDROID)
    place = next(n for n, text in enumerate(document.texts) if text.startswith("Read"))
    assert document.texts[place] == 'Read <a href="https://example.com/?a=1&b=2">the rules</a> now'
    new = [*document.texts]
    new[place] = 'L\'<b>altro</b> & ]]> "io"'
    written = document.translated(new)
    assert rb"""<![CDATA[L\'<b>altro</b> & ]]]]><![CDATA[> \"io\"]]></string>""" in written
    tree = etree.fromstring(written, etree.XMLParser(resolve_entities=False))
    assert tree.findtext("string[@name='code']") == r"""L\'<b>altro</b> & ]]> \"io\""""


@given(words=st.text("ab \\'\"@?&<>]nu0041\u00e8", min_size=1))
def test_any_translation_is_what_android_reads(words: str, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "strings.xml"
    words = " ".join(words.split())
    for value in ("Hello", "<![CDATA[Hello]]>"):
        document = read(path, f"<resources><string name='a'>{value}</string></resources>")
        tree = etree.fromstring(document.translated([words]))
        raw = tree.findtext("string") or ""
        assert re.sub(r"\\(.)", r"\1", raw) == words
        assert not re.search(r"(?<!\\)(\\\\)*['\"]", raw) and not raw.startswith(("@", "?"))


ESCAPES = r"<resources><string name='a'>Smile \uD83D\uDE00 now\u0007, \uFFFFplease</string></resources>"


def test_characters_beyond_the_range_of_xml_stay_escapes(tmp_path: Path) -> None:
    document = read(tmp_path / "strings.xml", ESCAPES)
    assert document.texts == ["Smile 😀 now<g1/>, <g2/>please"]
    tree = etree.fromstring(document.translated([text.replace("now", "ora") for text in document.texts]))
    assert tree.findtext("string") == r"Smile 😀 ora\u0007, \uFFFFplease"


def test_references_of_android_stay(tmp_path: Path) -> None:
    values = "?colorPrimary", "?attr/x", "?android:textColor", "?Why not"
    strings = "".join(f"<string name='a{number}'>{value}</string>" for number, value in enumerate(values))
    assert read(tmp_path / "strings.xml", f"<resources>{strings}</resources>").texts == ["?Why not"]


def test_line_breaks_may_be_references(tmp_path: Path) -> None:
    for name, content in (
        ("strings.xml", r"<resources><string name='a'>One line.\u000aTwo lines\u000D\u0009end</string></resources>"),
        ("a.resx", "<root><data name='a'><value>One line.&#10;Two lines&#xA; &#9;end</value></data></root>"),
        (
            "a.stringsdict",
            "<plist><dict><key>a</key><string>One line.&#xD;&#010;Two lines&#x0a;end</string></dict></plist>",
        ),
        ("a.ts", "<TS><context><message><source>One line.&#xa;Two lines&#10;end</source></message></context></TS>"),
    ):
        document = read(tmp_path / name, content)
        assert document.texts[0] == "One line.", name
        written = changed(document)
        breaks = r"&#\w+;|\\u\w{4}"
        assert re.search(rf"ONE LINE\.(?:{breaks})+TWO LINES(?:{breaks}| )+END", written), written


def test_only_dictionaries_of_the_plural_rule_are_plural_forms(tmp_path: Path) -> None:
    texts = {"iphone": "Tap here", "mac": "Click here", "other": "Press here"}
    content = plistlib.dumps({"Tap": {"NSStringDeviceSpecificRuleType": texts}})
    document = read(tmp_path / "a.stringsdict", content.decode(), ("en", "ru"))
    rules = plistlib.loads(changed(document).encode())["Tap"]["NSStringDeviceSpecificRuleType"]
    assert rules == {key: text.upper() for key, text in texts.items()}


def test_properties_of_a_window_are_those_of_a_designer(tmp_path: Path) -> None:
    content = "<root><data name='User.Name'><value>Your name</value></data>{}</root>"
    assert read(tmp_path / "a.resx", content.format("")).texts == ["Your name"]
    property = "<data name='&gt;&gt;User.Name'><value>User</value></data>"
    assert not read(tmp_path / "a.resx", content.format(property)).texts


def test_words_that_the_encoding_lacks_are_no_cdata(tmp_path: Path) -> None:
    declared = "<?xml version='1.0' encoding='iso-8859-1'?>"
    document = read(
        tmp_path / "a.resx", f"{declared}<root><data name='a'><value><![CDATA[A <b>]]></value></data></root>"
    )
    for words in "Привет & <b> ]]>", "È & <b> ]]>":
        written = document.translated([words])
        assert etree.fromstring(written).findtext("data/value") == words
        assert (b"<![CDATA[\xc8 & <b>" in written) == words.startswith("È")


def test_plural_forms_are_those_of_the_target_language(tmp_path: Path) -> None:
    document = read(tmp_path / "strings.xml", ANDROID, ("en", "pl"))
    tree = etree.fromstring(changed(document).encode(), etree.XMLParser(resolve_entities=False))
    forms = {item.get("quantity"): item.text for item in tree.iterfind("plurals/item")}
    assert forms == {"one": "%d DOG", "few": "%d DOGS", "many": "%d DOGS", "other": "%d DOGS"}
    assert "plural forms" in document.remarks[0]
    document = read(tmp_path / "a.stringsdict", APPLE, ("en", "ru"))
    rules = plistlib.loads(changed(document, str.title).encode())["%d files"]
    assert rules["NSStringLocalizedFormatKey"] == "Found %#@files@ In %2$#@folders@"
    assert rules["files"]["one"] == rules["files"]["few"] == "%d Files"  # of 21 too, so not without its number
    assert rules["files"]["zero"] == "No Files"


def test_forms_with_others_between_them_are_left(tmp_path: Path) -> None:
    strange = APPLE.replace("<key>other</key>\n", "<key>x</key><string>y</string>\n<key>other</key>", 1)
    document = read(tmp_path / "a.stringsdict", strange)
    assert "%d files" not in document.texts and len(document.left) == 1
    assert document.translated([*document.texts]) == strange.encode()


def test_a_translation_that_changes_an_argument_is_left(tmp_path: Path) -> None:
    for name, argument in ("strings.xml", "%1$s"), ("a.resx", "{1:N2}"), ("a.stringsdict", "%d"):
        document = read(tmp_path / name, FILES[name])
        texts = [text for text in document.texts if argument in text]
        written = document.translated([text.replace(argument, "X").upper() for text in document.texts]).decode()
        assert len(document.left) >= len(texts) > 0
        assert written.count(argument) == FILES[name].count(argument)
        assert "such as %s" in document.remarks[-1]


def test_files_for_programs_stay(tmp_path: Path) -> None:
    assert not read(tmp_path / "donottranslate.xml", ANDROID).texts
    assert not read(tmp_path / "a.xml", ANDROID.replace("<resources", '<resources translatable="false"')).texts


def test_an_earlier_translation_is_kept_by_its_names(tmp_path: Path) -> None:
    document = read(tmp_path / "strings.xml", ANDROID)
    earlier = changed(document).replace('<string name="lines">', '<string name="gone">')
    document = read(tmp_path / "strings.xml", ANDROID)
    document.keep(read(tmp_path / "old.xml", earlier.replace("<item>MONDAY</item>", "")))
    assert document.texts == ["One dog.", "Two birds, {{1}} says.", "Sunday", "Monday"]
    written = document.translated([text.lower() for text in document.texts]).decode()
    assert r"\'S A" in written and "%d DOGS" in written and "<item>sunday</item>" in written
    assert "earlier values left out because the source lacks their names: 2" in document.remarks[-1]


def test_an_earlier_translation_that_is_no_xml_in_the_new_file_is_made_anew(tmp_path: Path) -> None:
    strings = "<string name='a'>Hello</string><string name='b'>Hello</string><string name='c'>Hello</string>"
    declared = "<?xml version='1.0' encoding='iso-8859-1'?>"
    document = read(tmp_path / "a.xml", f"{declared}<resources xmlns:x='x'>{strings}</resources>")
    for name, value in (
        ("a", "Ciao &app;"),
        ("b", "Ciao <y:g>io</y:g>"),
        ("c", "<![CDATA[Привет]]>"),
        ("a", "<x:g>Io</x:g>"),
    ):
        earlier = (
            f"<!DOCTYPE r [<!ENTITY app 'A'>]><resources xmlns:y='y' xmlns:x='x'><string name='{name}'>{value}</string>"
        )
        document = read(tmp_path / "a.xml", f"{declared}<resources xmlns:x='x'>{strings}</resources>")
        document.keep(read(tmp_path / "old.xml", f"{earlier}</resources>"))
        is_kept = value in document.translated(document.texts).decode()
        assert (len(document.texts) == 2) == is_kept == ("not well-formed" not in "".join(document.remarks)), value
        etree.fromstring(document.translated(document.texts))
    assert is_kept


def test_an_earlier_translation_of_another_kind_is_refused(tmp_path: Path) -> None:
    document = read(tmp_path / "strings.xml", ANDROID)
    with pytest.raises(DataError, match="no file of Android"):
        document.keep(read(tmp_path / "a.resx", NET))


@pytest.mark.skipif(not shutil.which("aapt2"), reason="aapt2 is not installed")
def test_android_compiles_the_result(tmp_path: Path) -> None:
    folder = tmp_path / "values-pl"
    folder.mkdir()
    document = read(tmp_path / "strings.xml", ANDROID.replace(' name="x">', ' name="x">L\'@\\u0007'), ("en", "pl"))
    (folder / "strings.xml").write_text(changed(document, lambda words: f"'\"{words}"), encoding="utf-8")
    subprocess.run(["aapt2", "compile", "-o", tmp_path, folder / "strings.xml"], check=True)


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
HOSTILE = {
    "empty": "",
    "program": "export const a = 1;\n",
    "video": "G@\x11\x10" * 100,
    "other XML": "<manifest/>",
    "truncated": ANDROID[:900],
    "no end of a comment": "<resources><!-- </resources>",
    "unknown entity": "<resources><string name='a'>Hello &b;</string></resources>",
    "laughs": f"<!DOCTYPE resources [{LAUGHS}]><resources><string name='a'>Hi &l11;</string></resources>",
    "laughs in an attribute": f'<!DOCTYPE resources [{LAUGHS}]><resources><string name="&l11;">Hi</string></resources>',
    "file": "<!DOCTYPE resources [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><resources><string name='a'>Hi &a;</string>"
    "</resources>",
    "deep": "<resources>" + "<b>" * 100_000 + "</b>" * 100_000 + "</resources>",
    "deep property list": "<plist>" + "<dict><key>a</key>" * 100_000 + "</dict>" * 100_000 + "</plist>",
    "deep enough": "<plist>" + "<dict><key>a</key>" * 200 + "</dict>" * 200 + "</plist>",
    "unknown encoding": "<?xml version='1.0' encoding='x-none'?><resources/>",
    "names twice": "<resources><string name='a'>One</string><string name='a'>Two</string></resources>",
    "forms twice": "<resources><plurals name='a'><item quantity='one'>A</item><item quantity='one'>B</item></plurals>"
    "</resources>",
    "no names": "<resources><string>One</string><plurals><item>Two</item></plurals><string-array/></resources>",
    "odd list": "<plist><dict><string>a</string><key>b</key><dict><key>one</key></dict></dict></plist>",
    "a value without an end": "<resources><x:g xmlns:x='x'><string name='a'>Hi</string></x:g></resources>",
    "brackets": "<resources><string name='a'>" + "&quot;<![CDATA[]]>" * 20_000 + "</string></resources>",
    "quotes": "<resources><string name='a'>" + '"' * 100_000 + "a</string></resources>",
    "backslashes": "<resources><string name='a'>" + "\\" * 100_000 + "a</string></resources>",
    "spaces": "<root><data name='a'><value>a" + " " * 100_000 + "a</value></data></root>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_read_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    complaints = list[str]()
    for suffix in (".xml", ".stringsdict", ".resx"):
        path = tmp_path / f"a{suffix}"
        path.write_text(HOSTILE[name], encoding="utf-8", newline="")
        try:
            document = read_document(path, ("en", "it"), settings=DocumentSettings(memory=2**33))
            texts = [*document.texts]
            etree.fromstring(document.translated(texts), etree.XMLParser(resolve_entities=False))
            assert "root:" not in "".join(texts)
        except DataError as error:
            complaints.append(str(error))
    for complaint in complaints:
        assert "\n" not in complaint
        assert str(tmp_path) in complaint or "characters; divide it" in complaint


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("begin", range(0, 1_200, 97))
def test_a_damaged_file_is_read_or_refused(name: str, begin: int, tmp_path: Path) -> None:
    content = bytearray(FILES[name].encode())
    content[begin % len(content)] ^= 1 << begin % 7
    path = tmp_path / name
    path.write_bytes(content)
    with suppress(DataError):
        document = read_document(path, ("en", "de"))
        document.translated([*document.texts])


def test_what_is_no_file_of_strings_is_named(tmp_path: Path) -> None:
    for name, content, message in (
        ("strings.xml", "export const a = 1", "is no XML"),
        ("AndroidManifest.xml", "<manifest/>", "root manifest; strings of apps have one of resources, plist"),
        ("strings.xml", "<resources>\n<string", "strings.xml:2 is not well-formed XML"),
    ):
        with pytest.raises(DataError, match=message):
            read(tmp_path / name, content)
