"""Pairs made from monolingual text: the model's own translations, without bad ones, and whole after an interruption."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import main
from dragoman.curating import translating
from dragoman.curating.rules import FLAGGED, LOST, MadePairs
from dragoman.curating.translating import back_translate
from dragoman.errors import ConfigError, DataError, Interrupted
from dragoman.inference import documents
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator, translate
from dragoman.text.checks import COPY, EMPTY, OTHER_LANGUAGE

WORDS = "gatt can top lup ors cavall asin mul polp corv".split()
LINES = [f"the {first} sees the {second}" for first in WORDS for second in WORDS[:4]]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "mono.en"
    path.write_text("\n".join([*LINES, "", "the gatt"]) + "\n", "utf-8")
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_pairs_are_the_models_own_translations_with_their_probability(
    run_folder: Path, text: Path, tmp_path: Path
) -> None:
    report = back_translate(run_folder, text, tmp_path / "made", temperature=1.0, progress=False)
    written = translate(run_folder, [*LINES, "", "the gatt"], temperature=1.0, progress=False)
    judged = rows(tmp_path / "made/judged.jsonl")
    assert report.languages == ("it", "en") and report.rows == len(judged) == 42
    for row, line, translation in zip(judged, LINES, written, strict=False):
        assert (row["target"], row["source"]) == (line, translation.text)
        assert row["backward"] == pytest.approx(-translation.log_prob / len(translation.tokens), rel=1e-5)
        wrong = next((FLAGGED[flag] for flag in translation.flags if flag in FLAGGED), "")
        assert not wrong or row["reason"], "a bad translation is no pair"
    assert judged[40]["reason"] == EMPTY and judged[40]["origin"] == "mono.en:41"


def test_what_is_no_pair_is_dropped_with_its_reason() -> None:
    judge = translating._judge("mono.it", MadePairs("it", "en"), makes_sources=True)
    good = "Dove si trova la stazione più vicina?"
    for written, flags, line, reason in (
        ("Where is the nearest station?", (), good, ""),
        (good, (), good, COPY),
        ("Wo ist denn hier der nächste Bahnhof?", (), good, OTHER_LANGUAGE),
        ("Where is the nearest station?", (), "Wo ist denn hier der nächste Bahnhof?", OTHER_LANGUAGE),
        ("Where is the", ("truncated",), good, FLAGGED["truncated"]),
        ("Where where where where?", ("doubtful", "repetition"), good, FLAGGED["repetition"]),
        ("Where where where where?", (), good, FLAGGED["repetition"]),
        ("Where is it?", ("lost",), good, LOST),
        ("There are 18 trains.", (), "Ci sono 81 treni.", LOST),
        ("", (), good, EMPTY),
    ):
        (made,) = judge(7, Translation(line, written, -4.0, tokens=("a", "b"), flags=flags))  # pyright: ignore[reportArgumentType]
        row = json.loads(made)
        assert (row["reason"], row["origin"], row["backward"]) == (reason, "mono.it:7", 2.0)


def test_the_most_probable_sources_are_kept(
    run_folder: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "made"
    whole = back_translate(run_folder, text, folder, temperature=1.0, progress=False)
    monkeypatch.setattr(Translator, "load", lambda *_, **__: pytest.fail("a model was loaded"))
    half = back_translate(run_folder, text, folder, temperature=1.0, keep=0.5, progress=False)
    assert 0 < half.kept < whole.kept and half.rows == whole.rows
    kept = [math.exp(-row["backward"]) for row in rows(folder / "judged.jsonl") if not row["reason"]]
    assert half.kept == sum(quality >= half.least for quality in kept)
    assert {*rows(folder / "kept.jsonl")[0]} == {"it", "en", "quality", "origin"}


def test_a_stopped_call_goes_on_to_the_same_bytes(
    run_folder: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "LINES", 10)
    whole, stopped, calls = tmp_path / "whole", tmp_path / "stopped", list[int]()
    back_translate(run_folder, text, whole, temperature=1.0, progress=False)
    honest = Translator.translate

    def stops(self: Translator, texts: Any, *arguments: Any) -> Any:
        if len(calls) == 2:
            raise Interrupted("stopped")
        calls.append(len(texts))
        return honest(self, texts, *arguments)

    monkeypatch.setattr(Translator, "translate", stops)
    with pytest.raises(Interrupted, match="20 lines are done"):
        back_translate(run_folder, text, stopped, temperature=1.0, progress=False)
    monkeypatch.setattr(Translator, "translate", honest)
    back_translate(run_folder, text, stopped, temperature=1.0, progress=False)
    for name in ("judged.jsonl", "kept.jsonl", "dropped.jsonl", "report.json"):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    with pytest.raises(DataError, match=r"another model, text or setting.*--fresh"):
        back_translate(run_folder, text, stopped, temperature=0.5, progress=False)
    back_translate(run_folder, text, stopped, temperature=0.5, fresh=True, progress=False)


def test_packed_text_is_read_and_other_files_are_refused(
    run_folder: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "mono.en.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert (
        main(["back-translate", str(run_folder), str(packed), "--folder", str(tmp_path / "made"), "--temperature", "1"])
        == 0
    )
    out, err = capsys.readouterr()
    assert "the worst pairs" in out and "--synthetic" in err
    for file, message in (("pairs.tsv", "is a table"), ("missing.txt", "does not exist")):
        with pytest.raises(DataError, match=message):
            back_translate(run_folder, run_folder.parent / file, tmp_path / "none", progress=False)
    with pytest.raises(ConfigError, match="beam"):
        back_translate(run_folder, text, tmp_path / "none", overrides=["decode.beam_siz=3"], progress=False)
    command = ["back-translate", str(run_folder), str(text), "--folder", str(tmp_path / "n"), "--temperature", "1"]
    assert main([*command, "--beam-size", "4"]) == 2 and "samples" in capsys.readouterr().err
