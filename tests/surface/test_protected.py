"""Text that a translation should keep as it is."""

import re
from collections.abc import Sequence
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.surface.letters import Truecaser
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.surface.protected import (
    PRINTF,
    Names,
    Span,
    code_in,
    identifiers_in,
    localised,
    numberings_in,
    numbers_in,
    quantities_in,
    replaced,
    shared_spans,
    signs_in,
    without_overlaps,
)

WORDS = "the a went to met and she he of house in we are like is Tom Mary London gravel on sing it".split()
NAMES = Names(Truecaser(WORDS, "en"), "en")

CODE = r"""
{name} {0} {} %s %d %1$s %(count)d %-5.2f %1 %% ${x} {{x}} $HOME %PATH% <b> </b> <br/> &amp; &#39; `ls`
https://a.org/b?c=d&e http://x www.a.it a.b@c.org example.com docs.python.org/3/ /etc/passwd ~/notes ./run ../a/b
C:\Users\me report.pdf a_b foo() --help --name=x #tag @tom
%PRODUCTNAME $(ARG1) __init__ %c%s icons/arrow-left.svg
:name :Name :tada: :+1: @:a.key @.lower:key $t(a.key) ${$x} #{count} %{total} %name %1$@ %#@cats@ %2$#@cats@ <%=x%>
[b] [/url] [url=https://a.org] [X6X] [name] [sic] [[Name]] <<name>> <:smile:12> <@123456> <#987> <!--x--> <?php?>
\\server\share Ctrl+S Alt+F4 Ctrl-C Strg+Umschalt+P \n
%A %-B %d%% *|FNAME|* B.2 A.3.1 45°30′N 9°11'E
$HOME/bin @Model.Name /24 2.10.4-beta.1 1.0.0-rc1 1e-9 2.5E10
""".split()
CODE += [
    "2 * 3 * 4",
    "2 1/2",
    "{ $x }",
    "{ -brand }",
    "{n, plural, one {# dog} other {# dogs}}",
    "[[my name]]",
    "{{{raw}}}",
    "<%= x %>",
    "Ctrl + Shift + P",
    "[% title %]",
    "4 m × 3 m",
    "80 cm × 60 cm × 75 cm",
    "2x500 mg",
    "$USER$",
    "$file_name$",
    "$$",
    "%<hour>02d",
    "{{count}}%",
    "&lt;b&gt;",
    "&lt;/my-tag x=1&gt;",
    "'{name}'",
    "'{'",
    "{account}{'@'}{domain}",
    "{user}@{host}",
    "{a}-{b}/{c}",
    "@:{'my car'}",
    "$t(item, {count: 3})",
]
NO_CODE = """
50% and/or e.g. i.e. 5 % C# #1 a@ A&B AT&T x<y don't T-shirt 3/4 p.m. -- - -I … U.S. Mr. (a) won't.it 1990s
said:yes a:b 1:2:3 :) :D 7:30 $5 100%. [1] [T]he file[s] 100%ig Control-freak Alt-Right 2+2
""".split()
NO_CODE += [
    "3.5-inch",
    "1.5-2.5-litre",
    "-i am",
    "a -a b",
    "Note: this",
    "[see below]",
    "5 % of",
    "100 %ige",
    "[x] done",
    "a : b",
    "Tom: yes",
    "[Tom]: yes",
]


def parts(text: str, spans: Sequence[Span]) -> list[str]:
    return [text[begin:end] for begin, end, _ in spans]


@pytest.mark.parametrize("code", CODE)
@pytest.mark.parametrize("around", ["Look at {}.", "{} is here", "({}), then"])
def test_code_is_found_without_the_marks_around_it(code, around):
    text = around.replace("{}", code, 1)
    assert code in parts(text, code_in(text))


def test_commands_of_tex_are_code():
    assert parts("so \\textbf{x} is", code_in("so \\textbf{x} is")) == ["\\textbf{x}"]


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
        ("We like Nakamura 7.", ["Nakamura 7"]),
        ("Nakamura-19 is here, and Windows 11 is.", ["Nakamura-19", "Windows 11"]),
        ("We paid Nakamura 5 euros, or Zoë 20%, or Zoë 7:30.", ["Nakamura", "Zoë", "Zoë"]),
        ("In 11 we met Tom 3 on Sing 4. The 11, Mary 2 is.", []),
        ("Gravelly is it.", []),
        ("I'm in. We're in. She met O'Hara.", ["O'Hara"]),
        ("SHE MET NAKAMURA", []),
        ("She Went To Met And He", []),
        ("she met nakamura", []),
    ],
)
def test_a_name_is_a_word_with_a_capital_that_the_training_text_lacks(text, names):
    assert parts(text, NAMES.unknown(text)) == names


def test_a_name_that_both_languages_have_is_kept_only_with_its_number():
    names = Names(Truecaser(WORDS, "en"), "en", ["London"])
    text = "We met in London 12, Tom 12, not in London."
    assert parts(text, names.unknown(text)) == ["London 12"]


IDENTIFIERS = """
ISO-9001 A320-200 S00120126FR-3 P2C.WA COVID-19 LH-404 F-16 3-D B2B MP3 H2O 4x4 1920x1080 a1b2c3d v2.3.1 R2-D2 sha256
550e8400-e29b-41d4-a716-446655440000 123e4567-abcd-efab-cdef-426614174000 00:1A:2B:3C:4D:5E WPA2 12AB-7 i18n #a1b2c3
ACME-1234/B 12/B A4/A5
""".split()


@pytest.mark.parametrize("around", ["Look at {}.", "{} is here", "({}), then", "the {}-related non-{} thing"])
@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_an_identifier_is_kept_whole(identifier, around):
    text = around.format(identifier, identifier)
    assert parts(text, identifiers_in(text)) == [identifier] * around.count("{}")


NUMBER = st.sampled_from("3 10 20 100 1990 2.5 1,000 19th 21st 20th 1990s".split())
SMALL = st.sampled_from(
    "ten mid early late pre post anti well old year minute day week century storey fold inch".split()
)
COMPOUND = st.lists(st.one_of(NUMBER, SMALL), min_size=2, max_size=4).map("-".join)


def titled(compound: str) -> str:
    return "-".join(part[:1].upper() + part[1:] for part in compound.split("-"))


@settings(max_examples=500)
@given(COMPOUND, st.sampled_from([str, str.capitalize, titled]))
def test_compounds_and_ordinals_are_no_identifiers(compound, case):
    text = f"{case(compound)} is it, a {compound} thing."
    assert not identifiers_in(text)


@pytest.mark.parametrize(
    "unit", "5km 2.5km 25°C 3D 5GB 100W 10AM 20th 1990s 3-Year-Old 20-Year 20-YEAR Covid-19 Mid-1990s".split()
)
def test_units_ordinals_and_title_case_are_no_identifiers(unit):
    assert not identifiers_in(f"It is {unit} here.")


@pytest.mark.parametrize(
    "text",
    [
        "I paid [$20] and [€30], [US$ 5.50], [20 €] or [5€].",
        "It was [5%], [5 %], [25°C], [-5 °C], [5 m²], [2.5 km], [5 kg] and [3 GB].",
        "[1] of [#1234], [§ 3] and [±2]; [1/2] of [7:30], [3]-year, the [42]nd",
        "C# [5] in A-[5], [20] $x [5] in [5] people",
        "[240 V], [150 lb], [12 A] and [12 bn], [.5] litres, page.5",
        "[7:05 p.m.] and [10:30 AM], [9.58 s] and [5 ms], at [6] p.m., the [1950]s",
    ],
)
def test_a_sign_belongs_to_its_number(text):
    plain = re.sub(r"[\[\]]", "", text)
    assert parts(plain, quantities_in(plain)) == re.findall(r"\[(.*?)\]", text)


@pytest.mark.parametrize(
    "text",
    [
        "See section [3.2], figures [2.10] and [2.11], or no. [4.2].",
        "If it fails with versions lower than [0.85].",
        "The room number is [2.014].",
        "The train leaves at [7.30] in the morning, not at 7.5 km or at 7.50 euros.",
        "We leave on [24.12]. at night.",
        "It opens [7.30] pm, from [9.00] to [17.00], and costs from 9.00 euros.",
        "Read verses [5.12] and [5.13], and psalm [23.4].",
        "Rule [1.1] is not [1.10], which 2.5 km shows.",
        "Use [10.0] or [3.11] and 2.3.1, for 3.50 euros.",
        "Release 4.2 million books, section 2.5 km.",
        "Capitolo [12.3], Kapitel [2.4], versión [3.1], règle [7.1], regola [7.1], Seite [1.2]",
        "#[3.2] is it",
        "It costs 3.50 euros, 2.5 km, 1,234.5, not 3.14 and now 2.5 at 192.168.0.1.",
        "They announced 3.5 tonight. At 3.5 we rest. The python [3.11] or Ubuntu [24.04] is no 2.5.",
    ],
)
def test_a_number_that_is_a_label_has_no_decimal_point(text):
    plain = re.sub(r"[\[\]]", "", text)
    assert [part.lstrip("#") for part in parts(plain, numberings_in(plain, quantities_in(plain)))] == re.findall(
        r"\[(.*?)\]", text
    )


def test_a_version_in_code_shows_that_other_numbers_are_versions():
    text = "We use 3.11 here."
    assert not numberings_in(text, numbers_in(text))
    assert numberings_in(text, numbers_in(text), "v2.3.1") == numbers_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "The dog [🐶] sleeps, a tea [🍵].",
        "I [❤️] Rome, [🇮🇹] and [👩‍👩‍👧] or [👍🏽] [1️⃣]",
        "sea [&] beach, [#] and [*], [AT&T], drag[&]drop, [C++], [C#], [Windows®]",
        "5 [→] 6 (a) it's and/or - 7 – no: yes; “ok” 5% x*y",
    ],
)
def test_a_sign_or_picture_in_a_sentence_is_one_piece(text):
    plain = re.sub(r"[\[\]]", "", text)
    assert parts(plain, signs_in(plain)) == re.findall(r"\[(.*?)\]", text)
    assert not signs_in(plain, lambda _: True)


@pytest.mark.parametrize("text", ["[%d]cm", "[% d] a", "[%'d] [%*d]", "[%1$s][%%]", "[%.2f]%", "[%ld]x[%zu]"])
def test_conversions_of_printf_are_found_wherever_they_stand(text):
    plain = re.sub(r"[\[\]]", "", text)
    assert [match[0] for match in re.finditer(PRINTF, plain)] == re.findall(r"\[(.*?)\]", text)


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
def test_spans_that_both_sides_have_once_are_shared(pair, same):
    source, target = pair
    assert parts(source, [span for span, _ in shared_spans(source, target, NAMES)]) == same


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
        (".5", "en it", "0,5"),
        ("1:50,000", "en it", "1:50.000"),
    ],
)
def test_a_number_is_written_as_the_target_language_has_it(number, languages, written):
    source, target = languages.split()
    assert localised(number, source, target) == written


@given(st.text(alphabet=st.sampled_from("aB1 .,:<>{}%$@/\\#&;'’-_" + PLACEHOLDERS[0]), max_size=60))
def test_what_is_replaced_can_be_put_back(text):
    spans = without_overlaps(
        text, code_in(text), identifiers_in(text), NAMES.unknown(text), quantities_in(text), signs_in(text)
    )
    hidden = replaced(text, spans, [f"⟦{number}⟧" for number, _ in enumerate(spans)])
    for number, part in enumerate(parts(text, spans)):
        hidden = hidden.replace(f"⟦{number}⟧", part, 1)
    assert hidden == text


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "<a",
            "{",
            "a@",
            "%",
            "a.",
            "/a",
            "1 ",
            "1.",
            "`",
            "&a",
            "A'",
            "-a",
            "_",
            "a-",
            "{a ",
            "$a",
            ":",
            ":a",
            "[",
            "[a",
        ),
        *(
            "a1",
            "A-1-",
            "{a}",
            "\\",
            "Ctrl+",
            "Ctrl+a",
            "☕\u200d",
            "€ ",
            "1€",
            "1.1 ",
            "version 1.1 ",
            "A& ",
            "+",
            "@:",
            "1️⃣",
        ),
    ],
)
def test_a_hostile_line_takes_linear_time(unit):
    def work(count):
        text = unit * count
        started = process_time()
        numbers = quantities_in(text)
        without_overlaps(text, code_in(text), identifiers_in(text), NAMES.unknown(text), numbers, signs_in(text))
        numberings_in(text, numbers)
        return process_time() - started

    work(100)
    assert work(20_000) < 12 * work(4_000) + 0.5


def test_two_capitals_of_small_words_may_make_a_title() -> None:
    names = Names(Truecaser(["the", "page", "style"], "en"), "en")
    assert names.unknown("the Page Style Nakamura") == [], "a title"
    assert len(names.unknown("the Page style Nakamura")) == 1
