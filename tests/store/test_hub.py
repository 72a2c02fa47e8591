"""A model is named by its address on the hub wherever a model folder is; it is fetched and converted once."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_hub import COMMIT, hub_of
from small_marian import ENGLISH, ITALIAN, write_marian
from small_multilingual import write_multilingual

import dragoman
from dragoman.cli.main import main
from dragoman.errors import CheckpointError, ConfigError
from dragoman.inference.translator import Translator
from dragoman.store.description import Languages
from dragoman.store.folder import find_model, load_model

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")
ONE, SEVERAL = "hub:Helsinki-NLP/opus-mt-en-it", "hub:Helsinki-NLP/opus-mt-en-roa"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    one = write_marian(folder / "Helsinki-NLP" / "opus-mt-en-it", pickled=True)
    (one / "README.md").write_text("---\nlanguage: \n- en\n- it\n\nlicense: apache-2.0\n---\n\n### opus-mt-en-it\n")
    (one / "tokenizer_config.json").unlink()
    (one / "tf_model.h5").write_bytes(b"much that nobody needs")
    write_marian(folder / "Helsinki-NLP" / "opus-mt-en-roa", tags=(">>ita<<", ">>fra<<"))
    small = write_multilingual(folder / "alirezamsh" / "small100", "small", pickled=True)
    (small / "tokenizer_config.json").unlink()
    (small / "tokenization_small100.py").write_text("raise SystemExit")
    other = folder / "facebook" / "nllb-moe"
    other.mkdir(parents=True)
    (other / "config.json").write_text(json.dumps({"model_type": "nllb-moe"}))
    (other / "pytorch_model.bin").write_bytes(b"gigabytes")
    return folder


@pytest.fixture
def asked(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    with hub_of(models, tmp_path / "cache", monkeypatch) as asked:
        yield asked


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "mine.en-it.tsv"
    rows = [
        f"{number} {source}\t{number} {target}"
        for number in range(20)
        for source, target in zip(ENGLISH, ITALIAN, strict=True)
    ]
    path.write_text("".join(f"{row}\n" for row in rows))
    return str(path)


def test_a_model_is_fetched_and_converted_once(
    asked: list[str], models: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        (found,) = dragoman.translate(ONE, [ENGLISH[0]], precision="float32")
    assert "licence: apache-2.0" in " ".join(caplog.messages) and ONE in " ".join(caplog.messages)
    assert not any("tf_model" in path for path in asked) and any("pytorch_model.bin" in path for path in asked)
    dragoman.convert(models / ONE.removeprefix("hub:"), tmp_path / "here")
    (wanted,) = dragoman.translate(tmp_path / "here", [ENGLISH[0]], precision="float32")
    assert found == wanted
    stored = load_model(ONE)
    assert stored.languages == Languages("en", "it")
    assert stored.folder == tmp_path / "cache" / "dragoman" / "models" / "Helsinki-NLP--opus-mt-en-it"
    card = (stored.folder / "README.md").read_text()
    assert f"{ONE} (commit {COMMIT})" in card and "apache-2.0" in card
    asked.clear()
    shutil.rmtree(tmp_path / "cache" / "hub")
    load_model(ONE)
    assert not asked, "nothing is asked of the hub again"


def test_a_revision_is_a_model_of_its_own(asked: list[str]) -> None:
    folder = find_model(f"{ONE}@v2")
    assert folder.name == "Helsinki-NLP--opus-mt-en-it@v2" and any("/revision/v2" in path for path in asked)
    assert find_model(Path(f"{ONE}@{COMMIT}")) != folder
    with pytest.raises(CheckpointError, match=f"{ONE}@v3 could not be fetched: RevisionNotFoundError"):
        find_model(f"{ONE}@v3")


def test_several_languages_are_listed(asked: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        translator = Translator.load(SEVERAL)
    told = " ".join(caplog.messages)
    assert "it translates into ita, fra; begin each text with a tag such as >>ita<<" in told
    assert "licence: not stated; ask its authors" in told
    assert list(translator.tags.ids) == ["ita", "fra"]


def test_each_family_has_its_files(asked: list[str], tmp_path: Path) -> None:
    """SMaLL-100 is known by a program, which is fetched but never run."""
    conversion = dragoman.convert("hub:alirezamsh/small100", tmp_path / "small", ["en", "de"])
    assert (
        conversion.what.startswith("a model folder, between 2 languages")
        and not load_model(tmp_path / "small").files.framing.target_prefix
    )
    wanted = ("sentencepiece.bpe.model", "vocab.json", "tokenization_small100.py", "pytorch_model.bin")
    assert all(any(path.endswith(name) for path in asked) for name in wanted)


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        (
            "hub:Helsinki-NLP/none",
            CheckpointError,
            "hub:Helsinki-NLP/none could not be fetched: RepositoryNotFoundError",
        ),
        (
            "hub:facebook/nllb-moe",
            CheckpointError,
            "model_type 'nllb-moe'; only 'marian', 'm2m_100', 'mbart' are read",
        ),
        ("hub:opus-mt-en-it", ConfigError, "named hub:OWNER/NAME or hub:OWNER/NAME@REVISION, not hub:opus-mt-en-it"),
        ("hub:a/b:en-it", ConfigError, "named hub:OWNER/NAME"),
        ("hub:../../etc", ConfigError, "named hub:OWNER/NAME"),
        ("hub:a/b@../c", ConfigError, "named hub:OWNER/NAME"),
    ],
)
def test_what_cannot_be_had_is_told_in_a_line(
    address: str, error: type[Exception], message: str, asked: list[str], tmp_path: Path
) -> None:
    for use in (lambda: load_model(address), lambda: dragoman.convert(address, tmp_path / "new")):
        with pytest.raises(error, match=message) as caught:
            use()
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists() and not any("pytorch_model" in path for path in asked)


def test_a_hub_that_cannot_be_reached_is_told(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(CheckpointError, match=f"{ONE} could not be fetched: "):
        load_model(ONE)


def test_a_fresh_process_finds_the_hub_by_its_variable(asked: list[str], tmp_path: Path) -> None:
    """Nothing else has imported the library's parts there."""
    import huggingface_hub

    names = {
        "HF_ENDPOINT": huggingface_hub.constants.ENDPOINT,
        "HF_HOME": tmp_path / "home",
        "XDG_CACHE_HOME": tmp_path,
    }
    environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
    for address, code, told in (
        (ONE, 0, "licence: apache-2.0"),
        (f"{ONE}-none", 4, "could not be fetched: Repository"),
    ):
        command = [sys.executable, "-m", "dragoman", "convert", address, "--to", str(tmp_path / "new")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code and told in done.stdout + done.stderr, done.stderr
        shutil.rmtree(tmp_path / "new", ignore_errors=True)


def test_every_command_takes_an_address(
    asked: list[str], pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", ONE, ENGLISH[0], "--precision", "float32"]) == 0
    printed = capsys.readouterr()
    assert "licence: apache-2.0" in printed.err and "en → it" in printed.err and printed.out
    folder = str(find_model(ONE))
    for command in (
        ["evaluate", ONE, pairs, "--against", folder],
        ["score", ONE, pairs],
        ["explain", ONE, ENGLISH[0], "--output", str(tmp_path / "page.html")],
        ["benchmark", ONE, "--input", pairs, "--sentences", "4", "--rounds", "1"],
        ["quantize", ONE, "--to", str(tmp_path / "small")],
        ["export", ONE, "ctranslate2", "--out", str(tmp_path / "ct2")],
        ["convert", ONE, "--to", str(tmp_path / "copy")],
        ["average", ONE, folder, "--to", str(tmp_path / "mean"), "--share", "0.5"],
        ["translate", folder, "--ensemble", ONE, ENGLISH[0]],
    ):
        assert main([*command, "-q"] if command[0] not in ("convert", "export") else command) == 0, (
            command,
            capsys.readouterr().err,
        )
    evaluation = dragoman.evaluate(ONE, pairs)
    assert len(evaluation.hypotheses) == 100


def test_fine_tuning_begins_with_an_address(asked: list[str], pairs: str, tmp_path: Path) -> None:
    """Also an adapter, which finds its base in the cache."""
    runs = ["--runs", str(tmp_path / "runs"), "--set", "train.steps=2"]
    assert main(["fine-tune", ONE, pairs, *runs]) == 0
    run = tmp_path / "runs" / "opus-mt-en-it-mine"
    assert load_model(run).languages == Languages("en", "it")
    assert main(["fine-tune", ONE, pairs, *runs, "--lora", "2", "--name", "lora"]) == 0
    assert dragoman.translate(ONE, [ENGLISH[0]], adapter=tmp_path / "runs" / "lora")
    start = ["--set", f"start.model={ONE}"]
    assert main(["train", pairs, *runs, *start, "--name", "started"]) == 0
