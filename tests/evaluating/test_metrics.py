"""BLEU, chrF and TER: the numbers of the `sacrebleu` command, for any number of references."""

import importlib.util
import json
import logging
import random
import subprocess
import sys
from itertools import cycle, islice
from math import lcm
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError
from dragoman.evaluating import metrics
from dragoman.evaluating.metrics import (
    METRICS,
    bleu_and_chrf,
    build_metric,
    choose_tokenizer,
    score,
    statistics,
)

WORDS = "the a cat dog sat ran on under mat, tree. 1,000 don't (yes) l'acqua é ｆ \u2028 &amp; #1 -".split(" ")


def sentences(count: int, seed: int) -> list[str]:
    """Sentences that share words, some of them empty."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(12))) for _ in range(count)]


def noisy(lines: list[str], seed: int, rate: float = 0.3) -> list[str]:
    """The lines with some of their words replaced: what a translator might give."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < rate else word for word in line.split(" ")) for line in lines
    ]


def ragged(count: int) -> list[list[str]]:
    """One, two or three references a line."""
    streams = [noisy(sentences(count, seed=1), seed, rate=0.2) for seed in (2, 3, 4)]
    return [list(row[: 1 + number % 3]) for number, row in enumerate(zip(*streams, strict=True))]


def command(
    folder: Path, references: list[list[str]], *systems: list[str], options: tuple[str, ...] = ()
) -> list[dict]:
    """What the `sacrebleu` command prints for these lines, all digits that it gives."""
    names = []
    for number, lines in enumerate([*references, *systems]):
        names.append(str(folder / f"{number}.txt"))
        Path(names[-1]).write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    split = len(references)
    arguments = [*names[:split], "-i", *names[split:], "-m", *METRICS, "-w", "9", "-f", "json", *options]
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def check_equal(ours, theirs: list[dict], nrefs: str) -> None:
    for found, line in zip(ours.values(), theirs, strict=True):
        assert found.name == line["name"]
        assert f"{found.value:.9f}" == f"{line['score']:.9f}"
        assert found.signature == line["signature"].replace(f"nrefs:{line['nrefs']}", f"nrefs:{nrefs}")


def test_scores_and_intervals_equal_the_sacrebleu_command(tmp_path):
    references, hypotheses = sentences(101, seed=1), noisy(sentences(101, seed=1), seed=5)
    ours = score(hypotheses, references)
    theirs = command(tmp_path, [references], hypotheses, options=("--confidence",))
    check_equal(ours, theirs, nrefs="1")
    for found, line in zip(ours.values(), theirs, strict=True):
        # the command sums in float32
        assert found.low is not None
        assert found.high is not None
        assert (found.high - found.low) / 2 == pytest.approx(line["confidence_var"], abs=1e-4)
        assert found.low < line["confidence_mean"] < found.high


def test_three_reference_files_score_as_the_sacrebleu_command(tmp_path):
    streams = [noisy(sentences(60, seed=1), seed, rate=0.2) for seed in (2, 3, 4)]
    hypotheses = noisy(sentences(60, seed=1), seed=5)
    ours = score(hypotheses, list(zip(*streams, strict=True)), samples=0)
    check_equal(ours, command(tmp_path, streams, hypotheses), nrefs="3")


def test_ragged_references_score_as_the_sacrebleu_command_given_each_reference_equally_often(tmp_path):
    # The command takes the same number for every line. Repeating each reference of a line equally often changes no
    # metric: neither the best match nor the closest nor the mean length.
    references, hypotheses = ragged(60), noisy(sentences(60, seed=1), seed=5)
    most = lcm(*(len(row) for row in references))
    repeated = [list(islice(cycle(row), most)) for row in references]
    ours = score(hypotheses, references, samples=0)
    check_equal(
        ours, command(tmp_path, [list(stream) for stream in zip(*repeated, strict=True)], hypotheses), nrefs="var"
    )


def test_a_missing_reference_is_not_an_empty_one():
    hypotheses = ["a cat sat on the mat", "a dog"]
    missing = [["a cat sat on a mat", "the cat sat on the mat"], ["the dog ran under the tree"]]
    empty = [missing[0], [*missing[1], ""]]
    ours, wrong = score(hypotheses, missing, samples=0), score(hypotheses, empty, samples=0)
    # no words are nearer to the two of "a dog" than six are: output that is too short is forgiven
    assert ours["bleu"].value < wrong["bleu"].value
    assert ours["ter"].value > wrong["ter"].value


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), st.integers(1, 4)),
        min_size=1,
    )
)
def test_any_line_scores_in_its_range_and_one_that_equals_a_reference_needs_no_edit(pairs):
    hypotheses = [text for text, _ in pairs]
    references = [["other", *[text] * count] for text, count in pairs]
    scores = score(hypotheses, references, samples=0)
    assert scores["ter"].value == 0
    assert 0 <= scores["bleu"].value <= 100 + 1e-9 and 0 <= scores["chrf"].value <= 100 + 1e-9


def test_the_order_of_lines_and_of_references_changes_no_score():
    hypotheses, references = noisy(sentences(40, seed=1), seed=5), ragged(40)
    backwards = score(hypotheses[::-1], [row[::-1] for row in reversed(references)], samples=0)
    for name, found in score(hypotheses, references, samples=0).items():
        assert found.value == pytest.approx(backwards[name].value, abs=1e-9)


def test_the_cheap_score_of_validation_is_the_same_score():
    hypotheses, references = noisy(sentences(40, seed=1), seed=5), ragged(40)
    full = score(hypotheses, references)
    assert bleu_and_chrf(hypotheses, references) == {name: full[name].value for name in ("bleu", "chrf")}


def test_a_score_reads_as_value_interval_signature():
    line = str(score(["a cat sat on the mat"], ["a cat sat on the mat"], samples=10)["chrf"])
    assert line.startswith(
        "chrF2 100.0 [100.0, 100.0] nrefs:1|bs:10|seed:12345|case:mixed|eff:yes|nc:6|nw:0|space:no|version:"
    )


def test_resampling_sums_the_lines_that_it_draws():
    counted = statistics(build_metric("bleu"), noisy(sentences(33, 1), 5), [[line] for line in sentences(33, 1)])
    again = counted.resampled(7, seed=3)
    assert (again == counted.resampled(7, seed=3)).all()
    assert (again != counted.resampled(7, seed=4)).any()


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("it", "13a"),
        ("und", "13a"),
        ("zh", "zh"),
        ("zho_Hans", "zh"),
        ("yue-HK", "zh"),
        ("th", "char"),
        ("khm", "char"),
    ],
)
def test_the_tokenizer_of_bleu_follows_the_language(language, tokenizer):
    assert choose_tokenizer(language) == tokenizer
    assert (
        f"tok:{tokenizer}" in score(["x y"], ["x y"], language=language, metrics=["bleu"], samples=0)["bleu"].signature
    )


def test_japanese_without_its_analyser_counts_characters_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    metrics._warn_of_characters.cache_clear()
    assert choose_tokenizer("ja") == choose_tokenizer("ja") == "char"
    assert caplog.text.count("sacrebleu[ja]") == 1, "not at each validation"


def test_japanese_with_its_analyser_uses_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert choose_tokenizer("jpn") == "ja-mecab"


def test_translation_edit_rate_of_chinese_counts_characters():
    found = score(["我喜欢猫。"], ["我喜欢狗。"], language="zh", samples=0)
    assert found["ter"].value == pytest.approx(20)
    assert "asian:yes" in found["ter"].signature and found["bleu"].value > 0


def test_tokenised_output_is_mentioned_in_one_line_and_sacrebleu_stays_quiet(caplog):
    with caplog.at_level(logging.WARNING):
        score(["a cat ."] * 100, ["a cat."] * 100, samples=0)
    assert [record.name for record in caplog.records] == ["dragoman.evaluating.metrics"]
    assert "100 translations end in ' .'" in caplog.text


def test_translations_and_references_of_different_length_are_refused_with_both_counts():
    with pytest.raises(
        DataError, match="2 translations cannot be scored against 1 lines of references; .*aligned line by line"
    ):
        score(["a", "b"], ["a"])


def test_an_empty_test_set_is_refused():
    with pytest.raises(DataError, match="no line"):
        score([], [])


def test_a_line_without_reference_is_refused_by_number():
    with pytest.raises(DataError, match="line 2 of the test set has no reference"):
        score(["a", "b"], [["a"], []])


def test_a_line_break_inside_a_translation_is_refused():
    with pytest.raises(DataError, match="translation 1 contains a line break"):
        score(["a\nb"], ["a b"])


def test_case_is_ignored_on_request_and_the_signature_says_so():
    lines, references = ["DER HUND bellt laut ."], ["Der Hund bellt laut ."]
    mixed, lower = score(lines, references), score(lines, references, lowercase=True)
    for metric in ("bleu", "chrf"):
        assert mixed[metric].value < lower[metric].value == pytest.approx(100.0)
        assert "case:mixed" in mixed[metric].signature and "case:lc" in lower[metric].signature


def test_unknown_metrics_and_tokenizers_are_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="'comet' is not a metric; choose from bleu, chrf, ter"):
        score(["a"], ["a"], metrics=["comet"])
    with pytest.raises(ConfigError, match="'14a' is not a tokenizer .*13a"):
        score(["a"], ["a"], tokenizer="14a")


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="MeCab is installed")
def test_a_tokenizer_that_needs_a_missing_package_is_refused_in_one_line():
    with pytest.raises(ConfigError, match=r"cannot use its tokenizer 'ja-mecab' here: .*pip install") as caught:
        score(["a"], ["a"], tokenizer="ja-mecab")
    assert "\n" not in str(caught.value)
