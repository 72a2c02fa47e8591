"""Parts of test sets, changed texts, and calibration, compared with plain references."""

import math
import random

import pytest

from dragoman.evaluating.calibration import GROUPS, calibrate
from dragoman.evaluating.strata import LENGTHS, WORDS, changed_texts, strata
from dragoman.inference.translation import Translation
from dragoman.surface.letters import Truecaser
from dragoman.surface.protected import Names

TEXTS = [
    "The cat sleeps.",
    "the cat sees 42 dogs and the other cat in the garden of the house",
    "WHERE ARE YOU? I am here.",
    "We met Nakamura. He said “yes”. Then he left.",
    "the zebra " * 11 + "sleeps.",
    "42",
]
KNOWN = "the cat sleeps sees dogs and other in garden of house we met he said yes then left where are you i am here"
NAMES = Names(Truecaser(KNOWN.split(), "en"), "en")


def test_every_text_has_one_length_and_one_rarity() -> None:
    counts = dict.fromkeys("the cat sees dogs and other in garden of house".split(), 50) | {"sleeps": 3}
    parts = strata(TEXTS, NAMES, counts)
    for names in (LENGTHS, WORDS):
        assert sorted(number for name in names for number in parts[name]) == [*range(len(TEXTS))]
    assert [parts[name] for name in LENGTHS] == [[0, 5], [1], [4], [2], [3]]
    assert [parts[name] for name in WORDS] == [[1, 5], [0], [2, 3, 4]]
    assert (parts["a number"], parts["a name"], parts["quotes"]) == ([1, 5], [3], [3])
    assert parts["no end mark"] == [1, 5] and parts["capitals only"] == []


def test_without_training_text_there_is_no_rarity() -> None:
    assert strata(TEXTS, NAMES, {}).keys().isdisjoint(WORDS)


def test_changes_keep_source_and_reference_together() -> None:
    lines = [
        (f"the cats see number {n} now.", f"i gatti vedono il numero {n}.", f"i gatti guardano {n}.")
        for n in range(20, 31)
    ]
    changes = {name: changed for name, changed, _ in changed_texts(lines, ("en", "it"))}
    assert changes["capitals only"][0] == tuple(text.upper() for text in lines[0])
    assert changes["no end mark"][0] == tuple(text.removesuffix(".") for text in lines[0])
    assert changes["in quotes"][0] == (f'"{lines[0][0]}"', *lines[0][1:])
    assert "lower case only" in changes and changes["lower case only"] == [], "nothing changed"
    assert changes["two sentences in a line"][1] == tuple(f"{a} {b}" for a, b in zip(lines[2], lines[3], strict=True))
    assert [len(changes[name]) for name in ("two sentences in a line", "a paragraph of five sentences")] == [5, 2]
    for changed, line in zip(changes["one typing error"], lines, strict=True):
        assert changed[1:] == line[1:] and changed[0] != line[0] and abs(len(changed[0]) - len(line[0])) <= 1


def test_calibration_is_that_of_plain_loops() -> None:
    draws = random.Random(3)
    lines = [
        Translation("", "", draws.uniform(-9, -0.1), tokens=("a", "b", "c"), flags=("doubtful",) * (n % 7 == 0))
        for n in range(73)
    ]
    quality = [draws.uniform(0, 100) for _ in lines]
    result = calibrate([*lines, Translation("", "")], [*quality, 0.0])  # the last one was copied
    assert result is not None
    pairs = sorted((math.exp(line.log_prob / 3), own) for line, own in zip(lines, quality, strict=True))
    assert sum(count for count, *_ in result.groups) == len(lines) and len(result.groups) == GROUPS
    start = 0
    for count, low, high, mean in result.groups:
        group = pairs[start : start + count]
        assert (low, high) == (pytest.approx(group[0][0]), pytest.approx(group[-1][0]))
        assert mean == pytest.approx(sum(own for _, own in group) / count)
        start += count
    worst = sorted(range(len(lines)), key=lambda number: quality[number])[: result.worst]
    assert result.worst == math.ceil(0.1 * len(lines)) and result.flagged == 11
    assert result.caught == sum(number % 7 == 0 for number in worst)
    assert calibrate(lines[:20], quality[:20]) is None
