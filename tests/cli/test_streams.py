"""Standard streams that are closed, full, or read by nobody: notes are dropped, and a result that is lost is said."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from small_runs import exit_code, train_command, write_corpus

from dragoman.training.checkpoint import newest_checkpoint

pytestmark = pytest.mark.thorough

DRAGOMAN = [sys.executable, "-m", "dragoman"]
FOREVER = ("train.steps=1000000", "train.save_every=1000000", "train.validate_every=1000000")
BROKEN = ["2>&-", "2>/dev/full", "2>&1 >/dev/null | head -1"]


def in_shell(command: Sequence[str], redirection: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a shell, and return its exit code, also if it is before a pipe."""
    line = f"set -o pipefail; {shlex.join([*DRAGOMAN, *command])} {redirection}"
    return subprocess.run(["bash", "-c", line], capture_output=True, check=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "corpus.tsv")
    return tmp_path


def status(folder: Path) -> str:
    return json.loads((folder / "runs" / "corpus" / "run.json").read_text("utf-8"))["status"]


def wait_for_steps(folder: Path, process: "subprocess.Popen[bytes]", meanwhile: Callable[[], object] = bool) -> None:
    """Return once a run has done some steps."""
    journal = folder / "runs" / "corpus" / "metrics.jsonl"
    while not (journal.is_file() and journal.read_bytes().count(b"\n") > 3):
        assert process.poll() is None, "it ended before its first steps"
        meanwhile()
        time.sleep(0.01)


# Standard error


@pytest.mark.parametrize("redirection", BROKEN)
def test_a_run_needs_no_standard_error(redirection: str, data: Path) -> None:
    done = in_shell(train_command(data), redirection)
    assert done.returncode == 0 and status(data) == "finished"
    assert done.stderr == b""


def test_a_run_whose_notes_nobody_reads_saves_when_it_is_stopped(data: Path) -> None:
    with subprocess.Popen([*DRAGOMAN, *train_command(data, *FOREVER)], stderr=subprocess.PIPE) as process:
        assert process.stderr
        while b"train.steps" not in process.stderr.readline():
            pass
        process.stderr.close()
        wait_for_steps(data, process)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 3 and status(data) == "stopped"
    assert newest_checkpoint(data / "runs" / "corpus" / "checkpoints") is not None


def with_streams(command: Sequence[str], streams: dict[int, str | None]) -> None:
    """Run the command in this process with other streams: the name of a file, or None for a closed stream."""
    from dragoman.cli.main import run

    for number, name in streams.items():
        if name is not None:
            os.dup2(os.open(name, os.O_WRONLY), number)
    for number in (number for number, name in streams.items() if name is None):
        os.close(number)
        setattr(sys, {1: "stdout", 2: "stderr"}[number], None)  # as Python itself begins then
    sys.argv = ["dragoman", *command]
    run()


def commands(run_folder: Path, folder: Path) -> dict[str, list[str]]:
    model, pairs = str(run_folder), str(run_folder.parent / "pairs.tsv")
    return {
        "--help": ["--help"],
        "help of a command": ["train", "--help"],
        "--version": ["--version"],
        "doctor": ["doctor"],
        "settings": ["settings"],
        "runs": ["runs", "--format", "json", str(run_folder)],
        "doctor as JSON": ["doctor", "--format", "json"],
        "translate": ["translate", model, "the gatt sees the top"],
        "translate a file": ["translate", model, "--raw", "--input", pairs],
        "evaluate": ["evaluate", model, "--samples", "10"],
        "benchmark": ["benchmark", model, "--sentences", "2", "--rounds", "1"],
        "prepare-data": ["prepare-data", pairs, "--folder", str(folder / "data"), "--set", "test_size=6"],
        "train-tokenizer": ["train-tokenizer", pairs, "--folder", str(folder / "tokenizer"), "--kind", "word"],
    }


@pytest.mark.parametrize("name", ["translate a file", "evaluate", "prepare-data", "train-tokenizer"])
def test_no_command_needs_standard_error(name: str, run_folder: Path, tmp_path: Path) -> None:
    assert exit_code(with_streams, commands(run_folder, tmp_path)[name], {2: "/dev/full"}) == 0


def test_a_mistake_keeps_its_exit_code_where_nobody_is_told() -> None:
    for where in ("/dev/full", None):
        assert exit_code(with_streams, ["nonsense"], {2: where}) == 2


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    code = (
        "from dragoman.cli.streams import prepare_streams\nimport os, sys\nprepare_streams()\n"
        f"os._exit(os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY) < 3)"
    )
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], check=False).returncode == 0


# Standard output


def told_without_output(command: Sequence[str], where: str | None, folder: Path) -> str:
    """Return the notes of a command whose result cannot be written."""
    notes = folder / "notes.txt"
    notes.touch()
    assert exit_code(with_streams, command, {1: where, 2: str(notes)}) == 7
    return notes.read_text("utf-8")


@pytest.mark.parametrize("name", list(commands(Path(), Path())))
def test_a_result_that_cannot_be_written_is_one_line_and_a_code(name: str, run_folder: Path, tmp_path: Path) -> None:
    told = told_without_output(commands(run_folder, tmp_path)[name], "/dev/full", tmp_path)
    assert "Traceback" not in told and told.count("error:") == 1
    assert told.endswith("error: standard output cannot be written: No space left on device\n")


def test_a_closed_standard_output_is_one_line_and_a_code(tmp_path: Path) -> None:
    assert told_without_output(["--version"], None, tmp_path) == (
        "error: standard output cannot be written: it is closed\n"
    )


@pytest.mark.parametrize("command", [["--help"], ["settings", "train"]])
def test_a_reader_that_goes_away_ends_a_command_quietly(command: list[str]) -> None:
    done = in_shell(command, "| head -1")
    assert done.returncode == 0 and b"rror" not in done.stderr


def test_a_closed_pipe_ends_what_writes_without_end() -> None:
    code = (
        "from dragoman.cli import console, streams\nstreams.prepare_streams()\n"
        "for i in range(200_000): console.write(str(i))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_pipe_that_does_not_block_gets_all(tmp_path: Path) -> None:
    code = "from dragoman.cli import console, streams\nstreams.prepare_streams()\nconsole.write('x' * 1_000_000)"
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen([sys.executable, "-c", code], stdout=writing) as process, open(reading, "rb") as reader:
        os.close(writing)
        assert len(reader.read()) == 1_000_001
    assert process.returncode == 0


# A terminal that goes away


def on_a_terminal_that_closes(command: Sequence[str], folder: Path) -> "subprocess.Popen[bytes]":
    """Start a command on a separate terminal, and close that once the run has done some steps."""
    ours, theirs = pty.openpty()

    def log_in() -> None:
        os.login_tty(theirs)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where nohup started the tests

    process = subprocess.Popen([*command], cwd=folder, pass_fds=[theirs], preexec_fn=log_in)
    os.close(theirs)
    os.set_blocking(ours, False)

    def read_all() -> None:
        with suppress(OSError):  # nothing more for now, or nobody has the terminal open
            while os.read(ours, 4096):
                pass

    wait_for_steps(folder, process, read_all)
    os.close(ours)
    return process


def test_a_terminal_that_closes_stops_a_run_which_goes_on_later(data: Path) -> None:
    process = on_a_terminal_that_closes([*DRAGOMAN, *train_command(data, *FOREVER)], data)
    assert process.wait(120) == 3 and status(data) == "stopped"
    assert newest_checkpoint(data / "runs" / "corpus" / "checkpoints") is not None


def test_nohup_keeps_a_run_going_when_the_terminal_closes(data: Path) -> None:
    command = ["nohup", *DRAGOMAN, *train_command(data, "train.steps=400", "train.save_every=1000000")]
    process = on_a_terminal_that_closes(command, data)
    assert process.wait(120) == 0 and status(data) == "finished"
