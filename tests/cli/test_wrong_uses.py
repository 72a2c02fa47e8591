"""Wrong uses that only a command can meet: each ends in one clear line and the right exit code, and leaves nothing.

The messages of a room are tested where they are raised; `test_cli` shows that each kind of error becomes such a line.
"""

import json
import shlex
from pathlib import Path

import pytest

from dragoman.cli.main import main

# In the folder that `place` makes. The command line, what its line must say, and the exit code.
WRONG = [
    ("tranlate model text", "No such command 'tranlate'. Did you mean", 2),
    ("translate RUN text --beem-size 4", "No such option: --beem-size", 2),
    ("translate RUN/data text", "is prepared data, not a model; train one on it with: dragoman train", 4),
    ("benchmark RUN --input pairs.tsv --output pairs.tsv", "pairs.tsv is also read, and would be lost", 2),
    ("translate RUN text --output out.gz", "out.gz would not be packed", 2),
    ("translate RUN --item 1 --output out.txt", "--item shows a sentence and its target", 2),
    ("translate RUN hello --set document.texts=9", "--set document.texts=9 is for a document", 2),
    ("train pairs.tsv --name ../elsewhere", "--name takes a plain name, without folders", 2),
    (f"train {'long' * 100}", f"{('long' * 100)[:100]}: File name too long", 2),
    (f"translate {'long' * 100} text", "File name too long", 2),
    ("export RUN huggingface --out new", "cannot be exported to transformers: model.", 2),
    ("translate RUN text --input pairs.tsv", "TEXT and --input were given; translate takes one of", 2),
    ("translate RUN one two --item 1", "TEXT and --item were given; translate takes one of", 2),
    ("translate RUN my.toml", "TEXT my.toml is the name of a file; give --input my.toml for the lines in it", 2),
    ("translate RUN --item 7", "--item must be from 1 to 6, the size of the test set, but is 7", 2),
    ("translate RUN/best --item 1", "has no test set, because it is not a run folder", 2),
    ("translate RUN text --set train.steps=5", "unknown setting train; known here: decode", 2),
    ("translate RUN text --device cuda", "device cuda was asked for, but torch finds none here", 2),
    ("prepare-data empty.tsv --folder new", "empty.tsv is empty", 2),
    ("train-tokenizer pairs.tsv --folder new --vocabulary-size 5", "tokenizer.vocabulary_size must be at least 276", 2),
    ("evaluate RUN pairs.tsv --metric meteor", "meteor", 2),
    ("train marked.toml", "marked.toml: unknown setting train.stepz", 2),
    ("train my.toml --set train.stops=5", "my.toml: unknown setting train.stepz", 2),
    (
        "train pairs.tsv --set model.positions=learned --set model.max_positions=6",
        "model.max_positions is 6, but sentences of 256 tokens and the symbols around them need 258",
        2,
    ),
    ("train unparted.conll --task tag", "holds 1 labelled sentences (a blank line ends each); at least 20", 2),
    ("train labelled.csv --task fill", "labelled.csv is a table, but a language model learns from running text", 2),
    ("fine-tune MODELS/translator pairs.tsv --set task=classify", "fine-tune keeps the task, translation", 2),
    ("train labelled.csv --set model.pooling=max", "model.pooling should be 'first' or 'mean', but is \"max\"", 2),
    ("predict MODELS/classifier text --input pairs.tsv", "TEXT and --input were given; predict takes one of them", 2),
    ("predict MODELS/classifier pairs.tsv", "give --input pairs.tsv for the lines in it", 2),
    ("explain MODELS/classifier text", "explain shows translation and language models", 2),
    ("embeddings MODELS/classifier the --side target", "holds an encoder alone, which has no target", 2),
    ("evaluate RUN --picture seen.png", "--picture draws the confusions of labels; ", 2),
    ("fine-tune RUN pairs.tsv --lora 2 --freeze encoder", "tuning.lora freezes everything but its adapters", 2),
    ("fine-tune RUN pairs.tsv --freeze ''", "tuning.freeze.0 should have at least 1 character", 2),
    ("merge MODELS/adapter --to MODELS/adapter/new", "would be inside", 2),
    ("merge MODELS/adapter --to new --base MODELS/classifier", "put back the model that it was trained on", 4),
    ("average MODELS/classifier MODELS/others --to new --share 0.5", "have different labels", 2),
    ("export MODELS/classifier --out new ctranslate2", "does not translate, and only translation models can", 2),
    ("convert MODELS/bert --to new", "with model_type 'bert'; only 'marian', 'm2m_100', 'mbart' are read", 4),
    ("convert pairs.tsv --to new", "convert takes a folder of transformers", 4),
]


@pytest.fixture
def place(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with the files that the wrong uses name."""
    pairs = (run_folder.parent / "pairs.tsv").read_text("utf-8").partition("\n")[2]
    contents = {
        "pairs.tsv": "en\tit\n" + pairs,
        "empty.tsv": "",
        "long.en": "one\ntwo\nthree\n",
        "short.it": "uno\ndue\n",
        "my.toml": "[train]\nstepz = 10\n",
        "marked.toml": "\ufeff[train]\nstepz = 10\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    rows = [(f"I have seen number {number} of them", "bad" if number % 3 else "good") for number in range(30)]
    tables = {
        "labelled.csv": [("text", "label"), *rows],
        "swapped.csv": [("text", "label"), *((label, text) for text, label in rows)],
        "one.csv": [("text", "label"), *((text, "good") for text, _ in rows)],
        "open.csv": [("text", "label"), *rows, ('"never closed', "good")],
    }
    for name, table in tables.items():
        (tmp_path / name).write_text("".join(f"{text},{label}\n" for text, label in table), encoding="utf-8")
    objects = [json.dumps({"text": text, "label": label}) for text, label in rows]
    (tmp_path / "broken.jsonl").write_text("\n".join([*objects, "{"]), encoding="utf-8")
    words = {"words.conll": "Rome\tNOUN\nsleeps\tVERB\n\n", "unparted.conll": "Rome NOUN\nsleeps VERB\n"}
    for name, sentence in {**words, "short.conllu": "1\tRome\n\n"}.items():
        (tmp_path / name).write_text(sentence * 30, encoding="utf-8")
    (tmp_path / "runs").mkdir()
    (tmp_path / "latin.tsv").write_bytes("the city\tla città\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "expected", "code"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_wrong_use_ends_in_one_clear_line(
    line: str,
    expected: str,
    code: int,
    models: Path,
    run_folder: Path,
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders = (place, models)
    before = [sorted(folder.rglob("*")) for folder in folders]
    named = line.replace("MODELS", str(models)).replace("RUN", str(run_folder))
    exit_code = main(shlex.split(named))
    out, err = capsys.readouterr()
    errors = [message for message in err.split("\n") if message.startswith("error: ")]
    assert len(errors) == 1 and expected in errors[0]
    assert (exit_code, out) == (code, "")
    assert [sorted(folder.rglob("*")) for folder in folders] == before, "something was left behind"
