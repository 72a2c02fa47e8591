"""Noisy pairs: what drops them, what is kept, and that stopping or another threshold changes nothing else."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_direction import prepare_data

import dragoman
from dragoman.cli.main import main
from dragoman.curating import filtering
from dragoman.curating.filtering import filter_pairs
from dragoman.curating.judgements import IMPROBABLE, Judgement
from dragoman.errors import ConfigError, DataError, Interrupted
from dragoman.inference import documents
from dragoman.text.checks import COPY, EMPTY
from dragoman.text.readers import Pair


@pytest.fixture(scope="module")
def noisy(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = (run_folder.parent / "pairs.tsv").read_text("utf-8").splitlines()
    lines[10:10] = ["the gatt\tthe gatt", "the gatt\t ", "the gatt " * 101 + "\t" + "il gatto " * 90]
    path = tmp_path_factory.mktemp("noisy") / "noisy.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_pairs_are_dropped_by_rules_and_by_the_quality_of_both_models(
    run_folder: Path, reverse_folder: Path, noisy: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "filtered"
    report = filter_pairs(run_folder, reverse_folder, noisy, folder, keep=0.8, progress=False)
    judged, kept, dropped = (rows(folder / f"{name}.jsonl") for name in ("judged", "kept", "dropped"))
    assert report.rows == len(judged) == 103 and report.kept == len(kept) == 80 and len(dropped) == 23
    assert report.dropped[IMPROBABLE].pairs == 20
    assert {COPY, EMPTY} <= report.dropped.keys() and report.dropped[COPY].first == "noisy.tsv:11"
    assert any("more than 200" in reason for reason in report.dropped)
    scored = [row for row in judged if not row["reason"]]
    pairs = [(row["source"], row["target"]) for row in scored]
    forward, backward = (
        [-(pair.mean_log_prob or 0) for pair in dragoman.score(model, sides, progress=False)]
        for model, sides in (
            (run_folder, [Pair(source, target, "") for source, target in pairs]),
            (reverse_folder, [Pair(target, source, "") for source, target in pairs]),
        )
    )
    expected = [math.exp(-(abs(a - b) + (a + b) / 2)) for a, b in zip(forward, backward, strict=True)]
    quality = {(row["source"], row["target"]): value for row, value in zip(scored, expected, strict=True)}
    assert min(quality[row["en"], row["it"]] for row in kept) >= report.least
    assert max(quality[row["en"], row["it"]] for row in dropped if row["reason"] == IMPROBABLE) < report.least
    least, worst = np.log(np.quantile(expected, 0.2)), np.log(sorted(expected)[:10])  # a quality may be very small
    assert np.log(report.least) == pytest.approx(least, rel=1e-4)
    assert np.log([pair.quality or 0 for pair in report.worst]) == pytest.approx(worst, rel=1e-4)
    assert sorted(row["origin"] for row in (*kept, *dropped)) == sorted(row["origin"] for row in judged)


def test_the_quality_falls_with_the_difference_of_both_directions() -> None:
    def quality(forward: float | None, backward: float | None) -> float | None:
        return Judgement(source="a", target="b", origin="", forward=forward, backward=backward).quality

    assert quality(2.0, 3.0) == quality(3.0, 2.0) == pytest.approx(math.exp(-3.5))
    assert quality(None, 2.0) == pytest.approx(math.exp(-2.0)) and quality(None, None) is None


def test_kept_pairs_are_text_to_train_on(run_folder: Path, reverse_folder: Path, noisy: Path, tmp_path: Path) -> None:
    filter_pairs(run_folder, reverse_folder, noisy, tmp_path / "filtered", progress=False)
    report = prepare_data(str(tmp_path / "filtered/kept.jsonl"), tmp_path / "data", False, dev_size=5, test_size=5)
    assert (report.source_language, report.target_language) == ("en", "it")


def test_another_threshold_needs_no_model(
    run_folder: Path, reverse_folder: Path, noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "filtered"
    first = filter_pairs(run_folder, reverse_folder, str(noisy), folder, progress=False)
    monkeypatch.setattr(filtering.Translator, "load", lambda *_, **__: pytest.fail("a model was loaded"))
    second = filter_pairs(run_folder, reverse_folder, str(noisy), folder, at_least=first.tenths[4], progress=False)
    assert second.kept == len(rows(folder / "kept.jsonl")) == 50 and second.least == first.tenths[4]
    assert filter_pairs(run_folder, reverse_folder, str(noisy), folder, progress=False) == first
    with pytest.raises(DataError, match=r"made with another model.*--fresh"):
        filter_pairs(run_folder, reverse_folder, str(run_folder.parent / "pairs.tsv"), folder, progress=False)


def test_a_stopped_filter_goes_on_to_the_same_bytes(
    run_folder: Path, reverse_folder: Path, noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "LINES", 10)
    whole, stopped, scored = tmp_path / "whole", tmp_path / "stopped", list[int]()
    filter_pairs(run_folder, reverse_folder, str(noisy), whole, progress=False)
    score_pairs: Callable[..., Any] = filtering.score_pairs

    def stops(translator: Any, chunk: Any, options: Any) -> Any:
        if len(scored) == 7:
            raise Interrupted("stopped")
        scored.append(len(chunk))
        return score_pairs(translator, chunk, options)

    for _ in range(2):
        monkeypatch.setattr(filtering, "score_pairs", stops)
        with pytest.raises(Interrupted, match="lines are done"):
            filter_pairs(run_folder, reverse_folder, str(noisy), stopped, progress=False)
        del scored[1:]
    monkeypatch.setattr(filtering, "score_pairs", score_pairs)
    filter_pairs(run_folder, reverse_folder, str(noisy), stopped, progress=False)
    for name in ("judged.jsonl", "judged.json", "kept.jsonl", "dropped.jsonl", "report.json"):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    assert {path.name for path in stopped.iterdir()} == {path.name for path in whole.iterdir()}


def test_what_cannot_be_filtered_is_one_clear_error(
    run_folder: Path, reverse_folder: Path, noisy: Path, tmp_path: Path
) -> None:
    cases: list[tuple[tuple[Path, Path], dict[str, Any], str]] = [
        ((run_folder, run_folder), {}, "the reverse model translates en to it, not it to en"),
        ((run_folder, reverse_folder), {"keep": 0.5, "at_least": 0.1}, "give one of them"),
        ((run_folder, reverse_folder), {"keep": 1.5}, "keep is a share"),
        ((run_folder, reverse_folder), {"at_least": -2.0}, "at_least a quality"),
        ((run_folder, reverse_folder), {"overrides": ["decode.beam_size=3"]}, "decode"),
    ]
    for models, settings, message in cases:
        with pytest.raises(ConfigError, match=message):
            filter_pairs(*models, str(noisy), tmp_path / "filtered", progress=False, **settings)
    empty = tmp_path / "copies.tsv"
    empty.write_text("en\tit\n" + "the gatt\tthe gatt\n" * 5, "utf-8")
    with pytest.raises(DataError, match="no pair can be kept"):
        filter_pairs(run_folder, reverse_folder, str(empty), tmp_path / "none", progress=False)


def test_the_command_shows_reasons_and_the_worst_pairs(
    run_folder: Path, reverse_folder: Path, noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["filter", str(run_folder), str(reverse_folder), str(noisy), "--folder", str(tmp_path / "filtered")]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert COPY in out and IMPROBABLE in out and "quality: median" in out and out.count("noisy.tsv:") > 10
    assert f"dragoman train {tmp_path / 'filtered' / 'kept.jsonl'}" in err
    assert main([*command, "--keep", "0.5", "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kept"] == 50 and len(facts["worst"]) == 10


def test_a_folder_is_of_one_text_and_loses_nothing(
    run_folder: Path, reverse_folder: Path, noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, text = tmp_path / "filtered", str(noisy)
    filter_pairs(run_folder, reverse_folder, text, folder, progress=False)
    with pytest.raises(DataError, match=r"kept\.jsonl is also read"):
        filter_pairs(run_folder, reverse_folder, str(folder / "kept.jsonl"), folder, progress=False)
    with pytest.raises(DataError, match="made with another model, text or setting"):
        filter_pairs(reverse_folder, run_folder, text, folder, progress=False)
    pairs = str(run_folder.parent / "pairs.tsv")
    monkeypatch.setattr(filtering, "finish", lambda *_: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception):
        filter_pairs(run_folder, reverse_folder, pairs, folder, fresh=True, progress=False)
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"holds judged\.jsonl, .* of something else"):
        filter_pairs(run_folder, reverse_folder, text, folder, progress=False)
    assert filter_pairs(run_folder, reverse_folder, text, folder, fresh=True, progress=False).rows == 103
    for name in ("file", "strange"):
        place = tmp_path / name
        if name == "file":
            place.write_text("mine", "utf-8")
        else:
            place.mkdir()
            (place / "report.json").write_text("{}", "utf-8")
        with pytest.raises(DataError, match="is a file|of something else"):
            filter_pairs(run_folder, reverse_folder, text, place, progress=False)
