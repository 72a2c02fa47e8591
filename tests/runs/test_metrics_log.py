"""The metrics of a run: every step once, whatever the disk and the trackers do."""

import errno
import json
import math
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DiskFull
from dragoman.runs import metrics_log
from dragoman.runs.metrics_log import MetricsLog, curve_lines, dev_curve, draw_curves, read_metrics, training_losses

METRICS = "metrics.jsonl"


def write_steps(folder: Path, steps: Sequence[int], begin: int = 0) -> None:
    with MetricsLog(folder, begin) as written:
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
    with MetricsLog(tmp_path, 0) as written:
        written.write(1, loss=math.nan, plain_loss=math.inf, tokens=5)
        written.write(2, loss=1.0, plain_loss=2.0, tokens=5)
    for line in (tmp_path / METRICS).read_text().split("\n")[:-1]:
        json.loads(line, parse_constant=pytest.fail)
    assert read_metrics(tmp_path)[0] == {"step": 1, "loss": None, "plain_loss": None, "tokens": 5}
    assert training_losses(tmp_path, 10) == [(2, 2.0)], "a curve goes around them"


def test_curves_take_losses_and_scores_apart(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0) as written:
        for step in range(1, 5):
            written.write(step, plain_loss=float(step))
        written.write(4, dev_loss=0.5, dev_bleu=1.0, dev_chrf=2.0)
    assert training_losses(tmp_path, 2) == [(2, 1.5), (4, 3.5)]
    for metric, value in {"dev_loss": 0.5, "dev_bleu": 1.0, "dev_chrf": 2.0}.items():
        assert dev_curve(tmp_path, metric) == [(4, value)]


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
    with MetricsLog(tmp_path, 0) as written:
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


# Damaged


@pytest.mark.parametrize("torn", [b'{"step": 2, "plain_lo', b'{"step"', b"\x00\x00\x00", b'{"step": 2, "note": "\xc3'])
def test_a_line_that_a_kill_cut_is_left_out(torn: bytes, tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(b'{"step": 1, "plain_loss": 2.0}\n' + torn)
    assert read_metrics(tmp_path) == [{"step": 1, "plain_loss": 2.0}]
    write_steps(tmp_path, [2], begin=1)
    assert steps_in(tmp_path) == [1, 2]


def test_curves_cope_with_whatever_a_journal_lacks(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text(
        '{"step": 4, "plain_loss": null}\n{"step": 6, "plain_loss": 2.0}\n{"step": 6, "dev_loss": 1.0}\n'
        '{"step": 8, "dev_loss": null, "dev_bleu": 1.0, "dev_chrf": 1.0}\n'
        '{"step": 9, "dev_loss": 1.0, "dev_bleu": 1.0, "dev_chrf": 2.0}\n'
    )
    assert curve_lines(tmp_path) == ["training loss ▁ 2.00 to 2.00 nats a token", "held-out chrF ▁█ 1.0 to 2.0"]
    draw_curves(tmp_path)
    (tmp_path / METRICS).unlink()
    assert curve_lines(tmp_path) == []
    draw_curves(tmp_path)


# Trackers


def test_a_full_disk_under_tensorboard_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record_writer = pytest.importorskip("tensorboard.summary.writer.record_writer").RecordWriter
    failed, printed = threading.Event(), []

    def full(*_: object) -> None:
        failed.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(threading, "excepthook", printed.append)
    with MetricsLog(tmp_path, 0) as written:
        monkeypatch.setattr(record_writer, "write", full)
        written.write(1, loss=1.0)
        assert failed.wait(60)
        for thread in threading.enumerate():
            if type(thread).__module__.startswith("tensorboard."):
                thread.join(60)
        for step in range(2, 9):
            written.write(step, loss=1.0)
    assert printed == [], "the thread prints no traceback"
    assert caplog.text.count("a tracker failed and is not used any more: [Errno 28] No space left") == 1
    assert len(caplog.records) == 1
    assert steps_in(tmp_path) == list(range(1, 9))
    assert threading.excepthook == printed.append, "other threads are as loud as before"


def test_other_threads_are_as_loud_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    with MetricsLog(tmp_path, 0):
        thread = threading.Thread(target=lambda: 1 // 0)
        thread.start()
        thread.join()
    assert len(printed) == 1


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
    monkeypatch.setattr(metrics_log, "_trackers", lambda *_: [Fails(), works])
    write_steps(tmp_path, [1, 2])
    assert caplog.text.count("a tracker failed and is not used any more: the server is away") == 1
    assert works.told == [("loss", 1.0, 1), ("loss", 0.5, 2)]
    assert works.closed
    assert steps_in(tmp_path) == [1, 2]
