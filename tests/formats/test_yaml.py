"""YAML: values in other words mean what they should to two parsers; all else stays to the byte."""

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.plurals import CATEGORIES
from dragoman.formats.reading import read_document

RAILS = r"""# not me
en: &all
  title: Good day   # nor me
  said: "Two \"lines\"\nof it\u0021"
  it: 'don''t go'
  list: [a dog, "b, c"]
  body: |-
    First line
      more of it

    Second line

  # a comment
  folded: >
    One long
    sentence

    Another

  long: this goes
    on here
  again: *all_words
  symbol: :not_me
  order:
    - :day
    - :month
  number: 5
  yes: "yes"
  sym: !ruby/sym not_me
  format: "%d.%m.%Y"
  dogs:
    zero: no dogs
    one: a dog
    other: "%{count} dogs"
  one:
    one: deeper
""".replace("*all_words", "5")


def read(path: Path, content: str, target: str = "it", only: tuple[str, ...] = ()) -> Document:
    path.write_bytes(content.encode())
    return read_document(path, ("en", target), only=only)


def translated(document: Document, change: Callable[[str], str] = str) -> str:
    return document.translated([change(text) for text in document.texts]).decode()


def in_capitals(text: str) -> str:
    arguments = r"%?\{\w[^{}\n]*\}|%[-+#0,(]*[a-z]|%%"
    return re.sub(rf"{arguments}|\w", lambda part: part[0].upper() if part[0][0] not in "%{" else part[0], text)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, (*path, key))
    else:
        yield path, value


class Loader(yaml.SafeLoader):
    """A loader that reads tags as words."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: node.value)


def test_texts_of_rails_are_below_its_language(tmp_path: Path) -> None:
    document = read(tmp_path / "en.yml", RAILS)
    assert "not me" not in " ".join(document.texts).replace("_", " ")
    assert document.texts[:6] == ["Good day", 'Two "lines"', "of it!", "don't go", "a dog", "b, c"]
    assert {"First line", "more of it", "Second line", "One long sentence", "Another"} <= {*document.texts}
    assert {"this goes on here", "yes", "no dogs", "a dog", "%{count} dogs", "deeper"} <= {*document.texts}
    same = translated(document)
    assert same.replace("\nit:", "\nen:").replace('    many: "%{count} dogs"\n', "") == RAILS
    before, after = (dict(leaves(yaml.load(text, Loader))) for text in (RAILS, translated(document, in_capitals)))
    for path, value in before.items():
        new = after["it", *path[1:]]
        assert new == (
            in_capitals(value)
            if isinstance(value, str) and "not_me" not in value and ":" not in value and "%d" not in value
            else value
        ), path
    assert after["it", "dogs", "many"] == "%{count} DOGS"


def test_the_root_becomes_the_target_language(tmp_path: Path) -> None:
    for root, target, written in (("en-GB", "it", "it"), ('"en"', "pt-BR", '"pt-BR"'), ("en", "no", '"no"')):
        assert translated(read(tmp_path / "a.yml", f"{root}:\n  a: one dog\n", target)) == f"{written}:\n  a: one dog\n"


TEXTS = [
    *("yes", "No", "null", "~", "5", "1e3", "- a", "a: b", "a #b", "#b", ":sym", "a:", "'a'", '"a"', "{ a}", "[a], b"),
    *("a, b", "& a", "*a", "!a", "| a", "> a", "%é", "@a", "`a`", "? a", "é 😀", "a\u2028b", "a\\nb", "---", "..."),
    *("=", "<<", "2001-01-01", "0x1F", "a b#c", "http://a.b", "a\u00a0b", "\ufeffa", "a\x7fb", "dell'oro"),
]


@pytest.mark.parametrize(
    "scalar", ["text", "'text'", '"text"', "|\n    text", ">-\n    text\n", "[text]", "{b: text}", "&x text"]
)
@pytest.mark.parametrize("text", TEXTS)
def test_any_translation_is_read_as_it_is(tmp_path: Path, scalar: str, text: str) -> None:
    content = f"en:\n  a: {scalar}\n  c: other\n"
    document = read(tmp_path / "a.yml", content)
    written = document.translated([text, "other"]).decode()
    assert not document.left
    for load in (yaml.safe_load, YAML(typ="safe", pure=True).load):
        before, after = [*leaves(load(content))], [*leaves(load(written))]
        expected = [value.replace("text", text) for _, value in before]
        assert [value for _, value in after] == expected
        assert [path[1:] for path, _ in before] == [path[1:] for path, _ in after]


VALUES = st.recursive(
    st.text(st.sampled_from([*"ab :#'\"-\n|>%é,[]{}&*!"]), max_size=12) | st.integers() | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "one", "other", "x y"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values=VALUES, is_flow=st.sampled_from([None, True, False]), style=st.sampled_from([None, '"', "'", "|", ">"]))
def test_any_file_comes_back_and_means_the_same(values: Any, is_flow: bool | None, style: str | None) -> None:
    content = yaml.dump({"en": {"v": values}}, default_flow_style=is_flow, default_style=style, allow_unicode=True)
    with tempfile.TemporaryDirectory() as folder:
        document = read(Path(folder) / "a.yml", content, "de")
        assert translated(document).replace("de", "en", 1) == content
        written = translated(document, in_capitals)
    before, after = (dict(leaves(yaml.safe_load(text))) for text in (content, written))
    after = {("en", *path[1:]): value for path, value in after.items()}
    for path, value in before.items():
        if path[-1] not in CATEGORIES:  # those of plural forms may become others
            is_text = isinstance(value, str)
            assert after[path] == value or (is_text and after[path].split() == in_capitals(value).split())


def test_values_of_other_files_are_chosen_as_in_json(tmp_path: Path) -> None:
    content = "name: my-app\nversion: 1.0.1\nabout: A good app\nitems:\n  - title: One dog\n  - title: Two dogs\n"
    document = read(tmp_path / "a.yaml", content)
    assert document.texts == ["A good app", "One dog", "Two dogs"]
    assert read(tmp_path / "a.yaml", content, only=("items.*",)).texts == ["One dog", "Two dogs"]
    with pytest.raises(DataError, match="no column or key 'b'"):
        read(tmp_path / "a.yaml", content, only=("b",))


def test_documents_aliases_and_merged_keys_stay(tmp_path: Path) -> None:
    content = "a: &x {b: one dog}\nc: *x\nd:\n  <<: *x\n  e: two dogs\n---\n? [a, b]\n: three dogs\n...\n"
    document = read(tmp_path / "a.yml", content)
    assert document.texts == ["one dog", "two dogs", "three dogs"]
    assert translated(document, str.upper) == re.sub("(one|two|three) dogs?", lambda text: text[0].upper(), content)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", "is not YAML: .*line 1"),
        ("a: b: c", "is not YAML"),
        ("\t- a", "is not YAML"),
        ("a: \x01", "is not YAML"),
        ("a: *b\nc: {", "is not YAML"),
        ('a: "\\U99999999"', "is not YAML"),
        ('a: "\\U00110000"', "is not YAML"),
        ("[" * 10_000, "more than 100 mappings and lists"),
        ("".join(" " * depth + "a:\n" for depth in range(200)), "more than 100 mappings and lists"),
        ("a: &a [x, x]\n" + "".join(f"{n}: &{n} [*a, *a, *a]\n" for n in "bcdefgh") + "i: {", "is not YAML"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        read(tmp_path / "a.yml", content)


def test_aliases_do_not_amplify(tmp_path: Path) -> None:
    content = "a: &a [one dog]\n" + "".join(
        f"b{n}: &b{n} [{', '.join([f'*b{n - 1}' if n else '*a'] * 9)}]\n" for n in range(20)
    )
    document = read(tmp_path / "a.yml", content)
    assert document.texts == ["one dog"]
    assert translated(document, str.upper) == content.replace("one dog", "ONE DOG")


def test_earlier_translations_are_kept(tmp_path: Path) -> None:
    document = read(tmp_path / "en.yml", "en:\n  a: one dog\n  b:\n    one: a cat\n    other: cats\n  c: new one\n")
    document.keep(
        read(tmp_path / "it.yml", "it:\n  a: 'un cane'\n  b:\n    one: un gatto\n    other: gatti\n  d: x y\n")
    )
    assert document.texts == ["new one"]
    written = document.translated(["nuovo"]).decode()
    assert written == "it:\n  a: 'un cane'\n  b:\n    one: un gatto\n    other: gatti\n  c: nuovo\n"


def test_what_yaml_does_not_give_back_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = read(tmp_path / "a.yml", "en:\n  a: one dog\n  b: two dogs\n")
    monkeypatch.setattr("dragoman.formats.yaml_files._written", lambda text, *_: text)
    assert document.translated(["a #b", "due"]).decode() == "it:\n  a: one dog\n  b: due\n"
    assert [left.place for left in document.left] == ["line 2"]


def test_lines_end_as_before(tmp_path: Path) -> None:
    content = "en:\r\n  a: |\r\n    one dog\r\n    two dogs\r\n  b: x y\r\n"
    expected = re.sub("(?<= )[a-z ]+(?=\r)", lambda words: words[0].upper(), content)
    assert translated(read(tmp_path / "a.yml", content, "en"), str.upper) == expected


@pytest.mark.parametrize("source", ["en: {a: one dog, b: x y}\n", "en:\n    a: one dog\n    b: x y\n"])
@pytest.mark.parametrize(
    "earlier", ["Ciao, mondo", "Ciao, {name}", "|\n    Ciao\n    mondo\n", "uno\n    due tre", "'a''b'", "['Ciao, no']"]
)
def test_an_earlier_value_keeps_its_meaning(tmp_path: Path, source: str, earlier: str) -> None:
    document = read(tmp_path / "en.yml", source)
    earlier = f"it:\n  a: {earlier}\n"
    document.keep(read(tmp_path / "it.yml", earlier))
    written = yaml.safe_load(translated(document))["it"]
    meant = yaml.safe_load(earlier)["it"]["a"]
    assert written == {"a": meant if isinstance(meant, str) else "one dog", "b": "x y"}
    assert not document.left


@pytest.mark.parametrize(
    "source", ["en: {a: {one: cat, other: cats}}\n", "en:\n    a:\n        one: cat\n        other: cats\n"]
)
def test_earlier_plural_forms_keep_their_meaning(tmp_path: Path, source: str) -> None:
    document = read(tmp_path / "en.yml", source, "ru")
    earlier = "ru:\n  a:\n    one: 'a, b'\n    few: c\n    many: >\n      d\n      e\n    other: f\n"
    document.keep(read(tmp_path / "ru.yml", earlier, "ru"))
    assert not document.texts
    assert yaml.safe_load(translated(document)) == yaml.safe_load(earlier)


def test_an_earlier_value_that_yaml_does_not_give_back_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = read(tmp_path / "en.yml", "en: {a: one dog, b: two dogs}\n")
    monkeypatch.setattr("dragoman.formats.yaml_files._written", lambda text, *_: text)
    document.keep(read(tmp_path / "it.yml", "it:\n  a: uno, due\n"))
    assert document.translated(["due"]).decode() == "it: {a: one dog, b: due}\n"
    assert [left.place for left in document.left] == ["line 1"]


def test_values_that_are_not_translated_keep_their_earlier_ones(tmp_path: Path) -> None:
    document = read(
        tmp_path / "en.yml", "title: Good day\nstatus: active\non: true\nempty: ''\nlist: [One dog, Two dogs]\n"
    )
    earlier = "title: Ciao\nstatus: attivo\non: false\nempty: Nuovo\nlist: [Due cani]\n"
    document.keep(read(tmp_path / "it.yml", earlier))
    assert document.texts == ["One dog", "Two dogs"]  # in a list of another length
    written = translated(document)
    assert written == "title: Ciao\nstatus: attivo\non: false\nempty: Nuovo\nlist: [One dog, Two dogs]\n"


def test_a_root_with_a_region_stays(tmp_path: Path) -> None:
    document = read(tmp_path / "en.yml", "en-US:\n  a: one dog\n")
    document.keep(read(tmp_path / "it.yml", "it-IT:\n  a: un cane\n"))
    assert translated(document) == "it-IT:\n  a: un cane\n"


def test_names_that_are_no_plural_forms_of_the_source_stay(tmp_path: Path) -> None:
    content = "en:\n  rooms: {one: Single, two: Double, other: Suite}\n  more: {two: Double, other: Suite}\n  x: .inf\n"
    document = read(tmp_path / "en.yml", content)
    assert document.texts == ["Single", "Double", "Suite", "Double", "Suite"]
    assert translated(document, str.upper) == re.sub(r"\b[SD]\w+", lambda word: word[0].upper(), content).replace(
        "en", "it", 1
    )


def test_a_translation_that_changes_arguments_is_left_out(tmp_path: Path) -> None:
    content = 'en:\n  a: "%{n} dogs"\n  b: "%s dogs\\nand cats"\n  c: a cat\n'
    document = read(tmp_path / "en.yml", content)
    written = document.translated(["cani", "cani", "e gatti", "gatto"]).decode()
    assert written == content.replace("en:", "it:").replace("a cat", "gatto")
    assert [left.place for left in document.left] == ["line 2", "line 3"]


def test_an_earlier_value_of_another_kind_is_left_out_with_a_note(tmp_path: Path) -> None:
    document = read(tmp_path / "en.yml", "en:\n  a: {one: a cat, other: cats}\n  b: a dog\n  c: true\n")
    document.keep(read(tmp_path / "it.yml", "it:\n  a: gatti\n  b: {one: un cane, other: cani}\n  c: 'vero'\n"))
    assert document.texts == ["a cat", "cats", "a dog"]
    assert translated(document).startswith("it:\n  a: {one: a cat, many: cats, other: cats}\n  b: a dog\n  c: true\n")
    assert "earlier values left out because the source has another kind of value there: 3" in document.notes
