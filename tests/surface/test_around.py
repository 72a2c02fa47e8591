"""Marks around a sentence are taken off completely, and nothing else is."""

import itertools
import random

import pytest

from dragoman.surface.around import peel


@pytest.mark.parametrize(
    ("text", "before", "core", "after"),
    [
        ("“Hello there.”", "“", "Hello there.", "”"),
        ("‘Hello there.’", "‘", "Hello there.", "’"),
        ("'I don't know.'", "'", "I don't know.", "'"),
        ('"Hello there".', '"', "Hello there", '".'),
        ("„Wo ist er?“", "„", "Wo ist er?", "“"),
        ("»Wo ist er?«", "»", "Wo ist er?", "«"),
        ("« Où est-il ? »", "« ", "Où est-il", " ? »"),
        ("「駅はどこですか。」", "「", "駅はどこですか。", "」"),
        ("(I know him.)", "(", "I know him.", ")"),
        ("[Hello]", "[", "Hello", "]"),
        ('("Never.")', '("', "Never.", '")'),
        ("**Hello there.**", "**", "Hello there.", "**"),
        ("_Hello_", "_", "Hello", "_"),
        ("- Where is he?", "- ", "Where is he?", ""),
        ("-¿Dónde está?", "-", "¿Dónde está?", ""),
        ("— Where is he?", "— ", "Where is he?", ""),
        ("•  “Stop!!!”", "•  “", "Stop", "!!!”"),
        ("# Heading", "# ", "Heading", ""),
        ("> quoted", "> ", "quoted", ""),
        (">> quoted twice", ">> ", "quoted twice", ""),
        ("-- Where is he?", "-- ", "Where is he?", ""),
        ("--Where is he?", "--", "Where is he?", ""),
        ("- [x] Open it.", "- [x] ", "Open it.", ""),
        ("\u202bHello there.\u202c", "\u202b", "Hello there.", "\u202c"),
        ("1. Open the door.", "1. ", "Open the door.", ""),
        ("2.1.3. Open it.", "2.1.3. ", "Open it.", ""),
        ("12) Open it.", "12) ", "Open it.", ""),
        ("a) Open it.", "a) ", "Open it.", ""),
        ("(iii) Open it.", "(iii) ", "Open it.", ""),
        ("(b) “Open it.”", "(b) “", "Open it.", "”"),
        ("1.2.3 Open it.", "1.2.3 ", "Open it.", ""),
        ("IV. Open it.", "IV. ", "Open it.", ""),
        ("[1] Open it.", "[1] ", "Open it.", ""),
        ("· Open it.", "· ", "Open it.", ""),
        ("[Tom] Open it.", "[Tom] ", "Open it.", ""),
        ("MAN 1: Open it.", "MAN 1: ", "Open it.", ""),
        ("JOHN (laughing): Open it.", "JOHN (laughing): ", "Open it.", ""),
        ("He is walking !", "", "He is walking", " !"),
        ("I think so . . .", "", "I think so", " . . ."),
        ("``A man''", "``", "A man", "''"),
        (",,A man.''", ",,", "A man.", "''"),
        ("“‘Hello.’”", "“‘", "Hello.", "’”"),
        ("Anna Maria: Open it.", "Anna Maria: ", "Open it.", ""),
        ("…and he left.", "…", "and he left.", ""),
        ("Really?!", "", "Really", "?!"),
        ("Stop!!!", "", "Stop", "!!!"),
        ("I think so...", "", "I think so", "..."),
        ("He said:", "", "He said", ":"),
        ("First this;", "", "First this", ";"),
        ("And then —", "", "And then", " —"),
        ("停！！", "", "停", "！！"),
        ("“Open without end.", "“", "Open without end.", ""),
        ("It ends here.”", "", "It ends here.", "”"),
    ],
)
def test_what_stands_around_a_sentence(text: str, before: str, core: str, after: str) -> None:
    assert peel(text)[:3] == (before, core, after)


@pytest.mark.parametrize(
    "text",
    [
        "Hello there.",
        "“Yes,” he said.",
        '"Yes" and "no"',
        "He said “yes”.",
        "the house (a large one)",
        "(Finally) he came.",
        "'Tis late.",
        "the boys'",
        "rock ’n’ roll",
        "O'Neil's dog.",
        "He is 6'2\".",
        'a 5" nail',
        "-5 degrees",
        "1990. was a year",
        "U.S. law",
        "# 8 for Iowa",
        "Is it at 5 p.m.?",
        '"" is empty',
        'It is ""',
        "1) tea or 2) coffee",
        "J. Smith came.",
        "3:30 is late.",
        "*one* and *two*",
        "l'amico",
        "¿Qué?",
        "www.example.org",
        "",
        "...",
        "“”",
    ],
)
def test_what_belongs_to_a_sentence_stays(text: str) -> None:
    assert peel(text)[:3] == ("", text, "")


def test_a_quote_that_is_closed_inside_stays_and_what_stands_outside_of_it_goes() -> None:
    assert peel("- “Yes,” he said!!")[:3] == ("- ", "“Yes,” he said", "!!")
    assert peel('"Yes," he said, "is fine."')[:3] == ("", '"Yes," he said, "is fine."', "")


def test_kinds_that_are_known_stay_with_all_that_stands_inside_of_them() -> None:
    text = "- “Where is he?!”"
    assert peel(text, {"quotes"})[:3] == ("- ", "“Where is he?!”", "")
    assert peel(text, {"bullet"})[:3] == ("", text, "")


def test_a_speaker_is_taken_off_only_if_it_is_a_name() -> None:
    assert peel("Note: it is open.", is_name=lambda speaker: speaker != "Note:")[:3] == ("", "Note: it is open.", "")


def test_whatever_is_put_around_a_sentence_is_taken_off_and_nothing_is_lost() -> None:
    fronts, backs = ("“", "(", "- ", "1. ", "**", "« "), ("”", ")", "!!", "…", "**", " »")
    for front, back in itertools.product(itertools.combinations(fronts, 2), itertools.combinations(backs, 2)):
        text = "".join(front) + "Here he is" + "".join(back)
        peeled = peel(text)
        assert peeled.before + peeled.core + peeled.after == text
        assert peeled.core == "Here he is", text


def test_no_text_loses_a_character() -> None:
    random_ = random.Random(1)
    signs = "“”\"'’()*-–—•.!?…:; \u00a0ab1T«»_#>"
    for _ in range(20_000):
        text = "".join(random_.choices(signs, k=random_.randint(0, 14)))
        peeled = peel(text)
        assert peeled.before + peeled.core + peeled.after == text


@pytest.mark.parametrize("sign", ['"', "(", "“", "'", "- ", "*", "a: ", "1. ", "!?", "…", ") ", "‘“", "\u200b"])
def test_a_text_of_many_signs_is_read_in_one_pass(sign: str) -> None:
    for text in (sign * 200_000, sign * 200_000 + "word", "word " + sign * 200_000):  # hours, if it were not
        assert len("".join(peel(text)[:3])) == len(text)
