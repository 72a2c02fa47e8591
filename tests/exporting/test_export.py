"""Models that travel to other toolkits translate there as here, or do not travel."""

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any, get_args

import pytest
from exporting import COMBINATIONS, KINDS, as_words, make, outcome, phrases
from families import Trained

import dragoman
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.references import own_test_pairs
from dragoman.exporting import Target, export, proof, translate_script
from dragoman.exporting.portable_tokenizer import names, portable
from dragoman.inference.options import SearchOptions
from dragoman.run_folder import RunFolder
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.tokenizing.special_tokens import END, START, Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")

TOOLKITS: tuple[Target, ...] = ("ctranslate2", "huggingface")
"""Targets that are libraries; `test_web.py` tests the page."""
HOSTILE = [
    *("", " ", "  a  b ", "\t\n x", "\x00\x01", "a" * 300, "\u2000 \u2002x", " dog"),
    *("citta\u0300 \u00df \u6f22\u5b57", "[SOS] [UNK] [EOS] <0x0A> <0x41>", "👩\u200d👩\u200d👧 e\u0301"),
    *("l'uomo d'Italia, 1.234,56 «ciao»", "Ω≈ç√∫", "\ufeffdog", "▁dog"),
]


def held(settings: dict[str, Any]) -> bool:
    """Whether transformers should hold such a model."""
    paper = {"preset": "paper", "positions": "sinusoidal", "norm": "layer", "norm_position": "post", "bias": True}
    paper |= {"final_norm": False, "kv_heads": None, "embedding_norm": False, "position_base": 10_000.0}
    paper |= {"norm_epsilon": 1e-5}
    plain = settings.get("activation", "relu") in ("relu", "gelu", "silu")
    return plain and all(settings.get(name, value) == value for name, value in paper.items())


def test_there_are_enough_combinations_and_some_that_transformers_holds() -> None:
    assert len(COMBINATIONS) >= 40
    assert 8 <= sum(map(held, COMBINATIONS)) <= len(COMBINATIONS) // 2


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, marks=[pytest.mark.thorough] if settings["preset"] == "modern" and at > 0 else [])
        for at, settings in enumerate(COMBINATIONS)
    ],
    ids=as_words,
)
def test_a_model_travels_or_is_refused_by_name(settings: dict[str, Any], tmp_path: Path) -> None:
    model = make(tmp_path / "model", settings)
    ctranslate2, huggingface = (outcome(model, target, tmp_path / target) for target in TOOLKITS)
    if settings.get("final_norm") and settings["norm_position"] == "post":
        assert ctranslate2 == "refused: model.final_norm must be false where model.norm_position is 'post'"
    else:
        assert float(ctranslate2) < 1e-4
    if held(settings):
        assert float(huggingface) < 1e-4
    else:
        assert huggingface.startswith("refused: model.")
        assert not (tmp_path / "huggingface").exists()
        changed = [name for name in settings if name not in ("preset", "tied") and settings["preset"] == "paper"]
        assert any(f"model.{name}" in huggingface for name in changed) or settings["preset"] == "modern"


@pytest.mark.parametrize(("kind", "tied"), [*product(KINDS, ("target", "all"))])
def test_a_tokenizer_travels_or_is_refused_by_name(kind: str, tied: str, tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"preset": "paper", "tied": tied}, kind)
    for target in TOOLKITS:
        found = outcome(model, target, tmp_path / target)
        if kind == "word":
            assert found.startswith("refused: its source tokenizer is of kind 'word'")
        else:
            assert float(found) < 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("tied", ["target", "all"])
@pytest.mark.parametrize("target", TOOLKITS)
def test_the_script_beside_an_export_translates_without_us(target: Target, tied: str, tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"preset": "paper", "tied": tied, "output_bias": True})
    texts = [pair.source for pair in phrases("new_patterns")[:4]]
    out = dragoman.export(model, target, tmp_path / "out", texts).folder
    assert f"{target}: en to it" in (out / "README.md").read_text("utf-8")
    assert (out / "placeholders.txt").read_text("utf-8") == "", "nobody knows what it was trained on"
    (out / "placeholders.txt").write_text("".join(PLACEHOLDERS), "utf-8")
    asked = [sys.executable, str(out / "translate.py"), "1"]
    lines = "".join(f"{text}\n" for text in [*texts, "", "Room 25."])
    done = subprocess.run(asked, input=lines, capture_output=True, text=True, check=True, cwd=tmp_path)
    said = done.stdout.removesuffix("Room 25.\n")
    assert said != done.stdout and "line 6 is left as it was" in done.stderr, "random weights copy nothing"
    options = SearchOptions(beam_size=1, split="never", length_ratio=2.0, length_extra=20)
    found = dragoman.Translator.load(model, "cpu", "float32").translate(texts, options)
    begun = [each.text[:20] for each in found]  # random weights find no end, and the script's limit is another
    assert [line[:20] for line in said.split("\n")[:4]] == begun
    assert said.split("\n")[4:] == ["", ""]


def said_by_script(
    search: Callable[[str], list[str]], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool = True
) -> None:
    """Runs the script with another search for a model that knows all placeholders, or none."""
    (tmp_path / "placeholders.txt").write_text("".join(PLACEHOLDERS) if known else "", "utf-8")
    monkeypatch.setattr(translate_script, "__file__", str(tmp_path / "translate.py"))
    monkeypatch.setattr(translate_script, "_transformers", lambda *_: lambda text, _: search(text))
    monkeypatch.setattr(sys, "argv", ["translate.py"])
    monkeypatch.setattr(sys, "stdin", [f"{line}\n"])
    translate_script.main()


PIECES = [
    *("25", "7:30", "1,234.50", "12/25/2026", "3.5", "42", "5km", "25°C"),
    *(
        "https://example.org/a?b=1",
        "anna@example.org",
        "{count}",
        "%s",
        "%(name)s",
        "<b>",
        "`make test`",
        PLACEHOLDERS[3],
    ),
]


@pytest.mark.parametrize("piece", PIECES)
def test_the_script_hides_a_piece_from_the_model_and_puts_it_back(
    piece: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"It costs {piece}, or {piece}."
    said_by_script(lambda text: ["lost", text.upper()], line, tmp_path, monkeypatch)
    assert capsys.readouterr() == (f"IT COSTS {piece}, OR {piece}.\n", "")
    said_by_script(lambda text: [text[:10]], line, tmp_path, monkeypatch)
    out, err = capsys.readouterr()
    assert out == f"{line}\n" and f"line 1 is left as it was: each translation lacks a piece of {[piece] * 2}" in err
    said_by_script(lambda _: ["It costs much."], line, tmp_path, monkeypatch, known=False)
    out, err = capsys.readouterr()
    assert out == "It costs much.\n" and f"line 1: the translation lacks {[piece] * 2}" in err


def test_a_hostile_line_takes_the_script_no_longer_than_another() -> None:
    for line in ("http://" * 9_000, "a@" * 50_000, "{" * 10**5, "<a" * 50_000, "1." * 50_000, "`a" * 50_000):
        assert translate_script.masked(line, "")[0] == line


def test_sentences_that_prove_an_export_are_evenly_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = RunFolder(tmp_path).split("test")
    test.parent.mkdir()
    test.touch()
    monkeypatch.setattr(export, "own_test_pairs", lambda _: [(str(number), "") for number in range(100)])
    texts = [int(text) for text in export.own_texts(tmp_path)]
    assert len(texts) == 64 and texts[0] == 0 and texts[-1] >= 98
    assert {after - before for before, after in pairwise(texts)} == {1, 2}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "word"])
def test_a_portable_tokenizer_cuts_and_joins_as_ours(kind: str) -> None:
    size = {} if kind == "character" else {"vocabulary_size": 500}
    lines = [pair.target for pair in phrases("test")]
    ours = learn_tokenizer(lines, TokenizerSettings.model_validate({"kind": kind, **size}))
    assert isinstance(ours, Tokenizer)
    framing = Framing()
    theirs = portable(ours, framing)
    assert [theirs.id_to_token(id_) for id_ in range(ours.size)] == names(ours)
    for text in [*HOSTILE, *lines]:
        ids = ours.encode(text)
        assert theirs.encode(text).ids == [START, *ids, END]
        assert theirs.decode([START, *ids, END]) == ours.decode(ids)


@pytest.mark.parametrize("target", TOOLKITS)
def test_an_export_that_translates_otherwise_leaves_nothing(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make(tmp_path / "model", {"preset": "paper"})
    monkeypatch.setattr(proof, "TOLERANCE", 1e-12)
    with pytest.raises(ConfigError, match="gives other log-probabilities for sentence 1: they differ by .*e-0"):
        dragoman.export(model, target, tmp_path / "out", ["Where is the station?"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model"]


def test_search_options_are_exported_to_transformers_or_said_to_be_left_out(tmp_path: Path) -> None:
    stored = load_model(make(tmp_path / "plain", {"preset": "paper"}))
    asked = {"beam_size": 3, "length_penalty": 0.8, "early_stopping": False, "no_repeat_ngram": 3, "minimum_length": 2}
    files = stored.files._replace(generation={**asked, "prefix": "Il", "banned_words": ["auto"], "length_ratio": 2.0})
    save_model(tmp_path / "model", stored.model, files)
    notes = dragoman.export(tmp_path / "model", "huggingface", tmp_path / "out", ["Where is the station?"]).notes
    names = ("prefix", "banned_words", "length_ratio", "length_penalty")
    assert len(notes) == 4 and all(name in note for name, note in zip(names, notes, strict=True))
    kept = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    wanted = {"num_beams": 3, "length_penalty": 0.8, "early_stopping": "never", "no_repeat_ngram_size": 3}
    assert wanted.items() <= kept.items() and kept["min_new_tokens"] == 2


def test_wrong_asking_is_refused_before_a_file_is_written(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"preset": "paper"})
    with pytest.raises(ConfigError, match="exported to ctranslate2, huggingface, web, but 'onnx' was given"):
        dragoman.export(model, "onnx", tmp_path / "out")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="exists already"):
        dragoman.export(model, "ctranslate2", model)
    with pytest.raises(ConfigError, match="give others with --text"):
        dragoman.export(model, "ctranslate2", tmp_path / "out", [""])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("task", ["classify", "fill"])
def test_a_model_that_does_not_translate_is_told_so(task: str, trained: Trained, tmp_path: Path) -> None:
    """Also where its run has a test set, which holds no pairs."""
    run = trained(task, tmp_path)
    for target in get_args(Target):
        with pytest.raises(ConfigError, match="does not translate, and only translation models can be exported"):
            dragoman.export(run, target, tmp_path / "out")
    with pytest.raises(ConfigError, match="has no test pairs, because its model labels texts or fills in words"):
        own_test_pairs(run)
    assert not (tmp_path / "out").exists()


def test_a_quantised_model_travels_as_what_it_computes(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"preset": "modern"})
    dragoman.quantize(model, tmp_path / "small")
    found = dragoman.export(tmp_path / "small", "ctranslate2", tmp_path / "out", ["Where is the station?"])
    assert found.proof is not None and found.proof.largest_difference < 1e-4
    assert load_model(tmp_path / "small").quantised
