"""Wrong uses that a newcomer may make: each ends in one clear line and the right exit code, and leaves nothing."""

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
    ("train pairs.tsv --name ../elsewhere", "--name takes a plain name, without folders", 2),
    ("benchmark nowhere --input pairs.tsv", "nowhere does not exist", 4),
    ("benchmark RUN --output nowhere/out.json", "there is no folder nowhere", 2),
    (f"train {'long' * 100}", f"{('long' * 100)[:100]}: File name too long", 2),
    (f"translate {'long' * 100} text", "File name too long", 2),
    # other toolkits
    ("convert RUN", "Missing option '--to'", 2),
    ("convert nowhere --to new", "nowhere does not exist", 4),
    ("convert RUN --to new --languages en", "Option '--languages' requires 2 arguments", 2),
    ("convert RUN --to new --languages en it", "knows its languages; leave out --languages", 2),
    ("convert RUN --to new", "cannot become a Marian folder: ", 2),
    # what to translate, and how
    ("translate RUN text --input pairs.tsv", "TEXT and --input were given; translate takes one of", 2),
    ("translate RUN one two --item 1", "TEXT and --item were given; translate takes one of", 2),
    ("translate RUN my.toml", "TEXT my.toml is the name of a file; give --input my.toml to translate what is in it", 2),
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
    ("settings qqqq", "no setting is called qqqq; known here: task, start, data,", 2),
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
    (tmp_path / "latin.tsv").write_bytes("the city\tla città\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "told", "code"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_wrong_use_ends_in_one_clear_line(
    line: str, told: str, code: int, run_folder: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(place.iterdir())
    found = main([word.replace("RUN", str(run_folder)) for word in shlex.split(line)])
    out, err = capsys.readouterr()
    errors = [each for each in err.split("\n") if each.startswith("error: ")]
    assert len(errors) == 1 and told in errors[0]
    assert (found, out) == (code, "")
    assert sorted(place.iterdir()) == before, "something was left behind"
