"""JSON and TOML: what could break a function, a print or a file later is refused by the reader."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serialization import DEEPEST, parse_json, parse_toml

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(values)
def test_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text) == parse_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 10_000, "it is nested more than 64 levels deep"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "it is nested more than 64 levels deep"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "it is nested more than 64 levels deep"),
        ('{"a": ' + "9" * 5_000 + "}", "it holds a whole number beyond 64 bits"),
        (f'{{"a": {2**63}}}', "it holds a whole number beyond 64 bits"),
        (f'{{"a": {-(2**63) - 1}}}', "it holds a whole number beyond 64 bits"),
        ('{"a": "\\ud800"}', "it holds half of a surrogate pair (U+D800), no character"),
        ('{"\\uDC1b": 1}', "it holds half of a surrogate pair (U+DC1B), no character"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "it holds the key 'c' twice"),
        ('{"\\u001b[31m": 1, "\\u001b[31m": 1}', "it holds the key '\\x1b[31m' twice"),
        ('{"a": ', "Expecting value: line 1 column 7 (char 6)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)  # fmt: skip
def test_json_that_could_do_harm_is_refused_in_words(text: str | bytes, told: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        parse_json(text)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = " + "[" * 10_000, "it is nested more than 64 levels deep"),
        ("a = " + "{a = " * 10_000, "it is nested more than 64 levels deep"),
        (".".join("a" * 100) + " = 1", "it is nested more than 64 levels deep"),
        ("[" + ".".join("a" * 100) + "]", "it is nested more than 64 levels deep"),
        (".".join("a" * 100_000) + " = 1", "it has more than 1,048,576 characters, or a line with more than 200 dots"),
        ("a = 1\n" * 200_000, "it has more than 1,048,576 characters, or a line with more than 200 dots"),
        ("a = " + "9" * 5_000, "it holds a whole number beyond 64 bits"),
        ("a = 0x" + "f" * 5_000, "it holds a whole number beyond 64 bits"),
        (f"a = [1, {{b = {2**63}}}]", "it holds a whole number beyond 64 bits"),
    ],
)
def test_toml_that_could_do_harm_is_refused_in_words(text: str, told: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        parse_toml(text)
    assert str(caught.value) == told


def test_what_is_just_deep_enough_or_just_small_enough_is_read() -> None:
    assert parse_json("[" * DEEPEST + "]" * DEEPEST)
    assert parse_json(f"[{2**63 - 1}, {-(2**63)}]") == [2**63 - 1, -(2**63)]
    assert parse_json('"\\ud83d\\ude00"') == "\N{GRINNING FACE}"
    assert parse_toml(f"a = {2**63 - 1}") == {"a": 2**63 - 1}
    assert parse_toml(".".join("a" * DEEPEST) + " = 1")
