"""Wrong uses that a newcomer may make: each ends in one clear line and the right exit code, and leaves nothing."""

import json
import shlex
from pathlib import Path

import pytest

from dragoman.cli.main import main

# In the folder that `place` makes. The command line, what its line must say, and the exit code.
WRONG = [
    # the command line itself
    ("tranlate model text", "No such command 'tranlate'. Did you mean", 2),
    ("translate", "Missing argument 'model'", 2),
    ("translate RUN text --beem-size 4", "No such option: --beem-size", 2),
    ("translate RUN --item 0", "Invalid value for '--item': Input should be greater than or equal to 1", 2),
    ("translate RUN text --format xml", "'xml' is not one of 'text', 'json'", 2),
    ("translate RUN text --device gpu", "'gpu' is not one of 'auto', 'cpu', 'cuda', 'mps'", 2),
    ("prepare-data pairs.tsv", "Missing option '--folder'", 2),
    ("prepare-data a.en b.it c.de --folder new", "DATA is one file, or two that are aligned line by line", 2),
    # models that are none
    ("translate nowhere text", "nowhere does not exist; MODEL is a model folder or a run folder", 4),
    ("translate pairs.tsv text", "pairs.tsv is not a model folder: it has no config.json", 4),
    ("translate pair.tsv text", "pair.tsv does not exist; did you mean pairs.tsv?", 4),
    ("translate RUN/data text", "is prepared data, not a model; train one on it with: dragoman train", 4),
    ("evaluate nowhere pairs.tsv", "nowhere does not exist", 4),
    ("evaluate RUN --against nowhere", "nowhere does not exist", 4),
    ("translate RUN text --output nowhere/out.txt", "there is no folder nowhere", 2),
    ("translate RUN text --output .", ". is a folder; name a file to write", 2),
    ("translate RUN --input pairs.tsv --output ./pairs.tsv", "pairs.tsv is also read, and would be lost", 2),
    ("score RUN pairs.tsv --output pairs.tsv", "pairs.tsv is also read, and would be lost", 2),
    ("evaluate RUN pairs.tsv --output pairs.tsv", "pairs.tsv is also read, and would be lost", 2),
    ("benchmark RUN --input pairs.tsv --output pairs.tsv", "pairs.tsv is also read, and would be lost", 2),
    ("translate RUN text --output RUN/best/config.json", "config.json lies in a model folder", 2),
    ("translate RUN text --output out.gz", "out.gz would not be packed", 2),
    ("quantize RUN --to new --test latin.tsv", "latin.tsv", 2),
    ("translate RUN --item 1 --output out.txt", "--item shows one sentence beside its target", 2),
    ("train pairs.tsv --name ../elsewhere", "--name takes a plain name, without folders", 2),
    ("benchmark nowhere --input pairs.tsv", "nowhere does not exist", 4),
    ("benchmark RUN --output nowhere/out.json", "there is no folder nowhere", 2),
    (f"train {'long' * 100}", f"{('long' * 100)[:100]}: File name too long", 2),
    (f"translate {'long' * 100} text", "File name too long", 2),
    # other toolkits
    ("convert RUN", "Missing option '--to'", 2),
    ("convert nowhere --to new", "nowhere does not exist", 4),
    ("convert RUN --to new --languages en", "Option '--languages' requires 2 arguments", 2),
    ("convert RUN --to new", "is a model of Dragoman already; dragoman export writes it for other toolkits", 2),
    ("export RUN huggingface --out new", "cannot become a folder of transformers: model.", 2),
    ("export RUN onnx --out new", "'onnx' is not one of 'ctranslate2', 'huggingface'", 2),
    ("export nowhere ctranslate2 --out new", "nowhere does not exist", 4),
    ("export RUN ctranslate2 --out RUN", "exists already", 2),
    # what to translate, and how
    ("translate RUN text --input pairs.tsv", "TEXT and --input were given; translate takes one of", 2),
    ("translate RUN one two --item 1", "TEXT and --item were given; translate takes one of", 2),
    ("translate RUN my.toml", "TEXT my.toml is the name of a file; give --input my.toml for the lines in it", 2),
    ("translate RUN text ./long.en", "TEXT ./long.en is the name of a file", 2),
    ("translate RUN --input latin.tsv", "latin.tsv:1 is not valid UTF-8 at byte 16 (0xe0); convert it to UTF-8", 2),
    ("translate RUN --input pair.tsv", "pair.tsv does not exist; did you mean pairs.tsv?", 2),
    ("translate RUN --item 7", "--item must be from 1 to 6, the size of the test set, but is 7", 2),
    ("translate RUN/best --item 1", "has no test set of its own, because it is not a run folder", 2),
    ("translate RUN text --beam-size 0", "decode.beam_size should be greater than or equal to 1, but is 0", 2),
    ("translate RUN text --n-best 9", "decode.n_best must be at most decode.beam_size", 2),
    ("translate RUN text --set beam_sise=2", "unknown setting decode.beam_sise; did you mean decode.beam_size?", 2),
    ("translate RUN text --set train.steps=5", "unknown setting train; known here: decode", 2),
    ("evaluate RUN --set decode.beam_sise=2", "unknown setting decode.beam_sise; did you mean decode.beam_size?", 2),
    ("benchmark RUN --set decode.beam_size=0", "decode.beam_size should be greater than or equal to 1, but is 0", 2),
    ("settings lerning_rate", "no setting is called lerning_rate; did you mean train.learning_rate?", 2),
    ("settings train.learning_rat_e", "did you mean train.learning_rate?", 2),
    ("settings qqqq", "no setting is called qqqq; known here: task, start, tuning, data,", 2),
    ("runs nowhere", "nowhere is not a folder; dragoman runs takes the folder that holds the runs", 2),
    ("train pairs.tsv --minutes 1e300", "train.minutes should be less than or equal to 10000000, but is 1e+300", 2),
    ("translate RUN text --set beam_size", "--set takes KEY=VALUE", 2),
    ("translate RUN text --device cuda", "device cuda was asked for, but torch finds none here", 2),
    # data
    ("prepare-data pair.tsv --folder new", "pair.tsv does not exist; did you mean pairs.tsv?", 2),
    ("prepare-data empty.tsv --folder new", "empty.tsv is empty", 2),
    (
        "prepare-data long.en short.it --folder new",
        "long.en has 3 lines but short.it 2; the files must be aligned line by line",
        2,
    ),
    ("prepare-data latin.tsv --folder new", "latin.tsv:1 is not valid UTF-8", 2),
    ("prepare-data pairs.tsv --folder RUN/data", "was prepared from other data or settings", 2),
    (
        "prepare-data pairs.tsv --folder new --set test_sise=5",
        "unknown setting data.test_sise; did you mean data.test_size?",
        2,
    ),
    ("train-tokenizer pairs.tsv --folder new --vocabulary-size 5", "tokenizer.vocabulary_size must be at least 260", 2),
    ("train-tokenizer pairs.tsv --folder RUN", "exists already; name another folder or move it away", 2),
    ("train-tokenizer pairs.tsv --folder pairs.tsv/new", "pairs.tsv is no folder", 2),
    ("prepare-data pairs.tsv --folder .", ". exists already; name another folder or move it away", 2),
    ("prepare-data pairs.tsv --folder pairs.tsv/new", "pairs.tsv is no folder", 2),
    # scores and training
    ("evaluate RUN pairs.tsv --metric meteor", "meteor", 2),
    ("evaluate short.it pairs.tsv", "short.it has 2 lines but the test set pairs.tsv 100", 2),
    ("train pair.tsv", "pair.tsv does not exist", 2),
    ("train my.toml", "unknown setting train.stepz; did you mean train.steps?", 2),
    ("train marked.toml", "marked.toml: unknown setting train.stepz", 2),
    ("train my.toml --set train.stops=5", "my.toml: unknown setting train.stepz", 2),
    (
        "train pairs.tsv --set train.stops=5",
        "the command line: unknown setting train.stops; did you mean train.steps?",
        2,
    ),
    ("train pairs.tsv --set train.steps=0", "train.steps should be greater than or equal to 1, but is 0", 2),
    ("train pairs.tsv --set 'train.betas=[1.5, 0.9]'", "train.betas.0 should be less than 1, but is 1.5", 2),
    (
        "train pairs.tsv --set model.positions=learned --set model.max_positions=6",
        "model.max_positions is 6, but sentences of 256 tokens and the symbols around them need 258",
        2,
    ),
    ("reproduce tatoeba-en-it --set train.minutes=5", "train.minutes=5 cannot be set here", 2),
    ("train pairs.tsv --set train.steps=many", 'train.steps should be a valid integer, but is "many"', 2),
]

# The same, beside it the folder MODELS, which holds models of every kind.
WRONG_OF_OTHER_TASKS = [
    # labelled text
    ("train labelled.csv --task clasify", "'clasify' is not one of 'translate', 'language_model', 'classify'", 2),
    ("train labelled.csv --task tag", "labelled.csv:1 has one column; a tagger learns from a word and its label", 2),
    ("train words.conll --task classify", "from which a tagger learns: the task is tag", 2),
    ("train pairs.tsv --task classify", "pairs.tsv: no column has few different values, as labels do", 2),
    ("train swapped.csv --task classify", "text and label look swapped", 2),
    ("train one.csv --task classify", "one.csv has only the label 'good', on all 30 examples", 2),
    ("train open.csv --task classify", "open.csv:32 opens a quote that is never closed; close it", 2),
    ("train broken.jsonl --task classify", "broken.jsonl:31 is not JSON", 2),
    ("train short.conllu --task tag", "short.conllu has 2 columns in its first row, but CoNLL-U has 10", 2),
    ("train unparted.conll --task tag", "holds 1 labelled sentences (a blank line ends each); at least 20", 2),
    ("train pairs.tsv --set data.label_depth=1", "reads sentence pairs and has no use for data.label_depth", 2),
    ("train labelled.csv --task fill", "labelled.csv is a table, of which running text has none", 2),
    ("fine-tune MODELS/translator pairs.tsv --set task=classify", "fine-tune keeps the task, translation", 2),
    ("train labelled.csv long.en --task classify", "reads one text, not two aligned files", 2),
    ("train labelled.csv --set data.text_column=txet", "no column 'txet'; did you mean 'text'?", 2),
    (
        "train labelled.csv --set data.label_depth=0",
        "data.label_depth should be greater than or equal to 1, but is 0",
        2,
    ),
    ("train labelled.csv --set model.pooling=max", "model.pooling should be 'first' or 'mean', but is \"max\"", 2),
    ("train labelled.csv --set train.class_weights=yes", "should be 'none' or 'balanced', but is \"yes\"", 2),
    ("train pairs.tsv --set train.class_weights=balanced", "weighs labels; task = 'translation' has none", 2),
    (
        "train words.conll --task tag --set model.pooling=mean",
        "a text that gets one label: only task = 'classify' does",
        2,
    ),
    ("train labelled.csv --set start.model=nowhere", "nowhere does not exist; MODEL is a model folder", 4),
    ("train labelled.csv --set start.model=MODELS/lm", "holds a language model; task = 'classify' starts from", 2),
    (
        "train labelled.csv --set 'tuning.freeze=[\"encoder\"]'",
        "there is none to start from; use dragoman fine-tune",
        2,
    ),
    ("train trec", "train.txt does not exist; the text comes from https://cogcomp.seas.upenn.edu", 2),
    # prediction
    ("predict RUN text", "holds a model that translates; use dragoman translate", 2),
    ("predict MODELS/lm text", "holds a model that continues texts; use dragoman generate", 2),
    ("predict MODELS/adapter text", "holds a model that translates; use dragoman translate", 2),
    ("predict MODELS/classifier text --input pairs.tsv", "TEXT and --input were given; predict takes one of them", 2),
    ("predict MODELS/classifier pairs.tsv", "give --input pairs.tsv for the lines in it", 2),
    ("predict MODELS/classifier --input latin.tsv", "latin.tsv:1 is not valid UTF-8", 2),
    ("predict MODELS/classifier text --best 0", "'--best': Input should be greater than or equal to 1", 2),
    ("predict MODELS/filler 'the cat'", '"the cat" has no [MASK] to fill in; write [MASK] where a word', 2),
    ("predict MODELS/filler 'un[MASK]ed'", "[MASK] is part of a word, but stands for a whole one", 2),
    ("predict MODELS/cut text", "cut/labels.json has 9 bytes, but manifest.json says", 4),
    ("predict MODELS/exchanged text", "labels.json is for the task tag, but the model labels a whole text", 4),
    (
        "translate MODELS/classifier text",
        "holds a model that labels texts or fills in words; use dragoman predict",
        2,
    ),
    ("explain MODELS/classifier text", "explain shows translation and language models", 2),
    ("embeddings MODELS/classifier the --side target", "holds an encoder alone, which has no target", 2),
    (
        "fine-tune MODELS/classifier pairs.tsv",
        "fine-tune takes a translation model, and others go on with: dragoman train",
        2,
    ),
    ("benchmark MODELS/classifier --input long.en", "labels texts or fills in words; use dragoman predict", 2),
    # scores of labels
    ("evaluate MODELS/classifier", "is no run with a test set of its own; name a test set", 4),
    (
        "evaluate MODELS/classifier labelled.csv --beam-size 2",
        "takes only settings that say how text is read",
        2,
    ),
    ("evaluate MODELS/classifier labelled.csv --lowercase", "--lowercase are about translations", 2),
    ("evaluate MODELS/classifier labelled.csv --language it", "--language and --lowercase are about translations", 2),
    ("evaluate MODELS/classifier labelled.csv long.en", "labelled text holds its own labels; give one test set", 2),
    ("evaluate MODELS/classifier words.conll", "from which a tagger learns: the task is tag", 2),
    ("evaluate MODELS/classifier labelled.csv --against MODELS/tagger", "is for the task classify, but", 2),
    ("evaluate RUN --against MODELS/classifier", "holds a model that gives labels", 2),
    ("evaluate MODELS/filler labelled.csv", "fills in words; its scores are in scores.json of its run", 2),
    ("evaluate MODELS/classifier labelled.csv --picture seen.jpg", "must end in .png, .svg or .pdf", 2),
    ("evaluate RUN --picture seen.png", "--picture draws the confusions of labels; ", 2),
    # writing
    ("generate RUN text", "translates; use dragoman translate", 2),
    ("generate MODELS/tagger text", "labels texts or fills in words; use dragoman predict", 2),
    (
        "generate MODELS/lm text --temperature -1",
        "generate.temperature should be greater than or equal to 0, but is -1",
        2,
    ),
    ("generate MODELS/lm text --temperature nan", "generate.temperature should be a finite number", 2),
    ("generate MODELS/lm text --top-p 1.5", "generate.top_p should be less than or equal to 1, but is 1.5", 2),
    ("generate MODELS/lm text --top-k 0", "generate.top_k should be greater than or equal to 1, but is 0", 2),
    ("generate MODELS/lm text --tokens 9999999999", "generate.tokens should be less than or equal to 1000000", 2),
    ("generate MODELS/lm text --stop ''", "generate.stop holds an empty text, which would end every text", 2),
    ("generate MODELS/lm text --temperature 0 --samples 2", "temperature = 0 writes the same text each time", 2),
    ("generate MODELS/lm text --context 1", "generate.context should be greater than or equal to 2, but is 1", 2),
    # adapters and averages
    ("translate RUN text --adapter RUN", "holds a whole model, not an adapter; use it without --adapter", 4),
    ("translate MODELS/classifier text --adapter MODELS/adapter", "the weights in", 4),
    (
        "translate MODELS/moved text",
        "which is not there; put that model back, or merge both where they are now: dragoman merge",
        4,
    ),
    ("fine-tune RUN pairs.tsv --lora 2 --freeze encoder", "tuning.lora freezes everything but its adapters", 2),
    ("fine-tune RUN pairs.tsv --freeze ''", "tuning.freeze.0 should have at least 1 character", 2),
    ("merge RUN --to new", "is a whole model already, not an adapter; there is nothing to merge", 2),
    ("merge MODELS/moved --to new", "which is not there; put that model back", 4),
    ("merge MODELS/adapter --to pairs.tsv", "pairs.tsv exists already; name another folder", 2),
    ("merge MODELS/adapter --to MODELS/adapter/new", "would lie inside", 2),
    ("merge MODELS/adapter --to new --base MODELS/classifier", "put back the model that it was trained on", 4),
    ("average RUN RUN --to new --share 2", "--share must be from 0, the model before, to 1, the model after", 2),
    ("average RUN MODELS/lm --to new --share 0.5", "are not one architecture (model.family is", 2),
    ("average MODELS/lm MODELS/lm --to new", "does not translate, and the share is chosen by chrF", 2),
    ("average MODELS/classifier MODELS/others --to new --share 0.5", "have other labels", 2),
    # other toolkits
    ("export MODELS/classifier --out new huggingface", "cannot become a folder of transformers: it does not", 2),
    ("export MODELS/classifier --out new ctranslate2", "cannot become a folder of CTranslate2: it does not", 2),
    ("convert MODELS/bert --to new", "is not a complete Marian folder: vocab.json is missing", 4),
    ("convert MODELS/bert --to new --languages en e!", "--languages: target: a language is given by its BCP 47", 2),
    ("convert pairs.tsv --to new", "convert takes a Marian folder of transformers", 4),
]


@pytest.fixture
def place(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the wrong uses name."""
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
        (tmp_path / name).write_text("".join(f"{one},{other}\n" for one, other in table), encoding="utf-8")
    objects = [json.dumps({"text": text, "label": label}) for text, label in rows]
    (tmp_path / "broken.jsonl").write_text("\n".join([*objects, "{"]), encoding="utf-8")
    words = {"words.conll": "Rome\tNOUN\nsleeps\tVERB\n\n", "unparted.conll": "Rome NOUN\nsleeps VERB\n"}
    for name, sentence in {**words, "short.conllu": "1\tRome\n\n"}.items():
        (tmp_path / name).write_text(sentence * 30, encoding="utf-8")
    (tmp_path / "runs").mkdir()
    (tmp_path / "latin.tsv").write_bytes("the city\tla città\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "told", "code"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_wrong_use_ends_in_one_clear_line(
    line: str, told: str, code: int, run_folder: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(line, told, code, run_folder, place, capsys)


@pytest.mark.parametrize(("line", "told", "code"), WRONG_OF_OTHER_TASKS, ids=[each[0] for each in WRONG_OF_OTHER_TASKS])
def test_a_wrong_use_of_another_task_ends_in_one_clear_line(
    line: str, told: str, code: int, models: Path, run_folder: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(models.rglob("*"))
    refused(line.replace("MODELS", str(models)), told, code, run_folder, place, capsys)
    assert sorted(models.rglob("*")) == before, "something was left behind"


def refused(line: str, told: str, code: int, run_folder: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(place.rglob("*"))
    found = main([word.replace("RUN", str(run_folder)) for word in shlex.split(line)])
    out, err = capsys.readouterr()
    errors = [each for each in err.split("\n") if each.startswith("error: ")]
    assert len(errors) == 1 and told in errors[0]
    assert (found, out) == (code, "")
    assert sorted(place.rglob("*")) == before, "something was left behind"
