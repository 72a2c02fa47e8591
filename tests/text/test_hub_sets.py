"""The splits of a data set of the hub, and of a folder that is laid out like one, are its training, dev and test sets.

The library reads a local folder as it reads one of the hub.
"""

import logging
from pathlib import Path
from typing import Any

import pytest
from one_direction import prepare_data

import dragoman
from dragoman.cli.main import main
from dragoman.errors import DataError
from dragoman.evaluating.references import read_references
from dragoman.text.guess import guess_task
from dragoman.text.prepare import prepare_labelled, prepare_text
from dragoman.text.prepared import read_examples, read_split, read_tagged, read_text
from dragoman.text.readers import open_pairs
from dragoman.text.settings import DataSettings

datasets = pytest.importorskip("datasets", reason="datasets is not installed")

Splits = dict[str, list[dict[str, Any]]]
LABELS = {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}


@pytest.fixture(autouse=True)
def _local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")  # a home may be read-only
    datasets.disable_progress_bars()


def write(folder: Path, splits: Splits, kinds: dict[str, Any] | None = None) -> str:
    """Writes splits as the hub has them; training in two parts."""
    (folder / "data").mkdir(parents=True)
    for name, rows in splits.items():
        parts = [rows[:25], rows[25:]] if name == "train" else [rows]
        for number, part in enumerate(parts):
            table = datasets.Dataset.from_list(part, features=kinds and datasets.Features(kinds))
            table.to_parquet(folder / "data" / f"{name}-{number:05}-of-{len(parts):05}.parquet")
    return str(folder)


def pairs(*numbers: int) -> list[dict[str, Any]]:
    return [{"translation": {"en": f"The dog {n}.", "it": f"Il cane {n}."}} for n in numbers]


def texts(first: int, count: int, label: int | None = None) -> list[dict[str, Any]]:
    return [
        {"sentence": f"the film {n} was {('dull', 'fine')[n % 2]}", "label": n % 2 if label is None else label}
        for n in range(first, first + count)
    ]


PAIRS = {"train": pairs(*range(40)), "validation": pairs(50, 51, 52), "test": pairs(60, 61, 3, 50)}


@pytest.mark.parametrize("form", ["hub:{}", "{}", "{}/data"])
def test_given_splits_are_the_sets_of_pairs(form: str, tmp_path: Path) -> None:
    address = form.format(write(tmp_path / "books", PAIRS))
    report = prepare_data(address, tmp_path / "data")
    assert {name: split.pairs for name, split in report.splits.items()} == {"train": 40, "dev": 3, "test": 4}
    dev, test = f"{address}#validation", f"{address}#test"
    if not address.startswith("hub:"):
        dev, test = (tmp_path / "books" / "data" / f"{name}-00000-of-00001.parquet" for name in ("validation", "test"))
    line = f"train 40 pairs (the rest), dev 3 pairs (given: {dev}), test 4 pairs (given: {test})"
    assert list(report.notes()).count(line) == 1
    assert list(read_split(tmp_path / "data", "test"))[2] == ("The dog 3.", "Il cane 3.")
    assert "1 of 4 test pairs have a sentence that is also in training" in " ".join(report.warnings)
    assert "1 of 4 test pairs have a sentence that is also in dev" in " ".join(report.warnings)


def test_what_is_not_given_is_split_off(tmp_path: Path) -> None:
    address = "hub:" + write(tmp_path / "books", {name: PAIRS[name] for name in ("train", "test")})
    report = prepare_data(address, tmp_path / "one")
    assert {name: split.pairs for name, split in report.splits.items()} == {"train": 38, "dev": 2, "test": 4}
    address = "hub:" + write(tmp_path / "all", PAIRS)
    report = prepare_data(address, tmp_path / "two", dev_size=5, test_path=f"{address}#validation")
    assert {name: split.pairs for name, split in report.splits.items()} == {"train": 35, "dev": 5, "test": 3}
    report = prepare_data(f"{address}#train", tmp_path / "three")
    assert {name: split.pairs for name, split in report.splits.items()} == {"train": 36, "dev": 2, "test": 2}


def test_a_split_is_named(tmp_path: Path) -> None:
    address = "hub:" + write(tmp_path / "books", PAIRS)
    assert [pair.origin for pair in open_pairs(f"{address}#test")] == [f"books#test:{row}" for row in range(1, 5)]
    assert read_references(f"{address}#validation").sources == ("The dog 50.", "The dog 51.", "The dog 52.")
    assert len(list(dragoman.score("src/dragoman/inference/phrasebook", f"{address}#test"))) == 4
    with pytest.raises(DataError, match=r"books \(no configuration\) could not be loaded: .*Unknown split"):
        open_pairs(f"{address}#tests")
    only = "hub:" + write(tmp_path / "only", {"test": PAIRS["test"]})
    with pytest.raises(DataError, match=f"{only} has no split for training, only test; name one: {only}#test"):
        prepare_data(only, tmp_path / "data")


@pytest.mark.parametrize("form", ["hub:{}", "{}"])
def test_labels_that_are_hidden_are_not_used(form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    splits = {"train": texts(0, 60), "validation": texts(60, 9), "test": texts(70, 20, -1)}
    settings = DataSettings(path=form.format(write(tmp_path / "films", splits, LABELS)))
    found = guess_task(settings)
    assert found is not None and found[0] == "classify"
    with caplog.at_level(logging.INFO):
        report = prepare_labelled(settings, "classify", tmp_path / "data")
    assert {name: split.examples for name, split in report.splits.items()} == {"train": 54, "dev": 9, "test": 6}
    assert list(report.labels) == (["bad", "good"] if "hub" in form else ["0", "1"])
    assert ("the film 60 was dull", next(iter(report.labels))) in list(read_examples(tmp_path / "data", "dev"))
    notes = " ".join(report.notes())
    assert "are hidden (-1), so it is not used" in caplog.text + notes and "dev 9 examples (given: " in notes


def test_labels_of_words_have_names(tmp_path: Path) -> None:
    kinds = {
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-PER"])),
    }
    rows = [{"tokens": ["Ada", "ran", f"{n}"], "ner_tags": [1, 0, 0]} for n in range(60)]
    path = "hub:" + write(tmp_path / "people", {"train": rows[:40], "dev": rows[40:]}, kinds)
    found = guess_task(DataSettings(path=path))
    assert found is not None and found[0] == "tag"
    report = prepare_labelled(DataSettings(path=path), "tag", tmp_path / "data")
    assert report.splits["dev"].origin == f"given: {path}#dev"
    assert next(read_tagged(tmp_path / "data", "dev")) == (["Ada", "ran", "40"], ["B-PER", "O", "O"])


def test_splits_that_are_not_used_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    splits = {"train": texts(0, 60), "validation_matched": texts(60, 9), "validation_mismatched": texts(70, 8)}
    path = "hub:" + write(tmp_path / "films", splits, LABELS)
    with caplog.at_level(logging.INFO):
        report = prepare_labelled(DataSettings(path=path), "classify", tmp_path / "data")
    assert report.splits["dev"].origin == f"given: {path}#validation_matched"
    assert caplog.text.count(f"{path}: splits that are not used: validation_mismatched") == 1


@pytest.mark.parametrize("form", ["hub:{}", "{}"])
def test_plain_text_is_the_column_of_texts(form: str, tmp_path: Path) -> None:
    lines = [{"id": str(n), "text": f" = Title {n} = \n" if n % 5 == 0 else f"Line {n}."} for n in range(200)]
    path = form.format(write(tmp_path / "wiki", {"train": lines, "validation": lines[:9], "test": lines[9:19]}))
    report = prepare_text(DataSettings(path=path), tmp_path / "data")
    assert "".join(read_text(tmp_path / "data", "dev")).startswith(" = Title 0 = \nLine 1.\nLine 2.\n")
    assert report.splits["dev"].origin.startswith(f"given: {path}")
    with pytest.raises(
        DataError, match=r"has no column 'words' of texts \('id', 'text'\); --set data.text_column=NAME"
    ):
        prepare_text(DataSettings(path=path, text_column="words"), tmp_path / "other")


def test_files_of_one_set_in_several_forms_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "films", {"train": texts(0, 60), "dev_a": texts(60, 9), "dev_b": texts(70, 8)}, LABELS)
    with pytest.raises(DataError, match=r"data holds 2 files named for dev \(dev_a.*, dev_b"):
        prepare_labelled(DataSettings(path=folder), "classify", tmp_path / "data")


def test_a_classifier_is_trained_and_evaluated_on_the_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    splits = {"train": texts(0, 60), "validation": texts(60, 9), "test": texts(70, 20, -1)}
    path = "hub:" + write(tmp_path / "films", splits, LABELS)
    run = dragoman.train(path, overrides=["train.steps=2"], runs=tmp_path / "runs", device="cpu").folder
    assert run.name == "films"
    capsys.readouterr()
    assert main(["evaluate", str(run), f"{path}#validation"]) == 0
    assert "expected calibration error" in capsys.readouterr().out
    assert main(["evaluate", str(run), f"{path}#test"]) == 2
    assert capsys.readouterr().err.endswith("films#test are hidden (-1); name a set that has them\n")
