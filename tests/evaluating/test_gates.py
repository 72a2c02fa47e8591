"""Gates: what they ask for, and what they say."""

from types import SimpleNamespace

import pytest

from dragoman.errors import ConfigError, GateFailed
from dragoman.evaluating.evaluation import FROM_FILE
from dragoman.evaluating.gates import Figure, check_gates, figures_of, parse_gates

MEASURED = {"test.jsonl": {"bleu": Figure(39.96), "lost": Figure(5, 1000), "doubtful": Figure(0, 1000)}}


@pytest.mark.parametrize("text", ["bleu > 39", "BLEU>=39.96", "lost <= 5", "lost <= 0.5%", "lost<1 %", "doubtful < 1"])
def test_a_gate_that_holds_is_silent(text: str) -> None:
    check_gates(parse_gates([text]), MEASURED)


@pytest.mark.parametrize(
    ("text", "value"),
    [("bleu >= 40", "39.96"), ("lost <= 0.4%", "0.50% (5 of 1,000 lines)"), ("lost < 5", "0.50% (5 of 1,000 lines)")],
)
def test_a_gate_that_fails_names_what_failed_and_where(text: str, value: str) -> None:
    with pytest.raises(GateFailed) as raised:
        check_gates(parse_gates([text, "doubtful <= 0"]), MEASURED)
    assert str(raised.value) == f"--require: {text}, but on test.jsonl it is {value}"


def test_all_that_failed_is_named() -> None:
    with pytest.raises(GateFailed, match=r"bleu >= 40.*test\.jsonl.*; lost < 1, but"):
        check_gates(parse_gates(["bleu >= 40", "lost < 1"]), MEASURED)


@pytest.mark.parametrize(
    "text", ["bleu", "bleu >= ", ">= 4", "bleu => 4", "bleu >= four", "bleu >= 4 5", "", "bleu >= -1"]
)
def test_what_is_no_gate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read; write a name"):
        parse_gates([text])


def test_an_unknown_or_missing_figure_is_refused() -> None:
    with pytest.raises(ConfigError, match="no figure 'blue'; choose from .*bleu.*numbers"):
        parse_gates(["bleu >= 1", "blue >= 40"])
    with pytest.raises(ConfigError, match="comet was not measured on test.jsonl"):
        check_gates(parse_gates(["comet >= 40"]), MEASURED)
    with pytest.raises(ConfigError, match="leave out the %"):
        check_gates(parse_gates(["bleu >= 40%"]), MEASURED)
    with pytest.raises(ConfigError, match="no figure 'term'; choose from .*terms"):
        parse_gates(["term <= 0"])


def test_a_flag_that_no_line_has_counts_zero_unless_it_was_not_measured() -> None:
    facts = {"scores": {"bleu": SimpleNamespace(value=40.0)}, "counts": {"lines": 10, "references": 10, "lost": 2}}
    figures = figures_of(SimpleNamespace(search="greedy", **facts))
    assert figures["lost"] == (2, 10) and figures["doubtful"] == (0, 10) and figures["bleu"] == (40.0, None)
    assert "references" not in figures
    assert "doubtful" not in figures_of(SimpleNamespace(search=FROM_FILE, **facts))
