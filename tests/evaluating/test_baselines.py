"""What a model must beat: simple ways that learn from the training set in seconds."""

import logging

import pytest
from extras import without

from dragoman.evaluating.baselines import (
    FREQUENT,
    KNOWN_ENTITIES,
    MAJORITY,
    SVM,
    classify_baselines,
    tag_baselines,
)
from dragoman.evaluating.label_metrics import marks_ends
from dragoman.evaluating.labels_evaluation import compare_with_better, evaluate_labels, judge_baselines
from dragoman.tokenizing.labels import Labels

TEXTS = [
    ("where is the town ?", "place"),
    ("where is the river ?", "place"),
    ("where is a road ?", "place"),
    ("who is the king ?", "person"),
    ("who was the queen ?", "person"),
]
ENTITIES = [
    ("Mary lives in New York .".split(), "B-person O O B-place I-place O".split()),
    ("New ideas come from York .".split(), "O O O O B-place O".split()),
    ("Mary Jones sleeps .".split(), "B-person I-person O O".split()),
]


def test_the_majority_label_is_that_of_the_training_set():
    assert classify_baselines(TEXTS, [("who", "person")] * 2)[MAJORITY] == ["place", "place"]


def test_the_svm_learns_words_and_pairs():
    pytest.importorskip("sklearn", reason="needs the extra baselines")
    assert classify_baselines(TEXTS, [("who is there ?", ""), ("where ?", "")])[SVM] == ["person", "place"]


@pytest.mark.parametrize("texts", [[("a text", "same"), ("another", "same")], [(" ", "one"), ("", "other")]])
def test_the_svm_is_left_out_where_it_can_learn_nothing(texts):
    assert list(classify_baselines(texts, texts)) == [MAJORITY]


def test_the_svm_sees_the_characters_of_scripts_without_spaces():
    things, ends = "映画 料理 宿 講演 服 時計 犬 本".split(), {"は良かった": "good", "は悪かった": "bad"}
    train = [(f"{thing}{end}", label) for thing in things[:6] for end, label in ends.items()]
    test = [(f"{thing}{end}", label) for thing in things[6:] for end, label in ends.items()]
    assert classify_baselines(train, test)[SVM] == [label for _, label in test]


def test_without_scikit_learn_the_svm_is_left_out_and_the_extra_named(monkeypatch, caplog):
    without(monkeypatch, "sklearn")
    with caplog.at_level(logging.WARNING):
        assert list(classify_baselines(TEXTS, TEXTS)) == [MAJORITY]
    assert caplog.messages == [
        f"the baseline {SVM} is skipped: scikit-learn is not installed: pip install 'dragoman[baselines]'"
    ]


def test_each_word_gets_its_most_frequent_tag_and_unknown_words_the_most_frequent_of_all():
    train = [(["the", "run", "can"], ["DET", "NOUN", "NOUN"]), (["run", "the", "run"], ["VERB", "DET", "NOUN"])]
    assert tag_baselines(train, [(["run", "the", "zebra"], ["VERB", "DET", "NOUN"]), ([], [])]) == {
        FREQUENT: [["NOUN", "DET", "NOUN"], []]
    }


def test_known_entities_are_marked_the_longest_first():
    found = tag_baselines(ENTITIES, [("York and New York , Mary".split(), [])])
    assert found[KNOWN_ENTITIES] == ["B-place O B-place I-place O B-person".split()]


def test_labels_that_are_not_bio_mark_no_entities():
    train = [("Mary lives in New York .".split(), "S-person O O B-place E-place O".split())]
    assert list(tag_baselines(train, train)) == [FREQUENT]


@pytest.mark.parametrize(
    ("names", "ends"), [("O B-x I-x E-x S-x", True), ("O B-x I-x L-x U-x", True), ("O B-x I-x", False)]
)
def test_labels_that_mark_ends_are_recognised(names, ends):
    assert marks_ends(Labels(task="tag", names=tuple(names.split()))) == ends
    assert not marks_ends(Labels(task="classify", names=tuple(names.split())))
    assert not marks_ends(Labels(task="tag", names=("NOUN", "S-x")))


def test_entities_of_two_types_are_not_marked():
    train = [*ENTITIES, (["Mary"], ["B-place"])]
    assert tag_baselines(train, [(["Mary"], [])])[KNOWN_ENTITIES] == [["O"]]


def test_frequent_tags_of_entities_are_a_valid_sequence():
    train = [*ENTITIES, ENTITIES[0]]  # York is mostly the inside of New York, but alone it begins
    found = tag_baselines(train, [("York is here".split(), []), ("New York".split(), [])])[FREQUENT]
    assert found == [["B-place", "O", "O"], ["B-place", "I-place"]]


def test_only_baselines_that_are_ahead_of_the_model_are_compared_with_it():
    gold = ["place", "person"] * 50
    labels = Labels(task="classify", names=("place", "person"))
    weak = [label if number % 3 else "place" for number, label in enumerate(gold)]
    model = evaluate_labels(labels, gold, weak, system="model", test="test.csv", sha256="5" * 64)
    baselines = judge_baselines(model, {"strong": gold, "as good": weak, "blind": ["place"] * 100}, samples=0)
    assert [each.scores["accuracy"].value for each in baselines] == [100, model.scores["accuracy"].value, 50]
    (found,) = compare_with_better(model, baselines)
    assert str(found).startswith("strong is better than model by 17.0 accuracy (p ")


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def texts_of(path, coarse=False):
    pairs = [line.split(" ", 1) for line in lines_of(path)]
    return [(text, label.partition(":")[0] if coarse else label) for label, text in pairs]


def sentences_of(path, word, tag):
    """Columns between tabs, sentences between empty lines; comments, and tokens of UD that are no words, left out."""
    found, rows = [], []
    for line in [*lines_of(path), ""]:
        columns = line.split("\t")
        if not line.strip() and rows:
            found.append(tuple(zip(*rows, strict=True)))
            rows = []
        elif line.strip() and (len(columns) == 2 or columns[0].isdecimal()):
            rows.append((columns[word], columns[tag]))
    return found


def scores(task, train, test, baselines):
    names = tuple({label for _, labels in [*train, *test] for label in ([labels] if task == "classify" else labels)})
    gold = [labels for _, labels in test]
    return {
        name: evaluate_labels(
            Labels(task=task, names=names), gold, found, system=name, test="test", sha256="", samples=0
        ).scores
        for name, found in baselines(train, test).items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize(("coarse", "accuracy"), [(True, 90.8), (False, 82.4)])
def test_the_svm_reaches_what_is_known_of_it_on_trec(shared_data, coarse, accuracy):
    pytest.importorskip("sklearn", reason="needs the extra baselines")
    train, test = (texts_of(shared_data / "trec" / name, coarse) for name in ("train.txt", "test.txt"))
    found = scores("classify", train, test, classify_baselines)
    assert found[SVM]["accuracy"].value == pytest.approx(accuracy, abs=0.5)


@pytest.mark.thorough
def test_the_svm_reaches_what_is_known_of_it_on_sst2(shared_data):
    pytest.importorskip("sklearn", reason="needs the extra baselines")
    train, test = (texts_of(shared_data / "sst2" / f"stsa.binary.{name}") for name in ("train", "test"))
    assert scores("classify", train, test, classify_baselines)[SVM]["accuracy"].value == pytest.approx(81.2, abs=0.5)


@pytest.mark.thorough
def test_frequent_tags_reach_what_is_known_of_them_on_parts_of_speech(shared_data):
    folder = shared_data / "ud-english-ewt"
    train, test = (sentences_of(folder / f"en_ewt-ud-{name}.conllu", 1, 3) for name in ("train", "test"))
    assert len(test) == 2077
    assert scores("tag", train, test, tag_baselines)[FREQUENT]["accuracy"].value == pytest.approx(86.2, abs=0.1)


@pytest.mark.thorough
def test_no_entity_that_the_training_text_of_wnut_names_is_in_its_test_text(shared_data):
    """Its makers dropped them, so learning names by heart is worth nothing there."""
    train = sentences_of(shared_data / "wnut17" / "wnut17train.conll", 0, 1)
    test = sentences_of(shared_data / "wnut17" / "emerging.test.annotated", 0, 1)
    found = scores("tag", train, test, tag_baselines)
    assert (len(train), len(test)) == (3394, 1287)
    assert found[KNOWN_ENTITIES]["f1"].value == 0
    assert found[FREQUENT]["f1"].value == pytest.approx(1.8, abs=0.1)
