"""Each rule is broken by the pair made for it, and sides that slid are found where they began to."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import check
from dragoman.data.checks import CONTROL, COPY, EMPTY, RATIO, TOO_LONG, CheckSettings, ShiftDetector, fault
from dragoman.errors import ConfigError


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("Good morning.", "Buongiorno.", None),
        ("", "Buongiorno.", EMPTY),
        ("Good morning.", " \u2003\t", EMPTY),
        ("Good\x00morning.", "Buongiorno.", CONTROL),
        ("Good morning.", "Buon\u2028giorno.", CONTROL),
        ("Good\tmorning,\nTom.", "Buongiorno,\u00a0Tom.", None),
        ("word " * 250, "parola " * 250, None),
        ("word " * 251, "parola " * 250, TOO_LONG),
        ("w" * 2000, "p" * 2000, None),
        ("w" * 2001, "p" * 2000, TOO_LONG),
        ("No.", "p" * 100, None),
        ("No.", "p" * 101, RATIO),
        ("w" * 150, "p" * 30, None),
        ("w" * 151, "p" * 30, RATIO),
        ("Rome", "Rome", COPY),
        ("你好", "Hello there, my old friend!", None),
    ],
)
def test_each_rule_is_broken_by_the_pair_made_for_it(source, target, reason):
    assert fault(source, target, CheckSettings()) == reason


def test_every_limit_can_be_lifted():
    free = CheckSettings(max_words=None, max_characters=None, max_ratio=None, drop_copies=False)
    assert fault("word " * 5000, "x", free) is None
    assert fault("Rome", "Rome", free) is None
    assert fault("", "", free) == EMPTY


@given(st.text(), st.integers(1, 4))
def test_the_limit_in_words_is_exact(text, limit):
    checks = CheckSettings(max_words=limit, max_characters=None, max_ratio=None)
    expected = len(text.split()) > limit
    assert (fault(text, "x", checks) == TOO_LONG) == (
        expected and fault(text, "x", CheckSettings()) not in (EMPTY, CONTROL)
    )


def test_a_ratio_below_one_is_refused():
    with pytest.raises(ConfigError, match="max_ratio should be greater than or equal to 1, but is 0.5"):
        check({"max_ratio": 0.5}, "recipe.toml", CheckSettings)


# Sides that slid


def lengths(rows: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """Lengths of sentences and of translations about as long."""
    draw = random.Random(seed)
    source = [draw.randint(10, 200) for _ in range(rows)]
    return source, [round(length * draw.uniform(0.9, 1.3)) for length in source]


def found(source: list[int], target: list[int]) -> list[tuple[int, int]]:
    """Where each stretch begins, and which way it slid."""
    detector = ShiftDetector()
    for number, (one, other) in enumerate(zip(source, target, strict=False), 1):
        detector.see(one, other, f"corpus.en:{number}")
    return [(int(shift.origin.partition(":")[2]), shift.offset) for shift in detector.finish()]


def test_aligned_rows_pass():
    assert found(*lengths(2000)) == []


def test_unrelated_rows_pass():
    source, target = lengths(2000)
    random.Random(1).shuffle(target)
    assert found(source, target) == []


def test_rows_of_equal_length_pass():
    assert found([7] * 1000, [9] * 1000) == []


@pytest.mark.parametrize("row", [1, 50, 199, 200, 777, 1700])
def test_a_lost_target_row_is_found_where_it_was(row):
    source, target = lengths(2000)
    ((begin, offset),) = found(source, target[:row] + target[row + 1 :])
    assert offset == 1
    assert abs(begin - row) <= 3


def test_a_target_row_too_many_is_found_where_it_is():
    source, target = lengths(2000)
    ((begin, offset),) = found(source, [*target[:500], 60, *target[500:]])
    assert offset == -1
    assert abs(begin - 500) <= 3


def test_a_stretch_ends_where_the_rows_fit_again():
    source, target = lengths(3000)
    mended = target[:1000] + target[1001:1801] + [60] + target[1801:]
    detector = ShiftDetector()
    for number, (one, other) in enumerate(zip(source, mended, strict=True), 1):
        detector.see(one, other, f"corpus.en:{number}")
    (shift,) = detector.finish()
    assert 600 <= shift.rows <= 1000
    assert "rows look misaligned: each target fits the source of the row after it" in str(shift)


def test_a_handful_of_rows_is_not_judged():
    source, target = lengths(30)
    assert found(source, target[1:]) == []
