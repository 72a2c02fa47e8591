"""`dragoman runs`: which runs there are, how far each is and how good."""

import json
import os
import shutil
from pathlib import Path

import pytest
from small_runs import AtSteps, terminate, train_small

import dragoman
from dragoman.cli.main import main
from dragoman.errors import DataError, Interrupted
from dragoman.files import FolderInUse, is_locked, lock
from dragoman.recipe.runs import RunScore


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run and one that was stopped."""
    folder = tmp_path_factory.mktemp("two")
    train_small(folder)
    with pytest.raises(Interrupted):
        train_small(folder, name="other", progress=AtSteps({7: terminate}))
    return folder / "runs"


@pytest.fixture
def runs(two_runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_runs, tmp_path / "runs"))


def set_status(run: Path, status: str) -> None:
    facts = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps({**facts, "status": status}), encoding="utf-8")


def test_each_run_tells_state_steps_score_and_size(runs: Path) -> None:
    os.utime(runs / "corpus" / "run.json", (1e9, 1e9))
    os.utime(runs / "corpus" / "metrics.jsonl", (1e9, 1e9))
    other, whole = dragoman.list_runs(runs)
    assert (Path(whole.folder), whole.state, whole.steps, whole.steps_wanted) == (runs / "corpus", "finished", 12, 12)
    scores = json.loads((runs / "corpus" / "scores.json").read_text("utf-8"))["evaluations"][0]["scores"]
    assert whole.score == RunScore("BLEU", scores["bleu"]["value"], "test") and whole.changed == 1e9
    assert (other.state, other.steps, other.steps_wanted) == ("stopped", 7, 12)
    assert other.score is not None and (other.score.metric, other.score.test) == ("chrF", "dev")
    assert whole.bytes == sum(path.stat().st_size for path in (runs / "corpus").rglob("*") if path.is_file())


def test_a_run_that_no_process_holds_was_cut_off(runs: Path) -> None:
    run = runs / "other"
    for status in ("training", "preparing"):
        set_status(run, status)
        assert dragoman.list_runs(run)[0].state == "cut off"
        with lock(run):
            assert dragoman.list_runs(run)[0].state == status
    set_status(run, "diverged")
    assert dragoman.list_runs(run)[0].state == "diverged"


def test_a_look_at_a_run_neither_takes_it_nor_leaves_anything(runs: Path) -> None:
    assert not is_locked(runs) and not (runs / ".lock").exists()
    with lock(runs / "other"):
        assert is_locked(runs / "other") and is_locked(runs / "other")
        with pytest.raises(FolderInUse), lock(runs / "other"):
            pass
    assert not is_locked(runs / "other")


@pytest.mark.parametrize("content", ["", "[1]", '{"status": 5}'])
def test_a_damaged_run_is_listed_too(content: str, runs: Path) -> None:
    (runs / "corpus" / "run.json").write_text(content)
    (runs / "corpus" / "scores.json").write_text(content)
    (runs / "corpus" / "recipe.toml").write_text("[")
    (found,) = dragoman.list_runs(runs / "corpus")
    assert found.state == "damaged" and found.steps_wanted is None
    assert found.score is not None and found.score.test == "dev"


def test_runs_are_a_table_or_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(runs)]) == 0
    table = capsys.readouterr().out
    assert "stopped" in table and "7 of 12" in table and "on test" in table
    assert main(["runs", str(runs), "--format", "json"]) == 0
    assert [run["state"] for run in json.loads(capsys.readouterr().out)] == ["stopped", "finished"]


def test_where_there_are_no_runs_it_says_how_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in ([], [str(tmp_path)]):
        assert main(["runs", *arguments]) == 0
        assert "begin with: dragoman train FILE" in capsys.readouterr().err
    with pytest.raises(DataError, match="nowhere is no folder"):
        dragoman.list_runs(tmp_path / "nowhere")


# A finished run that is started again


def test_a_finished_run_shows_its_scores_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(runs / "corpus"), "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    found = json.loads((runs / "corpus" / "scores.json").read_text("utf-8"))["evaluations"][0]["scores"]["bleu"]
    assert found["signature"] in out and f"{found['value']:.1f}" in out
    assert "is finished" in err and f"dragoman translate {runs / 'corpus'}" in err
    (runs / "corpus" / "scores.json").unlink()
    assert main(["train", str(runs / "corpus"), "--device", "cpu"]) == 0
