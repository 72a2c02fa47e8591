"""Stretches of misaligned rows are found where they begin; aligned rows, and rows that tell nothing, pass."""

import random
from collections.abc import Sequence

import pytest

from dragoman.text.alignment import AlignmentDetector, Misalignment, words_of


def some_text(rows: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Sentences of all lengths, and translations about as long that share nothing else."""
    draw = random.Random(seed)
    lengths = [draw.randint(10, 200) for _ in range(rows)]
    return ["s" * length for length in lengths], ["t" * round(length * draw.uniform(0.9, 1.3)) for length in lengths]


def short_text(rows: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Sentences of one length, some of which hold a name."""
    draw = random.Random(seed)
    names = [draw.choice(["Tom", "Anna", "Rome", "1984", "Berlin", "Jim", "xyzzy", "abcde"]) for _ in range(rows)]
    return [f"a sentence {name:6}" for name in names], [f"una frase {name:7}" for name in names]


def detect(source: Sequence[str], target: Sequence[str]) -> list[Misalignment]:
    detector = AlignmentDetector()
    for number, (one, other) in enumerate(zip(source, target, strict=False), 1):
        detector.add(one, other, (words_of(one), words_of(other)), f"corpus.en:{number}")
    return detector.finish()


def found(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Where each stretch begins, and which way it slid."""
    return [(int(stretch.origin.partition(":")[2]), stretch.offset) for stretch in detect(source, target)]


def test_aligned_rows_pass():
    assert found(*some_text(2000)) == []
    assert found(*short_text(2000)) == []


def test_rows_of_equal_length_pass():
    assert found(["s" * 7] * 1000, ["t" * 9] * 1000) == []


def test_rows_that_share_nothing_and_hardly_differ_in_length_pass():
    draw = random.Random(0)
    assert found(*([["x" * draw.randint(20, 24) for _ in range(2000)] for _ in range(2)])) == []


@pytest.mark.parametrize("rows", [200, 2000, 3000])
@pytest.mark.parametrize("text", [some_text, short_text])
def test_a_lost_target_row_is_found_a_hundred_rows_before_the_end(text, rows):
    source, target = text(rows)
    ((begin, offset),) = found(source, target[: rows - 100] + target[rows - 99 :])
    assert offset == 1
    assert abs(begin - (rows - 100)) <= 8


@pytest.mark.parametrize("row", [1, 50, 199, 200, 201, 777, 1700, 1900])
def test_a_lost_target_row_is_found_where_it_was(row):
    source, target = some_text(2000)
    ((begin, offset),) = found(source, target[:row] + target[row + 1 :])
    assert offset == 1
    assert abs(begin - row) <= 3


@pytest.mark.parametrize("row", [1, 500, 1900])
def test_a_target_row_too_many_is_found_where_it_is(row):
    source, target = some_text(2000)
    ((begin, offset),) = found(source, [*target[:row], "t" * 60, *target[row:]])
    assert offset == -1
    assert abs(begin - row) <= 3


def test_a_stretch_ends_where_the_rows_fit_again():
    source, target = some_text(3000)
    (stretch,) = detect(source, target[:1000] + target[1001:1801] + ["t" * 60] + target[1801:])
    assert stretch.rows == pytest.approx(800, abs=10)
    assert "rows look misaligned: each target fits the source of the row after it" in str(stretch)


def test_several_stretches_are_told_apart_and_in_order():
    source, target = some_text(3000)
    damaged = [*target[:500], "t" * 60, *target[500:899], *target[900:2000], *target[2001:], "t" * 60]
    first, second = found(source, damaged)
    assert (first[1], second[1]) == (-1, 1)
    assert abs(first[0] - 500) <= 3
    assert abs(second[0] - 2000) <= 3


@pytest.mark.parametrize("rows", [200, 2000])
def test_shuffled_targets_are_found(rows):
    source, target = some_text(rows)
    random.Random(1).shuffle(target)
    (stretch,) = detect(source, target)
    assert stretch.offset == 0
    assert stretch.rows > 0.9 * rows
    assert "the targets fit unrelated sources as well as their own" in str(stretch)


def test_rows_shifted_further_are_found_as_unrelated():
    source, target = some_text(1000)
    ((begin, offset),) = found(source, target[:800] + target[805:])
    assert offset == 0
    assert abs(begin - 800) <= 40


def test_a_handful_of_rows_is_not_judged():
    source, target = some_text(30)
    assert found(source, target[1:]) == []


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("tatoeba-en-it/test", "en", "it"),
        ("tatoeba-en-it/dev", "en", "it"),
        ("multi30k/train", "en", "de"),
        ("multi30k/train", "en", "fr"),
        ("pinocchio-en-it/pinocchio", "en", "it"),
        ("gnome-docs-en-it/gnome_user_docs", "en", "it"),
    ],
)
@pytest.mark.thorough
def test_real_text_passes_and_its_last_rows_are_found_when_shifted(shared_data, name, source, target):
    sides = [(shared_data / f"{name}.{each}").read_text(encoding="utf-8").split("\n")[:-1] for each in (source, target)]
    assert found(*sides) == []
    rows = list(zip(*sides, strict=True))
    random.Random(1).shuffle(rows)  # some sets are sorted by length, so that neighbours could be exchanged unseen
    one, other = map(list, zip(*rows[:1900], strict=True))
    assert found(one, other) == []
    ((begin, offset),) = found(one, other[:1800] + other[1801:])
    assert offset == 1
    assert abs(begin - 1800) <= 10
    random.Random(2).shuffle(other)
    assert sum(stretch.rows for stretch in detect(one, other)) > 0.9 * 1900
