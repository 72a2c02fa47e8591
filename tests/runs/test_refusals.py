"""Every setting of the text has an effect in a task, or is refused by it."""

import json
from pathlib import Path
from typing import Any, get_args

import pyarrow
import pytest
from pyarrow import parquet

from dragoman.config import check, flatten
from dragoman.errors import ConfigError, DataError
from dragoman.runs.recipe import Recipe, Task, refuse_useless
from dragoman.text.prepare import prepare_data, prepare_labelled, prepare_text
from dragoman.text.settings import DataSettings

CHANGED: dict[str, Any] = {
    "path": "other",
    "folder": "beside",
    "origin": "https://example.org",
    "dev_path": "other",
    "test_path": "other",
    "dev_size": 7,
    "test_size": 7,
    "seed": 5,
    "format": "xlsx",
    "header": False,
    "quoted": False,
    "encoding_errors": "replace",
    "source_language": "de",
    "target_language": "fr",
    "source_column": "note",
    "target_column": "note",
    "text_column": "note",
    "label_column": "note",
    "label_depth": 1,
    "exchanged": "drop",
    "directions": "it-en",
    "both_directions": True,
    "temperature": 1.0,
    "checks.max_words": 12,
    "checks.max_characters": 80,
    "checks.max_ratio": 2.0,
    "checks.drop_copies": False,
    "checks.drop_duplicates": False,
    "checks.drop_placeholders": False,
    "checks.drop_other_languages": False,
}
"""A value of each setting that differs from the default."""
IN_TRAINING = {"temperature"}
"""Settings that do nothing to the text, but decide how much of each direction a training takes."""


def rows() -> list[tuple[str, str, str]]:
    nouns, cities = "cat dog house train river garden".split(), "Rome Oslo Paris Berlin Turin Lima Cairo".split()
    nomi, città = "gatto cane casa treno fiume giardino".split(), "Roma Oslo Parigi Berlino Torino Lima Cairo".split()
    found = [
        (f"My friend saw {n} times the {noun} in {city}.", f"Il mio amico ha visto {n} volte {nome} a {luogo}.", "x:y")
        for n in range(3, 8)
        for noun, nome in zip(nouns, nomi, strict=True)
        for city, luogo in zip(cities, città, strict=True)
    ]
    found[20:22] = [(target, source, note) for source, target, note in found[20:22]]
    found += [(source, "DA TRADURRE", note) for source, _, note in found[40:60]]
    found += [("Rome", "Rome", "x:z"), ("He said that.", "Lo ha detto proprio così, e nessuno lo ha sentito.", "x:z")]
    found += [("One " * 14, "Uno " * 14, "x:z"), ("The dog sleeps.", "Der Hund schläft heute nicht im Haus.", "x:z")]
    found += [("A " + "long" * 25, "Una " + "lunga" * 20, "x:z"), ("The last one.", "L'ultimo.", "x:z")]
    return [*found, found[0]]


ENDINGS = {"translation": "tsv", "classify": "tsv", "tag": "jsonl", "language_model": "parquet", "fill": "parquet"}


def write_text(task: str, path: Path, table: list[tuple[str, str, str]]) -> None:
    """Text in which every setting that the task uses matters."""
    path.parent.mkdir(exist_ok=True)
    if task == "translation":
        lines = ["en\tit\tnote", *("\t".join(row) for row in table), '"She said ""yes""."\t"Ha detto ""sì""."\tx:z']
    elif task == "classify":
        lines = [f'"{source}"\t{note if at % 2 else "z:y"}\t{at % 3}' for at, (source, _, note) in enumerate(table)]
        lines = ["text\tlabel\tnote", *lines]
    elif task == "tag":
        words = [source.split() for source, _, _ in table]
        lines = [
            json.dumps({"words": row, "labels": [f"{word[:1]}:x" for word in row], "note": row[::-1]}) for row in words
        ]
    else:
        columns = {"text": [source for source, _, _ in table], "note": [target for _, target, _ in table]}
        parquet.write_table(pyarrow.table(columns), path)
        return
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def outcome(task: str, data: dict[str, Any], folder: Path) -> Any:
    """What becomes of text: its files and its languages, or why it is refused."""
    settings = check(data, "test", DataSettings)
    try:
        if task == "translation":
            prepare_data(settings, folder, False)
        elif task == "classify" or task == "tag":
            prepare_labelled(settings, task, folder, False)
        else:
            prepare_text(settings, folder, False)
    except DataError as error:
        return str(error)
    report = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    languages = [report.get(key) for key in ("language", "source_language", "target_language")]
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "data.json")
    return languages, {str(path.relative_to(folder)): path.read_bytes() for path in files}


def given(key: str) -> dict[str, Any]:
    table, _, name = key.rpartition(".")
    return {table: {name: CHANGED[key]}} if table else {name: CHANGED[key]}


def is_refused(task: Task, data: dict[str, Any], key: str) -> bool:
    recipe = check({"task": task, "data": data}, "test", Recipe)
    try:
        refuse_useless(recipe)
    except ConfigError as error:
        return f"has no use for data.{key}" in str(error)
    return False


def test_every_setting_is_tried():
    assert set(CHANGED) == set(flatten(DataSettings().model_dump(mode="json")))


def test_translation_takes_every_setting_but_those_of_labels():
    refused = {key for key in CHANGED if is_refused("translation", given(key), key)}
    assert refused == {"text_column", "label_column", "label_depth"}
    assert not is_refused("classify", given("quoted"), "quoted")


@pytest.mark.parametrize("task", get_args(Task))
def test_a_setting_of_the_text_has_an_effect_or_is_refused(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, other = f"text.{ENDINGS[task]}", f"other.{ENDINGS[task]}"
    damaged = text if ENDINGS[task] != "parquet" else "damaged.txt"
    write_text(task, Path(text), rows())
    for path in (Path(other), Path("beside", text)):
        write_text(task, path, rows()[:120])
    plain = outcome(task, {"path": text}, Path("plain"))
    assert not isinstance(plain, str)
    for key, value in CHANGED.items():
        data = {"path": text, **(given(key) if value != "other" else {key: other})}
        if is_refused(task, data, key) or key in IN_TRAINING:
            continue
        before = plain
        if key == "origin":
            data["path"], before = "missing", outcome(task, {"path": "missing"}, Path("before", key))
        elif key == "encoding_errors":
            content = Path(text).read_bytes() if damaged == text else b"One line. " * 1000
            Path("bytes").mkdir()
            Path("bytes", damaged).write_bytes(content.replace(b" ", b" \xff", 1))
            data["path"] = f"bytes/{damaged}"
            before = outcome(task, {"path": data["path"]}, Path("before", key))
        assert outcome(task, data, Path("after", key)) != before, key
