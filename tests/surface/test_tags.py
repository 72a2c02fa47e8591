"""Pairs of tags around the words that translate those between them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.surface.protected import code_in, spans_matching
from dragoman.surface.tags import MOST_TAGS, with_tags, without_tags
from dragoman.surface.words import split_words

WORDS = st.lists(st.sampled_from("one two red-ish l'amica, x 3.5 & (é) <name> . ".split()), max_size=4).map(" ".join)
LINKS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12).map(
    lambda links: sorted({target: (source, target) for source, target in links}.values())
)


@st.composite
def marked(draw: st.DrawFn, depth: int = 3) -> str:
    """Build words with pairs of tags around and between them, all with different numbers."""
    parts = [draw(WORDS)]
    for _ in range(draw(st.integers(0, 2)) if depth else 0):
        name = draw(st.sampled_from(["b", "a", "x:g"]))
        parts += [f'<{name} id="{draw(st.integers())}">', draw(marked(depth - 1)), f"</{name}>", draw(WORDS)]
    return "".join(parts)


@st.composite
def ill_formed(draw: st.DrawFn) -> str:
    """Build a text of words and tags in any order, with or without spaces."""
    tags = st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", '<x id="1"/>', "</p>", "<p>", "<1>", "</1>", "**"])
    parts = draw(st.lists(st.one_of(WORDS, tags, st.just(" ")), max_size=12))
    return "".join(parts)


def tags_of(text: str) -> list[str]:
    return re.findall(r"</?(?:b|a|x:g|i|br|x|p)\b[^>]*>", text)


def letters(text: str) -> str:
    return "".join(text.split())


def is_nested(tags: list[str]) -> bool:
    opened: list[str] = []
    for tag in tags:
        if tag.startswith("</"):
            if not opened or opened.pop() != tag[2:-1]:
                return False
        else:
            opened.append(tag[1:].split()[0])
    return not opened


def within(links: list[tuple[int, int]], source: str, translation: str) -> list[tuple[int, int]]:
    sizes = len(split_words(source)), len(split_words(translation))
    return [link for link in links if link[0] < sizes[0] and link[1] < sizes[1]]


@given(marked(), WORDS, LINKS)
def test_a_translation_has_every_tag_once_nested_around_its_own_words(source, translation, links):
    markup = without_tags(source)
    written = with_tags(markup, translation, within(links, markup.plain, translation))
    assert sorted(tags_of(written)) == sorted(tags_of(source))
    assert is_nested(tags_of(written))
    assert without_tags(written).plain == translation


@given(ill_formed(), WORDS, LINKS)
def test_no_tag_is_lost_or_doubled_whatever_stands_around_it(source, translation, links):
    markup = without_tags(source)
    written = with_tags(markup, translation, within(links, markup.plain, translation))
    assert sorted(tags_of(written)) == sorted(tags_of(source))
    assert letters(re.sub(r"</?\w[^>]*>|[*&]", "", written)) == letters(re.sub(r"</?\w[^>]*>|[*&]", "", translation))


@st.composite
def different_words(draw: st.DrawFn, words: tuple[str, ...] = tuple("abcdefgh")) -> str:
    """Build different words, with tags around some sequences of them, and single tags between."""
    if len(words) == 1:
        return words[0]
    cut = draw(st.integers(1, len(words) - 1))
    between = draw(st.sampled_from([" ", " ", " <br/> ", "<br/>", " <br/>", '<x id="1"/> ']))
    text = between.join([draw(different_words(words[:cut])), draw(different_words(words[cut:]))])
    return draw(st.sampled_from(["{}", "<i>{}</i>", "<i> {} </i>"])).format(text)


@given(different_words())
def test_words_that_translate_themselves_get_their_tags_back(source):
    markup = without_tags(source)
    assert with_tags(markup, markup.plain, [(word, word) for word in range(8)]) == source


@given(st.lists(st.integers(1, 9).map(lambda length: "abcdefghi"[:length]), min_size=1, max_size=8), st.data())
def test_a_word_that_stays_keeps_the_tags_in_it(words, data):
    cuts = [sorted(data.draw(st.tuples(*[st.integers(0, len(word))] * 2))) for word in words]
    marked = [
        f"{w[:a]}<b>{w[a:b]}</b>{w[b:]}" if 0 < b - a < len(w) else w for w, (a, b) in zip(words, cuts, strict=True)
    ]
    source = " ".join(marked)
    assert with_tags(without_tags(source), " ".join(words), []) == source


@given(WORDS, WORDS, LINKS)
def test_a_text_without_pairs_is_left_alone(source, translation, links):
    markup = without_tags(source)
    assert markup.plain == source
    assert with_tags(markup, translation, links) == translation


@pytest.mark.parametrize(
    ("source", "translation", "links", "written"),
    [
        # words in another order, with one between them that is of another pair, and one of none
        ("<b>the red</b> house", "la casa rossa", [(0, 0), (2, 1), (1, 2)], "<b>la casa rossa</b>"),
        ("<b>the red</b> <i>big house</i>", "x y z", [(0, 0), (2, 1), (1, 2)], "x <i>y</i> <b>z</b>"),
        ("He <a>saw <b>us</b></a>", "Ci vide", [(2, 0), (1, 1)], "<a><b>Ci</b> vide</a>"),
        # no word is linked to those of the pair
        ("Do <b>you</b> go?", "Vai?", [(2, 0), (3, 1)], "<b>Vai</b>?"),
        ("Go<b></b>!", "Vai!", [(0, 0), (1, 1)], "Vai<b></b>!"),
        ("<b>all of it</b>", "tutto", [], "<b>tutto</b>"),
        # the same words on both sides
        ("H<sub>2</sub>O is it", "È H2O", [(0, 1), (1, 0)], "È H<sub>2</sub>O"),
        ("H<b>2</b>O and CO<i>2</i> is", "CO2 e H2O è", [(0, 2), (2, 0)], "CO<i>2</i> e H<b>2</b>O è"),
        ("25 m<b>2</b>, 10<i>6</i> dogs", "106 cani a m2 25", [(0, 3), (1, 2)], "10<i>6</i> cani a m<b>2</b> 25"),
        ("M<b>ARIO</b> is in", "C'è MARIO", [], "C'è M<b>ARIO</b>"),
        ("It is $4<b>.50</b> now", "Ora $4,50", [], "Ora $4<b>,50</b>"),
        # the first letter
        ("<b>O</b>nce I was", "C'era", [(0, 0)], "<b>C</b>'era"),
        ("I see <b>a</b> dog", "Vedo un cane", [(0, 0), (2, 1), (3, 2)], "Vedo <b>un</b> cane"),
        # the ending of an ordinal number
        ("5<b>th</b> dog, 1<i>st</i> cat", "5º cane, 1 gatto", [(0, 0), (2, 2)], "5<b>º</b> cane, 1<i></i> gatto"),
        ("<b>Ann Lee</b> is in", "C'è Ann Lee", [], "C'è <b>Ann Lee</b>"),
        ("<u>3</u> dogs, <u>1,500</u> cats", "3 cani, 1.500 gatti", [(1, 1)], "<u>3</u> cani, <u>1.500</u> gatti"),
        # a word that has no translation
        ("the <b>red</b> but<i>ton</i> is", "il pulsante è", [(0, 0), (2, 1), (3, 2)], "<b>il</b> <i>pulsante</i> è"),
        ("I see <b>you</b>.", "Vedo.", [(0, 0), (1, 0), (3, 1)], "<b>Vedo</b>."),
        ("I see <b>you</b>.", "...", [], "...<b></b>"),
        # accelerators
        ("Open &File...", "Apri file...", [(0, 0), (1, 1)], "Apri &file..."),
        ("_Big <b>dog</b>", "Cane grosso", [(0, 1), (1, 0)], "<b>Cane</b> _grosso"),
        ("Show &Bar", "Mostra", [(0, 0)], "&Mostra"),
        # tags alone
        ("One.<br/>Two. <br> Three", "Uno. Due. Tre", [(0, 0), (2, 2), (4, 4)], "Uno.<br/>Due. <br> Tre"),
        ("I am in.<br/>", "Ci sono.", [(3, 2)], "Ci sono.<br/>"),
        ('Hello <x id="1"/>, Tom', "Ciao, Tom", [(0, 0), (1, 1), (2, 2)], 'Ciao <x id="1"/>, Tom'),
        ("</p><b>He is <i>in", "Egli c'è", [(0, 0), (2, 1)], "</p><b>Egli <i>c'è"),
        ("<b>a <i>b</b> c</i>", "y z x", [(0, 2), (1, 0), (2, 1)], "<b><i>y z x</b></i>"),
        # marks
        ("Say <b>no.</b> Go", "Di no. Va", [(0, 0), (1, 1), (3, 3)], "Di <b>no.</b> Va"),
        ("Say <b>no</b>. Go", "Di no. Va", [(0, 0), (1, 1), (1, 2), (3, 3)], "Di <b>no</b>. Va"),
        ("Say <b>no.</b> Go", "Di no.it", [(0, 0), (1, 1)], "Di <b>no</b>.it"),
        # a word that the source has twice
        ("Ann and <b>Ann</b>", "Ann e lei", [(0, 0), (1, 1), (2, 2)], "Ann e <b>lei</b>"),
        # spaces
        ("Press<b> the red </b>now", "Premi il rosso ora", [(0, 0), (2, 2), (3, 3)], "Premi il<b> rosso </b>ora"),
        ("I know <b><i/></b> why", "So perché", [(1, 0), (2, 1)], "So <b><i/></b> perché"),
        ("<i>No <br/></i> “I”", "No “io”", [(0, 0), (2, 2)], "<i>No <br/></i> “io”"),
        ("<p>In.</p><p>Out</p>", "Dentro. Fuori", [(0, 0), (2, 2)], "<p>Dentro.</p><p>Fuori</p>"),
        ("It is <b>3.50</b>", "Costa 3,50", [(2, 1)], "Costa <b>3,50</b>"),
        # another kind of code
        ("an <unknown name> is in", "x", [], "x"),
    ],
)
def test_tags_stand_around_what_translates_the_words_between_them(source, translation, links, written):
    assert with_tags(without_tags(source), translation, links) == written


@pytest.mark.parametrize("text", ["<i>No <br/></i> “I”", "<i>No <br/></i> go", "<i>No <br/></i>", "No <br/> “I”"])
def test_the_model_reads_one_space_where_tags_had_one_on_each_side(text):
    assert "  " not in without_tags(text).plain


def test_a_script_in_a_text_is_code_but_words_in_its_place_are_words():
    text = "See <script>alert('a'); b < c</script> and <style>p { }</style> <b>now</b>."
    assert without_tags(text, spans_matching((), text)).plain == text.replace("<b>now</b>", "now")
    assert next(text[begin:end] for begin, end, _ in code_in(text)) == "<script>alert('a'); b < c</script>"
    words = "See <script>the house</script>."
    assert without_tags(words, spans_matching((), words)).plain == "See the house."


def test_a_tag_that_an_expression_protects_is_code_and_so_are_many():
    text = "<b>a</b> <i>b</i>"
    assert without_tags(text, spans_matching(["<i>.*</i>"], text)).plain == "a <i>b</i>"
    assert not without_tags("<b>a</b>" * (MOST_TAGS // 2 + 1)).pairs


def test_text_between_tags_in_another_script_gets_no_spaces():
    assert without_tags("<p>你好。</p><p>再见</p><br/>走").plain == "你好。再见走"


@pytest.mark.parametrize(
    "text",
    ["A & B", "AT&T", "&amp; x", "_x_", "a_b _c_d", "_One _Two", "see https://a.org/?x=1&y=&Zed", "~/x", "~x", "&1"],
)
def test_what_looks_like_an_accelerator_stays(text):
    assert without_tags(text) == (text, ())


def test_a_long_row_of_tags_takes_no_time():
    text = "<a>" * 50_000 + "</b>" * 50_000
    assert without_tags(text).plain == text
