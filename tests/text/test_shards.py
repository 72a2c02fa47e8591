"""Text prepared as several jobs is the same text, to the byte, in whatever order and however often they run."""

import random
from pathlib import Path

import pytest

from dragoman.config import check
from dragoman.errors import ConfigError, DataError
from dragoman.text.inputs import DataSettings
from dragoman.text.intake import STRETCH, Shard
from dragoman.text.prepare import prepare_data
from dragoman.text.report import read_report
from dragoman.text.shards import prepare_shard, shards_folder


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch):
    monkeypatch.setattr("dragoman.text.intake.STRETCH", 7)


def some_text(rows: int) -> list[tuple[str, str]]:
    """Pairs with faults, repetitions near and far, and sentences that link others."""
    draw = random.Random(1)
    pairs = [(f"Sentence number {draw.randrange(rows)}.", f"Frase numero {draw.randrange(rows)}.") for _ in range(rows)]
    for place, fault in ((3, ("", "x")), (40, ("Rome", "Rome")), (41, ("No.", "x" * 300)), (90, (" spaces ", "spazi"))):
        pairs[place] = fault
    pairs[50:60] = pairs[10:20]
    for place in (70, 222):
        source, target = pairs[place]
        pairs[place] = target, source
    pairs[5] = ("Rock &amp; Roll", "Rock &amp; Roll!\r")
    pairs[64] = ("Rock &amp; Roll again", "ancora")
    return pairs


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("en\tit\n" + "".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


@pytest.fixture
def settings(tmp_path) -> DataSettings:
    return DataSettings(path=write(tmp_path / "corpus.tsv", some_text(300)))


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("of", [1, 2, 3, 16, 60])
def test_shards_in_any_order_are_one_job_to_the_byte(settings, tmp_path, of):
    whole = prepare_data(settings, tmp_path / "whole")
    numbers = list(range(1, of + 1))
    random.Random(of).shuffle(numbers)
    for number in numbers:
        prepare_shard(settings, tmp_path / "parts", Shard(number, of))
    assert prepare_data(settings, tmp_path / "parts") == whole
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert not shards_folder(tmp_path / "parts").exists()


def test_each_row_is_in_one_shard(settings, tmp_path):
    found = [prepare_shard(settings, tmp_path / "parts", Shard(number, 4)) for number in (1, 2, 3, 4)]
    kept = [sum(pairs for pairs, _ in facts.stretches) for facts in found]
    assert sum(kept) == 300 - 3
    assert max(kept) - min(kept) <= 7 + 3
    assert {facts.rows for facts in found} == {300}


def test_shards_of_text_with_given_sets_are_one_job(settings, tmp_path):
    given = settings.but(dev_path=write(tmp_path / "dev.tsv", some_text(300)[100:120]), test_size=10)
    for number in (2, 1):
        prepare_shard(given, tmp_path / "parts", Shard(number, 2))
    whole = prepare_data(given, tmp_path / "whole")
    assert prepare_data(given, tmp_path / "parts") == whole
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert whole.splits["dev"].leaks and whole.splits["dev"].leaks.either


def test_a_finished_shard_is_not_made_again(settings, tmp_path):
    facts = prepare_shard(settings, tmp_path / "parts", Shard(1, 2))
    part = shards_folder(tmp_path / "parts") / "1-of-2"
    times = {file: file.stat().st_mtime_ns for file in part.iterdir()}
    assert prepare_shard(settings, tmp_path / "parts", Shard(1, 2)) == facts
    assert {file: file.stat().st_mtime_ns for file in part.iterdir()} == times


def test_a_shard_that_fails_leaves_nothing_and_can_be_made_again(settings, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.text.intake.fault", fail)
        with pytest.raises(KeyboardInterrupt):
            prepare_shard(settings, tmp_path / "parts", Shard(2, 2))
    assert list(shards_folder(tmp_path / "parts").iterdir()) == []
    for number in (1, 2):
        prepare_shard(settings, tmp_path / "parts", Shard(number, 2))
    prepare_data(settings, tmp_path / "parts")


def test_parts_of_a_file_give_the_same_as_the_whole_file(settings, tmp_path):
    pairs = some_text(300)
    for number in range(3):
        write(tmp_path / f"part-{number}.tsv", pairs[100 * number : 100 * number + 100])
    parts = DataSettings(path=str(tmp_path / "part-*.tsv"))
    for number in (3, 1, 2):
        prepare_shard(parts, tmp_path / "parts", Shard(number, 3))
    found, whole = prepare_data(parts, tmp_path / "parts"), prepare_data(settings, tmp_path / "whole")
    assert found.splits.keys() == whole.splits.keys()
    for name in ("train.jsonl", "dev.jsonl", "test.jsonl"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert found.dropped["duplicate of an earlier pair"].first.startswith("part-0.tsv:")
    assert list(found.inputs["train"].sha256) == ["part-0.tsv", "part-1.tsv", "part-2.tsv"]


# Refusals


def test_missing_shards_are_named_and_nothing_is_written(settings, tmp_path):
    prepare_shard(settings, tmp_path / "parts", Shard(2, 3))
    with pytest.raises(DataError, match=r"lacks 2 of 3 shards \(1, 3\): prepare them with --shard 1/3, or delete"):
        prepare_data(settings, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
    assert shards_folder(tmp_path / "parts").exists()


def test_shards_of_two_numbers_are_refused(settings, tmp_path):
    for shard in (Shard(1, 2), Shard(1, 3)):
        prepare_shard(settings, tmp_path / "parts", shard)
    with pytest.raises(DataError, match=r"parts\.shards holds shards of 2 and of 3; delete it"):
        prepare_data(settings, tmp_path / "parts")


def test_shards_of_other_text_or_settings_are_refused(settings, tmp_path):
    other = settings.but(seed=2)
    prepare_shard(settings, tmp_path / "parts", Shard(1, 2))
    with pytest.raises(DataError, match="1-of-2 was prepared from other data or settings"):
        prepare_shard(other, tmp_path / "parts", Shard(1, 2))
    prepare_shard(other, tmp_path / "parts", Shard(2, 2))
    with pytest.raises(DataError, match="2-of-2 was prepared from other data or settings"):
        prepare_data(settings, tmp_path / "parts")


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.keys", "shard.json"])
def test_a_cut_shard_is_refused(settings, tmp_path, name):
    prepare_shard(settings, tmp_path / "parts", Shard(1, 1))
    path = shards_folder(tmp_path / "parts") / "1-of-1" / name
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match="1-of-1.* delete .*1-of-1 and prepare it again"):
        prepare_data(settings, tmp_path / "parts")


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "a/b", "1/0", "1/2/3", "-1/2", "1.0/2"])
def test_a_shard_is_a_part_of_a_whole(text):
    with pytest.raises(ConfigError, match=f"but is '{text}'"):
        Shard.parse(text)


def test_shifted_rows_are_looked_for_in_whole_windows():
    from dragoman.text.alignment import AlignmentDetector

    assert STRETCH % AlignmentDetector.WINDOW == 0


# Prepared data given as text


def test_prepared_data_is_copied(settings, tmp_path, caplog):
    report = prepare_data(settings, tmp_path / "data")
    given = DataSettings(path=str(tmp_path / "data"), source_language="en", target_language="it")
    again = prepare_data(given, tmp_path / "again")
    assert {name: content for name, content in files(tmp_path / "again").items() if name != "data.json"} == {
        name: content for name, content in files(tmp_path / "data").items() if name != "data.json"
    }
    assert (again.rows, again.dropped, again.splits) == (report.rows, report.dropped, report.splits)
    assert again.inputs["train"].name.endswith("train.jsonl")
    assert prepare_data(given, tmp_path / "again") == again == read_report(tmp_path / "again")


@pytest.mark.parametrize(
    "change", [{"checks": {"max_words": 100}}, {"test_size": 4}, {"source_column": "2", "target_column": "1"}]
)
def test_prepared_data_is_prepared_again_for_other_settings(settings, tmp_path, change):
    prepare_data(settings, tmp_path / "data")
    again = prepare_data(check({"path": str(tmp_path / "data"), **change}, "x", DataSettings), tmp_path / "again")
    assert again.rows == read_report(tmp_path / "data").splits["train"].pairs


def test_prepared_data_that_was_changed_is_prepared_again(settings, tmp_path):
    prepare_data(settings, tmp_path / "data")
    with (tmp_path / "data" / "train.jsonl").open("a", encoding="utf-8") as file:
        file.write('["new", "nuovo"]\n')
    again = prepare_data(DataSettings(path=str(tmp_path / "data")), tmp_path / "again")
    assert again.splits["train"].pairs == read_report(tmp_path / "data").splits["train"].pairs + 1


def test_prepared_data_without_held_out_sets_is_copied(settings, tmp_path):
    prepare_data(settings.but(dev_size=0, test_size=0), tmp_path / "data")
    again = prepare_data(DataSettings(path=str(tmp_path / "data")), tmp_path / "again")
    assert [split.pairs for split in again.splits.values()][1:] == [0, 0]
