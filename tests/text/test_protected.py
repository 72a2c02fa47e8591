"""What should come out of a translation as it went in."""

import re
from collections.abc import Sequence
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.casing import Truecaser
from dragoman.text.placeholders import PLACEHOLDERS
from dragoman.text.protected import Names, Span, alike, apart, code_in, localised, numbers_in, replaced

WORDS = "the a went to met and she he of house in we are like is Tom Mary London gravel on sing it".split()
NAMES = Names(Truecaser(WORDS, "en"), "en")

CODE = r"""
{name} {0} {} %s %d %1$s %(count)d %-5.2f %1 %% ${x} {{x}} $HOME %PATH% <b> </b> <br/> &amp; &#39; `ls`
https://a.org/b?c=d&e http://x www.a.it a.b@c.org example.com docs.python.org/3/ /etc/passwd ~/notes ./run ../a/b
C:\Users\me report.pdf a_b foo() --help --name=x #tag @tom
%PRODUCTNAME $(ARG1) __init__ %c%s icons/arrow-left.svg
""".split()
NO_CODE = """
50% and/or e.g. i.e. 5 % C# #1 a@ A&B AT&T x<y don't T-shirt 3/4 p.m. -- - -I … U.S. Mr. (a) [b] won't.it 1990s
""".split()


def parts(text: str, spans: Sequence[Span]) -> list[str]:
    return [text[begin:end] for begin, end, _ in spans]


@pytest.mark.parametrize("code", CODE)
@pytest.mark.parametrize("around", ["Look at {}.", "{} is here", "({}), then"])
def test_code_is_found_without_the_marks_around_it(code, around):
    text = around.replace("{}", code, 1)
    assert code in parts(text, code_in(text))


@pytest.mark.parametrize("number", ["+39 06 6982", "0171 2345678", "(212) 555-0199", "1-800-555-0100"])
def test_a_telephone_number_is_kept_whole(number):
    text = f"Call {number}, or {number}."
    assert parts(text, code_in(text)) == [number, number]


@pytest.mark.parametrize("words", NO_CODE)
def test_ordinary_words_are_no_code(words):
    assert not code_in(f"We saw {words} there")


@pytest.mark.parametrize("number", "2 17 3.5 1,000 7:30 1/2 2026-11-26 10-15 1’000 1.234,50".split())
def test_a_number_is_found_with_its_marks(number):
    text = f"It was {number}, or {number}."
    assert parts(text, numbers_in(text)) == [number, number]


@pytest.mark.parametrize("text", ["B2B", "1", "the 1st", "A4", "4x4", "10years", "6months old"])
def test_a_number_in_a_word_stays_in_it(text):
    assert not numbers_in(text)


@pytest.mark.parametrize("text", ["the [1990]s", "the [2]nd", "il [21]º giorno", "[5km]", "[25°C] in [3D]"])
def test_a_number_keeps_its_unit_but_not_the_ending_of_an_ordinal(text):
    plain = text.replace("[", "").replace("]", "")
    assert parts(plain, numbers_in(plain)) == re.findall(r"\[(.*?)\]", text)


@pytest.mark.parametrize(
    ("first", "known", "is_name"),
    [
        *(("Quang", "quantum", True), ("Quantity", "quantum", False), ("Quantums", "quantum", False)),
        *(("Ducks", "duck", False), ("Petra", "petrol", True), ("Quantizations", "quantum", True)),
    ],
)
def test_a_sentence_begins_with_a_name_unless_it_may_be_another_form_of_a_known_word(first, known, is_name):
    names, text = Names(Truecaser([known, "is", "here"], "en"), "en"), f"{first} is here."
    assert parts(text, names.unknown(text)) == [first] * is_name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("She met Nakamura in London.", ["Nakamura"]),
        ("Nakamura's house", ["Nakamura"]),
        ("Jean-Luc O'Hara went to Ayşe.", ["Jean-Luc O'Hara", "Ayşe"]),
        ("Tom and Zoë", ["Zoë"]),
        ("She likes iPhone", ["iPhone"]),
        ("We like LibreOffice 7.3.", ["LibreOffice 7.3"]),
        ("We like Nakamura 7.", ["Nakamura"]),
        ("Gravelly is it.", []),
        ("I'm in. We're in. She met O'Hara.", ["O'Hara"]),
        ("SHE MET NAKAMURA", []),
        ("She Went To Met And He", []),
        ("she met nakamura", []),
    ],
)
def test_a_name_is_a_word_with_a_capital_that_the_training_text_lacks(text, names):
    assert parts(text, NAMES.unknown(text)) == names


def test_german_nouns_are_no_names():
    assert not Names(Truecaser(WORDS, "de"), "de").unknown("Sie sah Gletscher.")


@pytest.mark.parametrize(
    ("pair", "same"),
    [
        (("Tom went to London.", "Tom è andato a Londra."), ["Tom"]),
        (("Tom met Tom.", "Tom ha visto Tom."), []),
        (("We paid 3.50 for {n}.", "Abbiamo pagato 3,50 per {n}."), ["3.50", "{n}"]),
        (("In 1990 he was 20.", "Nel 1990 aveva vent'anni."), ["1990"]),
        (("He is in it.", "He is in it."), []),
    ],
)
def test_what_stands_once_on_both_sides_is_alike(pair, same):
    source, target = pair
    found = alike(source, target, NAMES)
    assert parts(source, [one for one, _ in found]) == same


@pytest.mark.parametrize(
    ("number", "languages", "written"),
    [
        ("3.5", "en it", "3,5"),
        ("1,234,567.89", "en de", "1.234.567,89"),
        ("1.234,5", "de en", "1,234.5"),
        ("1 234,5", "fr it", "1.234,5"),
        ("12,000", "en ru", "12\u202f000"),
        ("3,5", "it de", "3,5"),
        ("7:30", "en it", "7:30"),
        ("1.2.3", "en it", "1.2.3"),
        ("192.168.0.1", "en it", "192.168.0.1"),
        ("2026", "en it", "2026"),
        ("10-15", "en it", "10-15"),
    ],
)
def test_a_number_is_written_as_the_target_language_has_it(number, languages, written):
    source, target = languages.split()
    assert localised(number, source, target) == written


@given(st.text(alphabet=st.sampled_from("aB1 .,:<>{}%$@/\\#&;'’-_" + PLACEHOLDERS[0]), max_size=60))
def test_what_is_replaced_can_be_put_back(text):
    spans = apart(text, code_in(text), NAMES.unknown(text), numbers_in(text))
    hidden = replaced(text, spans, [f"⟦{number}⟧" for number, _ in enumerate(spans)])
    for number, part in enumerate(parts(text, spans)):
        hidden = hidden.replace(f"⟦{number}⟧", part, 1)
    assert hidden == text


@pytest.mark.parametrize(
    "unit", ["<a", "{", "a@", "%", "a.", "/a", "1 ", "1.", "`", "&a", "A'", "-a", "_", "a-", "{a ", "$a"]
)
def test_a_hostile_line_takes_linear_time(unit):
    def work(count):
        text = unit * count
        started = process_time()
        apart(text, code_in(text), NAMES.unknown(text), numbers_in(text))
        return process_time() - started

    work(100)
    assert work(20_000) < 12 * work(4_000) + 0.5
