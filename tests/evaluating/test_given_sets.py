"""Sets given beside the training text are scored line by line, also where a side of a line is empty."""

import json
from pathlib import Path

import pytest
from small_runs import SETTINGS, some_pairs, write_corpus

from dragoman.cli.main import main
from dragoman.evaluating.evaluation import Evaluation
from dragoman.evaluating.references import read_references
from dragoman.runs.train import train

GIVEN = [("the gatt sees the top", ""), ("", "il gatto vede il topo"), *some_pairs()[:6]]


def write_sides(prefix: Path, pairs: list[tuple[str, str]]) -> list[str]:
    paths = [prefix.with_name(f"{prefix.name}.{ending}") for ending in ("en", "it")]
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return [str(path) for path in paths]


@pytest.mark.parametrize("given", ["test", "dev"])
def test_a_run_with_empty_lines_in_a_given_set_ends_scored(tmp_path, caplog, capsys, given):
    address = json.dumps(write_sides(tmp_path / given, GIVEN))
    settings = [setting for setting in SETTINGS if not setting.startswith(f"data.{given}_size")]
    settings.append(f"data.{given}_path={address}")
    run = train(write_corpus(tmp_path / "corpus.tsv"), overrides=settings, runs=tmp_path / "runs", device="cpu")
    assert f"an empty reference in 1 of 8 {given} rows (first at {given}.en:1)" in caplog.text
    assert f"an empty source in 1 of 8 {given} rows (first at {given}.en:2)" in caplog.text
    assert json.loads((run.folder / "run.json").read_text())["status"] == "finished"
    (evaluation,) = run.evaluations
    assert isinstance(evaluation, Evaluation)
    assert len(evaluation.hypotheses) == 8
    if given == "test":
        assert evaluation.hypotheses[1] == ""
        assert read_references(run.folder / "data").references[:2] == (("",), ("il gatto vede il topo",))
    assert main(["evaluate", str(run.folder), "--device", "cpu"]) == 0
    assert "BLEU" in capsys.readouterr().out
