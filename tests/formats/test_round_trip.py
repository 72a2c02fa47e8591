"""A document whose texts are copied comes back as it was; one whose texts are translated differs only in them."""

import gzip
import re
import tempfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError
from dragoman.formats.document import Document
from dragoman.formats.html import Html
from dragoman.formats.reading import read_document

HTML = """<!DOCTYPE html>
<html lang="en"><head><title>My page &ndash; home</title>
<meta name="description" content='A "nice" page'>
<style>p { color: red }</style><script>if (a < b) "Hello you"</script></head>
<body class=x>
<p title="a &amp; b">  <b>Hello</b>, <a href="x.html" title="The next page">see the <i>next</i>
page</a>&nbsp;now &lt;b&gt;.
  And more.</p>
<p><strong>Whole sentence is bold.</strong></p><ul><li>One<li>Two <code>ls -l</code> three</ul>
<pre>not me</pre><p translate=no>Nor me</p><img alt="A cat"><br>Line<br>
Other <span class="notranslate">Firefox</span> works
<input type=submit value="Send"><p>12</p><!-- not me --></body></html>
"""
MARKDOWN = """---
title: not me
---
# Hello *world*

> A **bold** and *it* [link `c`](http://x.org "t") \\* &amp; end\x20\x20
> next line \\
> third <https://a.org> <b>x</b> ![alt *x*](y.png)

1. one
   two
2. [ref][r] ~~s~~ a_b _c_ 2 * 3

| a | b |
|---|---|
| *x* | why |

```
not me
```
Windows line.\r\nAnd another.

[r]: http://not.me
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
<i>I have never</i>
<i>been there</i>

2
00:00:03,000 --> 00:00:04,000
- Hi.
- Hello.

3
00:00:05,000 --> 00:00:06,000
{\\an8}He said that

4
00:00:06,500 --> 00:00:07,000
he would come

5
00:00:07,500 --> 00:00:09,000
to see us
tomorrow morning.
""".replace("\n", "\r\n")
VTT = """\ufeffWEBVTT - not me

NOTE not me

intro
00:01.000 --> 00:02.000 align:start
<v Tom>Hello <b>you</b> &amp; me

00:02.500 --> 00:03.000
Line one
Line two
"""
JSON = """{
  "title": "My \\"page\\" é",\t"n": [1, 2.5, null, "Two\\nlines\\tof <b>text</b>", ""],
  "branch": "{n, plural, one {not me} and {not me}}", "not me": {"deep": " Hello {name}! "}
}
"""
FILES = {"page.html": HTML, "texts.json": JSON, "text.md": MARKDOWN, "film.srt": SRT, "film.vtt": VTT}


@pytest.fixture(params=FILES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.write_bytes(FILES[request.param].encode())
    return path


def read(path: Path) -> Document:
    return read_document(path, ("en", "en"))


def translated(document: Document, change: Callable[[str], str]) -> str:
    return document.translated([change(text) for text in document.texts]).decode()


def test_a_document_whose_texts_stay_stays_to_the_byte(path: Path) -> None:
    document = read(path)
    assert document.texts
    assert document.translated(document.texts) == path.read_bytes()


def test_every_text_is_given_and_nothing_else(path: Path) -> None:
    texts = " ".join(read(path).texts)
    assert "not me" not in texts
    assert "Nor me" not in texts
    assert re.findall(r"[A-Za-z]{3,}", re.sub("<[^>]*>", "", texts))


def test_a_translated_document_has_the_same_texts_in_other_words(path: Path) -> None:
    """Each word gets a mark; read again, the document holds the marked texts, and without the marks it is as before."""

    def marked(text: str) -> str:
        return re.sub(r"(?<![&<{/\w])(?<!\{\\)[A-Za-z]+(?![\w>;=])", lambda word: f"{word[0]}q", text)

    before = read(path)
    path.write_text(translated(before, marked), encoding="utf-8", newline="")
    after = read(path)
    assert after.texts == [*map(marked, before.texts)]


def test_tags_that_a_translation_lost_stand_around_it(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>One <b>two</b> <i>three</i>.</p>")
    written = translated(read(path), lambda _: "Uno due & <tre>.")
    assert written == "<p><b>Uno due &amp; &lt;tre&gt;.</b><i></i></p>"


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.srt", "a.vtt"])
@given(
    content=st.lists(st.sampled_from([*"<>/&;*_`[]()!-|#\n \\", "<b>", "</i>", "word", "é", "1.", "~~"])).map("".join)
)
def test_any_text_comes_back_to_the_byte(name: str, content: str) -> None:
    head = {"a.srt": "1\n00:00:01,000 --> 00:00:02,000\n", "a.vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n"}
    written = (head.get(name, "") + "x" + content).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(written)
        document = read(path)
        assert document.translated(document.texts) == written
        document.translated(["a different text" for _ in document.texts])


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("<a href=x>Home</a> | <b><a>My <i>page</i></a></b>", ["Home", "My <g1>page</g1>"]),
        ("See <a href=x>one</a> <a href=y>two</a>", ["See <g1>one</g1> <g2>two</g2>"]),
        ("<a href=x>One</a>.", ["<g1>One</g1>."]),
        ("I <svg><title>Too</title></svg> you", ["I <g1/> you", "Too"]),
        ("<label>One <input type=radio> two</label><label>three</label>", ["One", "two", "three"]),
        ("<textarea placeholder='One'>Two</textarea><p translate=no title='Not me'>Nor me</p>", ["One", "Two"]),
        ("One wri<wbr>tes", ["One writes"]),
        ("<b><i> </i></b><i>One</i> <b>two <!-- x --></b>", ["<g1>One</g1> <g2>two <g3/></g2>"]),
        ("The wa<!-- x -->ter is", ["The water<g1/> is"]),
        ("The <i>wa<!-- x -->ter</i> is, don<!-- -->'t", ["The <g1>water<g2/></g1> is, don't<g3/>"]),
        ("pi<b>z<!-- x -->z</b>a and", ["pi<g1>zz</g1>a<g2/> and"]),
        ("The sta<img src=x>tion, 4<img>25 Hello<img>World", ["The station<g1/>, 4<g2/>25 Hello<g3/>World"]),
        ("The sta<b>tion, x</b>y", ["The sta<g1>tion, x</g1>y"]),
        ("My sis<a id=x></a>ter is <b></b> here", ["My <g1></g1>sister is <g2></g2> here"]),
        ("The <b>sta</i>tion</b> is", ["The <g1>sta</g1>tion<g2/> is"]),
        ("The s&shy;t&#8203;a&NoBreak;tion, an e&#8209;mail", ["The station, an e-mail"]),
        ("ครับ&#8203;ครับ, 日<!-- x -->本", ["ครับ\u200bครับ, 日<g1/>本"]),
        ("The<code>x</code>house is", ["The<g1/>house is"]),
    ],
)
def test_the_texts_of_a_page_are_what_belongs_together(tmp_path: Path, content: str, texts: list[str]) -> None:
    path = tmp_path / "a.html"
    path.write_text(content)
    assert read(path).texts == texts


def test_a_page_says_that_it_is_in_the_language_of_its_translation(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text('<html xml:lang="en" lang="en-GB"><p>One</p>')
    document = read_document(path, ("en", "it"))
    assert document.translated(document.texts) == b'<html xml:lang="it" lang="it"><p>One</p>'


def test_markup_of_no_width_comes_back_beside_its_word(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>The wa<!-- x -->ter is in the sta<img src=y>tion.</p><p>Ho&shy;use</p>")
    document = read(path)
    written = translated(document, lambda text: text.replace("water", "acqua").replace("station", "stazione"))
    assert written == "<p>The acqua<!-- x --> is in the stazione<img src=y>.</p><p>Ho&shy;use</p>"


def test_a_long_word_with_markup_in_it_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text(f"<p>{'a' * 190_000}<!-- x -->b {'a<!-- x -->' * 5_000}. {'<b></b>' * 5_000}c")
    assert "a<g" in read(path).texts[0]


@pytest.mark.parametrize(("named", "noted"), [("en-GB", 0), ("de", 1), ("it", 1)])
def test_a_page_in_another_language_is_noted(tmp_path: Path, named: str, noted: int) -> None:
    path = tmp_path / "a.html"
    path.write_text(f'<html lang="{named}"><p>One</p>')
    assert len(read_document(path, ("en", "it")).remarks) == noted


def test_a_sentence_that_goes_on_over_cues_is_one_text_and_fills_each_cue(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    path.write_bytes(SRT.encode())
    document = read(path)
    assert document.texts[-1] == "he would come to see us tomorrow morning."
    shown = re.findall(r"--> [\d:,]*\r\n(.*?)\r\n(?:\r\n|\Z)", translated(document, lambda _: "Ja."), re.DOTALL)
    assert shown == ["<i>Ja.</i>", "Ja.\r\nJa.", "{\\an8}Ja.", "Ja.", "…"]


def test_markup_around_the_lines_of_a_sentence_stays_around_them(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    cue = "{}\n00:00:0{},000 --> 00:00:0{},900\n{}\n\n"
    lines = "<i>If you</i>\n<i>are late,</i>", "<i>we will go</i>", "alone,\n<b>It&rsquo;s</b>", "{\\an8}cold"
    path.write_text("".join(cue.format(number, number, number, text) for number, text in enumerate(lines)))
    document = read(path)
    assert document.texts == ["If you are late, we will go", "alone, It’s", "cold"]
    shown = re.findall(r",900\n(.*?)\n\n", translated(document, lambda text: text[-4:]), re.DOTALL)
    assert shown == ["<i>l</i>", "<i>go</i>", "It’s<b></b>", "{\\an8}cold"]


def test_the_lines_of_values_are_the_texts_of_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(JSON.encode())
    assert read(path).texts == ['My "page" é', "Two", "lines", "of <b>text</b>", "Hello {name}!"]
    path.write_text('{"é": "x\\ud83d"}')
    assert translated(read(path), str.upper) == '{"é": "X\ufffd"}'
    path.write_text('{"a": "caf\\u00e9\\\\n"}')
    assert translated(read(path), lambda text: f'"{text}"è') == '{"a": "\\"caf\\u00e9\\\\n\\"\\u00e8"}'


def test_the_alternatives_of_a_value_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": "No dogs | one\\ndog|{n} dogs", "b": "{a|upper} is"}')
    assert read(path).texts == ["No dogs", "one", "dog", "{n} dogs", "{a|upper} is"]
    written = translated(read(path), lambda text: re.sub(r"\w+(?![^{]*\})", lambda word: word[0].upper(), text))
    assert written == '{"a": "NO DOGS | ONE\\nDOG|{n} DOGS", "b": "{a|upper} IS"}'


@pytest.mark.parametrize(
    "content",
    [
        '{"a": "one", "a": "two"}',
        900 * "[" + '"one"' + 900 * "]",
        '{"a": "one \\ud83d\\ude00 \\ud83d"}',
        '[NaN, -Infinity, "one"]',
        '\ufeff"one"\r\n',
    ],
)
def test_unusual_json_comes_back_to_the_byte(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content.encode())
    document = read(path)
    assert translated(document, str) == content
    words = translated(document, lambda text: text.replace("one", "1").replace("two", "2"))
    assert words == content.replace("one", "1").replace("two", "2").replace(' \\ud83d"', ' \\ufffd"')


def test_words_that_would_be_markup_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("One\n\n- two\n")
    written = translated(read(path), lambda text: "1. a*b* <i> [x]" if text == "One" else "- _x_ a_b")
    assert written == "1\\. a\\*b\\* \\<i> \\[x\\]\n\n- \\- \\_x\\_ a_b\n"


def test_what_other_dialects_of_markdown_mark_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    content = (
        "> [!NOTE]\n> one\n\n- [x] two[^1]!\n\n[^1]: three more\n[^b]: four $a_1$ https://x.org/b_(c)\\\n"
        "five `$c` + $ <kbd>Ctrl</kbd>+<kbd>C</kbd> six\n\n## seven {#not_me}\n"
    )
    path.write_text(content)
    document = read(path)
    texts = ["one", "two<g1/>!", "three more", "four <g1/> <g2/>)", "five <g1/> + $ <g2/>+<g3/> six", "seven"]
    assert document.texts == texts
    for word in ("one", "two", "three more", "four", "five", "six", "seven"):
        content = content.replace(word, f"{word}é __")
    assert translated(document, lambda text: re.sub(r"[a-z]{3,}( more)?", r"\g<0>é __", text)) == content


def test_emphasis_that_is_left_out_glues_and_parts_no_words(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("*a* b *c*. *d*")
    written = translated(read(path), lambda _: "<g1></g1> Uno<g2></g2> due<g3> </g3>.")
    assert written.split() == ["Uno", "due", "."]
    written = translated(read(path), lambda _: "<g1>Uno</g1> <g2></g2>, due<g3></g3>.")
    assert written == "*Uno* , due."


def test_encodings_stay(tmp_path: Path) -> None:
    path, declaration = tmp_path / "a.html", '<meta charset="iso-8859-1">'
    for encoding, declared in (("utf-16-le", ""), ("utf-16-be", ""), ("utf-8", ""), ("iso-8859-1", declaration)):
        mark = "" if declared else "\ufeff"
        path.write_bytes(f"{mark}{declared}<p>Caffè</p>".encode(encoding))
        written = read(path).translated(["È così, 你好"]).decode(encoding)
        hello = "&#20320;&#22909;" if declared else "你好"
        assert written == f"{mark}{declared}<p>È così, {hello}</p>"


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.html", b"<p>Caff\xe8</p>", "is not UTF-8 at byte 7"),
        ("a.html", b"<meta charset=klingon><p>x</p>", "klingon, an unknown encoding"),
        ("a.html", b"<meta charset=idna><p>x</p>", "idna, an unknown encoding"),
        ("a.html", b"<meta charset=punycode><p>x</p>", "punycode, an unknown encoding"),
        ("a.html", b"<p>x</p>" + 2_000 * b"<!-- ", "damaged: 2,000 times <!-- without -->"),
        ("a.html", b"<p>x</p>" + 100_000 * b"<a ", "damaged: 100,000 times < without >"),
        ("a.srt", b"nothing", "is no file of subtitles"),
        ("a.md", b"", "is empty"),
        ("a.json", b'{"a": }', "is not JSON: Expecting value"),
        ("a.json", b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_damaged_document_is_refused(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        read(path)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no format is known by its name; give one of html"):
        read(tmp_path / "a.xyz")
    with pytest.raises(ConfigError, match="'word' is no format"):
        read_document(tmp_path / "a.html", ("en", "it"), "word")


@pytest.mark.parametrize(
    ("only", "texts"),
    [
        (["title"], ["Good day", "One"]),
        (["items.*"], ["One", "red", "blue"]),
        (["a.title", "tags"], ["Good day", "red", "blue"]),
    ],
)
def test_only_some_keys_of_json_are_translated(tmp_path: Path, only: list[str], texts: list[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": {"title": "Good day", "id": "x y"}, "items": [{"title": "One", "tags": ["red", "blue"]}]}')
    assert read_document(path, ("en", "it"), only=only).texts == texts
    with pytest.raises(DataError, match=r"no column or key 'b', only a\.title, a\.id, items\.title, items\.tags"):
        read_document(path, ("en", "it"), only=["b"])


def test_values_of_json_for_programs_stay_and_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '{"a": {"icon": "home", "text": "home"}, "list": [{"to": "A-1"}, {"to": "B-2"}], "n": "{n, plural, one {x}}"}'
    )
    document = read_document(path, ("en", "it"))
    assert document.texts == ["home"]
    assert "'a.icon' (1, such as 'home'), 'list.to' (2, such as 'B-2')" in document.notes[0]
    assert [left.place for left in document.left] == ["line 1"]
    assert read_document(path, ("en", "it"), only=["icon", "to"]).texts == ["home", "A-1", "B-2"]


def test_descriptions_for_translators_are_not_translated(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    described = '"description": "A greeting", "placeholders": {"user": {"content": "$1", "example": "Mary"}}'
    path.write_text(f'{{"hello": {{"message": "Good day", {described}}}, "bye": {{"message": "Good night"}}}}')
    assert read(path).texts == ["Good day", "Good night"]
    assert "3 descriptions" in read(path).notes[-1]
    assert read_document(path, ("en", "it"), only=["description"]).texts == ["A greeting"]
    path.write_text(f'{{"hello": "Good day", "@hello": {{{described}}}}}')
    assert read(path).texts == ["Good day"]
    path.write_text('{"a": {"message": "Good day", "description": "Bye"}, "b": "Good night"}')
    assert read(path).texts == ["Good day", "Bye", "Good night"]


@pytest.mark.parametrize(
    ("content", "earlier", "written"),
    [
        ('{"a": "one", "b": "x1"}', '{"a": "uno", "b": "codice", "c": "d"}', '{"a": "uno", "b": "codice"}'),
        ('{"a.b": "one", "a": {"b": "two"}}', '{"a": {"b": "due"}, "a.b": "uno"}', '{"a.b": "uno", "a": {"b": "due"}}'),
        ('["one", "two", ["three"]]', '["due", ["tre"]]', '["ONE", "TWO", ["THREE"]]'),
        ('[["one"], ["two", "three"]]', '[["uno"], ["tre"]]', '[["uno"], ["TWO", "THREE"]]'),
        ('{"@@locale": "en", "a": "one"}', '{"@@locale": "it_IT", "a": "uno"}', '{"@@locale": "it_IT", "a": "uno"}'),
        ('{"@@locale": "en", "a": "one"}', '{"@@locale": "en", "a": "uno"}', '{"@@locale": "it", "a": "uno"}'),
        ('{"a": "one", "@a": {"description": "new note"}}', '{"a": "uno", "@a": {"description": "old"}}', None),
    ],
)
def test_earlier_values_are_found_by_their_keys(
    tmp_path: Path, content: str, earlier: str, written: str | None
) -> None:
    (tmp_path / "a.json").write_text(content)
    (tmp_path / "b.json").write_text(earlier)
    document = read_document(tmp_path / "a.json", ("en", "it"))
    document.keep(read_document(tmp_path / "b.json", ("en", "it")))
    assert translated(document, str.upper) == (written or content.replace("one", "uno"))


def test_earlier_values_of_other_keys_than_the_chosen_stay(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"title": "one", "body": "two", "new": "three"}')
    (tmp_path / "b.json").write_text('{"title": "", "body": "due"}')
    document = read_document(tmp_path / "a.json", ("en", "it"), only=["title"])
    document.keep(read(tmp_path / "b.json"))
    assert translated(document, str.upper) == '{"title": "ONE", "body": "due", "new": "three"}'


def test_a_translation_that_changes_arguments_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": "%s has {{n}} dogs",\n"b": "{a} and {b}"}')
    document = read(tmp_path / "a.json")
    assert document.translated(["cani", "{b} e {a}"]) == b'{"a": "%s has {{n}} dogs",\n"b": "{b} e {a}"}'
    assert [left.place for left in document.left] == ["line 1"]


def test_the_types_of_linked_data_stay_and_its_words_do_not(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"@context": "https://schema.org", "@type": "Person", "@graph": [{"job": {"@value": "A nurse"}}]}')
    document = read(path)
    assert document.texts == ["A nurse"]
    assert "'@type' (1, such as 'Person')" in document.notes[0]


def test_the_keys_that_a_schema_requires_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"title": "A pet", "pet": {"kind": "cat"}, "asked": ["pet", "title"], "default": "brown"}')
    assert read(path).texts == ["A pet"]


def test_a_page_has_nothing_to_choose_from(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>one")
    with pytest.raises(ConfigError, match="only json and yaml and xlsx and odf and csv have columns or keys"):
        read_document(tmp_path / "a.html", ("en", "it"), only=["b"])


def test_a_packed_document_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.html.gz").write_bytes(gzip.compress(b"<p>one <b>two</b>"))
    document = read_document(tmp_path / "a.html.gz", ("en", "it"))
    assert document.translated(document.texts) == b"<p>one <b>two</b>"


@pytest.mark.parametrize(
    ("page", "written"),
    [
        (b"<p>one</p>", b"<p>&#232;</p>"),
        (b"<meta charset=utf-8><p>one</p>", "<meta charset=utf-8><p>è</p>".encode()),
        (b"<meta charset=latin1><p>one</p>", "<meta charset=latin1><p>è</p>".encode("latin-1")),
        ("<b>ü</b><p>one</p>".encode(), "<b>ü</b><p>è</p>".encode()),
    ],
)
def test_a_page_that_names_no_encoding_shows_every_character(tmp_path: Path, page: bytes, written: bytes) -> None:
    (tmp_path / "a.html").write_bytes(page)
    document = read_document(tmp_path / "a.html", ("en", "it"))
    assert document.translated([text.replace("one", "è") for text in document.texts]) == written


@pytest.mark.parametrize("quote", ['"', "'"])
def test_quotes_in_a_translated_attribute_are_escaped(quote: str) -> None:
    page = Html(f"<p title={quote}the cat{quote}>the dog</p>", "utf-8", ("en", "it"))
    written = page.translated(["il cane", """il "gatto" d'oro"""]).decode()
    found: list[dict[str, str | None]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.append(dict(attrs))
    parser.feed(written)
    assert found == [{"title": """il "gatto" d'oro"""}]
