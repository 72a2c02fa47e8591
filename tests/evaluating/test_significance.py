"""Paired tests between two systems: the `sacrebleu` command's numbers, and a sentence that says what they mean."""

import random
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import DataError
from dragoman.evaluating.metrics import METRICS, LineStatistics, build_metric, statistics
from dragoman.evaluating.significance import Comparison, compare_outputs, exchanged_distances, randomisation_p_value

REFERENCES = [f"the cat number {n} sat on the mat of house {n * 7 % 31}" for n in range(45)]


def damaged(every: int) -> list[str]:
    """The references with a word changed in every so many lines."""
    return [line.replace("sat", "ran") if n % every == 0 else line for n, line in enumerate(REFERENCES)]


def random_damage(rate: float, seed: int) -> list[str]:
    """The references with words doubled at random: no two sets of lines differ by the same amount."""
    draw = random.Random(seed)
    return [" ".join(w if draw.random() > rate else w + w for w in line.split()) for line in REFERENCES]


def command(folder: Path, first: list[str], second: list[str], option: str, count: str) -> list[float]:
    """The p-values of BLEU, chrF and TER that the `sacrebleu` command prints, four digits each."""
    paths = [folder / name for name in ("references", "first", "second")]
    for path, lines in zip(paths, (REFERENCES, first, second), strict=True):
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    arguments = [str(paths[0]), "-i", *map(str, paths[1:]), "-m", *METRICS, "-f", "text", option, f"{option}-n", count]
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *arguments], capture_output=True, text=True, check=True)
    return [float(found) for found in re.findall(r"\(p = ([0-9.]+)\)", done.stdout)]


@pytest.mark.parametrize("has_ties", [False, True])
def test_randomisation_equals_the_sacrebleu_command_except_for_ties(has_ties, tmp_path):
    random_pair = random_damage(0.1, seed=1), random_damage(0.13, seed=2)
    first, second = (damaged(7), damaged(9)) if has_ties else random_pair
    strict, ties = [], 0
    for name in METRICS:
        pair = [statistics(build_metric(name), lines, [[line] for line in REFERENCES]) for lines in (first, second)]
        real = abs(pair[0].scores(pair[0].total[None])[0] - pair[1].scores(pair[1].total[None])[0])
        distances = exchanged_distances(*pair, trials=500)
        greater, tied = distances > real + 1e-9, np.isclose(distances, real, rtol=0, atol=1e-9)
        strict.append(round((greater.sum() + 1) / 501, 4))
        assert randomisation_p_value(*pair, trials=500) == (greater.sum() + tied.sum() + 1) / 501
        ties += tied.sum()
    assert strict == command(tmp_path, first, second, "--paired-ar", "500")
    assert bool(ties) or not has_ties


def test_randomisation_comes_near_to_trying_every_exchange():
    references = [
        ["one two three four five"],
        ["six seven eight nine ten"],
        ["a b c d e f"],
        ["g h i j k l m"],
        ["n o p q r"],
    ] * 2
    first = [row[0] for row in references]
    second = [line if n % 3 else line.replace(" ", " x ", 1) for n, line in enumerate(first)]
    metric = build_metric("chrf")
    one, other = statistics(metric, first, references), statistics(metric, second, references)
    assert randomisation_p_value(one, other, trials=4000) == pytest.approx(exact_p_value(one, other), abs=0.02)


def exact_p_value(first: LineStatistics, second: LineStatistics) -> float:
    def distance(a, b):
        return abs(first.scores(a[None])[0] - first.scores(b[None])[0])

    real = distance(first.total, second.total)
    hits = []
    for coins in product([True, False], repeat=len(first.lines)):
        heads = np.array(coins)
        one = heads @ first.lines + ~heads @ second.lines
        hits.append(distance(one, first.total + second.total - one) >= real - 1e-9)
    return sum(hits) / len(hits)


def test_one_line_of_difference_shows_nothing():
    second = [REFERENCES[0].replace("sat", "ran"), *REFERENCES[1:]]
    found = compare_outputs(REFERENCES, second, REFERENCES, samples=100)["bleu"]
    assert found.delta > 0 and found.p_value == 1 and found.better is None


def test_a_system_does_not_differ_from_itself():
    for found in compare_outputs(damaged(2), damaged(2), REFERENCES, samples=50).values():
        assert (found.delta, found.low, found.high, found.better) == (0, 0, 0, None)


def test_exchanging_the_systems_turns_the_sign_and_keeps_the_p_value():
    there = compare_outputs(damaged(9), damaged(2), REFERENCES, samples=200)
    back = compare_outputs(damaged(2), damaged(9), REFERENCES, samples=200)
    for name, found in there.items():
        assert found.delta == pytest.approx(-back[name].delta)
        assert (found.low, found.high) == (pytest.approx(-back[name].high), pytest.approx(-back[name].low))
        assert found.p_value == back[name].p_value


def test_every_metric_names_the_better_system_whichever_way_it_counts():
    found = compare_outputs(damaged(2), damaged(15), REFERENCES, names=("A", "B"), samples=500)
    assert [comparison.better for comparison in found.values()] == ["B", "B", "B"]
    assert found["ter"].delta > 0 > found["bleu"].delta
    assert str(found["bleu"]).startswith("B is better than A by ")


def comparison(p_value: float, delta: float = 0.8) -> Comparison:
    return Comparison(
        "BLEU", ("A", "B"), (30.8, 30.8 - delta), delta, 0.2, 1.4, p_value, "randomisation", 1000, "nrefs:1"
    )


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (comparison(1e-6), "A is better than B by 0.8 BLEU (p < 0.0001, 1,000 paired randomisations)"),
        (comparison(0.003), "A is better than B by 0.8 BLEU (p = 0.003, 1,000 paired randomisations)"),
        (comparison(0.003, 1.0), "A is better than B by 1.0 BLEU (p = 0.003, 1,000 paired randomisations)"),
        (comparison(0.003, -0.8), "B is better than A by 0.8 BLEU (p = 0.003, 1,000 paired randomisations)"),
        (
            comparison(0.25),
            "no difference between A and B can be shown: 0.8 BLEU (p = 0.25, 1,000 paired randomisations)",
        ),
        (
            comparison(1.0),
            "no difference between A and B can be shown: 0.8 BLEU (p = 1, 1,000 paired randomisations)",
        ),
    ],
)
def test_a_comparison_is_one_sentence(found, sentence):
    assert str(found) == sentence


def test_the_signature_names_test_samples_and_seed():
    one = compare_outputs(damaged(3), damaged(2), REFERENCES, metrics=["bleu"], samples=40)["bleu"]
    assert one.signature.startswith("nrefs:1|bs:1000|ar:40|seed:12345|")


def test_systems_of_different_length_are_refused():
    with pytest.raises(DataError, match="44 translations cannot be scored against 45 lines"):
        compare_outputs(REFERENCES, REFERENCES[1:], REFERENCES)
