"""Scores of labels: those of scikit-learn and seqeval, with intervals; confusions; which of two systems is better."""

import json
import random
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from extras import without

from dragoman.cli.evaluate import show_scores
from dragoman.errors import ConfigError, DataError, MissingExtra
from dragoman.evaluating import confusion as pictures
from dragoman.evaluating.confusion import Confusion, confusion_table, draw_confusion, worst_confusions
from dragoman.evaluating.label_metrics import HEADINGS, count_labels, entity_rows, find_entities, label_rows
from dragoman.evaluating.labels_evaluation import (
    LabelEvaluation,
    evaluate_labels,
)
from dragoman.evaluating.metrics import SAMPLES, SEED, interval
from dragoman.evaluating.scores import read_evaluations
from dragoman.evaluating.significance import compare_systems
from dragoman.serialization import write_json
from dragoman.tokenizing.labels import Labels

TOPICS = ("animal", "drink", "food", "place", "time")
BIO = ("O", "B-person", "I-person", "B-place", "I-place")
CLASSIFY = Labels(task="classify", names=TOPICS)
PARTS = Labels(task="tag", names=TOPICS)
ENTITIES = Labels(task="tag", names=BIO)


def drawn(count: int, seed: int, names: Sequence[str] = TOPICS) -> list[str]:
    """Labels at random, the first ones more often."""
    return random.Random(seed).choices(names, weights=range(len(names), 0, -1), k=count)


def noisy(gold: Sequence[str], rate: float, seed: int, names: Sequence[str] = TOPICS) -> list[str]:
    draw = random.Random(seed)
    return [draw.choice(names) if draw.random() < rate else label for label in gold]


def sentences(seed: int, count: int = 40, names: Sequence[str] = BIO) -> list[list[str]]:
    draw = random.Random(seed)
    return [drawn(draw.randint(1, 12), draw.randint(0, 10**6), names) for _ in range(count)]


def noisy_sentences(gold: list[list[str]], rate: float, seed: int, names: Sequence[str] = BIO) -> list[list[str]]:
    return [noisy(row, rate, seed + number, names) for number, row in enumerate(gold)]


def rows(labels: Sequence[str]) -> list[tuple[str]]:
    return [(label,) for label in labels]


def judged(
    labels: Labels, gold: Sequence, found: Sequence, system: str = "model", samples: int = 50
) -> LabelEvaluation:
    return evaluate_labels(labels, gold, found, system=system, test="test.tsv", sha256="5" * 64, samples=samples)


GOLD = drawn(200, seed=1)
FOUND = noisy(GOLD, 0.4, seed=2)


def plain_macro_f1(gold: Sequence[str], found: Sequence[str]) -> float:
    pairs, scores = list(zip(gold, found, strict=True)), []
    for label in {*gold, *found}:
        right = sum(pair == (label, label) for pair in pairs)
        scores.append(2 * right / (gold.count(label) + found.count(label)))
    return 100 * sum(scores) / len(scores)


@pytest.mark.parametrize("names", [TOPICS, TOPICS[:2]])
def test_scores_are_those_of_a_plain_count(names):
    gold, found = drawn(90, 3, names), noisy(drawn(90, 3, names), 0.5, 4, (*names, "never gold"))
    scores = judged(CLASSIFY, gold, found).scores
    right = sum(one == other for one, other in zip(gold, found, strict=True))
    assert scores["accuracy"].value == pytest.approx(100 * right / 90)
    assert scores["macro_f1"].value == pytest.approx(plain_macro_f1(gold, found))


def test_scores_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="needs the extra baselines")
    gold, found = [*GOLD, "rare"], [*noisy(GOLD, 0.4, 5, (*TOPICS, "never gold")), "time"]
    scores = judged(CLASSIFY, gold, found).scores
    assert scores["accuracy"].value == pytest.approx(100 * metrics.accuracy_score(gold, found))
    macro = metrics.f1_score(gold, found, average="macro", zero_division=0)
    assert scores["macro_f1"].value == pytest.approx(100 * macro)
    columns = metrics.precision_recall_fscore_support(gold, found, zero_division=0)
    for row, expected in zip(label_rows(rows(gold), rows(found)), zip(*columns, strict=True), strict=True):
        assert (row.precision, row.recall, row.f1) == pytest.approx(tuple(100 * value for value in expected[:3]))
        assert row.gold == expected[3]
    assert (
        Confusion.from_labels(rows(gold), rows(found)).counts.tolist() == metrics.confusion_matrix(gold, found).tolist()
    )


def test_a_validation_with_many_rows_and_labels_takes_little_memory():
    names = tuple(f"label {number}" for number in range(1_000))
    gold = drawn(20_000, 1, names)
    found = noisy(gold, 0.2, 2, names)
    tracemalloc.start()
    judged(Labels(task="classify", names=names), gold, found, samples=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 << 20  # a matrix of all rows and labels took 918 MiB


def test_counts_compute_as_the_matrix_that_is_not_written_out():
    sides = [rows(GOLD), rows(FOUND), rows(noisy(GOLD, 0.2, 3))]
    one, other = (count_labels(sides[0], found, TOPICS) for found in sides[1:])
    plain = []
    for found in sides[1:]:
        cells = [
            [(r == name == f, f == name, r == name) for name in TOPICS]
            for (r,), (f,) in zip(sides[0], found, strict=True)
        ]
        plain.append(np.array(cells, np.float64).transpose(0, 2, 1).reshape(len(GOLD), -1))
    weights = np.random.default_rng(1).integers(5, size=(3, len(GOLD)))
    for sparse, dense in ((one, plain[0]), (other, plain[1]), (one - other, plain[0] - plain[1])):
        assert np.array_equal(sparse.sum(axis=0), dense.sum(axis=0))
        assert np.array_equal(weights @ sparse, weights @ dense)
        assert np.array_equal(weights[0] @ sparse, weights[0] @ dense)


def test_an_interval_is_that_of_scores_of_drawn_examples():
    """Each sample is scored as if it were the test set: a label that was not drawn has no F1."""
    gold, found = [*GOLD[:30], "rare"], [*FOUND[:30], "time"]
    draw, scores = np.random.default_rng(SEED), []
    for _ in range(SAMPLES):
        chosen = draw.integers(0, 31, size=31)
        scores.append(plain_macro_f1([gold[index] for index in chosen], [found[index] for index in chosen]))
    score = judged(CLASSIFY, gold, found, samples=SAMPLES).scores["macro_f1"]
    assert (score.low, score.high) == pytest.approx(interval(np.array(scores)))


def test_words_are_drawn_by_sentence():
    gold = sentences(1, names=TOPICS)
    found = noisy_sentences(gold, 0.3, 2, TOPICS)
    score = judged(PARTS, gold, found, samples=SAMPLES).scores["accuracy"]
    draw, scores = np.random.default_rng(SEED), []
    for _ in range(SAMPLES):
        pairs = [pair for row in draw.integers(0, 40, size=40) for pair in zip(gold[row], found[row], strict=True)]
        scores.append(100 * sum(one == other for one, other in pairs) / len(pairs))
    assert (score.low, score.high) == pytest.approx(interval(np.array(scores)))


def test_signatures_say_what_was_scored_and_how():
    words = sentences(1)
    assert judged(CLASSIFY, GOLD, FOUND).scores["accuracy"].signature.startswith("acc|n:200|bs:50|seed:12345|version:")
    signature = judged(ENTITIES, words, words, samples=0).scores["f1"].signature
    size = f"n:{sum(map(len, words))}|sentences:40"
    assert signature.startswith(f"f1|average:micro|mode:strict|scheme:IOB2|{size}|version:")


def plain_entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """Every span that begins with B, goes on with I of its type, and could not be longer."""
    spans = set()
    for start in range(len(labels)):
        for end in range(start + 1, len(labels) + 1):
            kind = labels[start][2:]
            inside = labels[start].startswith("B-") and all(label == f"I-{kind}" for label in labels[start + 1 : end])
            if inside and labels[end : end + 1] != [f"I-{kind}"]:
                spans.add((kind, start, end))
    return spans


@pytest.mark.parametrize("seed", range(3))
def test_entities_are_all_spans_that_begin_with_b(seed):
    for labels in sentences(seed):
        assert set(find_entities(labels)) == plain_entities(labels)


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("B-a I-a I-a", ["a 0 3"]),
        ("B-a B-a", ["a 0 1", "a 1 2"]),
        ("I-a I-a O", []),
        ("B-a I-b I-a", ["a 0 1"]),
        ("O B-a I-a B-b I-b", ["a 1 3", "b 3 5"]),
        ("", []),
    ],
)
def test_entities_made_by_hand(labels, spans):
    assert [f"{kind} {start} {end}" for kind, start, end in find_entities(labels.split())] == spans


def entity_scores(gold: list[list[str]], found: list[list[str]]) -> list[float]:
    return [judged(ENTITIES, gold, found, samples=0).scores[name].value for name in ("precision", "recall", "f1")]


@pytest.mark.parametrize("seed", range(5))
def test_entity_scores_are_those_of_a_plain_count(seed):
    gold = sentences(seed)
    found = noisy_sentences(gold, 0.2, seed)
    spans = [{(n, *span) for n, row in enumerate(side) for span in plain_entities(row)} for side in (gold, found)]
    right = len(spans[0] & spans[1])
    precision, recall = right / len(spans[1]), right / len(spans[0])
    expected = [precision, recall, 2 * precision * recall / (precision + recall)]
    assert entity_scores(gold, found) == pytest.approx([100 * value for value in expected])


@pytest.mark.parametrize("seed", range(5))
def test_entity_scores_are_those_of_seqeval(seed):
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")
    from seqeval.scheme import IOB2  # pyright: ignore

    gold = sentences(seed)
    found = noisy_sentences(gold, 0.2, seed)
    how = {"mode": "strict", "scheme": IOB2, "zero_division": 0}
    functions = (seqeval.precision_score, seqeval.recall_score, seqeval.f1_score)
    assert entity_scores(gold, found) == pytest.approx([100 * score(gold, found, **how) for score in functions])
    report = seqeval.classification_report(gold, found, output_dict=True, **how)
    for row in entity_rows(gold, found):
        expected = [report[row.label][key] for key in ("precision", "recall", "f1-score")]
        assert [row.precision, row.recall, row.f1] == pytest.approx([100 * value for value in expected])
        assert row.gold == report[row.label]["support"]


def test_sentences_without_entities_score_nothing_and_break_nothing():
    assert entity_scores([["O", "O"]], [["O", "O"]]) == [0, 0, 0]
    assert entity_rows([["O"]], [["O"]]) == []


@pytest.mark.parametrize(
    ("gold", "found", "message"),
    [
        (["a", "b"], ["a"], "1 predicted rows of labels cannot be scored against 2 gold rows"),
        ([["a"], ["b"]], [["a"], ["b", "b"]], "row 2 of the test set has 1 labels, but 2 were predicted"),
        ([], [], "there is nothing to score"),
        ([[]], [[]], "there is nothing to score"),
    ],
)
def test_labels_that_do_not_fit_are_refused(gold, found, message):
    with pytest.raises(DataError, match=message):
        judged(CLASSIFY, gold, found)


def test_a_table_of_few_labels_is_the_whole_matrix():
    table = confusion_table(Confusion.from_labels(rows("aabbc"), rows("abbbb")))
    assert table.headings == ("gold, found as", "a", "b", "c")
    assert table.rows == [("a", "1", "1", "0"), ("b", "0", "2", "0"), ("c", "0", "1", "0")]
    assert not table.left_out


def test_a_table_of_many_labels_shows_those_confused_most_and_counts_the_others():
    gold, found = rows("aaaabbbcdddd"), rows("abbaabbcdddc")
    table = confusion_table(Confusion.from_labels(gold, found), most=2)
    assert table.headings == ("gold, found as", "a", "b", "others")
    assert table.rows == [("a", "2", "2", "0"), ("b", "1", "2", "0")]
    assert table.left_out == "2 of 4 labels are left out; 1 of 4 mistakes are theirs"


def test_each_row_of_a_table_counts_every_gold_label():
    confusion = Confusion.from_labels(rows(GOLD), rows(FOUND))
    for name, *cells in confusion_table(confusion, most=3).rows:
        assert sum(map(int, cells)) == GOLD.count(name)


def test_the_worst_confusions_are_said_in_words():
    confusion = Confusion.from_labels(rows("aaaabbbcdddd"), rows("abbaabbcdddd"))
    assert worst_confusions(confusion) == ["2 of 4 a were taken for b", "1 of 3 b were taken for a"]
    assert worst_confusions(Confusion.from_labels(rows("ab"), rows("ab"))) == []


@pytest.mark.parametrize(("form", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_matrix_is_drawn_as_a_picture_that_is_the_same_each_time(form, begins):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    confusion = Confusion.from_labels(rows([*GOLD, "$x", "字"]), rows([*FOUND, "字", "$x"]))
    assert draw_confusion(confusion, form).startswith(begins)
    assert draw_confusion(confusion, form) == draw_confusion(confusion, form)


def test_a_picture_of_many_labels_says_how_many_are_left_out(monkeypatch):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    monkeypatch.setattr(pictures, "MOST_DRAWN", 2)
    assert b"<!-- 3 labels left out -->" in draw_confusion(Confusion.from_labels(rows(GOLD), rows(FOUND)), "svg")


def test_without_matplotlib_a_picture_names_the_extra(monkeypatch):
    without(monkeypatch, "matplotlib")
    with pytest.raises(MissingExtra, match=r"dragoman\[plots\]"):
        draw_confusion(Confusion.from_labels(rows("ab"), rows("aa")))


def test_facts_are_plain_and_can_be_read_again(tmp_path):
    words = sentences(1)
    found = [judged(CLASSIFY, GOLD, FOUND), judged(ENTITIES, words, noisy_sentences(words, 0.2, 3))]
    facts = [json.loads(json.dumps(each.facts())) for each in found]
    write_json(tmp_path / "scores.json", {"format": 1, "evaluations": facts, "comparisons": []})
    kept = read_evaluations(tmp_path / "scores.json")
    assert [each.scores for each in kept] == [each.scores for each in found]
    assert [each.counts for each in kept] == [each.counts for each in found]
    assert [list(each.scores) for each in found] == [
        ["accuracy", "macro_f1"],
        ["f1", "precision", "recall", "accuracy"],
    ]
    assert sum(sum(row.values()) for row in facts[0]["confusion"].values()) == 200
    assert [row["label"] for row in facts[1]["entities"]] == ["person", "place"]


def test_scores_are_shown_as_those_of_translations_are(capsys):
    show_scores([judged(CLASSIFY, GOLD, FOUND)])
    shown = capsys.readouterr().out
    assert "macro F1" in shown and "test.tsv; the most probable label; 200 texts, " in shown


def test_rows_of_a_table_have_a_cell_for_each_heading():
    assert all(len(row.cells) == len(HEADINGS) for row in label_rows(rows(GOLD), rows(FOUND)))


def test_a_clearly_better_system_is_named():
    found = compare_systems(
        [judged(CLASSIFY, GOLD, noisy(GOLD, 0.1, 3), "good")], [judged(CLASSIFY, GOLD, FOUND, "bad")]
    )
    assert list(found) == ["accuracy", "macro_f1"]
    for comparison in found.values():
        assert comparison.better == "good"
        assert comparison.low <= comparison.delta <= comparison.high
        assert str(comparison).startswith("good is better than bad by ")


def test_no_difference_is_found_in_a_system_and_itself():
    words = sentences(1)
    same = judged(ENTITIES, words, noisy_sentences(words, 0.2, 3))
    for comparison in compare_systems([same], [same], samples=50).values():
        assert comparison.better is None and comparison.delta == 0


def test_two_systems_that_find_different_labels_are_counted_alike():
    """The labels of one that the other never finds are in the columns of both."""
    first, second = judged(CLASSIFY, GOLD, FOUND), judged(CLASSIFY, GOLD, noisy(GOLD, 0.4, 9, (*TOPICS, "new")))
    found = compare_systems([first], [second], samples=50)["macro_f1"]
    assert found.values == pytest.approx((first.scores["macro_f1"].value, second.scores["macro_f1"].value))


def test_systems_on_different_test_sets_are_not_compared():
    with pytest.raises(DataError, match="only systems on the same test set can be compared"):
        compare_systems([judged(CLASSIFY, GOLD, FOUND)], [judged(CLASSIFY, GOLD[::-1], FOUND)])


def test_lists_and_tuples_of_labels_are_one_test_set():
    words = sentences(1)
    found = compare_systems(
        [judged(PARTS, words, words)], [judged(PARTS, [tuple(row) for row in words], words)], samples=10
    )
    assert [comparison.delta for comparison in found.values()] == [0, 0]


def test_metrics_that_are_not_asked_for_are_not_compared():
    found = compare_systems(
        [judged(CLASSIFY, GOLD, GOLD)], [judged(CLASSIFY, GOLD, FOUND)], metrics=["macro_f1"], samples=10
    )
    assert list(found) == ["macro_f1"]


def test_systems_of_several_seeds_are_compared():
    good, bad = ([judged(CLASSIFY, GOLD, noisy(GOLD, rate, seed)) for seed in range(3)] for rate in (0.1, 0.5))
    found = compare_systems(good, bad, names=("good", "bad"))
    assert [comparison.better for comparison in found.values()] == ["good", "good"]
    with pytest.raises(ConfigError, match="needs two runs of each system"):
        compare_systems(good[:1], bad, names=("good", "bad"))
