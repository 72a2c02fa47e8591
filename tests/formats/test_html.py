"""Pages: words that hidden text, template code or markup interrupt, and texts in unusual places."""

import re
from pathlib import Path

import pytest

from dragoman.formats.document import Document
from dragoman.formats.reading import read_document


def read(folder: Path, content: str, languages: tuple[str, str] = ("en", "it")) -> Document:
    path = folder / "a.html"
    path.write_bytes(content.encode())
    return read_document(path, languages)


def in_capitals(document: Document) -> str:
    """The page with each of its words in capitals."""
    texts = (re.sub(r"</?g\d+/?>|&\w+;|\w+", _capitals, text) for text in document.texts)
    return document.translated([*texts]).decode()


def _capitals(found: re.Match[str]) -> str:
    return found[0] if found[0][0] in "<&" else found[0].upper()


@pytest.mark.parametrize(
    "hidden",
    [
        '<span style="color: red; DISPLAY : none">{x y}</span>',
        "<B HIDDEN>{x} <i>{y}</i></B>",
        "<i style='visibility:hidden'>{x}</i>",
        "<span hidden>{x}<span hidden>{y}</span></span>",
        "{{! x }}",
        "<%# x %>",
    ],
)
def test_what_a_page_does_not_show_parts_no_word(tmp_path: Path, hidden: str) -> None:
    source = f"<p>The wa{re.sub('[{](?![{!])|(?<![}])[}](?![}])', '', hidden)}ter is old.</p>"
    document = read(tmp_path, source)
    assert document.texts[0] == "The water<g1/> is old."
    shown = re.sub(r"[{]([xy ]+)[}]", lambda words: words[1].upper(), hidden)
    assert in_capitals(document) == f"<p>THE WATER{shown} IS OLD.</p>"
    assert document.translated(document.texts).decode() == source


def test_hidden_text_that_is_no_part_of_a_sentence_is_translated(tmp_path: Path) -> None:
    document = read(tmp_path, "<p hidden>One.</p><p><span hidden>Two.</span></p>")
    assert in_capitals(document) == "<p hidden>ONE.</p><p><span hidden>TWO.</span></p>"


@pytest.mark.parametrize(
    "content",
    [
        '«I see» <?php if ($a > 1 && "b" < $c) echo "x"; ?> «the cat».',
        "«I see» <% if a < b %>«the cat»<% else %>«the dog»<% end %>.",
        '«Hello» <%= user.name && "a" %>, «you have» <?= $n ?> «cats».',
        "«Hello» {{ user.name | default('a' < \"b\") }} «and» {{{ b }}}.",
        "{% if n > 1 %}«The cats»{% else %}«The cat»{% endif %} {# a note #}«sleeps».",
        "{{#if n}}«The cats»{{else}}«The cat»{{/if}} {{- if .X }}«sleeps»{{ end }}.",
        '<a title="«See» {{ x | t: "a" }} «now»{% if b %}«and» {{ c }}{% endif %}" href={{ url }}>«Here»</a>',
        '<p {% if a %}class="x"{% endif %} <?php attr("<p>") ?>title="«Two»">«One»</p>',
        '<{{ tag }} class="x">«One»</{{ tag }}>',
        '{% schema %}{"name": "x"}{% endschema %}<script>"{{"</script>«One»<script>"}}"</script>',
        "«One»<?php echo 'x' > 1; foreach ($a as $b) { echo \"not me\"; }",
        "{{/* a comment {{< x >}} */}}«One»{{- /* two */ -}}{{!-- {{three}} --}}«four»",
        "<SPAN>«One» {{ a }}</SPAN> <!-- {{ x }} --> «two»<![CDATA[ {{ y }} ]]>",
    ],
)
def test_the_code_of_templates_stays_to_the_byte_and_in_order(tmp_path: Path, content: str) -> None:
    expected = re.sub(r"«(.*?)»", lambda words: words[1].upper(), content)
    document = read(tmp_path, re.sub(r"«(.*?)»", r"\1", content))
    assert in_capitals(document) == expected


def test_a_statement_of_a_template_divides_texts(tmp_path: Path) -> None:
    document = read(tmp_path, "<p>You have {% if n %}{{ n }} cats{% else %}no cat{% endif %} now</p>")
    assert document.texts == ["You have", "{{1}} cats", "no cat", "now"]
    assert "templates" in document.notes[0] and not read(tmp_path, "<p>{ One }</p>").notes


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("<svg><style>a{}</style><title>«The cat»</title><text>«One»<tspan>«two»</tspan></text></svg>", 0),
        ("<textarea>\n«One»\r\n\r\n  «two» &amp; «three»\n</textarea>", 0),
        ("<TEMPLATE><p>«One» {{ x }}</p></TEMPLATE><noscript><p>«Two»</p></noscript>", 0),
        ('<META CONTENT="«The house»" PROPERTY="og:site_name"><meta name="Description" content=\'«One»\'>', 0),
        ("<img src=x alt='«One»'/><input type=SUBMIT value='«Two»'><i data-title='title=\"x\"' title='«One»'></i>", 0),
        ("<input value='the cat'><input type=hidden value='one'><iframe srcdoc='<p>the cat</p>'></iframe>", 2),
        ("<!--[if mso]><p>The cat</p><![endif]--><!--[if mso]><td><![endif]--><![CDATA[the dog]]>", 2),
        (
            "<p xml:lang='de'>Das Haus</p><p>«One» <i lang='fr' title='x y'>deux</i> «three»<p lang=en-GB>«Four»</p>",
            2,
        ),
        ("<ul><li lang=de>Das <b>Haus</b><li>«One»</ul><p translate=no>Not me<p>«Two»", 1),
        ("<svg><desc><![CDATA[the dog]]></desc></svg><meta itemprop=description content='«One»'>", 1),
        ("<div translate=no>not <p translate=yes>me</p></div>", 1),
        ("<p>«I see» <ruby>«base»<rp>(<rt>reading<rp>)</ruby> «now»</p>", 1),
        ("<html data-lang=en><body lang=en>«One»</body></html>", 0),
        ("<p>«I see» <ruby>«base»<rp>(</rp><rt>reading</rt><rp>)</rp></ruby> «now»</p>", 1),
    ],
)
def test_a_text_in_an_unusual_place_is_translated_or_reported(tmp_path: Path, content: str, left: int) -> None:
    expected = re.sub(r"«(.*?)»", lambda words: words[1].upper(), content)
    document = read(tmp_path, re.sub(r"«(.*?)»", r"\1", content))
    assert in_capitals(document) == expected
    assert len(document.left) == left


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("Press <button>Save</button> now.", ["Press <g1/> now.", "Save"]),
        ("Press <button>Save</button>.", ["Press <g1/>.", "Save"]),
        ("Choose <label>it</label> now.", ["Choose <g1>it</g1> now."]),
        ("Any questions? <button>Ask us</button>", ["Any questions?", "Ask us"]),
        ("<label>Name</label>: <input> <label>Age</label> <input>", ["Name", "Age"]),
        ("First name: <input name=a> Last name: <input name=b>", ["First name:", "Last name:"]),
        ("We have <input value=2> dogs.", ["We have <g1/> dogs."]),
        ("We see <select><option value=a>One<option value=b>Two</select> dogs.", ["We see <g1/> dogs.", "One", "Two"]),
        ("See <video title=Two>No video.</video> now", ["See <g1/> now", "Two", "No video."]),
        ("The <my-icon></my-icon> old <x-a>house</x-a> is", ["The <g1></g1> old <g2>house</g2> is"]),
        ("<my-card><h2>One</h2><p>Two</p></my-card>", ["One", "Two"]),
        ("<x-row><x-cell>One</x-cell><x-cell>Two</x-cell></x-row>", ["One", "Two"]),
        ("See <blink>the cat</blink>", ["See <g1>the cat</g1>"]),
        ("See<form>One</form>two<section>three</section>", ["See", "One", "two", "three"]),
        # the ends of lines
        ("Where is the<br>old<BR />house?", ['Where is the<br id="1"/>old<br id="2"/>house?']),
        ("Where <b>is the<br></b>old house?", ['Where <g1>is the<br id="2"/></g1>old house?']),
        ("The cat sleeps.<br>so what", ["The cat sleeps.", "so what"]),
        ("apples<br>pears", ["apples", "pears"]),
        ("One house<br><br>and two", ["One house", "and two"]),
        ("Road 1<br>Old Town", ["Road 1", "Old Town"]),
        # footnotes, and parts of words
        ("The cat<sup>3</sup> sleeps<sup><a href=x>[4]</a></sup>.", ["The cat<g1/> sleeps<g2/>."]),
        ("25 m<sup>2</sup>, 10<sup>6</sup>, H<sub>2</sub>O", ["25 m<g1>2</g1>, 10<g2>6</g2>, H<g3>2</g3>O"]),
        ("The cat<sup>a</sup> costs 5.<sup>99</sup>, x<sup>n</sup>", ["The cat<g1/> costs 5.<g2>99</g2>, x<g3>n</g3>"]),
        ("Ca<sup>2+</sup>, Cl<sup>&minus;</sup>, Tom<sup>&trade;</sup>", ["Ca<g1/>, Cl<g2/>, Tom"]),
        ("A cat, <b>12</b><sup>3</sup>", ["A cat, <g1>12</g1><g2>3</g2>"]),
        ("The 5<sup>th</sup> cat", ["The 5<g1>th</g1> cat"]),
    ],
)
def test_what_is_part_of_a_sentence(tmp_path: Path, content: str, texts: list[str]) -> None:
    document = read(tmp_path, f"<p>{content}</p>")
    assert document.texts == texts
    assert document.translated(document.texts).decode() == f"<p>{content}</p>"
    written = document.translated([re.sub(r"\b[a-z]+\b(?![^<]*>)", lambda word: word[0].upper(), t) for t in texts])
    assert written.decode().lower() == f"<p>{content}</p>".lower()


def test_references_to_characters_may_lack_a_semicolon(tmp_path: Path) -> None:
    document = read(tmp_path, "<p>1 &copy 2 &amp 3 ?a=1&copy=2 &eacute&eacute; one")
    assert document.texts == ["1 © 2 &amp 3 ?a=1&copy=2 éé one"]


def test_attributes_without_quotes_get_them(tmp_path: Path) -> None:
    document = read(tmp_path, "<img alt=Station title = 'x' src=a><a href=b title=One>two</a>")
    written = document.translated([f'{text} "nord"' for text in document.texts]).decode()
    assert 'alt="Station &quot;nord&quot;"' in written and 'title="One &quot;nord&quot;">two' in written


def test_a_page_in_the_language_that_its_elements_name_is_read_as_a_whole(tmp_path: Path) -> None:
    document = read(tmp_path, "<html lang=de><body lang=de><p>One</p>")
    assert document.texts == ["One"]


@pytest.mark.parametrize("code", ["<%", "<? ", "{{", "{%", "{#", "{% comment %}", "{% style %}<?php "])
def test_code_that_does_not_end_is_looked_for_once(code: str) -> None:
    from dragoman.formats.html import _CODE

    _CODE.sub("", code * 100_000)


def test_hidden_elements_in_one_another_are_read_at_once(tmp_path: Path) -> None:
    assert read(tmp_path, f"<p>o{'<b hidden>' * 20_000}x{'</b>' * 20_000}ne").texts == ["one<g1/>", "x"]


def test_a_page_that_names_its_language_is_translated(tmp_path: Path) -> None:
    document = read(tmp_path, '<html xml:lang="en" lang="en-GB"><body lang=en><p>One</p>')
    assert in_capitals(document) == '<html xml:lang="it" lang="it"><body lang=en><p>ONE</p>'


def test_a_value_is_a_word_of_its_sentence(tmp_path: Path) -> None:
    document = read(tmp_path, "<p>{{ a }} sees <b>{{ b }}</b>{# c #}, <i>x</i>.</p><p>{{ d }}: {{ e }}</p>")
    assert document.texts == ["{{1}} sees <g2>{{3}}</g2><g4/>, <g5>x</g5>."]
    written = document.translated(["<g2>{{3}}</g2>, {{1}} e<g4/> <g5>y</g5>"]).decode()
    assert written.startswith("<p><b>{{ b }}</b>, {{ a }} e{# c #} <i>y</i></p>")
    written = document.translated(["nothing of it"]).decode()
    assert all(code in written for code in ("{{ a }}", "{{ b }}", "{# c #}"))


@pytest.mark.parametrize("section", ["<![word b]>", "<![ ]>", "<![CDATA[x]]>", "<![if lt IE 9]>"])
def test_marked_sections_stay(tmp_path: Path, section: str) -> None:
    assert in_capitals(read(tmp_path, f"<p>a</p>{section}<p>b</p>")) == f"<p>A</p>{section}<p>B</p>"


def test_what_a_form_sends_stays_or_is_noted(tmp_path: Path) -> None:
    choices = '<datalist><option value="The red apple"><option value="7"></datalist>'
    document = read(tmp_path, f'{choices}<select><option value="green one">Green</select>')
    assert document.texts == ["Green"] and document.notes == [] and len(document.left) == 1
    document = read(tmp_path, "<select>\n<option>Green</option></select>")
    assert document.texts == ["Green"] and len(document.notes) == 1


def test_a_document_type_inside_the_body_ends_a_text(tmp_path: Path) -> None:
    source = "<p>One<!DOCTYPE html>two</p>"
    document = read(tmp_path, source)
    assert in_capitals(document) == "<p>ONE<!DOCTYPE html>TWO</p>"
