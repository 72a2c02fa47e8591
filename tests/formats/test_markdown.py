"""Markdown and its dialects: what is no text stays, and a translation keeps the structure of its source."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from dragoman.formats.document import Left
from dragoman.formats.markdown import Markdown
from dragoman.formats.reading import read_document

_WORD = re.compile(r"(<[^<>]*>|&\w+;)|[^\W\d_]+")
DOCUMENT = """---
title: not me
---
Read the [station], [the *old* house][], [my sister][sis] and [the
long name]. [![The badge](https://x.org/a.svg)](https://x.org) ![A car][] ![A cat] ![A dog][sis]

> A <a href="https://x.org/a">guide</a>, <img src="https://x.org/a.png" alt="1"> and [one
> name] with [undefined] words, [a title][other] and $x_1 + y$ for $5 and $6.

!!! note "Read **this** first"
    The dog sleeps
    in the house.

    - The cat drinks milk.

        ??? tip

            The mouse runs.
Back at the door.

:::: warning Be careful
The door is closed
and the key is lost.
::: tip
The garden is big.
:::
::::

Term
: The meaning of it.

    The second paragraph.

The house[^1] is old.

[^1]: The note is long

    and goes on.

| The [station] | Names |
|---|---|
| one \\| two | `a\\|b` and **more** |

- The formula:

  $$
  a
  =
  b + * c
  $$

  is short.

[station]: s.html "The title"
[the *old* house]: h.html
[sis]: x.html
[the long name]: l.html
[a car]: c.png
[a cat]: d.png
[one name]: o.html
"""


def written(content: str, change: Callable[[str], str], with_components: bool = False) -> str:
    """Return a text with each of its words changed, after a check that it stays to the byte without a change."""
    document = Markdown(content, "utf-8", with_components)
    assert document.translated(document.texts).decode() == content
    return document.translated(
        [_WORD.sub(lambda word: word[1] or change(word[0]), text) for text in document.texts]
    ).decode()


def structure(content: str) -> list[str]:
    """Return the blocks, marks, targets, code and formulas of a text in order, and its definitions."""
    md = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    md.use(deflist_plugin).use(footnote_plugin).use(dollarmath_plugin, allow_space=False).use(admon_plugin)
    md.use(container_plugin, "any", validate=lambda *_: True)
    references: dict[str, dict[str, dict[str, str]]] = {}

    def parts(tokens: list[Token]) -> Iterator[str]:
        for token in tokens:
            if token.children is not None and token.type != "image":
                yield from parts(token.children)
            elif token.type not in ("text", "text_special", "softbreak"):
                is_literal = token.type.startswith(("code", "fence", "math", "html"))
                targets = token.attrs.get("href"), token.attrs.get("src")
                yield f"{token.type} {targets} {token.content if is_literal else ''}"

    tokens = [*parts(md.parse(content, references))]
    return [*tokens, *(f"{name} {where['href']}" for name, where in references["references"].items())]


@pytest.mark.parametrize("change", [str.upper, lambda word: f"{word}zq"])
def test_a_translation_has_the_structure_of_its_source(change: Callable[[str], str]) -> None:
    translation = written(DOCUMENT, change)
    assert structure(translation) == structure(DOCUMENT)
    assert len(re.findall("not me|zq|[A-Z]{2}", translation)) > 80


@pytest.mark.parametrize(
    ("content", "translation"),
    [
        ("[one]\n\n[one]: x", "[oneé][one]\n\n[one]: x"),
        (
            "[one][] ![two][] ![two]\n\n[one]: x\n[two]: y",
            "[oneé][one] ![twoé][two] ![twoé][two]\n\n[one]: x\n[two]: y",
        ),
        ("> a [one\n> two] b\n\n[one two]: x", "> aé [oneé twoé][one two] bé\n\n[one two]: x"),
        ("[one] [two][x] [three][] ^[four] f[0] []", "[oneé] [twoé][x] [threeé][three] ^[fouré] fé[0] []"),
        ("| a |\n|---|\n| b\\|c `d\\|e` |", "| aé |\n|---|\n| bé\\|cé `d\\|e` |"),
        ("*   one\n\ttwo", "*   oneé twoé"),
        ("1. 1 one", "1. 1 oneé"),
        ("[one][x] [one](javascript:x)\n\n[x]: javascript:y", "[oneé][x] [oneé](javascript:x)\n\n[x]: javascript:y"),
        ('[one]({{< x "y z" >}}) ![two]({% x y %}/z)', '[oneé]({{< x "y z" >}}) ![twoé]({% x y %}/z)'),
    ],
)
def test_links_and_cells_keep_what_they_point_to(content: str, translation: str) -> None:
    assert written(content, lambda word: f"{word}é") == translation


@pytest.mark.parametrize(
    "content",
    [
        '!!! note inline end "one"\n    two\n\n    three\n',
        "??? tip\n\n    one\n\n    !!! x\n        two\nthree\n",
        '=== "one"\n\n    two\n\n=== "three `x`"\n\n    ```\n    x\n    ```\n',
        "!!! one two three\n\nthree\n",
        ":::note[one]{.x}\ntwo\n:::\n",
        ':::: {.x y="z"}\none\n::: tab two\nthree\n:::\n::::\n',
        "/// details | one\ntwo\n///\n",
        "> [!NOTE]\n> one\n>\n> two\n",
        "> [!tip]- one *two*\n> three\n",
        "```{note}\none\n```\n\n```\nx\n```\n",
        "````{tip} one\n:class: x\n\n```{figure} x.png\n---\nname: x y\n---\ntwo\n```\nthree\n````\n",
        ":::{math}\nx = y\n:::\none\n",
        "$$\nx\n=\ny\n$$\none\n",
        "> \\[\n> x\n> - y\n> \\]\n\none\n",
        "one\n\\begin{align}\nx\n\n* y\n\\end{align}\ntwo\n",
        '{{< x >}}\none\n{{< /x >}}\n{% x y="z" %}\ntwo\n{% endx %}\n',
        '{{< highlight x >}}\nx y\n{{< /highlight >}}\n{% code %}\nx\n{% endcode %}\n{{< x\n y="z" >}}\none\n',
        '(x/y)=\n# one {#x}\n+++ {"x": 1}\n--8<-- "x.y"\none\n\n*[X]: two\n',
        "import X from 'y';\nimport {Z} from \"z\";\n\nexport const x = {\n  y: 'z',\n\n};\n\none\n",
        "one\n: two\n\n  three\n\n[^x]: one\n\n    two\n\n        x\n",
        '<a href="https://x.y/z">one</a> <br> **two** [](x) three\n',
        "1.\t```{code} x\n\ty z\n\t```\n\none\n",
        "-\t```{note} one\n\t:class: x\n\n\ttwo\n\t```\n\n\tthree\n",
        "# one { #x }\ntwo { .y .z }\n\n\\textbf{one two} three\n",
    ],
)
def test_lines_that_are_no_text_stay_on_their_lines(content: str) -> None:
    """Only the words one, two and three are text."""
    expected = re.sub(r"\b(one|two|three)\b", r"\1é", content)
    assert written(content, lambda word: f"{word}é") == expected


@pytest.mark.parametrize(
    "content",
    [
        "one\ntwo\n: three\n",
        "**one**\ntwo `x`\n\n:   three\n\n    one\n:   two\n\nthree\n~ one\n",
        "> one\n> two\n> three\n> : one\n>\n> two\n",
        "- one\n\n  two\n  three\n  : one\n\n      two\n      three\n      : one\n",
        "one\n: two\nthree\n: one\n: two\n\none\n\n: two",
        "one\r\ntwo\r\n:\tthree\r\n\r\n\tone\r\n",
        "# one\ntwo\nthree  \n: one\n",
    ],
)
def test_each_term_and_each_definition_is_a_text_on_its_line(content: str) -> None:
    expected = re.sub(r"\b(one|two|three)\b", r"\1é", content)
    assert written(content, lambda word: f"{word}é") == expected
    assert len(Markdown(content, "utf-8").texts) == len(re.findall("one|two|three", content))


@pytest.mark.parametrize(
    "kept",
    [
        *"[[Old]] ![[red.png]] [@smith2004] @fig:house ++ctrl+s++ :tada: {ref}`the-house` {.c} {%x%} \\(a+b\\)".split(),
        *"$a_1$ $`a`$ [^1] https://x.org/a_b <https://x.org> <me@x.org> \\@ref(fig:x) <kbd>Ctrl</kbd>".split(),
        *("[see @doe99, p. 3]", "{{ page.title }}", "$$a + b$$", "\\[x^2 + y\\]", "\\\\(a + b\\\\)", "[^long note]"),
        *("H~2~O", "CO~2~", "x^2^", "km^2^", "C~6~H~12~O~6~", "Ca(OH)~2~", "SO~4~^2-^"),
        *('{ width="300" }', "<Badge a={{b: 'c > d'}} />", '<img src="https://x.org/a.png" id="a">'),
    ],
)
def test_what_stays_in_a_paragraph_is_one_tag(kept: str) -> None:
    assert Markdown(f"one {kept} two", "utf-8").texts == ["one <g1/> two"]


def test_a_tag_alone_on_its_line_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("zero <b>one\n</b>\ntwo\n")
    document = read_document(path, ("en", "it"))
    assert document.translated([text.replace("one", "uno") for text in document.texts]) == b"zero <b>uno\n</b>\ntwo\n"


@pytest.mark.parametrize(
    "text",
    [
        "$5 and $6",
        "from $100 to $200",
        "$5, or 5$ a day",
        "a \\[note\\]",
        "5$/6$",
        "{a b}",
        "a == b",
        "10:30:00",
        "~2 and ~3",
    ],
)
def test_prices_and_other_signs_are_text(text: str) -> None:
    assert Markdown(f"one {text}", "utf-8").texts == [f"one {text}".replace("\\", "")]


def test_components_stay_and_their_text_is_translated(tmp_path: Path) -> None:
    path = tmp_path / "a.mdx"
    content = (
        "import X from 'y';\n\n<Tabs x={[\n  {a: 'b'},\n\n]}>\n  <Tab y=\"z\">\n    one {props.x} <B a={c > d} />two\n"
        "  </Tab>\n  <Tab>\n    three\n  </Tab>\n</Tabs>\n\n{/* x\n\ny */}\n"
    )
    path.write_text(content)
    document = read_document(path, ("en", "it"))
    assert document.texts == ["one <g1/> <g2/>two", "three"]
    translation = document.translated([re.sub(r"\w{3,}", r"\g<0>é", text) for text in document.texts]).decode()
    assert translation == re.sub(r"\b(one|two|three)\b", r"\1é", content)


@pytest.mark.parametrize(
    "content",
    [
        '<img src="x" alt="one">',
        '<div>\n<a href="x" title=\'two\'><img alt="one" id="x"></a>\n</div>\n',
        "```{image} x.png\n:alt: one\n:name: x\n```\n\n```{code} y\n:caption: two\n\ntitle=x\n```\n",
        "> ```{figure} x.png\n> :alt: one\n> :label: x\n>\n> two\n> ```\n",
        "```{figure} x.png\n---\nalt: one\nname: x\n---\ntwo\n```\n",
        "```{table} one\n\n| two |\n|---|\n| three |\n```\n",
        "[one](x \"two\") ![one](x 'three')",
        '[one](<x y> "two") [![one](x "two")](y "three")',
        "[one][x]\n\n[x]: y \"two\"\n[z]: <y>\n  'three'\n",
        '{{< figure src="x" caption="one" >}}\n{% include x.html alt="two" %}\n',
        '```x title="one"\ny(title="z")\n```\n',
        ':::x{title="one"}\ntwo\n:::\n',
        "one {x}`two three <y>` {x}`y z`\n",
        '- ```{image} x\n  :alt: one\n  ```\n- {{< x title="two" >}}\n1. > <img alt="three">\n',
    ],
)
def test_what_attributes_and_options_show_is_translated(content: str) -> None:
    expected = re.sub(r"\b(one|two|three)\b", r"\1é", content)
    assert written(content, lambda word: f"{word}é") == expected


@pytest.mark.parametrize(
    ("content", "written_as"),
    [
        ("[x1](y 'two')", "[x1](y 'a \"b: c’ d')"),
        ('<img alt="two">', "<img alt=\"a 'b: c' d\">"),
        ("```{image} x\n:alt: two\n```", "```{image} x\n:alt: 'a \"b: c’ d'\n```"),
    ],
)
def test_a_translated_value_cannot_end_its_quotes(content: str, written_as: str) -> None:
    document = Markdown(content, "utf-8")
    assert document.translated([text.replace("two", "a \"b: c' d") for text in document.texts]).decode() == written_as


def test_titles_in_front_matter_are_reported() -> None:
    yaml = "---\nx: y\ntitle: One\nz:\n  - alt: >-\n      two\n---\n"
    for content in (yaml, '+++\nx = 1\ntitle = "One"\n\nsubtitle = "two"\n+++\n'):
        assert [left.place for left in Markdown(content, "utf-8").left] == ["line 3", "line 5"]
    assert Markdown("---\nlayout: one\ntitle: 5\n---\none", "utf-8").left == []


def test_neither_code_nor_a_name_of_a_file_is_text_of_an_attribute() -> None:
    for code in (
        "`<a title='b'>`",
        "<!-- <a title='b'> -->",
        "<script>\nx = '<a title=\"b\">'\n</script>",
        "    a title='b'",
        "```x\n---\ntitle: b\n---\n```",
        "```{.x}\n---\ntitle: b\n---\n```",
        "```x title='a/b.c'\n```",
        "```{image} x\n:alt: a_b.c\n```",
    ):
        assert Markdown(f"{code}\n", "utf-8").texts == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<div>\none\n</div>", "block of HTML"),
        (":::{strange}\none\n:::", "directive is unknown"),
        ("```{strange}\none\n```", "directive is unknown"),
        ("+-----+\n| one |\n+-----+", "drawn with characters"),
        ("| one\n| two", "drawn with characters"),
        ("> " * 30 + "one", "nested too deeply"),
        (10_001 * "[" + "one", "too much markup"),
        ("![one [two](y)](x)", "text of a picture"),
        ("one\0 two", "not found"),
        ('[](x "a \\"b\\"")', "not one plain or quoted line"),
        ("[x]: y (two)", "not one plain or quoted line"),
        ("```{csv-table}\none, two\n```", "directive is unknown"),
        ("```{toctree}\nThe one <x>\n```", "directive is unknown"),
    ],
)
def test_a_text_that_stays_is_reported_with_its_line(content: str, reason: str) -> None:
    document = Markdown(f"---\na: b\n---\ntwo\n\n{content}\n", "utf-8")
    assert document.texts == ["two"]
    assert document.left
    assert all(reason in left.reason and left.place == "line 6" for left in document.left)
    for expression in (
        *(
            "{x.map(y => <li>one {y}</li>)}",
            "<X y={<b>one</b>} />",
            "{n > 1 ? 'one house' : 'x'}",
            '{x && "one house"}',
        ),
        *("<X y={`one house`} />", "<X y={['One house', 'x']} />", "{t('one house')}", "export const x = 'one house'"),
        *("export const x = { title: 'One house' }", "export const x = {\n  title: 'One house',\n}"),
    ):
        assert Markdown(expression, "utf-8", with_components=True).left == [Left("it is in an expression", "line 1")]
    for code in (
        "{/* one house */}",
        "<X className={`one two`} />",
        "<X y={['one']} z='one two' />",
        "{n > 1 ? 'a' : 'b'}",
    ):
        assert Markdown(code, "utf-8", with_components=True).left == []
    assert Markdown("<!-- one -->\n\n<script>one</script>\n\n```{math}\nx\n```\n\n<br>\n", "utf-8").left == []


@pytest.mark.parametrize("heading", ["## The *old* house", "## The old house ##", "The old house\n---"])
def test_a_link_to_a_heading_without_an_identifier_of_its_own_is_noted(heading: str) -> None:
    link = "[one](#the-old-house) [two][1] [three](#x)\n\n[1]: #the-old-house\n\n"
    assert [("2 (first: #the-old-house)" in note) for note in Markdown(link + heading, "utf-8").notes] == [True]
    for other in (
        "## The old house {#the-old-house}",
        f'<a id="the-old-house"></a>\n\n{heading}',
        "(the-old-house)=\n## The house",
        "## The house",
    ):
        assert Markdown(link + other, "utf-8").notes == []


def test_escapes_that_a_file_uses_are_used_in_its_translation() -> None:
    assert written("one \\$5 and \\{x", str.upper) == "ONE \\$5 AND \\{X"
    assert written("one $5", str.upper) == "ONE $5"


def test_markup_without_words_in_it_is_one_tag() -> None:
    assert Markdown("see **`x`**, [_`y`_](z) and <b> {c}</b>.", "utf-8").texts == ["see <g1/>, <g2/> and <g3/>."]
    assert Markdown("see **_both_ {x}**", "utf-8").texts == ["see <g1><g2>both</g2> <g3/></g1>"]


@given(
    st.lists(
        st.sampled_from(
            [
                *"\n>-:!`${}[]()|*_~<\\=+@#^",
                "    ",
                "\n\n",
                "\r\n",
                "one",
                "!!! a",
                "::: ",
                "```{note}\n",
                "$$\n",
                "{{< ",
                "{% ",
                "[^a]: ",
            ]
        )
    ).map("".join),
    st.booleans(),
)
def test_any_text_in_a_dialect_comes_back_to_the_byte(content: str, with_components: bool) -> None:
    document = Markdown(content, "utf-8", with_components)
    assert document.translated(document.texts).decode() == content
    document.translated(["a different text" for _ in document.texts])
