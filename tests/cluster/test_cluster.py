"""A local Ray cluster does what one machine does."""

import inspect
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from extras import without
from one_direction import prepare_data
from typer.testing import CliRunner

import dragoman
from dragoman.cli.main import app
from dragoman.cluster import bulk, preparing, shards
from dragoman.cluster.connection import _cause, _check_port, connected
from dragoman.cluster.preparing import prepare_shards
from dragoman.cluster.shards import (
    copy_shard,
    everywhere,
    fetched,
    is_written,
    list_shards,
    new_shards,
    numbered,
    read_shard,
    write_shard,
)
from dragoman.errors import ConfigError, DataError, MissingExtra
from dragoman.progress import silent
from dragoman.text.checks import CheckSettings
from dragoman.text.prepared import parts_of, read_split
from dragoman.text.settings import DataSettings, ReadingSettings

ray = pytest.importorskip("ray")

pytestmark = pytest.mark.filterwarnings("ignore")
WHERE = "the old house|a red door|my brother|your letter|the last train|this road|her garden|the market".split("|")
DOES = "waits for|is far from|belongs to|reminds me of|stands near|comes after|looks like|was lost with".split("|")
MODEL = Path(dragoman.__file__).parent / "inference" / "phrasebook"


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a local cluster of two processors, which this process is connected to."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield "local"
    ray.shutdown()


def awkward_rows(count: int, seed: int) -> list[str]:
    """Rows with duplicates, faults, sentences that several rows share, and one short text in the place of many."""
    rng, rows = Random(seed), list[str]()
    for number in range(count):
        first, does, second = rng.choice(WHERE), rng.choice(DOES), rng.choice(WHERE)
        english = f"{first.capitalize()} {does} {second}, said number {rng.randrange(4 * count)}."
        italian = f"{second.upper()} {WHERE.index(first)} {DOES.index(does)} numero {rng.randrange(count)} è qui."
        rows.append(f"{english}\t{italian}")
        if number % 17 == 0:
            rows.append(rng.choice(rows))
        if number % 50 == 0:
            rows += [f"{english} Once more, {number}\tTODO", f"{english}\t", f"\u00e8 {english}\t{english}"]
    return rows


def write_parts(folder: Path, rows: list[str], parts: int) -> str:
    folder.mkdir()
    for part in range(parts):
        (folder / f"part-{part}.tsv").write_text("".join(f"{row}\n" for row in rows[part::parts]), encoding="utf-8")
    return str(folder / "part-*.tsv")


def assert_equal(one: Path, many: Path, names: tuple[str, ...] = ("train", "dev", "test")) -> None:
    """The same lines in each set, and the same report; nothing is left of what was set aside."""
    assert all(path.is_file() for path in many.iterdir())
    for name in names:
        alone, together = (b"".join(part.read_bytes() for part in parts_of(folder, name)) for folder in (one, many))
        assert alone == together
    first, second = (json.loads((folder / "data.json").read_text()) for folder in (one, many))
    for report in (first, second):
        del report["splits"]["train"]["sha256"]
    assert first == second


def deadly(function: Callable[..., Any], flag: Path) -> Callable[..., Any]:
    """The same function, but the first process of the cluster in which it has done its work is killed before it hands
    that on. A generator has handed on its first value.
    """

    own = os.getpid()

    def once(*arguments: Any, **more: Any) -> Any:
        made = function(*arguments, **more)
        if os.getpid() == own:
            return made
        if inspect.isgenerator(made):
            made = (each for each in chain([next(made)], made))
        with suppress(FileExistsError):
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        return made

    return once


def test_a_cluster_prepares_the_same_rows_splits_and_report(tmp_path, cluster) -> None:
    path = write_parts(tmp_path / "parts", awkward_rows(3_000, 1), 5)
    (tmp_path / "parts" / "part-5.tsv").write_text("Nobody answers.\t\n")  # a shard of which nothing is kept
    settings = DataSettings(path=path, source_language="en", target_language="it", dev_size=150, test_size=200)
    alone = prepare_data(settings, tmp_path / "alone", progress=False)
    prepare_shards(settings, str(tmp_path / "many"), cluster, progress=False)
    assert {"duplicate of an earlier pair", "empty side"} < alone.dropped.keys()
    assert any("TODO" in reason for reason in alone.dropped)
    assert_equal(tmp_path / "alone", tmp_path / "many")
    parts = list((tmp_path / "many").glob("train-*.jsonl"))
    assert len(parts) > 1 and all(part.stat().st_size for part in parts)
    again = prepare_data(DataSettings(path=str(tmp_path / "many")), tmp_path / "copy", progress=False)
    assert {name: split.pairs for name, split in again.splits.items()} == {
        name: split.pairs for name, split in alone.splits.items()
    }
    assert sorted(read_split(tmp_path / "copy", "train")) == sorted(read_split(tmp_path / "alone", "train"))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("drop_duplicates", [True, False])
def test_sets_beside_the_text_are_kept_and_their_leaks_counted(tmp_path, cluster, seed, drop_duplicates) -> None:
    rows = awkward_rows(800, seed)
    path = write_parts(tmp_path / "parts", rows, 3)
    (tmp_path / "given.tsv").write_text("".join(f"{row}\n" for row in Random(seed).sample(rows, 60)), encoding="utf-8")
    settings = DataSettings(
        path=path,
        source_language="en",
        target_language="it",
        dev_path=str(tmp_path / "given.tsv"),
        test_size=90,
        seed=seed,
        checks=CheckSettings(drop_duplicates=drop_duplicates),
    )
    prepare_data(settings, tmp_path / "alone", progress=False)
    report = prepare_shards(settings, f"file://{tmp_path}/many", cluster, progress=False)
    assert report.splits["dev"].leaks is not None and report.splits["dev"].leaks.either > 0
    assert_equal(tmp_path / "alone", tmp_path / "many")


@pytest.mark.thorough
@pytest.mark.parametrize("stage", ["_read_shard_pairs", "_distribute"])
def test_a_killed_process_changes_nothing(tmp_path, cluster, monkeypatch, stage) -> None:
    path = write_parts(tmp_path / "parts", awkward_rows(1_000, 1), 3)
    settings = DataSettings(path=path, source_language="en", target_language="it", dev_size=50, test_size=60)
    prepare_data(settings, tmp_path / "alone", progress=False)
    monkeypatch.setattr(preparing, stage, deadly(getattr(preparing, stage), tmp_path / "killed"))
    prepare_shards(settings, str(tmp_path / "many"), cluster, progress=False)
    assert (tmp_path / "killed").exists()
    assert_equal(tmp_path / "alone", tmp_path / "many")


@pytest.mark.thorough
def test_a_translator_that_is_killed_is_replaced(tmp_path, cluster, monkeypatch) -> None:
    lines = [f"I would like {number} coffees." for number in range(30)]
    for part in range(3):
        (tmp_path / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines[10 * part : 10 * part + 10]))
    monkeypatch.setattr(bulk, "write_shard", deadly(bulk.write_shard, tmp_path / "killed"))
    done, _ = dragoman.translate_shards(str(MODEL), f"{tmp_path}/?.txt", str(tmp_path / "out"), cluster, progress=False)
    alone = dragoman.translate(MODEL, lines, progress=False)
    results = sorted((tmp_path / "out").glob("*.txt"))
    assert (tmp_path / "killed").exists() and done == 30
    assert "".join(path.read_text() for path in results) == "".join(f"{each.text}\n" for each in alone)


@pytest.mark.thorough
def test_a_cluster_translates_as_one_machine_does_and_goes_on(tmp_path, cluster) -> None:
    lines = [f"Where is the station number {number}?" for number in range(60)]
    for part in range(3):
        (tmp_path / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines[20 * part : 20 * part + 20]))
    folder = f"file://{tmp_path}/out"
    done, counts = dragoman.translate_shards(str(MODEL), f"{tmp_path}/*.txt", folder, cluster, progress=False)
    alone = dragoman.translate(MODEL, lines, progress=False)
    results = sorted((tmp_path / "out").glob("*.txt"))
    assert done == 60 and [path.name for path in results] == [f"0000{part}-00000.txt" for part in range(3)]
    assert "".join(path.read_text() for path in results) == "".join(f"{each.text}\n" for each in alone)
    summary = dragoman.Summary()
    for translation in alone:
        summary.add(translation)
    assert counts == summary.counts and counts["translated"] == 60
    results[1].unlink()
    done, _ = dragoman.translate_shards(str(MODEL), f"{tmp_path}/*.txt", folder, cluster, progress=False)
    assert done == 20 and results[1].read_text() == "".join(f"{each.text}\n" for each in alone[20:40])
    with pytest.raises(DataError, match="contains results of another model, other options or text"):
        dragoman.translate_shards(
            str(MODEL), f"{tmp_path}/*.txt", folder, cluster, progress=False, overrides=["decode.beam_size=1"]
        )


@pytest.mark.thorough
def test_records_keep_their_columns(tmp_path, cluster) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [{"id": number, "english": f"I would like {number} coffees."} for number in range(5)]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows[:3]))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows[3:]), tmp_path / "b.parquet")
    dragoman.translate_shards(
        str(MODEL), f"{tmp_path}/[ab].*", str(tmp_path / "out"), cluster, "english", progress=False
    )
    made = [json.loads(line) for path in sorted((tmp_path / "out").glob("0*")) for line in path.open()]
    alone = dragoman.translate(MODEL, [row["english"] for row in rows], progress=False)
    expected = [(row["id"], row["english"], each.text) for row, each in zip(rows, alone, strict=True)]
    assert [(row["id"], row["english"], row["translation"]) for row in made] == expected
    with pytest.raises(DataError, match="a.jsonl:1 has no text under 'text'; name the column"):
        dragoman.translate_shards(str(MODEL), f"{tmp_path}/a.*", str(tmp_path / "other"), cluster, progress=False)
    (tmp_path / "scored.jsonl").write_text('{"text": "Hello.", "score": 7}\n')
    with pytest.raises(DataError, match="scored.jsonl:1 has a column 'score', as the result would"):
        dragoman.translate_shards(str(MODEL), f"{tmp_path}/scored.*", str(tmp_path / "x"), cluster, progress=False)


@pytest.mark.thorough
def test_results_of_another_job_are_not_taken(tmp_path, cluster) -> None:
    texts, out = tmp_path / "a.jsonl", tmp_path / "out"

    def write_texts(english: str) -> None:
        texts.write_text(json.dumps({"english": english, "text": "Two coffees, please."}) + "\n")

    def run(*arguments: str) -> BaseException | None:
        return CliRunner().invoke(app, [*arguments, "--ray", cluster]).exception

    plain = ["translate", str(MODEL), "--input", str(texts), "--output", str(out)]
    command = [*plain, "--only", "english"]
    write_texts("Where is the station?")
    assert run(*command) is None
    asked, made = (path.read_bytes() for path in (out / "asked.json", out / "00000-00000.jsonl"))
    for changed in (plain, [*command, "--format", "json"], [*command, "--beam-size", "2"]):
        with pytest.raises(DataError, match="contains results of another"):
            raise run(*changed) or AssertionError(changed)
    write_texts("Where is the theatre?")
    assert isinstance(error := run(*command), DataError) and f"shards.{texts}" in str(error)
    assert (asked, made) == tuple(path.read_bytes() for path in (out / "asked.json", out / "00000-00000.jsonl"))
    (out / "asked.json").unlink()
    assert isinstance(error := run(*command), DataError) and "contains files already" in str(error)

    pairs = tmp_path / "p.tsv"
    pairs.write_text("Where is the station?\tDov'è la stazione?\n")
    command = ["score", str(MODEL), str(pairs), "--output", str(tmp_path / "scored")]
    command += ["--set", "data.source_language=en", "--set", "data.target_language=it"]
    assert run(*command, "--at-least", "-9") is None
    for changed in (["--at-least", "-8"], [], ["--at-least", "-9", "--format", "json"]):
        with pytest.raises(DataError, match="contains results of another"):
            raise run(*command, *changed) or AssertionError(changed)
    assert run(*command, "--at-least", "-9", "--set", "decode.batch_tokens=500") is None


@pytest.mark.thorough
def test_the_commands_work_on_a_cluster(tmp_path, cluster) -> None:
    rows = [f"Where is the station?\tDov'è la stazione numero {number}?" for number in range(30)]
    path = write_parts(tmp_path / "parts", rows, 2)
    languages = ["--set", "data.source_language=en", "--set", "data.target_language=it"]
    run = CliRunner().invoke
    for ray_options, output in ((["--ray", cluster], tmp_path / "many"), ([], tmp_path / "alone.tsv")):
        asked = ["score", str(MODEL), path, "--output", str(output), *languages, *ray_options]
        assert run(app, asked, catch_exceptions=False).exit_code == 0
    many = "".join(part.read_text() for part in sorted((tmp_path / "many").glob("0*.tsv")))
    assert many == (tmp_path / "alone.tsv").read_text()
    texts = tmp_path / "a.txt"
    texts.write_text("Where is the station?\nTwo coffees, please.\n")
    result = run(
        app, ["translate", str(MODEL), "--input", str(texts), "--output", str(tmp_path / "out"), "--ray", cluster]
    )
    assert result.exit_code == 0 and len((tmp_path / "out" / "00000-00000.txt").read_text().splitlines()) == 2
    prepared = ["prepare-data", path, "--folder", str(tmp_path / "data"), "--ray", cluster]
    result = run(app, [*prepared, "--source-language", "en", "--target-language", "it"], catch_exceptions=False)
    assert result.exit_code == 0 and (tmp_path / "data" / "data.json").is_file()


def test_nothing_stays_of_text_that_cannot_be_used(tmp_path, cluster) -> None:
    (tmp_path / "a.tsv").write_text("Hello.\t\nGoodbye.\t\n")
    for folder in (str(tmp_path / "many"), f"file://{tmp_path}/far"):
        with pytest.raises(DataError, match="none of the 2 rows"):
            prepare_shards(str(tmp_path / "a.tsv"), folder, cluster, progress=False, source_language="en")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def test_what_is_wrong_is_said_before_any_work(tmp_path, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text("Hello.\n")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match="no Ray cluster answers at 127.0.0.1:1"):
        dragoman.translate_shards(str(MODEL), str(tmp_path / "a.txt"), str(tmp_path / "out"), "127.0.0.1:1")
    asked = ["translate", str(MODEL), "--ray", "local", "Hello."]
    result = CliRunner().invoke(app, asked)
    assert isinstance(result.exception, ConfigError) and "--ray translates many files" in str(result.exception)
    files = ["translate", str(MODEL), "--input", str(tmp_path / "a.txt"), "--output", str(tmp_path / "out")]
    for refused in (["--fresh"], ["--only", "a", "--only", "b"]):
        result = CliRunner().invoke(app, [*files, "--ray", "local", *refused])
        assert isinstance(result.exception, ConfigError) and "is not for --ray" in str(result.exception)
    without(monkeypatch, "ray")
    with pytest.raises(MissingExtra, match=r"dragoman\[ray\]"):
        prepare_shards(str(tmp_path / "a.txt"), str(tmp_path / "out"), "local")
    assert not (tmp_path / "out").exists()


def test_shards_lie_on_disks_and_elsewhere(tmp_path) -> None:
    for name in ("b.en", "b.it", "a.en", "a.it"):
        (tmp_path / name).write_text(name)
    near = list_shards((f"{tmp_path}/*.en", f"{tmp_path}/*.it"))
    far = list_shards((f"file://{tmp_path}/*.en", f"file://{tmp_path}/*.it"))
    assert near == [(f"{tmp_path}/{name}.en", f"{tmp_path}/{name}.it") for name in "ab"]
    assert far == [tuple(f"file://{part}" for part in shard) for shard in near]
    with fetched(far[1]) as here:
        copies = [Path(part) for part in here]
        assert [copy.read_text() for copy in copies] == ["b.en", "b.it"] and copies[0] != tmp_path / "b.en"
    assert not any(copy.exists() for copy in copies)
    (tmp_path / "b.it").unlink()
    for pattern in (f"{tmp_path}/*", f"file://{tmp_path}/*"):
        with pytest.raises(DataError, match="match|aligned"):
            list_shards((f"{pattern}.en", f"{pattern}.it"))
    assert read_shard(f"file://{tmp_path}/none") is None
    with new_shards(f"file://{tmp_path}/new") as folder:
        write_shard(f"{folder}/one", b"x")
    assert (tmp_path / "new" / "one").read_bytes() == b"x"
    with pytest.raises(DataError, match="contains files already"), new_shards(f"file://{tmp_path}/new"):
        pass


def test_a_pattern_that_matches_nothing_elsewhere_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="match 0 files"):
        list_shards(f"file://{tmp_path}/*.txt")


def test_an_address_means_the_same_in_every_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert everywhere(("a.en", "b/a.it")) == (f"{tmp_path}/a.en", f"{tmp_path}/b/a.it")
    for address in ("hub:somebody/books", "s3://bucket/a.tsv", "/data/a.tsv"):
        assert everywhere(address) == address


@pytest.mark.parametrize("at", ["", "file://"])
def test_parts_with_a_result_are_not_done_again_even_if_it_is_empty(tmp_path, monkeypatch, at) -> None:
    (tmp_path / "a.txt").write_text("Hello.\n" * 5)
    monkeypatch.setattr(bulk, "LINES", 2)
    work = bulk._Translating(bulk.ModelOptions(str(MODEL)), "txt", None, lambda *_: [])
    shard = numbered([f"{tmp_path}/a.txt"])[0]
    batch = {"number": np.array([shard["number"]]), "shard": [shard["shard"]]}
    folder = f"{at}{tmp_path}/out"

    def parts() -> list[str]:
        return [part["name"][0] for part in bulk._parts(batch, work, folder)]

    assert parts() == [f"00000-0000{part}.txt" for part in range(3)]
    for part, content in ((0, b"Ciao.\nCiao.\n"), (1, b"")):
        write_shard(f"{folder}/00000-0000{part}.txt", content)
        assert is_written(f"{folder}/00000-0000{part}.txt")
    assert parts() == ["00000-00002.txt"]


@pytest.mark.thorough
def test_pairs_of_which_none_is_kept_are_scored_once(tmp_path, cluster) -> None:
    (tmp_path / "a.tsv").write_text("Where is the station?\tDov'è la stazione?\n" * 3)
    reading = ReadingSettings(source_language="en", target_language="it")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".00000-00000.jsonl.0123abcd.partial").write_text("of a killed process")
    arguments = str(MODEL), f"{tmp_path}/a.tsv", f"{tmp_path}/out", cluster, reading
    for expected in (3, 0):
        done, _ = dragoman.score_shards(*arguments, write=lambda _: "", progress=False)
        assert done == expected
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["00000-00000.jsonl", "asked.json"]


def test_a_shard_that_is_written_in_part_does_not_exist(tmp_path, monkeypatch) -> None:
    def fail(content: Any, shard: Any) -> None:
        shard.write(content.read(2))
        raise ZeroDivisionError

    (tmp_path / "whole").write_text("1234")
    monkeypatch.setattr(shards.shutil, "copyfileobj", fail)
    for path in (f"file://{tmp_path}/a", f"{tmp_path}/b"):
        with pytest.raises(ZeroDivisionError):
            copy_shard(tmp_path / "whole", path)
        assert read_shard(path) is None


def test_an_empty_folder_elsewhere_may_be_filled(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with new_shards(f"file://{tmp_path}/empty") as folder:
        write_shard(f"{folder}/one", b"x")
    assert (tmp_path / "empty" / "one").read_bytes() == b"x"


def test_a_cluster_is_checked_by_its_host_and_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "local"):
            _check_port(address)
    with pytest.raises(ConnectionRefusedError):
        _check_port(f"ray://127.0.0.1:{port}")


def test_a_connection_that_the_process_has_is_kept(monkeypatch) -> None:
    ended = list[bool]()
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    with connected("local"):
        pass
    assert not ended


def test_an_error_of_ours_is_found_behind_those_of_the_cluster() -> None:
    ours, wrapped, outer = DataError("no text"), RuntimeError("task failed"), RuntimeError("job failed")
    wrapped.cause, outer.__cause__ = ours, wrapped  # pyright: ignore[reportAttributeAccessIssue]
    assert _cause(outer) is _cause(wrapped) is _cause(ours) is ours
    assert _cause(network := RuntimeError("the network")) is network


@pytest.mark.parametrize("worker", ["translate", "prepare-data"])
def test_an_error_on_a_worker_is_what_one_machine_says(tmp_path, cluster, capfd, worker) -> None:
    (tmp_path / "a.tsv").write_text("Where is the station?\tDov'è la stazione?\n" * 2000)
    (tmp_path / "b.tsv").write_bytes(b"Good morning.\tBuongiorno.\n" * 2000 + b"\xff\tx\n")
    (tmp_path / "c.txt").write_bytes(b"Good morning.\n" * 2000 + b"\xff\n")
    messages = []
    for ray_options, name in ((["--ray", cluster], "many"), ([], "alone")):
        if worker == "translate":
            arguments = [str(MODEL), "--input", f"{tmp_path}/c.txt", "--output", f"{tmp_path}/{name}"]
        else:
            arguments = [f"{tmp_path}/?.tsv", "--folder", f"{tmp_path}/{name}"]
            arguments += ["--source-language", "en", "--target-language", "it"]
        error = CliRunner().invoke(app, [worker, *arguments, *ray_options]).exception
        assert type(error) is DataError
        messages.append(str(error).replace(f"{tmp_path}/", ""))
    assert messages[0] == messages[1] and ":2001 is not valid UTF-8" in messages[0]
    assert "Traceback" not in capfd.readouterr().err


def test_a_fault_on_a_worker_is_named(cluster) -> None:
    def fail() -> None:
        raise KeyError("nothing here")

    with pytest.raises(ConfigError, match="^the Ray cluster failed: KeyError: 'nothing here'; see"), connected(cluster):
        ray.get(ray.remote(fail).remote())


@pytest.mark.parametrize(
    ("device", "threads", "resources", "divided"),
    [
        ("auto", 1, {"CPU": 16.0}, (None, 16)),
        ("auto", 4, {"CPU": 16.0, "GPU": 8.0}, (1, 4)),
        ("auto", 1, {"CPU": 16.0, "GPU": 2.0}, (1, 2)),
        ("cuda", 1, {"CPU": 16.0, "GPU": 2.0}, (1, 2)),
        ("cuda", 1, {"CPU": 16.0}, (1, 1)),  # an autoscaler may add one
        ("cpu", 3, {"CPU": 16.0, "GPU": 2.0}, (None, 5)),
        ("cpu", 8, {"CPU": 4.0}, (None, 1)),
    ],
)
def test_each_process_takes_a_gpu_where_the_cluster_has_some(device, threads, resources, divided) -> None:
    assert bulk._divide(resources, bulk.ModelOptions("model", device, threads=threads)) == divided


def test_what_processes_return_is_put_in_order(monkeypatch) -> None:
    class Backwards:
        def __init__(self, rows: list[dict[str, Any]]) -> None:
            self.rows = rows

        def map(self, function: Callable[..., Any]) -> "Backwards":
            return Backwards([function(row) for row in self.rows])

        def iter_rows(self) -> Iterator[dict[str, Any]]:
            return reversed(self.rows)

    monkeypatch.setattr(ray.data, "from_items", lambda rows, **_: Backwards(rows))
    rows = numbered(["a", "b", "c"])
    assert preparing._map_rows(lambda row: row, rows, silent, "read") == rows


def test_all_shards_are_read_in_the_languages_of_the_first(tmp_path, monkeypatch) -> None:
    for name in ("a.en-it.tsv", "b.de-fr.tsv"):
        (tmp_path / name).write_text("one\ttwo\n")
    monkeypatch.setattr(preparing, "connected", lambda _: nullcontext())
    with pytest.raises(DataError, match=r"b\.de-fr\.tsv.*a\.en-it\.tsv"):
        prepare_shards(f"{tmp_path}/*.tsv", str(tmp_path / "many"), progress=False)


def test_what_was_fetched_goes_by_the_name_that_it_came_from(tmp_path) -> None:
    (tmp_path / "a.tsv").write_text("Where is the station?\tDov'è la stazione?\n")
    address = f"file://{tmp_path}/a.tsv"
    settings = DataSettings(path=address, source_language="en", target_language="it")
    with ExitStack() as stack:
        plan, _ = preparing._plan(settings, address, [address], f"{tmp_path}/pairs", stack)
        found = preparing._read_shard_pairs(numbered([address])[0], plan)
    assert [*preparing.ShardSummary.model_validate_json(found["summary"]).sha256] == [address]


def test_languages_of_sides_are_learned_from_all_shards(tmp_path, monkeypatch) -> None:
    rows = awkward_rows(12, 1)
    path = write_parts(tmp_path / "parts", rows, 3)
    read: list[str] = []
    monkeypatch.setattr(
        preparing, "learn_side_languages", lambda reading, _: read.extend(pair.source for pair in reading)
    )
    settings = DataSettings(path=path, source_language="en", target_language="it")
    with ExitStack() as stack:
        preparing._plan(settings, path, list_shards(path), f"{tmp_path}/pairs", stack)
    assert sorted(read) == sorted(row.partition("\t")[0] for row in rows)


def test_sides_of_one_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    for side in ("en", "it"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "part-0.txt").write_text(side)
    (shard,) = list_shards((f"file://{tmp_path}/en/*.txt", f"file://{tmp_path}/it/*.txt"))
    with fetched(shard) as here:
        assert [Path(part).read_text() for part in here] == ["en", "it"]
