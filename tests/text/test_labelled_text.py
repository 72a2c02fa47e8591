"""Labelled text: from raw files to checked, split examples of a classifier or a tagger."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.progress import silent
from dragoman.text.guess import guess_task
from dragoman.text.labels import Example, is_bio
from dragoman.text.prepare import is_made_from, prepare_data, prepare_labelled, prepare_text
from dragoman.text.prepare_labelled import (
    CONFLICTS,
    DUPLICATES,
    DUPLICATES_DROPPED,
    EMPTY,
    KEPT_EMPTY,
    LabelledText,
)
from dragoman.text.prepared import read_examples, read_tagged
from dragoman.text.report import read_labelled_report
from dragoman.text.settings import DataSettings
from dragoman.text.split import hold_out, sentence_key
from dragoman.tokenizing.labels import Labels

ANIMALS = "dog cat hen fox owl eel ant bee cow pig".split()
ROWS = [
    (f"the {animal} {verb} {time}", "good" if verb == "sings" else "bad")
    for animal in ANIMALS
    for verb in ("sings", "bites")
    for time in ("today", "again", "at night")
]
TAGGED = [
    [("the", "DET"), (animal, "NOUN"), (verb, "VERB")] for animal in ANIMALS for verb in ("sings", "bites", "sleeps")
]


def data(path: Any, **settings: Any) -> DataSettings:
    return DataSettings(path=path, **settings)


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def label_lines(rows: list[tuple[str, str]]) -> str:
    return "".join(f"{label} {text}\n" for text, label in rows)


def columns(sentences: list[list[tuple[str, str]]], between: str = "\t") -> str:
    return "".join("".join(f"{word}{between}{tag}\n" for word, tag in sentence) + "\n" for sentence in sentences)


def conllu(sentences: list[list[tuple[str, str]]]) -> str:
    rows = []
    for number, sentence in enumerate(sentences, 1):
        rows += [f"# sent_id = {number}", "1-2\tthem\t_\t_\t_\t_\t_\t_\t_\t_"]
        rows += [
            f"{at}\t{word}\t{word}\t{tag}\tX{tag}\t_\t0\tdep:{tag}\t_\t_" for at, (word, tag) in enumerate(sentence, 1)
        ]
        rows += ["3.1\tghost\t_\t_\t_\t_\t_\t_\t_\t_", ""]
    return "\n".join(rows) + "\n"


def everything(folder: Path) -> list[tuple[str, str]]:
    return [pair for split in ("train", "dev", "test") for pair in read_examples(folder, split)]


FORMS = {
    "lines.train": label_lines(ROWS),
    "lines.txt.gz": label_lines(ROWS),
    "fasttext.train": "".join(f"__label__{label} {text}\n" for text, label in ROWS),
    "header.csv": "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in ROWS),
    "turned.csv": "Sentiment;Review\n" + "".join(f"{label};{text}\n" for text, label in ROWS),
    "bare.csv": "".join(f"{text},{label}\n" for text, label in ROWS),
    "many.tsv": "id\tsentence\tcategory\n" + "".join(f"{i}\t{text}\t{label}\n" for i, (text, label) in enumerate(ROWS)),
    "unnamed.tsv": "".join(f"{i}\t{label}\t{text}\n" for i, (text, label) in enumerate(ROWS)),
    "objects.jsonl": "".join(json.dumps({"label": label, "text": text}) + "\n" for text, label in ROWS),
    "lists.jsonl": "\n".join(json.dumps([text, label]) for text, label in ROWS) + "\n\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_the_same_examples_is_read_alike(tmp_path: Path, name: str):
    settings = data(write(tmp_path / name, FORMS[name]))
    report = prepare_labelled(settings, "classify", tmp_path / "data")
    assert sorted(everything(tmp_path / "data")) == sorted(ROWS)
    plain = data(write(tmp_path / "elsewhere" / "plain.txt", label_lines(ROWS)))
    assert all(is_made_from(tmp_path / "data", each, "classify") for each in (settings, plain))
    assert report.rows == {"train": 60}
    assert report.labels == dict(Counter(label for _, label in sorted(read_examples(tmp_path / "data", "train"))))
    assert list(report.labels) == ["bad", "good"]
    assert sum(split.examples for split in report.splits.values()) == 60


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("tabs.conll", columns(TAGGED), {}),
        ("spaces.txt", columns(TAGGED, " "), {}),
        ("first.conll", "-DOCSTART-\tO\n\n# a comment\n#\n" + columns(TAGGED) + "#\n# one more comment\n", {}),
        ("some.conllu.gz", conllu(TAGGED), {}),
        ("unnamed.data", conllu(TAGGED), {"label_column": "UPOS"}),
        ("remarks.conllu", "#sent_id=0\n" + conllu(TAGGED), {}),
        ("numbered.conllu", conllu(TAGGED), {"label_column": 4, "text_column": "lemma"}),
        (
            "turned.conll",
            columns([[(tag, word) for word, tag in each] for each in TAGGED]),
            {"label_column": 1, "text_column": 2},
        ),
        (
            "lists.jsonl",
            "".join(json.dumps([list(side) for side in zip(*each, strict=True)]) + "\n" for each in TAGGED),
            {},
        ),
    ],
)
def test_every_form_of_the_same_tagged_words_is_read_alike(tmp_path: Path, name: str, text: str, settings: dict):
    given = data(write(tmp_path / name, text), **settings)
    report = prepare_labelled(given, "tag", tmp_path / "data")
    found = [zip(*each, strict=True) for split in report.splits for each in read_tagged(tmp_path / "data", split)]
    assert sorted(map(list, found)) == sorted(TAGGED)
    plain = data(write(tmp_path / "plain.conll", columns(TAGGED)))
    assert is_made_from(tmp_path / "data", plain, "tag")
    assert sum(split.words or 0 for split in report.splits.values()) == 90


def test_tagged_words_in_parquet_are_read_and_recognised(tmp_path: Path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = [
        {"id": str(at), "tokens": [w for w, _ in each], "tags": [t for _, t in each]} for at, each in enumerate(TAGGED)
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    settings = data(str(tmp_path / "a.parquet"))
    assert guess_task(settings) == ("tag", "each row of a.parquet holds two lists, of words and labels")
    report = prepare_labelled(settings, "tag", tmp_path / "data")
    assert report.reasons == {"train": "lists in each row; the words are 'tokens' and the labels 'tags'"}
    assert is_made_from(tmp_path / "data", data(write(tmp_path / "plain.conll", columns(TAGGED))), "tag")


def test_keys_that_nobody_uses_may_be_missing(tmp_path: Path):
    rows = [{"text": text, "stars": 3, "label": label} for text, label in ROWS]
    for row in rows[1::2]:
        del row["stars"]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    prepare_labelled(data(path), "classify", tmp_path / "data")
    assert sorted(everything(tmp_path / "data")) == sorted(ROWS)
    assert guess_task(data(path)) is not None


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_a_long_tail_of_labels_is_guessed_and_read_alike(tmp_path: Path, name: str):
    labels = [f"label{at % 60}" for at in range(5_000)]
    for at in range(45):
        labels[at * 111] = f"rare{at}"
    rows = [(f"the text of number {at}", label) for at, label in enumerate(labels)]
    lines = label_lines(rows) if name == "a.txt" else "".join(f"{label},{text}\n" for text, label in rows)
    settings = data(write(tmp_path / name, lines))
    found = guess_task(settings)
    assert found is not None and found[0] == "classify"
    assert len(prepare_labelled(settings, "classify", tmp_path / "data").labels) == 105


def test_labels_of_conllu_come_from_the_column_that_is_named_and_may_be_shortened(tmp_path: Path):
    path = write(tmp_path / "some.conllu", conllu(TAGGED))
    xpos = prepare_labelled(data(path, label_column="xpos"), "tag", tmp_path / "xpos")
    assert list(xpos.labels) == ["XDET", "XNOUN", "XVERB"]
    deprel = prepare_labelled(data(path, label_column="deprel"), "tag", tmp_path / "deprel")
    assert list(deprel.labels) == ["dep:DET", "dep:NOUN", "dep:VERB"]
    with pytest.raises(DataError, match="has only the label 'dep', on all 90 words .from some.conllu:3 on"):
        prepare_labelled(data(path, label_column="deprel", label_depth=1), "tag", tmp_path / "short")


def test_a_label_of_several_parts_is_cut_to_its_depth(tmp_path: Path):
    rows = [(text, f"{label}:{text.split()[1]}") for text, label in ROWS]
    path = write(tmp_path / "trec.txt", label_lines(rows))
    assert len(prepare_labelled(data(path), "classify", tmp_path / "fine").labels) == 20
    coarse = prepare_labelled(data(path, label_depth=1), "classify", tmp_path / "coarse")
    assert list(coarse.labels) == ["bad", "good"]
    assert coarse.identity != read_labelled_report(tmp_path / "fine").identity


def test_numeric_labels_stay_text(tmp_path: Path):
    text = "".join(json.dumps({"text": text, "label": int(label == "good")}) + "\n" for text, label in ROWS)
    report = prepare_labelled(data(write(tmp_path / "a.jsonl", text)), "classify", tmp_path / "data")
    assert list(report.labels) == ["0", "1"]
    assert {label for _, label in everything(tmp_path / "data")} == {"0", "1"}


@pytest.mark.parametrize(
    "rows",
    [
        [(f"我{each}喜欢这家餐馆的寿司和茶", "正面") for each in "很真也都还太最更不再"],
        [(f"この映画は{each}とても楽しかったです", "良い") for each in "私僕君彼父母兄姉弟妹"],
        [(f"ฉันชอบ{each}อาหารที่ร้านนี้มาก", "ดี") for each in "กขคงจชซญดต"],
    ],
)
def test_texts_in_scripts_without_spaces_are_told_from_numbers_and_labels(tmp_path: Path, rows: list[tuple[str, str]]):
    rows = [
        (f"{text}{again}", label if at % 2 else "否") for again in "。！？" for at, (text, label) in enumerate(rows)
    ]
    numbered = "".join(f"2024-01-{at + 1:02} 12:30,{label},{text}\n" for at, (text, label) in enumerate(rows))
    settings = data(write(tmp_path / "a.csv", "when,what,why\n" + numbered), checks={"drop_duplicates": False})
    found = guess_task(settings)
    assert found == ("classify", "a.csv has a column 'what' of few different labels next to its texts")
    prepare_labelled(settings, "classify", tmp_path / "data")
    assert sorted(everything(tmp_path / "data")) == sorted(rows)


# Sets beside the training text


@pytest.mark.parametrize("header", ["LABEL,Review", "label,Review ", "topic,question"])
def test_a_set_may_name_its_columns_otherwise_than_the_training_text(tmp_path: Path, header: str):
    train, dev = ("".join(f"{label},{text}\n" for text, label in rows) for rows in (ROWS, ROWS[:3]))
    path = write(tmp_path / "train.csv", f"label,review\n{train}")
    settings = data(path, dev_path=write(tmp_path / "dev.csv", f"{header}\n{dev}"), test_size=0)
    assert prepare_labelled(settings, "classify", tmp_path / "data").rows == {"train": 60, "dev": 3}
    assert list(read_examples(tmp_path / "data", "dev")) == ROWS[:3]


def test_a_folder_is_read_by_the_names_of_its_files(tmp_path: Path):
    write(tmp_path / "raw" / "stsa.binary.train", label_lines(ROWS[:40]))
    write(tmp_path / "raw" / "stsa.binary.dev", label_lines(ROWS[40:50]))
    write(tmp_path / "raw" / "wnut17test.annotated", label_lines(ROWS[50:]))
    report = prepare_labelled(data(str(tmp_path / "raw")), "classify", tmp_path / "data")
    assert [(name, split.examples, split.origin) for name, split in report.splits.items()] == [
        ("train", 40, "given"),
        ("dev", 10, f"given: {tmp_path / 'raw' / 'stsa.binary.dev'}"),
        ("test", 10, f"given: {tmp_path / 'raw' / 'wnut17test.annotated'}"),
    ]
    assert list(read_examples(tmp_path / "data", "test")) == ROWS[50:]
    sized = data(str(tmp_path / "raw"), dev_size=3)
    assert prepare_labelled(sized, "classify", tmp_path / "sized").splits["dev"].examples == 3


def test_patterns_folders_and_separate_sets_are_found(tmp_path: Path):
    for part in (0, 1):
        write(
            tmp_path / "raw" / "parts" / f"{part}.tsv",
            "what\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in ROWS[part::2]),
        )
    write(tmp_path / "raw" / "held.tsv", "label\twhat\n" + "".join(f"{b}\t{a}\n" for a, b in ROWS[:5]))
    settings = data("parts/*.tsv", test_path="held.tsv", folder=str(tmp_path / "raw"), dev_size=6)
    report = prepare_labelled(settings, "classify", tmp_path / "data")
    assert report.rows == {"train": 60, "test": 5}
    assert list(read_examples(tmp_path / "data", "test")) == ROWS[:5]
    dev = dict(read_examples(tmp_path / "data", "dev"))
    assert len(dev) == 6 and not dev.keys() & {text for text, _ in ROWS[:5]}, "what is in test is not held out for dev"
    assert Counter(dev.values()) == {"good": 3, "bad": 3}


def test_leaks_contradictions_and_unknown_labels_are_found_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    train = [*ROWS, ROWS[0], ("the dog sings today", "bad"), ("", "good")]
    lines = "text,label\n" + "".join(f"{text},{label}\n" for text, label in train)
    test = "text,label\nThe cat sings today!,good\nthe cat sings again,good\nnew,worse\n,bad\n"
    settings = DataSettings(
        path=write(tmp_path / "a.csv", lines), test_path=write(tmp_path / "b.csv", test), dev_size=0
    )
    report = prepare_labelled(settings, "classify", tmp_path / "data")
    found = {kind: (each.count, each.first) for kind, each in report.findings.items()}
    assert found == {
        EMPTY: (1, "a.csv:64"),
        KEPT_EMPTY: (1, "b.csv:5"),
        DUPLICATES_DROPPED: (1, "a.csv:62"),
        CONFLICTS: (2, "a.csv:2"),
        "test texts that are also in train": (2, "b.csv:2"),
        "test examples with a label that train lacks": (1, "b.csv:4"),
    }
    assert report.splits["train"].examples == 61
    assert report.splits["test"].examples == 4, "given sets keep every example"
    warned = "2 of 4 test texts are also in train (first at b.csv:2): a score on them is too high"
    assert warned in report.warnings and warned in caplog.text
    assert "1 of 4 test examples have a label that train lacks (first at b.csv:4)" in caplog.text
    kept = settings.but(checks={"drop_duplicates": False})
    again = prepare_labelled(kept, "classify", tmp_path / "kept")
    assert again.splits["train"].examples == 62
    assert again.findings[DUPLICATES].first == "a.csv:62"


def test_entities_that_begin_with_i_are_rewritten_in_all_sets(tmp_path: Path):
    rows = [[("in", "O"), (animal, "I-place"), ("city", "I-place"), ("home", "B-place")] for animal in ANIMALS * 2]
    path, test = (write(tmp_path / name, columns(each)) for name, each in (("a.conll", rows), ("b.conll", rows[:3])))
    settings = data(path, test_path=test, dev_size=0, checks={"drop_duplicates": False})
    report = prepare_labelled(settings, "tag", tmp_path / "data")
    for split in ("train", "test"):
        assert next(read_tagged(tmp_path / "data", split))[1] == ["O", "B-place", "I-place", "B-place"]
    assert report.labels == {"B-place": 40, "I-place": 20, "O": 20}
    notes = "\n".join(report.notes())
    assert "train: 2 CoNLL columns" in notes and "; 20 labels I-… that begin an entity became B-…" in notes


def test_the_text_and_the_model_agree_on_what_bio_is(tmp_path: Path):
    for names, bio in (("O B-who O I-who", True), ("O B- O I-who", False), ("B-who I-what", False)):
        rows = [[(f"word{at}", name) for name in names.split()] for at in range(20)]
        path = write(tmp_path / "a.conll", columns(rows))
        report = prepare_labelled(data(path, dev_size=0, test_size=0), "tag", tmp_path / f"data {names}")
        assert is_bio(report.labels) is Labels(task="tag", names=tuple(report.labels)).bio is bio
        assert (report.labels != Counter(names.split() * 20)) is bio


@pytest.mark.parametrize(("task", "text"), [("classify", label_lines(ROWS)), ("tag", columns(TAGGED))])
def test_equal_labels_are_one_string_in_memory(tmp_path: Path, task, text: str):
    examples = LabelledText.read(data(write(tmp_path / "a.txt", text)), task, silent).examples["train"]
    labels = [label for example in examples for label in example.labels]
    assert len({id(label) for label in labels}) == len(set(labels))


def test_only_equal_words_with_other_labels_contradict(tmp_path: Path):
    rows = [[("Yes", "INTJ")], [("Yes", "INTJ"), (".", "PUNCT")], [("Help", "NOUN"), ("!", "PUNCT")]]
    again = [[("help", "VERB"), ("!", "PUNCT")], [("a", "DET"), ("b", "NOUN")], [("a", "X"), ("b", "NOUN")]]
    path = write(tmp_path / "a.conll", columns([*TAGGED, *rows, *again]))
    report = prepare_labelled(data(path, dev_size=0, test_size=0), "tag", tmp_path / "data")
    assert (report.findings[CONFLICTS].count, report.findings[CONFLICTS].first) == (2, "a.conll:132")


# What is held out


def example(text: str, *labels: str) -> Example:
    return Example(tuple(text.split()) if len(labels) > 1 else (text,), labels, "here", (1,) * len(labels))


texts = st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abcd")), min_size=1, max_size=80)


@given(texts, st.integers(0, 20), st.integers(0, 20), st.integers(0, 3))
def test_equal_texts_stay_together_and_every_label_stays_in_training(rows, dev: int, test: int, seed: int):
    examples = [example(f"text {number}{'!' * (label == 'a')}", label) for number, label in rows]
    sides = hold_out(examples, {"test": test, "dev": dev}, seed)
    assert len(sides) == len(examples)
    assert sides.count("dev") <= dev and sides.count("test") <= test
    placed = list(zip(examples, sides, strict=True))
    of_text: dict[int, set[str]] = {}
    for each, side in placed:
        of_text.setdefault(sentence_key(each.text), set()).add(side)
    assert all(len(sides_of_one) == 1 for sides_of_one in of_text.values())
    assert {each.labels for each in examples} == {each.labels for each, side in placed if side == "train"}
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    moved = hold_out([examples[at] for at in order], {"test": test, "dev": dev}, seed)
    assert moved == [sides[at] for at in order], "the order of the examples does not matter"


def test_held_out_sets_have_the_labels_of_the_text_in_proportion():
    examples = [example(f"text {number}", "rare" if number % 10 == 0 else "often") for number in range(1000)]
    sides = hold_out(examples, {"test": 100, "dev": 50}, seed=1)
    counts = Counter((side, each.labels[0]) for side, each in zip(sides, examples, strict=True))
    assert counts["test", "rare"] in (9, 10, 11) and counts["test", "often"] + counts["test", "rare"] == 100
    assert counts["dev", "rare"] in (4, 5, 6) and counts["dev", "often"] + counts["dev", "rare"] == 50
    assert sides != hold_out(examples, {"test": 100, "dev": 50}, seed=2)
    assert not hold_out(examples, {"test": 100}, 1, separate={sentence_key(each.text) for each in examples}).count(
        "test"
    )


def test_texts_that_all_repeat_are_held_out_as_far_as_they_fit():
    examples = [example(f"text {at // 2}{'!' * (at % 2)}", "good" if at % 4 < 2 else "bad") for at in range(180)]
    sides = hold_out(examples, {"test": 18, "dev": 18}, seed=1)
    assert Counter(sides) == {"train": 144, "test": 18, "dev": 18}
    assert sides[::2] == sides[1::2], "equal texts stay together"
    assert Counter(each.labels[0] for each, side in zip(examples, sides, strict=True) if side == "test") == {
        "good": 10,
        "bad": 8,
    }


# Folders made before


def test_a_folder_made_from_the_same_text_is_used_again_and_another_is_refused(tmp_path: Path):
    settings = data(write(tmp_path / "a.txt", label_lines(ROWS)))
    report = prepare_labelled(settings, "classify", tmp_path / "data")
    moved = settings.but(path=write(tmp_path / "b" / "c.txt", label_lines(ROWS)))
    assert prepare_labelled(moved, "classify", tmp_path / "data") == report == read_labelled_report(tmp_path / "data")
    other = settings.but(seed=2)
    with pytest.raises(DataError, match="data was prepared from other text or settings; name another folder"):
        prepare_labelled(other, "classify", tmp_path / "data")
    again = data(str(tmp_path / "data"))
    assert prepare_labelled(again, "classify", tmp_path / "copy").splits["dev"].sha256 == report.splits["dev"].sha256
    with pytest.raises(DataError, match="data has no other set; it has train, dev, test"):
        next(read_examples(tmp_path / "data", "other"))
    with pytest.raises(DataError, match=r"train.jsonl:1 is not a JSON list of words"):
        next(read_tagged(tmp_path / "data", "train"))
    (tmp_path / "data" / "dev.jsonl").write_text("[]\n")
    with pytest.raises(
        DataError, match=r"dev.jsonl is missing or was changed; remove .*data and prepare the text again"
    ):
        prepare_labelled(settings, "classify", tmp_path / "data")
    with pytest.raises(DataError, match=r"dev.jsonl:1 is not a JSON list of a text and a label"):
        next(read_examples(tmp_path / "data", "dev"))


# Messages

LONG = "this is a rather long text that somebody wrote about nothing much at all today"
PROSE = [
    f"{word} {LONG} {number}" for number in range(10) for word in (f"Once {number}", f"then{number}", f"so{number}")
]
WRONG = {
    "a row without a label": ("a.csv", "text,label\n" + "good one,1\n" * 3 + "bad one,\n", {}, r"a.csv:5 has no label"),
    "too many cells": ("a.csv", "text,label\nx,1\nso, so,1\n", {}, r"a.csv:3 has 3 columns, but the first row has 2"),
    "swapped columns": ("a.csv", "text,label\n" + f"1,{LONG}\n" * 30, {}, r"a.csv:2 has a whole text as its label"),
    "one label": ("a.txt", label_lines([(a, "x") for a, _ in ROWS]), {}, r"has only the label 'x', on all 60 examples"),
    "one label without empty texts": (
        "a.csv",
        "text,label\n" + "".join(f"{text},{'good' if text else 'bad'}\n" for text in [*(a for a, _ in ROWS), "", ""]),
        {},
        r"a.csv has only the label 'good', on all 60 examples",
    ),
    "few examples": ("a.txt", label_lines(ROWS[:9]), {}, r"a.txt holds 9 labelled texts; at least 20"),
    "prose": ("a.txt", "\n".join(PROSE), {}, r"a.txt has 21 labels for 30 examples .*look like text, not labels"),
    "longer prose": ("a.txt", "\n".join(f"w{n % 60} {LONG} {n}" for n in range(90)), {}, r"look like text, not labels"),
    "tagged words": ("a.txt", columns(TAGGED), {}, r"a.txt holds a word and its label on each line.*the task is tag"),
    "texts as labels": (
        "a.csv",
        "text,label\n" + "".join(f"{label},{a}\n" for a, label in ROWS),
        {},
        r"text and label look swapped",
    ),
    "parallel text": (
        "a.tsv",
        "".join(f"{a} now\tqui {a} ora\n" for a, _ in ROWS),
        {},
        r"a.tsv: no column has few.*parallel text",
    ),
    "two labels": (
        "a.csv",
        "one,two,three\n" + "".join(f"{a},{b},{b}\n" for a, b in ROWS),
        {},
        r"several columns may be the label .'two', 'three'.*data.label_column=NAME",
    ),
    "no such column": (
        "a.csv",
        "text,label\nx,1\n",
        {"label_column": "labe"},
        r"no column 'labe'; did you mean 'label'",
    ),
    "one column twice": (
        "a.csv",
        "text,label\nx,1\n",
        {"label_column": "label", "text_column": 2},
        r"are the same column, 'label'",
    ),
    "columns of lines": ("a.txt", "1 good\n0 bad\n", {"label_column": 1}, r"a.txt has no columns, because"),
    "only a header": ("a.csv", "text,label\n", {}, r"a.csv has no rows below the header"),
    "one column": ("a.csv", "text\nx\ny\n", {}, r"a.csv has one column .'text'"),
    "no JSON": ("a.jsonl", '{"text": "x"\n', {}, r"a.jsonl:1 is not JSON"),
    "a missing key": ("a.jsonl", '{"text": "x", "label": 1}\n{"text": "y"}\n', {}, r"a.jsonl:2 has no key 'label'"),
    "two labels of fastText": (
        "a.txt",
        "__label__good so nice\n__label__bad __label__dull oh no\n",
        {},
        r"a.txt:2 has two labels, __label__bad and __label__dull; a text has one: remove one",
    ),
    "a number": ("a.jsonl", "{}\n7\n", {}, r"a.jsonl has one column|an example needs a text and a label|a.jsonl"),
    "invalid text": ("a.txt", label_lines(ROWS) + "good \udcff\n", {}, r"a.txt:61 is not valid UTF-8"),
    "nothing to hold out": (
        "a.txt",
        label_lines([(f"the {animal}", "good" if animal < "d" else "bad") for animal in ANIMALS[:3] for _ in range(9)]),
        {"checks": {"drop_duplicates": False}},
        r"a.txt has no text to hold out for test: each occurs more than 3 times.*give data.test_path",
    ),
    "too little to hold out": (
        "a.txt",
        label_lines(ROWS),
        {"dev_size": 40, "test_size": 30},
        r"60 different examples: too few to split off 30 for test and 40 for dev",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_text_that_is_not_labelled_is_refused_with_its_place(tmp_path: Path, case: str):
    name, text, settings, message = WRONG[case]
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message) as caught:
        prepare_labelled(data(str(tmp_path / name), **settings), "classify", tmp_path / "data")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data").exists()


WRONG_WORDS = {
    "labelled texts": (
        label_lines(ROWS),
        {},
        r"a.conll:3 has 6 columns, but the first row has 5;.*are for the task classify",
    ),
    "a short row": (columns(TAGGED) + "dog\n", {}, r"a.conll:121 has 1 column, but the first row has 2"),
    "an empty label": (columns(TAGGED) + "dog\t\n", {}, r"a.conll:121 has no label"),
    "one column": ("the\ndog\n", {}, r"a.conll:1 has one column; a tagger learns from a word and its label"),
    "a name": (columns(TAGGED), {"label_column": "upos"}, r"has no column 'upos'; columns .'1', '2'."),
    "a column twice": (columns(TAGGED), {"label_column": 1}, r"the word and the label are the same column, 1"),
    "few": (columns(TAGGED[:3]), {}, r"a.conll holds 3 labelled sentences"),
    "blank": ("\n\n", {}, r"a.conll holds only blank lines"),
    "uneven lists": ('{"words": ["a", "b"], "labels": ["X"]}\n', {}, r"a.conll:1 has 2 words but 1 labels"),
    "null": ('{"words": ["a", null], "labels": ["X", "Y"]}\n', {}, r"a.conll:1 has an empty word or label"),
    "a hash without its label": (
        columns(TAGGED) + "#rome5\n",
        {},
        r"a.conll:121 has 1 column, but the first row has 2",
    ),
    "no lists": ('{"words": "a b", "labels": ["X"]}\n', {}, r"a.conll:1 has no list of words"),
}


@pytest.mark.parametrize("case", WRONG_WORDS)
def test_words_that_are_not_labelled_are_refused_with_their_place(tmp_path: Path, case: str):
    text, settings, message = WRONG_WORDS[case]
    path = write(tmp_path / "a.conll", text)
    with pytest.raises(DataError, match=message):
        prepare_labelled(data(path, **settings), "tag", tmp_path / "data")


def test_addresses_that_no_labelled_text_has_are_refused(tmp_path: Path):
    def refused(message: str, path: Any, **settings: Any) -> None:
        with pytest.raises(DataError, match=message):
            prepare_labelled(data(path, **settings), "classify", tmp_path / "data")

    write(tmp_path / "reviews.csv", "text,label\n")
    write(tmp_path / "side" / "train.en", "a\n")
    write(tmp_path / "side" / "train.it", "a\n")
    refused(r"review.csv does not exist; did you mean .*reviews.csv\?", str(tmp_path / "review.csv"))
    refused("the train text is two files, a.en and a.it, as parallel text is", ["a.en", "a.it"])
    refused("the dev text is two files", str(tmp_path / "reviews.csv"), dev_path=["a.en", "a.it"])
    refused(r"train does not exist; did you mean .*train.(en|it)\?", str(tmp_path / "side" / "train"))
    refused(r"holds 2 files named for train \(train.en, train.it\)", str(tmp_path / "side"))
    refused("named hub:NAME:CONFIG; leave data.format out", str(tmp_path / "reviews.csv"), format="hub")
    words = write(tmp_path / "words.conll", "a\tX\n\n")
    with pytest.raises(DataError, match="named hub:NAME:CONFIG; leave data.format out"):
        prepare_labelled(data(words, format="hub"), "tag", tmp_path / "data")
    refused("no file matches", str(tmp_path / "*.tsv"))
    refused("a.txt does not exist; the text comes from the web; say where it lies", "a.txt", origin="the web")
    refused("the phrasebook brings its own sets and labels; leave data.dev_size out", "phrasebook", dev_size=9)


# Guesses


@pytest.mark.parametrize("name", FORMS)
def test_labelled_texts_are_taken_for_the_task_of_a_classifier(tmp_path: Path, name: str):
    rows = ROWS if "lines" not in name else ROWS * 2
    path = write(tmp_path / name, FORMS[name] if rows is ROWS else label_lines(rows))
    found = guess_task(data(path))
    assert found is not None and found[0] == "classify" and name in found[1]


def test_tagged_words_running_text_and_prepared_folders_are_recognised(tmp_path: Path):
    def guessed(name: str, text: str) -> str | None:
        found = guess_task(data(write(tmp_path / name, text)))
        return found[0] if found else None

    assert guessed("a.conllu", conllu(TAGGED)) == "tag"
    assert guessed("a.conll", columns(TAGGED)) == "tag"
    assert guessed("a.data", columns(TAGGED, " ")) == "tag"
    assert guessed("a.jsonl", json.dumps({"words": ["a"], "labels": ["b"]}) + "\n") == "tag"
    prose = "\n".join(f"{word} {LONG}" for word in LONG.split() * 4)
    assert guessed("prose.txt", prose) == "language_model"
    assert guessed("prose.en", prose) is None, "one side of a pair"
    prepare_labelled(data(write(tmp_path / "b.conll", columns(TAGGED))), "tag", tmp_path / "tagged")
    prepare_text(data(write(tmp_path / "c.txt", prose * 3)), tmp_path / "plain")
    assert guess_task(data(str(tmp_path / "tagged"))) == (
        "tag",
        f"{tmp_path / 'tagged'} was prepared for it",
    )
    found = guess_task(data(str(tmp_path / "plain")))
    assert found is not None and found[0] == "language_model"


def test_what_trains_a_translator_is_never_taken_for_anything_else(tmp_path: Path):
    pairs = [(f"{text} my friend", f"{text} amico mio caro") for text, _ in ROWS]
    tsv = write(tmp_path / "a.tsv", "".join(f"{a}\t{b}\n" for a, b in pairs))
    csv = write(tmp_path / "a.csv", "en,it,split\n" + "".join(f"{a},{b},x{len(a) % 2}\n" for a, b in pairs))
    short = write(
        tmp_path / "c.csv",
        "one,two,three\n" + "".join(f"{a},si {b.split()[1]} {at},x{at % 2}\n" for at, (a, b) in enumerate(pairs)),
    )
    few = write(tmp_path / "b.csv", "source,target\n" + "".join(f"{a},{'si' * (len(a) % 2)}no\n" for a, _ in pairs))
    words = write(tmp_path / "words.tsv", "".join(f"{a[4:7]}{i}\tcane{i % 50}\n" for i, (a, _) in enumerate(pairs)))
    rows = write(
        tmp_path / "a.jsonl", "".join(json.dumps({"translation": {"en": a, "it": b}}) + "\n" for a, b in pairs)
    )
    for side in (0, 1):
        write(tmp_path / f"two.{('en', 'it')[side]}", "".join(pair[side] + "\n" for pair in pairs))
    prepare_data(data(tsv), tmp_path / "prepared")
    two = [str(tmp_path / "two.en"), str(tmp_path / "two.it")]
    folders = [str(tmp_path / name) for name in ("two", "prepared", "none", "")]
    for path in (tsv, csv, short, few, words, rows, two, *folders, "phrasebook"):
        assert guess_task(data(path)) is None, path


# The phrasebook


@pytest.mark.thorough
@pytest.mark.parametrize("task", ["classify", "tag"])
def test_the_phrasebook_is_labelled_for_both_tasks_and_shares_no_sentence(tmp_path: Path, task):
    settings = data("phrasebook")
    report = prepare_labelled(settings, task, tmp_path / "data")
    assert {name: split.examples for name, split in report.splits.items()} == {
        "train": 50_000,
        "dev": 1_000,
        "test": 1_000,
        "new_patterns": 500,
    }
    assert report.findings == {} and report.language == "en"
    assert len(report.labels) == {"classify": 16, "tag": 15}[task]


# Real sets


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "task", "rows", "labels"),
    [
        ("trec", "classify", {"train": 5452, "test": 500}, 50),
        ("sst2", "classify", {"train": 6920, "dev": 872, "test": 1821}, 2),
        ("ud-english-ewt", "tag", {"train": 12544, "dev": 2001, "test": 2077}, 17),
        ("wnut17", "tag", {"train": 3394, "dev": 1009, "test": 1287}, 13),
    ],
)
def test_real_sets_are_read_whole(
    tmp_path: Path, shared_data: Path, name: str, task, rows: dict[str, int], labels: int
):
    settings = data(str(shared_data / name))
    report = prepare_labelled(settings, task, tmp_path / "data")
    assert report.rows == rows
    assert len(report.labels) == labels
    assert report.splits["test"].examples == rows["test"]
    found = guess_task(settings)
    assert found is not None and found[0] == task
    if name == "trec":
        assert report.findings["test texts that are also in train"].count == 11


@pytest.mark.parametrize("header", ["Sentence #,Word,POS,Tag", "id,tokens,x,ner_tags", "word,y,z,label"])
def test_a_table_of_words_is_named_and_told_how_to_be_saved(tmp_path: Path, header: str):
    rows = [f"{at},{word},X,{tag}" for at, row in enumerate(TAGGED) for word, tag in row]
    settings = data(write(tmp_path / "ner.csv", "\n".join([header, *rows])))
    guess = guess_task(settings)
    assert guess is not None and guess[0] == "tag"
    with pytest.raises(
        DataError, match="ner.csv is a table; save it for a tagger as lines of a word, a tab and its label"
    ):
        prepare_labelled(settings, "tag", tmp_path / "out")


def test_the_header_of_tagged_lines_is_no_word(tmp_path: Path):
    prepare_labelled(data(write(tmp_path / "ner.tsv", "token\tlabel\n" + columns(TAGGED))), "tag", tmp_path / "out")
    assert all("token" not in words for words, _ in read_tagged(tmp_path / "out", "train"))


def test_two_columns_of_texts_are_joined_or_asked_about(tmp_path: Path):
    rows = [f"{text} is one,{label},or else {text}" for text, label in ROWS]
    for header in ("sentence1,label,sentence2", "premise,label,hypothesis", "question,label,sentence"):
        path = write(tmp_path / "pairs.csv", "\n".join([header, *rows]))
        with pytest.raises(DataError, match="several columns hold texts.*join them"):
            prepare_labelled(data(path), "classify", tmp_path / "out")
    prepare_labelled(data(path, text_column="question+sentence"), "classify", tmp_path / "out")
    text, _ = next(read_examples(tmp_path / "out", "train"))
    assert " is one ||| or else " in text


def test_a_column_of_texts_beside_the_one_named_so_is_left_out_and_said(tmp_path: Path):
    rows = [f"{text} is one,{label},or else {text}" for text, label in ROWS]
    report = prepare_labelled(
        data(write(tmp_path / "notes.csv", "\n".join(["text,label,remarks", *rows]))), "classify", tmp_path / "out"
    )
    assert "left out ('remarks')" in report.reasons["train"]


def test_labels_that_differ_in_case_or_spaces_are_warned_of(tmp_path: Path):
    forms = {"good": ["good", "GOOD", "good\u200b"], "bad": ["very bad", "verybad"]}
    rows = [(text, forms[label][at % len(forms[label])]) for at, (text, label) in enumerate(ROWS)]
    report = prepare_labelled(
        data(write(tmp_path / "odd.jsonl", "\n".join(json.dumps({"text": a, "label": b}) for a, b in rows))),
        "classify",
        tmp_path / "out",
    )
    warned = [warning for warning in report.warnings if "differ only in case or spaces" in warning]
    assert len(warned) == 2 and any("'GOOD' (10, first at odd.jsonl:" in warning for warning in warned)
