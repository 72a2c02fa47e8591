"""Messages of ICU with branches: each is divided into sentences, and means the same for each number."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.formats.branches import Branches, Message
from dragoman.formats.document import Document
from dragoman.formats.reading import read_document

MESSAGE = "You have {n, plural, one {# dog} other {# dogs}} left"


def in_capitals(text: str) -> str:
    return re.sub(r"\{[^{}]*\}|\w", lambda part: part[0] if part[0][0] == "{" else part[0].upper(), text)


def evaluated(message: str, values: dict[str, int | str]) -> str:
    """Return what ICU makes of a message, with the plural categories that English and Italian share."""

    def piece(at: int, number: str | None) -> tuple[str, int]:
        written = ""
        while at < len(message) and message[at] != "}":
            if message.startswith("''", at):
                written, at = written + "'", at + 2
            elif message[at] == "#" and number is not None:
                written, at = written + number, at + 1
            elif message[at] != "{":
                written, at = written + message[at], at + 1
            elif head := re.compile(r"\{\s*(\w+)\s*,\s*(plural|select)\s*,\s*(?:offset:(\d+))?").match(message, at):
                value, at, branches = values[head[1]], head.end(), dict[str, str]()
                shown = None if head[2] == "select" else str(int(value) - int(head[3] or 0))
                while branch := re.compile(r"\s*([=\w]+)\s*\{").match(message, at):
                    branches[branch[1]], at = piece(branch.end(), shown)
                    at += 1
                at = message.index("}", at) + 1
                category = f"{value}" if shown is None else "one" if shown == "1" else "other"
                chosen = branches.get(f"={value}", branches.get(category, branches["other"]))
                written += chosen
            else:
                end = message.index("}", at)
                written += str(values[re.split(r"[\s,{]+", message[at:end])[1]])
                at = end + 1
        return written, at

    return piece(0, None)[0]


def read(path: Path, content: str, languages: tuple[str, str] = ("en", "it")) -> Document:
    path.write_text(content)
    return read_document(path, languages)


def test_each_branch_is_a_whole_sentence() -> None:
    message = Message(MESSAGE, ("en", "ru"))
    assert message.texts == ["You have {#n} dog left", "You have {#n} dogs left"]
    assert re.findall(r"(\w+) \{", message.translated(["one", "more"])) == ["one", "few", "many", "other"]


@pytest.mark.parametrize(
    "written",
    [
        MESSAGE,
        "{g, select, male {He} other {They}} has {n, plural, =0 {no dogs} one {# dog''s {x}} other {# dogs}}.",
        "{n, plural, offset:1 =0 {Nobody} =1 {{x}} one {{x} and # other} other {{x} and # others}} came",
        "{n, plural, one {# dog} other {# dogs}} and {m, plural, one {# cat} other {# cats}}, it's {x}''s",
        "{n, plural,\n one {is}\n other {are}\n} {n, plural, one {one} other {{g, select, a {his} other {her}} dogs}}",
        "{ n , plural , =2 {a pair} other {{n, number} dogs} }",
    ],
)
def test_the_message_means_the_same_for_each_number(written: str) -> None:
    message = Message(written, ("en", "it"))
    assert message.translated(message.texts) == written
    capitals = message.translated([in_capitals(text) for text in message.texts])
    for number in range(201):
        for gender in ("male", "female", "x"):
            values = {"n": number, "m": number * 7 % 5, "g": gender, "x": "ZED"}
            assert evaluated(capitals, values) == evaluated(written, values).upper(), values


def test_an_apostrophe_quotes_nothing() -> None:
    words = ["dell'{x} '", "dell'oro di {x}"]
    for written, expected in (
        ("{n, plural, one {of {x}} other {gold of {x}}}", ["dell''{x} ''", "dell'oro di {x}"]),
        ("{n, plural, one {of {x}} other {gold''s of {x}}}", ["dell''{x} ''", "dell''oro di {x}"]),
    ):
        assert (
            re.findall(r"(?:one|other) \{(.*?)\}(?= \w+ \{|\}$)", Message(written, ("en", "en")).translated(words))
            == expected
        )


@pytest.mark.parametrize(
    "written",
    [
        "{n, plural, one {a dog}}",
        "{n, plural, one {a dog} other {dogs}",
        "{n, plural, one {a dog} pair {b} other {dogs}}",
        "{n, plural, one {a '{' dog} other {dogs}}",
        "{n, plural, one {a dog} other {{g, select, a {# dogs} other {dogs}}}}",
        "{n, plural, offset:1 one {a dog} other {# dogs {g, select, a {x} other {y}}}}",
        "{n, plural, one {a dog} other {dogs}} {n, plural, =1 {is} other {are}}",
        "{a, select, b {c} other {d}} {n, plural, one {<g1>a</g1>} other {dogs}}",
        " ".join(f"{{n{n}, plural, one {{a dog}} other {{dogs}}}}" for n in range(5)),
        " ".join(f"{{n{n}, plural, other {{dogs}}}}" for n in range(30)),
        "{n, plural, other {" + 10_000 * "dogs" + "}}",
        "{n, plural, " + 5_000 * "{",
    ],
)
def test_what_cannot_be_divided_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=".{9}"):
        Message(written, ("en", "it"))


@given(st.lists(st.sampled_from(["{", "}", "#", "'", "{n, plural, ", "one {", "other {", "a dog ", ","])).map("".join))
def test_any_message_is_divided_or_refused(written: str) -> None:
    try:
        message = Message(written, ("en", "it"))
    except ValueError:
        return
    assert message.translated(message.texts) == written
    message = Message(message.translated(list(map(str.upper, message.texts))), ("it", "it"))
    assert message.texts == [text.upper().replace("{#N}", "{#n}") for text in message.texts]


FILES = {
    "a.csv": f'x,"{MESSAGE}"\n',
    "a.html": f"<p>{MESSAGE}</p><p>other</p>",
    "a.json": f'{{"a": "{MESSAGE}", "b": "other"}}',
    "a.arb": f'{{"a": "{MESSAGE}", "b": "other"}}',
    "a.po": f'msgid "{MESSAGE}"\nmsgstr ""\n',
    "a.properties": f"a={MESSAGE}\n",
    "a.strings": f'"a" = "{MESSAGE}";\n',
    "a.yml": f'en:\n  a: "{MESSAGE}"\n  b: other\n',
    "a.xlf": f'<xliff version="1.2"><file><trans-unit id="1"><source>{MESSAGE}</source></trans-unit></file></xliff>',
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_sentences(tmp_path: Path, name: str) -> None:
    document = read(tmp_path / name, FILES[name])
    assert {"You have {#n} dog left", "You have {#n} dogs left"} <= {*document.texts}
    assert not document.left
    assert document.place(0)
    written = document.translated([in_capitals(text) for text in document.texts]).decode()
    expected = "one {YOU HAVE # DOG LEFT} many {YOU HAVE # DOGS LEFT} other {YOU HAVE # DOGS LEFT}}"
    assert "{n, plural, " + expected in written.replace('"\n"', "")
    assert any("1 plural form " in note for note in document.notes)


def test_a_message_that_cannot_be_divided_stays_and_is_reported(tmp_path: Path) -> None:
    content = '{"a": "{n, plural, one {a dog}}",\n "b": "a cat"}'
    document = read(tmp_path / "a.json", content)
    assert document.texts == ["a cat"]
    assert [left.place for left in document.left] == ["line 1"]
    assert document.translated(["A CAT"]).decode() == content.replace("a cat", "A CAT")


def test_lines_between_branches_are_no_lines_of_text(tmp_path: Path) -> None:
    between = r"{n, plural,\n  one {a dog}\n  other {dogs}\n}"
    document = read(tmp_path / "a.json", f'{{"a": "{between}", "b": "{MESSAGE}\\nSee."}}')
    assert document.texts == ["a dog", "dogs"]
    assert [left.reason for left in document.left] == ["it has branches of ICU and several lines"]


def test_a_tag_in_one_branch_stays_there(tmp_path: Path) -> None:
    document = read(tmp_path / "a.html", "<p>{n, select, a {<b>one</b> dog} other {dogs}}</p>")
    assert document.texts == ["<g1>one</g1> dog", "dogs"]
    assert document.translated(["un <g1>uno</g1>", "cani"]) == b"<p>{n, select, a {un <b>uno</b>} other {cani}}</p>"


def test_a_translation_that_changes_arguments_is_left_out(tmp_path: Path) -> None:
    content = f'{{"a": "{MESSAGE}"}}'
    document = read(tmp_path / "a.json", content)
    for wrong in ("{m} cani", "# cani", "cani {"):
        assert document.translated([wrong, "x"]).decode() == content
    assert {left.reason for left in document.left} == {"the translation changes an argument"}


def test_earlier_translations_of_messages_are_kept(tmp_path: Path) -> None:
    document = read(tmp_path / "en.json", f'{{"a": "{MESSAGE}", "b": "A cat"}}')
    document.keep(read(tmp_path / "it.json", f'{{"a": "{MESSAGE.upper().replace("PLURAL", "plural")}"}}').inner)
    assert document.texts == ["A cat"]
    assert document.place(0) == "line 1"
    assert "YOU HAVE" in document.translated(["Un gatto"]).decode()


def test_documents_without_messages_are_not_wrapped(tmp_path: Path) -> None:
    assert not isinstance(read(tmp_path / "a.json", '["a dog"]'), Branches)
    assert isinstance(read(tmp_path / "a.json", '["{n, plural, other {dogs}}"]'), Branches)


def test_an_apostrophe_before_an_argument_is_doubled(tmp_path: Path) -> None:
    document = read(tmp_path / "a.arb", f'{{"a": "Open {{app}}", "b": "Write \'{{\'", "c": "{MESSAGE}"}}')
    written = document.translated(["Apri l'{app}, un po'", "L'uso: '{'", *document.texts[2:]]).decode()
    assert written.startswith('{"a": "Apri l\'\'{app}, un po\'", "b": "L\'uso: \'{\'"')
    plain = read(tmp_path / "a.json", '{"a": "Open {app}"}')
    assert plain.translated(["Apri l'{app}"]).decode() == '{"a": "Apri l\'{app}"}'


def test_a_message_of_many_lines_is_read_soon(tmp_path: Path) -> None:
    begin = time.perf_counter()
    document = read(tmp_path / "a.json", '{"a": "{n, plural, other {a dog' + "\\n" * 40_000 + '}}"}')
    assert time.perf_counter() - begin < 2  # 4 s if each line reads all that follow
    assert document.texts == ["a dog"]
