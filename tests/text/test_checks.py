"""Each rule is broken by the pair made for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.text.checks import CONTROL, COPY, EMPTY, RATIO, TOO_LONG, CheckSettings, fault


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("Good morning.", "Buongiorno.", None),
        ("", "Buongiorno.", EMPTY),
        ("Good morning.", " \u2003\t", EMPTY),
        ("Good\x00morning.", "Buongiorno.", CONTROL),
        ("Good morning.", "Buon\u2028giorno.", CONTROL),
        ("Good\rmorning.", "Buongiorno.", CONTROL),
        ("Good morning.", "Buon\ufeffgiorno.", CONTROL),
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
