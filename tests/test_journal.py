"""The journal of a run: every step once, whatever the disk and the trackers do."""

import errno
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DiskFull
from dragoman.recipe import journal
from dragoman.recipe.curves import dev_scores, training_losses
from dragoman.recipe.journal import METRICS, Journal, read_metrics


def write_steps(folder: Path, steps: Sequence[int], begin: int = 0) -> None:
    with Journal(folder, begin) as written:
        for step in steps:
            written.write(step, loss=1.0 / step)


def steps_in(folder: Path) -> list[int]:
    return [line["step"] for line in read_metrics(folder)]


def test_steps_that_are_run_again_stand_there_once(tmp_path: Path) -> None:
    write_steps(tmp_path, range(1, 9))
    write_steps(tmp_path, range(6, 11), begin=5)
    assert steps_in(tmp_path) == list(range(1, 11))


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_line_that_a_power_failure_cut_is_left_out(cut: int, tmp_path: Path) -> None:
    write_steps(tmp_path, range(1, 4))
    path = tmp_path / METRICS
    path.write_bytes(path.read_bytes()[:-cut])
    write_steps(tmp_path, range(3, 5), begin=2)
    assert steps_in(tmp_path) == [1, 2, 3, 4]


def test_a_number_that_is_not_finite_is_null(tmp_path: Path) -> None:
    with Journal(tmp_path, 0) as written:
        written.write(1, loss=math.nan, plain_loss=math.inf, tokens=5)
        written.write(2, loss=1.0, plain_loss=2.0, tokens=5)
    for line in (tmp_path / METRICS).read_text().split("\n")[:-1]:
        json.loads(line, parse_constant=pytest.fail)
    assert read_metrics(tmp_path)[0] == {"step": 1, "loss": None, "plain_loss": None, "tokens": 5}
    assert training_losses(tmp_path, 10) == [(2, 2.0)], "a curve goes around them"


def test_curves_take_losses_and_scores_apart(tmp_path: Path) -> None:
    with Journal(tmp_path, 0) as written:
        for step in range(1, 5):
            written.write(step, plain_loss=float(step))
        written.write(4, dev_loss=0.5, dev_bleu=1.0, dev_chrf=2.0)
    assert training_losses(tmp_path, 2) == [(2, 1.5), (4, 3.5)]
    assert dev_scores(tmp_path) == [(4, 0.5, 1.0, 2.0)]


class FullFile:
    """A file on a disk that has room for so many bytes more."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, content: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self.file.write(content[: self.room])
        self.room -= taken
        return taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_lines_without_room_are_kept_until_there_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Journal(tmp_path, 0) as written:
        written._file = full = FullFile(written._file, room=40)  # pyright: ignore[reportAttributeAccessIssue]
        for step in range(1, 6):
            written.write(step, loss=0.25)
        assert caplog.text.count("No space left on device); its lines are kept") == 1, "said once"
        with pytest.raises(DiskFull, match="metrics.jsonl cannot be written"):
            written.secure()
        full.room = 1_000
        written.write(6, loss=0.25)
        written.secure()
    assert steps_in(tmp_path) == list(range(1, 7))


def test_a_tracker_that_raises_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Works:
        def __init__(self) -> None:
            self.told: list[tuple[str, float, int]] = []
            self.closed = False

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.told.append((name, value, step))

        def close(self) -> None:
            self.closed = True

    class Fails(Works):
        def add_scalar(self, name: str, value: float, step: int) -> None:
            raise ConnectionError("the server is away")

    works = Works()
    monkeypatch.setattr(journal, "_trackers", lambda *_: [Fails(), works])
    write_steps(tmp_path, [1, 2])
    assert caplog.text.count("a tracker failed and is left out from here on: the server is away") == 1
    assert works.told == [("loss", 1.0, 1), ("loss", 0.5, 2)]
    assert works.closed
    assert steps_in(tmp_path) == [1, 2]
