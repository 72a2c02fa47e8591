"""Rows in the wrong language are found by the words of the text itself, and the others pass."""

import random

import pytest

from dragoman.text.alignment import EXCHANGED, LEARN_ROWS, ONE_LANGUAGE, WordEvidence, learn_evidence, words_of
from dragoman.text.detection import ColumnLanguage, best_guess

ENGLISH = "the a is was sees takes house dog cat red big and with under man woman".split()
ITALIAN = "il la un era vede prende casa cane gatto rosso grande e con sotto uomo donna".split()


def some_rows(count: int, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    draw = random.Random(seed)
    return [(draw.choices(ENGLISH, k=7), draw.choices(ITALIAN, k=7)) for _ in range(count)]


def exchange(row: tuple[list[str], list[str]]) -> tuple[list[str], list[str]]:
    source, target = row
    return target, source


def verdicts(rows: list[tuple[list[str], list[str]]]) -> list[str | None]:
    sides = learn_evidence(rows)
    return [sides.verdict(*row) for row in rows]


def test_correct_rows_pass():
    assert verdicts(some_rows(500)) == [None] * 500


@pytest.mark.parametrize("part", [0.01, 0.1, 0.3, 0.45])
def test_exchanged_rows_are_found_even_if_they_are_nearly_half(part):
    rows = some_rows(1000)
    exchanged = set(random.Random(1).sample(range(1000), int(1000 * part)))
    mixed = [exchange(row) if number in exchanged else row for number, row in enumerate(rows)]
    assert {number for number, verdict in enumerate(verdicts(mixed)) if verdict == EXCHANGED} == exchanged


def test_a_row_with_one_language_on_both_sides_is_found():
    rows = some_rows(500)
    rows[7] = rows[7][0], rows[8][0]
    rows[9] = rows[9][1], rows[10][1]
    found = verdicts(rows)
    assert (found[7], found[9]) == (ONE_LANGUAGE, ONE_LANGUAGE)
    assert sum(verdict is not None for verdict in found) == 2


def test_a_set_given_beside_is_judged_by_the_words_of_the_training_text():
    sides = learn_evidence(some_rows(500))
    assert {sides.verdict(target, source) for source, target in some_rows(50, seed=1)} == {EXCHANGED}


def test_words_that_are_rare_or_on_both_sides_are_no_evidence():
    assert verdicts([([f"s{n}", "tom"], [f"t{n}", "tom"]) for n in range(100)]) == [None] * 100
    assert WordEvidence({}).verdict(["a"], ["b"]) is None


def test_text_without_spaces_is_judged_by_its_characters():
    assert words_of("我们走吧") == ["我", "们", "走", "吧"]
    assert words_of("Perché no? Sì!") == ["perché", "no", "sì"]


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("tatoeba-en-it/test", "en", "it"),
        ("multi30k/test_2016_flickr", "en", "de"),
        ("multi30k/test_2016_flickr", "en", "fr"),
        ("pinocchio-en-it/pinocchio", "en", "it"),
        ("gnome-docs-en-it/gnome_user_docs", "en", "it"),
    ],
)
def test_real_text_passes_and_its_exchanged_rows_are_found(shared_data, name, source, target):
    texts = [(shared_data / f"{name}.{each}").read_text(encoding="utf-8").split("\n")[:-1] for each in (source, target)]
    for told, column in zip((source, target), texts, strict=True):
        language = ColumnLanguage(told)
        for text in column[:LEARN_ROWS]:
            language.learn(best_guess(text), words_of(text))
        assert language.name == told
        assert sum(language.lacks(text, words_of(text)) for text in column) <= len(column) / 3000
    rows = [(words_of(one), words_of(other)) for one, other in zip(*texts, strict=True)]
    found = verdicts(rows)
    assert found.count(EXCHANGED) <= len(rows) / 1000
    assert found.count(ONE_LANGUAGE) <= len(rows) / 100
    cut = len(rows) * 9 // 10
    found = verdicts(rows[:cut] + list(map(exchange, rows[cut:])))
    assert found[cut:].count(EXCHANGED) > 0.4 * (len(rows) - cut)
    assert found[:cut].count(EXCHANGED) <= len(rows) / 1000
