"""Names from a folder that someone else made: no command lets them act on the terminal, and JSON stays JSON."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from small import small_config

from dragoman.cli.main import main
from dragoman.model.adapters import adapt
from dragoman.model.config import LoraSettings
from dragoman.model.transformer import build_model
from dragoman.store.description import Languages, ModelFiles
from dragoman.store.folder import describe_adapter, load_model
from dragoman.store.manifest import write_manifest
from dragoman.store.saving import save_model
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that act on a terminal, or change the direction of a line."""
ATTACKS = ["\x1b[31m", "\x1b]0;t\x07", "\x9b2J", "\r", "\x7f", "\u202e", "\u2066", "\u200f", "\u2028", "[bold]$x_{$"]
WORDS = "the old red cat sees a black dog and drinks water .".split()
NAMES = [f"label{number}{attack}" for number, attack in enumerate(ATTACKS)]
SHORT = {"length_extra": 6, "length_ratio": 0.0}


def hostile_tokenizers(folder: Path) -> Tokenizers:
    """Build a vocabulary in which many words, and all special symbols, control a terminal."""
    settings = TokenizerSettings.model_validate({"kind": "word", "minimum_frequency": 1})
    Tokenizers(*[learn_tokenizer([" ".join(WORDS)] * 3, settings)] * 2).save(folder)
    (file,) = folder.glob("tokenizer*.json")
    content = json.loads(file.read_text("utf-8"))
    content["pieces"] += [f"word{number}{attack}" for number, attack in enumerate(ATTACKS * 3)]
    symbols = ("unknown", "padding", "start", "end")
    content["specials"] = {name: f"{name}{attack}" for name, attack in zip(symbols, ATTACKS, strict=False)}
    file.write_text(json.dumps(content), "utf-8")
    return Tokenizers.load(folder)


@pytest.fixture(scope="module")
def folders(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make models of every kind with random weights and hostile names, a run, and texts for them."""
    root = tmp_path_factory.mktemp("foreign")
    (root / "words").mkdir()
    tokenizers = hostile_tokenizers(root / "words")
    size = tokenizers.source.size
    for task, more in (("classify", {"pooling": "mean"}), ("tag", {}), ("fill", None)):
        labels = None if more is None else Labels.model_validate_json(json.dumps({"task": task, "names": NAMES}))
        settings = {} if more is None else {"labels": len(NAMES), **more}
        model = build_model(small_config(family="encoder", source_vocabulary=size, **settings), seed=1)
        save_model(root / task, model, ModelFiles(tokenizers, labels=labels))
    vocabularies = {"source_vocabulary": size, "target_vocabulary": size}
    translator, languages = build_model(small_config(**vocabularies), seed=1), Languages("en", "it")
    save_model(root / "translator", translator, ModelFiles(tokenizers, languages, SHORT))
    save_model(root / "prefixed", translator, ModelFiles(tokenizers, languages, {**SHORT, "prefix": NAMES[0]}))
    writer = build_model(small_config(family="language_model", target_vocabulary=size), seed=1)
    save_model(root / "writer", writer, ModelFiles(tokenizers))
    lora = LoraSettings(rank=2)
    model = load_model(root / "translator").model
    adapt(model, lora, seed=3)
    for name in ("adapter", "lost"):
        save_model(root / name, model, ModelFiles(adapter=describe_adapter(root / "translator", lora)))
    content = json.loads((root / "lost" / "config.json").read_text("utf-8"))
    content["adapter"] |= {"base": f"/nowhere/{''.join(ATTACKS)}", "beside": "../nowhere"}
    (root / "lost" / "config.json").write_text(json.dumps(content), "utf-8")
    write_manifest(root / "lost")
    rows = [f"the {word} cat,{name}" for word, name in zip(WORDS, NAMES, strict=False) if "\r" not in name]
    (root / "labelled.csv").write_text("\n".join(["text,label", *rows]), "utf-8")
    (root / "tagged.tsv").write_text("".join(f"{word}\t{NAMES[-1]}\n\n" for word in WORDS), "utf-8")
    (root / "pairs.tsv").write_text(f"the old cat\tthe {NAMES[5]}\nthe cat\ta dog\n", "utf-8")
    shutil.copytree(run_folder, root / "runs" / f"mine{ATTACKS[0]}{ATTACKS[5]}")
    return root


COMMANDS = [
    "predict classify 'the old cat'",
    "predict classify --format json 'the old cat'",
    "predict tag 'the old cat'",
    "predict tag --format json 'the old cat'",
    "predict fill 'the [MASK] cat'",
    "predict fill --format json 'the [MASK] cat'",
    "evaluate classify labelled.csv --samples 10",
    "evaluate classify labelled.csv --samples 10 --format json",
    "evaluate classify labelled.csv --samples 10 --picture OUT.png",
    "evaluate tag tagged.tsv --samples 10",
    "translate translator --format json 'the old cat'",
    "translate prefixed 'the old cat'",
    "translate lost 'the old cat'",
    "merge lost --to OUT",
    "merge lost --base translator --to OUT",
    "average translator adapter --share 0.5 --to OUT",
    "quantize translator --to OUT --test pairs.tsv",
    "export prefixed huggingface --out OUT",
    "evaluate translator pairs.tsv --samples 10",
    "evaluate translator pairs.tsv --samples 10 --format json",
    "score translator pairs.tsv --format json",
    "benchmark translator --input pairs.tsv --sentences 2 --rounds 1",
    "generate writer 'the' --tokens 20 --temperature 1 --format json",
    "explain translator 'the old cat' --format terminal",
    "explain translator 'the old cat' --format json",
    "explain classify 'the old cat' --format terminal",
    "explain translator 'the old cat' --instead a=dog --target 'a cat'",
    "embeddings translator the",
    "embeddings translator the --format json",
    "runs runs",
    "runs runs --format json",
]
TEXTS = [
    "translate translator 'the old cat'",
    "translate translator --align 'the old cat'",
    "translate adapter 'the old cat'",
    "translate translator --adapter lost 'the old cat'",
    "generate writer 'the' --tokens 20 --temperature 1",
    "score translator pairs.tsv",
]
"""They print text, which goes to a pipe as it is."""


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_no_name_of_a_foreign_folder_acts_on_a_terminal(
    is_terminal: bool,
    folders: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folders)
    if is_terminal:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("TERM", "dumb")  # no colours of our own
    lines: list[str] = [*COMMANDS, *(TEXTS if is_terminal else [])]
    for number, line in enumerate(lines):
        words = [word.replace("OUT", str(tmp_path / f"out{number}")) for word in shlex.split(line)]
        code = main(words)
        out, err = capsys.readouterr()
        assert code in (0, 2, 4), (line, err)
        assert not STEERING.search(out), (line, out)
        assert not STEERING.search(err), (line, err)
        if "--format json" in line and code == 0:
            values = [out] if out.count("\n}") or out.count("\n]") else out.splitlines()
            assert all(isinstance(json.loads(value), list | dict) for value in values), line


def test_a_label_is_one_line(folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for broken in ("good\nerror: bad", "good\tbad"):
        shutil.copytree(folders / "classify", folder := tmp_path / f"model{len(broken)}")
        labels = json.loads((folder / "labels.json").read_text("utf-8"))
        labels["names"][0] = broken
        (folder / "labels.json").write_text(json.dumps(labels), "utf-8")
        write_manifest(folder)
        assert main(["predict", str(folder), "the cat"]) == 4
        assert "holds a line break or a tab" in capsys.readouterr().err
