"""Values for programs are told from natural language: alone, and by the column or key that holds them."""

from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.formats.values import WHOLES, WORDS, Value, holds_code, is_code, natural, selected

CODE = {
    "coordinate": ["45.46N, 9.19E"],
    "locale": ["en-US", "de_DE", "zh-Hant-TW"],
    "version": ["v1.2.3-beta", "v2", "2.0rc1"],
    "colour": ["#ff00aa", "#0af"],
    "time zone": ["Europe/Rome", "America/New_York"],
    "dotted key": ["common.file", "@:common.file", "com.example.app"],
    "camelCase": ["userName", "maxSizeOfFile"],
    "formula": ["=SUM(A1)", '=IF(A2="Open", "yes", "no")'],
    "MIME type": ["text/html", "text/html; charset=utf-8", "image/svg+xml"],
    "CSS classes": ["btn btn-primary", "fa-home", "col-md-6 mt-3"],
    "value of a program": ["true", "NULL"],
    "not available": ["N/A", "n/a"],
    "unit": ["kg", "km/h", "m²"],
    "currency": ["EUR"],
    "CSS": ["1px solid red", "0 auto", "rgba(0, 0, 0, 0.5)", "all 0.3s ease", "Georgia, serif"],
    "SQL": ["SELECT name FROM users", "INSERT INTO users VALUES (1)", "select * from users"],
    "cron": ["*/5 * * * *", "0 5 * * MON-FRI"],
    "regular expression": ["^[a-z]+$", "(?i)abc", r"^room-\d+$"],
    "expression": ["age >= 18 && paid", "x == 1"],
    "size": ["XL", "M", "3XL", "lg"],
    "found by identifiers_in": [
        *("550e8400-e29b-41d4-a716-446655440000", "{12345678-1234-1234-1234-123456789012}"),
        *("2026-01-02T10:00:00Z", "2026-01-02T10:00:00.5+01:00", "20260102T1000"),
        *("A-100", "SKU-100-A", "IT60 X054 2811 1010", "B07XJ8C8F5"),
        *("d41d8cd98f00b204e9800998ecf8427e", "dQw4w9WgXcQ", "f47ac10b"),
    ],
    "found by code_in": [
        "me@example.com",
        "https://example.com/a",
        "C:\\data\\a.pdf",
        "report.pdf",
        "MAX_SIZE",
        "{name}",
    ],
}


def test_each_pattern_has_its_examples() -> None:
    assert set(CODE) == {*WORDS, *WHOLES, "found by code_in", "found by identifiers_in"}
    assert [text for texts in CODE.values() for text in texts if not is_code(text)] == []


WORDS_OF_LANGUAGES = (
    "Old house|red|Large|LARGE|e-mail|state-of-the-art|Audio/Video|24-Stunden|1st|iPhone|e.g.|z. B.|U.S.A.|5 kg|OK|x"
    "|yes|See A-100|Hello {name}|Open report.pdf|10:00 AM|input/output|Asia/Pacific|日本語|größe|en|3 rooms, 2 baths"
    "|Is it = 5?|All items|all 5 items|Select a room from the list|See [a-z] here|kid(s)|red|Home > Settings"
)


@pytest.mark.parametrize("text", WORDS_OF_LANGUAGES.split("|"))
def test_words_of_languages_are_no_code(text: str) -> None:
    assert not is_code(text)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("value", "A-100 EUR true PENDING"),
        ("anything", "en de fr"),
        ("anything", "True False True"),
        ("anything", "IN_STOCK SOLD"),
        ("anything", "my-first-post about-us our-new-house"),
        ("kind", "guid time time2 sku"),
        ("product_type", "simple bundle"),
        ("app.icon", "home"),
        ("status", "SOLD NEW SOLD"),
        ("id", "Tokyo Rome"),
        ("articleSKU", "red-chair"),
        ("status", "active IN_STOCK"),
        ("anything", "active IN_STOCK"),
        ("textAlign", "center"),
        ("variant", "primary"),
        ("sort", "desc asc"),
        ("method", "POST"),
        ("color", "tomato"),
        ("format", "date-time"),
        ("license", "Apache-2.0 MIT"),
        ("url", "git+https://example.com/a.git"),
        ("offers.@type", "Offer Product"),
        ("$ref", "Person"),
        ("Nation", "IT US FR"),
        ("From", "ROM JFK"),
    ],
)
def test_a_column_of_values_for_programs(name: str, values: str) -> None:
    assert holds_code(name, values.split())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("colour", "red green Large"),
        ("Status", "active inactive"),
        ("status", "Active Inactive"),
        ("status", "日本語"),
        ("title", "center"),
        ("label", "Primary"),
        ("x.@value", "House"),
        ("type", "Chair Table Chair"),
        ("Size", "large small"),
        ("answer", "yes no"),
        ("email", "Email"),
        ("unit", "unit"),
        ("text", "A-100 see"),
        ("pronoun", "io tu it"),
        ("answer", "YES NO NO"),
        ("answer", "OK OK"),
        ("answer", "OK Wait"),
        ("shout", "STOP OK"),
    ],
)
def test_a_column_of_words(name: str, values: str) -> None:
    assert not holds_code(name, values.split())


def test_a_key_may_be_a_sentence() -> None:
    texts = ["Add to cart", "Hello, you"]
    assert holds_code("key", texts)
    assert not holds_code("key", [*texts, *texts])
    assert not holds_code("Key", texts)
    assert not holds_code("code", ["Add to cart"])


def test_a_sentence_under_a_name_for_programs_is_text() -> None:
    for name in ("status", "format", "command", "rel", "class", "dependencies.paper"):
        assert not holds_code(name, ["Order has been shipped"])


def test_commands_are_no_text() -> None:
    for name, text in (("scripts.build", "tsc -p ."), ("sql", "select a from b"), ("rel", "noopener noreferrer")):
        assert holds_code(name, [text])
        assert not holds_code("text", [text])


def test_values_that_name_other_keys_are_no_text() -> None:
    assert holds_code("depends", ["street", "town"], {"street", "town"})
    assert not holds_code("depends", ["street", "a house"], {"street", "town"})
    assert not holds_code("town", ["town"], {"town"})
    assert holds_code("name", ["my-app"], {"name", "version"})
    assert not holds_code("name", ["t-shirt"], {"name", "price"})


def test_the_name_of_a_column_of_numbers_may_be_for_programs() -> None:
    assert natural([Value(1, "id", "id", True), Value(1, "id", "7"), Value(2, "price", "price", True)])[0][::2] == [
        False,
        True,
    ]


def test_what_is_skipped_is_named_with_its_number_and_an_example() -> None:
    rows = [("id", "Name"), ("A-1", "Red chair"), ("A-2", "x@example.com"), ("A-3", "a" * 1_001)]
    values = [Value(at, rows[0][at], row[at], row is rows[0]) for row in rows for at in range(2)]
    flags, (note,) = natural(values)
    assert [value.text for value, flag in zip(values, flags, strict=True) if flag] == ["Name", "Red chair", "a" * 1_001]
    assert "'id' (4, such as 'A-3'), 'Name' (1, such as 'x@example.com')" in note
    many = [Value(number, f"key{number}", "A-1") for number in range(70)]
    assert "'key48' (1, such as 'A-1'), 21 more" in natural(many)[1][0]
    assert natural([Value(1, "a", "Red chair"), Value(2, "b", "12.5")])[1] == []


def test_the_name_of_a_column_is_translated_if_it_is_written_for_people() -> None:
    for name, is_translated in (("Article number", True), ("Sku", True), ("sku", False), ("SKU", False)):
        assert natural([Value(1, name, name, True), Value(1, name, "A-1")])[0] == [is_translated, False]


def test_only_overrides_the_rule() -> None:
    values = [Value(1, "id", "id", True, "1"), Value(1, "id", "A-1", False, "1"), Value(2, "a", "Old", False, "2")]
    assert selected(values, ["id"], Path("a.csv")) == ([False, True, False], [])
    assert selected(values, ["1"], Path("a.csv")) == ([True, True, False], [])
    with pytest.raises(DataError, match="'3', only id, a; .*the number of a column"):
        selected(values, ["3"], Path("a.csv"))


@pytest.mark.parametrize(
    "text",
    [
        999 * "a-",
        999 * "A1",
        333 * "btn ",
        250 * "red ",
        200 * "1px ",
        300 * "* " + "a",
        99 * "SELECT FROM",
        "v1" + 499 * ".1",
        "a" + 333 * ".ab",
        499 * "aB",
    ],
)
def test_hostile_values_are_judged_soon(text: str) -> None:
    assert not is_code(text + "!")
    assert not holds_code("text", [text + "!", text * 500 + "!"])
