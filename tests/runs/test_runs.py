"""`dragoman runs`: which runs there are, how far each is and how good."""

import json
import os
import shutil
from pathlib import Path

import pytest
from families import Trained
from small_runs import AtSteps, terminate, train_small

import dragoman
from dragoman.cli.main import main
from dragoman.errors import CheckpointError, DataError, Interrupted
from dragoman.evaluating.scores import read_scores
from dragoman.files import FolderInUse, is_locked, lock
from dragoman.runs.fine_tune import _is_scored
from dragoman.runs.status import RunScore
from dragoman.runs.train import spreads


@pytest.fixture(scope="module")
def two_runs(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run and one that was stopped."""
    folder = tmp_path_factory.mktemp("two")
    trained("translation", folder)
    with pytest.raises(Interrupted):
        train_small(folder, name="other", progress=AtSteps({7: terminate}))
    return folder / "runs"


@pytest.fixture
def runs(two_runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_runs, tmp_path / "runs"))


SYSTEM = {"system": "best", "search": "greedy", "test": {"name": "test.jsonl"}, "counts": {"lines": 8}}


def one_score(**changed: object) -> str:
    """A `scores.json` of one score, in which some facts are others."""
    score = {"name": "BLEU", "value": 1.0, "low": None, "high": None, "signature": "s", "detail": ""} | changed
    return json.dumps({"format": 1, "evaluations": [{**SYSTEM, "scores": {"bleu": score}}]})


DAMAGED_SCORES = {
    "": "cannot be read",
    "{}": "is not Dragoman's: it has no format number",
    '{"format": 1}': "is damaged: evaluations must be given",
    '{"format": 1, "evaluations": [{}]}': "is damaged: evaluations.0.system must be given",
    '{"format": 1, "evaluations": [5]}': "is damaged: evaluations.0 should be",
    one_score().replace('"signature": "s", ', ""): "is damaged: evaluations.0.scores.bleu.signature must be given",
    one_score(value="high"): "is damaged: evaluations.0.scores.bleu.value should be a valid number",
    one_score(low=1.0): "is damaged: evaluations.0.scores.bleu: low and high must be given together",
    one_score(value=1e300): "is damaged: evaluations.0.scores.bleu: value, low and high must be from 0 to 1,000,000",
    one_score(value=9).replace("9", "9" * 400): "cannot be read: it holds a whole number beyond 64 bits",
    one_score()[:-1]: "cannot be read",
    json.dumps({"format": 1, "evaluations": [{**SYSTEM, "scores": {}}]}): "is damaged: evaluations.0.scores should",
}
"""Content -> what is said of it."""


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


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
@pytest.mark.parametrize("name", ["run.json", "recipe.toml", "scores.json", "metrics.jsonl", ".lock", "data/pipe"])
def test_a_pipe_in_the_place_of_a_file_of_a_run_is_not_waited_for(name: str, runs: Path) -> None:
    run = runs / "corpus"
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(DataError, match=rf"{name} is no regular file; move it away"), lock(run):
        pass
    assert not is_locked(run)
    states = {Path(each.folder).name: each.state for each in dragoman.list_runs(runs)}
    assert states["corpus"] == ("finished" if name in (".lock", "data/pipe") else "damaged")


@pytest.mark.parametrize("content", ["", "[1]", '{"status": 5}'])
def test_a_damaged_run_is_listed_too(content: str, runs: Path) -> None:
    (runs / "corpus" / "run.json").write_text(content)
    (runs / "corpus" / "scores.json").write_text(content)
    (runs / "corpus" / "recipe.toml").write_text("[")
    (found,) = dragoman.list_runs(runs / "corpus")
    assert found.state == "damaged" and found.steps_wanted is None
    assert found.score is not None and found.score.test == "dev"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("recipe.toml", b"x=" + b"[" * 100_000, "cannot be read: it is nested more than 64 levels deep"),
        ("recipe.toml", b"[train]\nsteps = inf", "is damaged: train.steps should be"),
        ("recipe.toml", b"[train]\nsteps = -3", "is damaged: train.steps should be greater than or equal to 1"),
        ("recipe.toml", b"train = 5", "is damaged: train should be"),
        ("recipe.toml", b"\xff\xfe", "cannot be read: it is not UTF-8"),
        ("run.json", b'{"format": 1, "asked": {}, "thr', "cannot be read: "),
        *(("scores.json", content.encode(), told) for content, told in DAMAGED_SCORES.items()),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_and_every_run_is_listed(
    name: str, content: bytes, told: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "corpus" / name).write_bytes(content)
    assert main(["runs", str(runs)]) == 0
    out, err = capsys.readouterr()
    states = {line.split()[0]: line.split()[1] for line in out.splitlines()[2:]}
    assert states == {str(runs / "corpus"): "damaged", str(runs / "other"): "stopped"}
    assert err.count("\n") == 1 and f"{runs / 'corpus' / name} {told}" in err


def test_a_folder_in_the_place_of_a_file_loses_no_run(runs: Path) -> None:
    for name in ("run.json", "metrics.jsonl", "recipe.toml", "scores.json"):
        (runs / "corpus" / name).unlink()
        (runs / "corpus" / name).mkdir()
        assert {run.state for run in dragoman.list_runs(runs)} == {"damaged", "stopped"}


@pytest.mark.parametrize(("content", "told"), DAMAGED_SCORES.items())
def test_damaged_scores_are_refused_by_name_wherever_they_are_read(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text(content)
    for read in (read_scores, _is_scored, lambda path: spreads([path.parent])):
        with pytest.raises(CheckpointError) as refused:
            read(path)
        assert str(refused.value).startswith(f"{path} {told}")


def test_whole_scores_are_read(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text(one_score(low=0, high=2.5))
    assert read_scores(path)["test"]["bleu"].high == 2.5 and not _is_scored(path)


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
    with pytest.raises(DataError, match="nowhere is not a folder"):
        dragoman.list_runs(tmp_path / "nowhere")


# A finished run that is started again


def test_a_finished_run_shows_its_scores_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(runs / "corpus"), "--device", "cpu", "--verbose"]) == 0
    out, err = capsys.readouterr()
    found = json.loads((runs / "corpus" / "scores.json").read_text("utf-8"))["evaluations"][0]["scores"]["bleu"]
    assert found["signature"] in out and f"{found['value']:.1f}" in out
    assert "is finished" in err and f"dragoman translate {runs / 'corpus'}" in err
    (runs / "corpus" / "scores.json").unlink()
    assert main(["train", str(runs / "corpus"), "--device", "cpu"]) == 0


@pytest.mark.parametrize("content", DAMAGED_SCORES)
def test_a_finished_run_says_that_its_scores_are_damaged(
    content: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "corpus" / "scores.json").write_text(content)
    assert main(["train", str(runs / "corpus"), "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if DAMAGED_SCORES[content] in line]
    assert f"{runs / 'corpus' / 'scores.json'} " in line and "dragoman evaluate" in line
    assert out == "" and "translate with it" in err
