"""Parallel text becomes a folder of shards on many machines: the rows, splits and counts of `prepare_data`.

Each shard of the input is read, checked and given keys by one process, as `prepare_data` does with all of it. Then
pairs meet by their keys: those with equal texts, of which the first is kept; those with equal sources; those with equal
targets. Only pairs that share a sentence with others, and as many of the rest as may be held out, are dealt out in this
process; their keys take some 50 bytes of its memory for each pair. Text moves between machines once.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pydantic

from dragoman.cluster.connection import connected
from dragoman.cluster.shards import fetched, list_shards, new_shards, parts_of, size_of, write_shard
from dragoman.config import choose
from dragoman.progress import Progress, as_progress, silent
from dragoman.run_folder import shards_of, split_of
from dragoman.text.addresses import Address
from dragoman.text.checks import DUPLICATE, PLACEHOLDER, REPEATED
from dragoman.text.columns import Naming
from dragoman.text.inputs import addresses_of
from dragoman.text.prepare import announce
from dragoman.text.prepare_pairs import (
    LINE_BITS,
    SPLITS,
    PairSet,
    Seen,
    Split,
    Usual,
    describe,
    hashes,
    identity_of,
    learn_usual,
    origin_of,
    refuse_too_few,
    report_on,
    split_reports,
    what_is_held_out,
)
from dragoman.text.readers import Pair, Reading, open_pairs
from dragoman.text.report import REPORT, DataReport, Tally
from dragoman.text.settings import DataSettings
from dragoman.text.split import FAR_LONGER, LONGER, assign, first_occurrences, many_longer, mix

if TYPE_CHECKING:
    from pyarrow import Table
    from ray.data import Dataset

ROWS = 50_000
"""Pairs that a process hands on together."""
PARTITION = 1 << 25
"""Bytes of input whose pairs meet in one process, about."""
BUCKETS = 8
"""Groups of pairs with equal keys in each partition; so many make partitions of about one size."""
Columns = dict[str, np.ndarray]
"""The keys of pairs: what `PairSet` keeps of each, and `kept`, `times` and `shared`."""
SIDES = {"source": "target", "target": "source"}
"""Each side, and the other one."""


def prepare_shards(
    data: DataSettings | Address, folder: str, ray: str = "local", progress: Progress | bool = True, **settings: Any
) -> DataReport:
    """Does the work of `prepare_data` on the Ray cluster at the address `ray`; `local` starts one here.

    `data` and `folder` may also lie at addresses that fsspec knows (`s3://…`). The training text becomes shards
    `train-*.jsonl`, in another order; the other sets are the same files as on one machine.

    Raises:
        ConfigError: no cluster answers, or Ray is not installed.
        DataError: the text cannot be read or used, or `folder` exists; nothing is left behind.
    """
    given = data.but(**settings) if isinstance(data, DataSettings) else None
    chosen = given or choose(DataSettings, "data", (), path=data, **settings)
    addresses = addresses_of(chosen)
    address = addresses.pop("train")
    shards = list_shards(address)
    with ExitStack() as stack:
        stack.enter_context(connected(ray))
        aside = stack.enter_context(new_shards(folder))
        advance = stack.enter_context(as_progress(progress).track("prepare", 4, "steps"))
        plan, train = _plan(chosen, address, shards, stack)
        here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-")))
        sets = {"train": PairSet(train, here / "train", chosen.checks, plan.usual, keep_all=False)}
        known = chosen.naming._replace(expected=train.languages, owner="the training text", seen=train.columns[:2])
        for name, beside in addresses.items():
            reading = open_pairs(stack.enter_context(fetched(beside)), known, encoding_errors=chosen.encoding_errors)
            sets[name] = PairSet(reading, split_of(here, name), chosen.checks, plan.usual, keep_all=True)
            sets[name].take_in(silent)
        advance(1)
        corpus = Corpus(shards, plan)
        doubts = dict.fromkeys(doubt for each in corpus.met for doubt in each.doubts)
        sets["train"].reading = replace(train, doubts=tuple(doubts))
        sets["train"].seen = Seen.merged([each.seen for each in corpus.met])
        if not any(sum(each.lengths.values()) for each in corpus.met):
            refuse_too_few(sets["train"], sets["train"].seen.faults, 0, {})
        advance(1)
        corpus.find_shared()
        advance(1)
        report = _deal_out(corpus, sets, aside)
        content = json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=2)
        write_shard(f"{aside}/{REPORT}", f"{content}\n".encode())
        advance(1)
    announce(report)
    return report


class Plan(NamedTuple):
    """What every process knows."""

    settings: DataSettings
    naming: Naming
    usual: Usual
    partitions: int
    """How many parts the pairs are dealt to by a key, so that those with equal keys meet."""


class Met(pydantic.BaseModel):
    """What a process tells of its shard, beside the pairs."""

    name: str
    """What the origins of its pairs begin with."""
    sha256: dict[str, str]
    doubts: tuple[str, ...]
    seen: Seen
    lengths: dict[str, int]
    """Of all sources together, and of all targets."""


def _plan(
    settings: DataSettings, address: Address, shards: Sequence[Address], stack: ExitStack
) -> tuple[Plan, Reading]:
    """What all processes know, and how the training text is read, as its first shard tells."""
    import ray

    def opened(shard: Address, naming: Naming) -> Reading:
        return open_pairs(stack.enter_context(fetched(shard)), naming, settings.format, settings.encoding_errors)

    naming = settings.naming
    first = opened(shards[0], naming)
    if len(shards) > 1:
        naming = naming._replace(expected=first.languages, owner=first.name)
        reasons = {**first.reasons, "format": f"{first.reasons['format']}; the first of {len(shards)} files"}
        first = replace(first, reasons=reasons)

    def pairs(_: Counter[str]) -> Iterator[Pair]:
        yield from first
        for shard in shards[1:]:
            yield from opened(shard, naming)

    usual = learn_usual(replace(first, pairs=pairs), settings.checks)
    processors = int(ray.cluster_resources().get("CPU", 1))
    partitions = max(2 * processors, sum(map(size_of, shards)) // PARTITION)
    return Plan(settings, naming, usual, partitions), replace(first, name=" and ".join(parts_of(address)))


def _take_in(batch: dict[str, Any], plan: Plan) -> Iterator["Table"]:
    """Yields the pairs of a shard, and before them a row of what was met."""
    settings = plan.settings
    for number, shard in zip(batch["number"].tolist(), map(json.loads, batch["shard"]), strict=True):
        with fetched(shard) as address, tempfile.TemporaryDirectory(prefix="dragoman-") as aside:
            reading = open_pairs(address, plan.naming, settings.format, settings.encoding_errors)
            path = Path(aside, "pairs")
            pairs = PairSet(reading, path, settings.checks, plan.usual, False, settings.exchanged)
            pairs.take_in(silent)
            keys, files, parts = pairs.keys().copy(), hashes(reading), parts_of(shard)
            keys["place"] += np.uint64(number << LINE_BITS)
            lengths = dict(zip(SIDES, keys["lengths"].sum(axis=0, dtype=int).tolist(), strict=True))
            if len(files) == len(parts):
                files = dict(zip(parts, files.values(), strict=True))
            met = Met(name=pairs.names[0], sha256=files, doubts=reading.doubts, seen=pairs.seen, lengths=lengths)
            yield _rows(np.array([(number << LINE_BITS, 0, 0, 0, (0, 0))], keys.dtype), [None], met.model_dump_json())
            with path.open("rb") as lines:
                for first in range(0, len(keys), ROWS):
                    yield _rows(keys[first : first + ROWS], list(islice(lines, ROWS)))


def _rows(keys: np.ndarray, lines: list[bytes | None], met: str | None = None) -> "Table":
    import pyarrow

    columns = {name: keys[name] for name in ("place", "text", *SIDES)}
    columns |= {f"{side}_length": keys["lengths"][:, number] for number, side in enumerate(SIDES)}
    texts = pyarrow.array(lines, pyarrow.binary())
    return pyarrow.table({**columns, "line": texts, "met": pyarrow.array([met] * len(keys), pyarrow.string())})


class Corpus:
    """The pairs of the training text, on the machines of a cluster.

    Attributes:
        text: all pairs that break no rule, with their keys; of equal pairs, only the first has its text.
        keys: the same without texts, once `find_shared` has found out which pairs share a sentence with others.
        met: what was met in each shard.
    """

    keys: "Dataset"

    def __init__(self, shards: Sequence[Address], plan: Plan) -> None:
        import ray

        context: Any = ray.data.DataContext.get_current()
        context.op_resource_reservation_enabled = False  # with it, half of two processors waited for the shuffle
        self.plan = plan
        numbered = [{"number": number, "shard": json.dumps(shard)} for number, shard in enumerate(shards)]
        read = ray.data.from_items(numbered, override_num_blocks=len(shards))
        take_in: Any = partial(_take_in, plan=plan)
        taken = read.map_batches(take_in, batch_size=1)
        first_kept = partial(_first_kept, drop=plan.settings.checks.drop_duplicates)
        self.text = self._by_key(taken, "text", first_kept).materialize()
        told = _collected(self.text, lambda table: table.filter(table["met"].is_valid()).select(["place", "met"]))
        self.met = [Met.model_validate_json(each) for each in told["met"].to_pylist()]

    def find_shared(self) -> None:
        """Brings pairs with equal sources together, and then those with equal targets."""
        keys = self.text.map_batches(_keys_of, batch_format="pyarrow", batch_size=None)
        for side, other in SIDES.items():
            mine, theirs = (sum(each.lengths[one] for each in self.met) for one in (side, other))
            keys = self._by_key(keys, side, partial(_meet, side=side, usual=theirs / max(1, mine)))
        self.keys = keys.materialize()

    def _by_key(self, pairs: "Dataset", key: str, function: "Callable[[Table], Table]") -> "Dataset":
        """The pairs after a function that is given all with equal keys together, whatever others."""
        partitions = self.plan.partitions

        def bucketed(table: "Table") -> "Table":
            bucket = (table[key].to_numpy() % np.uint64(BUCKETS * partitions)).astype(np.int64)
            others = [name for name in table.column_names if name != "bucket"]
            return table.select(others).append_column("bucket", [bucket])

        named = pairs.map_batches(bucketed, batch_format="pyarrow", batch_size=None)
        return named.groupby("bucket", num_partitions=partitions).map_groups(function, batch_format="pyarrow")

    def chosen(self, choose: Callable[[Columns], np.ndarray]) -> Columns:
        """The keys of those pairs for which `choose` is true, in the order of the input."""
        return _columns(_collected(self.keys, lambda table: table.filter(choose(_columns(table)))))

    def count(self, column: str) -> int:
        """How many pairs have this."""
        found: Any = self.keys.sum(column)
        return int(found or 0)

    def lines(self, places: np.ndarray) -> list[bytes]:
        """The texts of the pairs at these places, in the order of the input."""

        def at_places(table: "Table") -> "Table":
            return table.filter(np.isin(table["place"].to_numpy(), places)).select(["place", "line"])

        return _collected(self.text, at_places)["line"].to_pylist()

    def files(self) -> dict[str, str]:
        """The SHA-256 of each file, by its name within the folder that holds all of them."""
        files = dict(chain.from_iterable(each.sha256.items() for each in self.met))
        folder = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
        return {os.path.relpath(file, folder): content for file, content in files.items()}

    def origin(self, place: int) -> str:
        """Where the pair at a place stood in the input."""
        return origin_of(place, [each.name for each in self.met])

    def tally(self, places: np.ndarray) -> Tally:
        """The pairs at these places, which are some."""
        lines = tuple(self.origin(place) for place in places.tolist())
        return Tally(pairs=len(lines), first=lines[0], lines=lines)


def _deal_out(corpus: Corpus, sets: dict[str, PairSet], folder: str) -> DataReport:
    """Writes the shards of the training text, and the other sets; returns the report."""
    settings, train = corpus.plan.settings, sets["train"]
    given = {name: pairs for name, pairs in sets.items() if name != "train"}
    dropped, kept = dict(train.seen.faults), corpus.count("kept")
    if repeated := corpus.keys.count() - kept:
        first = corpus.chosen(lambda pairs: np.arange(len(pairs["kept"])) == _earliest(pairs, ~pairs["kept"]))
        dropped[DUPLICATE] = Tally(pairs=repeated, first=corpus.origin(int(first["place"][0])))
    lacking = corpus.chosen(lambda pairs: pairs["kept"] & (pairs["times"] >= FAR_LONGER))["place"]
    if len(lacking):
        dropped[PLACEHOLDER] = corpus.tally(lacking)
    doubtful = corpus.chosen(lambda pairs: _is_alive(pairs) & (pairs["times"] >= LONGER))["place"]
    if len(doubtful):
        train.seen.notes[REPEATED] = corpus.tally(doubtful)
    wanted, origins = what_is_held_out(settings, sets, dropped, kept - len(lacking))

    sentences = [pairs.sentences for pairs in given.values()]
    most = partial(_may_be_held_out, count=sum(wanted.values()), seed=settings.seed, given=sentences)
    undealt = corpus.chosen(most)
    sizes = wanted.get("dev", 0), wanted.get("test", 0)
    numbers = assign(undealt["source"], undealt["target"], *sizes, settings.seed, sentences)
    splits, gone = {name: pairs.whole() for name, pairs in given.items()}, [lacking]
    for pairs in given.values():
        write_shard(f"{folder}/{pairs.path.name}", pairs.path.read_bytes())
    for name in wanted:
        held = {column: undealt[column][numbers == SPLITS[name]] for column in ("place", *SIDES)}
        splits[name] = _write_held_out(corpus, held, f"{folder}/{split_of(Path(), name)}")
        gone.append(held["place"])
    splits["train"] = _write_train(corpus, np.concatenate(gone), list(splits.values()), folder)

    read = {name: hashes(pairs.reading) for name, pairs in given.items()}
    read = {"train": corpus.files(), **read}
    inputs = {name: describe(pairs.reading, pairs.seen.rows, read[name]) for name, pairs in sets.items()}
    reports = split_reports({name: splits[name] for name in origins}, origins)
    return report_on(settings, sets, identity_of(settings, read), inputs, dropped, wanted, reports)


def _write_held_out(corpus: Corpus, held: Columns, path: str) -> Split:
    """Writes pairs that are held out, as one file."""
    sha256, places = write_shard(path, b"".join(corpus.lines(held["place"]))), held["place"].tolist()
    return Split(len(places), sha256, (held["source"], held["target"]), lambda row: corpus.origin(places[row]))


def _write_train(corpus: Corpus, gone: np.ndarray, others: Sequence[Split], folder: str) -> Split:
    """Writes the pairs that are kept and not `gone`, and says which of their sentences stand in the other sets."""
    written = _collected(corpus.text, partial(_write_shard, gone=gone, folder=folder), "name").to_pylist()
    source, target = (np.concatenate([split.sentences[side] for split in others]) for side in (0, 1))

    def known(pairs: Columns) -> np.ndarray:
        is_known = np.isin(pairs["source"], source) | np.isin(pairs["target"], target)
        return _is_alive(pairs) & is_known & ~np.isin(pairs["place"], gone)

    found, sha256 = corpus.chosen(known), "".join(shard["sha256"] for shard in written)
    pairs = sum(shard["pairs"] for shard in written)
    return Split(pairs, sha256, (found["source"], found["target"]), lambda _: "")


# What processes do with some of the pairs


def _first_kept(table: "Table", drop: bool) -> "Table":
    """The pairs in the order of the input. Those that are not kept, because they are duplicates, lose their text."""
    import pyarrow.compute

    compute: Any = pyarrow.compute
    table = table.sort_by("place")
    kept = table["line"].is_valid().to_numpy().copy()
    if drop:
        kept[kept] = first_occurrences(table["text"].to_numpy()[kept])
    lines = compute.if_else(pyarrow.array(kept), table["line"], None)
    return table.set_column(table.column_names.index("line"), "line", lines).append_column("kept", [kept])


def _keys_of(table: "Table") -> "Table":
    keys = table.filter(table["met"].is_null()).drop_columns(["text", "line", "met"])
    times, shared = np.zeros(len(keys), np.float32), np.zeros(len(keys), bool)
    return keys.append_column("times", [times]).append_column("shared", [shared])


def _meet(table: "Table", side: str, usual: float) -> "Table":
    """The keys of pairs, with all that have the same sentence on a side: whether one has others, and how many times as
    long as usual its many partners are.
    """
    import pyarrow

    pairs, other = _columns(table), SIDES[side]
    keys, kept = pairs[side], pairs["kept"]
    times = many_longer(keys, pairs[other], pairs[f"{side}_length"], pairs[f"{other}_length"], usual)
    _, number, counts = np.unique(keys[kept], return_inverse=True, return_counts=True)
    shared = pairs["shared"].copy()
    shared[kept] |= counts[number] > 1
    return pyarrow.table({**pairs, "times": np.maximum(pairs["times"], times), "shared": shared})


def _may_be_held_out(
    pairs: Columns, count: int, seed: int, given: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """True for pairs that share a sentence with others, and of those that stand alone for the `count` that are held out
    first. A pair that shares a sentence with a given set is never held out.
    """
    chosen, alone = _is_alive(pairs) & pairs["shared"], _is_alive(pairs) & ~pairs["shared"]
    for sources, targets in given:
        alone &= ~(np.isin(pairs["source"], sources) | np.isin(pairs["target"], targets))
    rows = np.flatnonzero(alone)
    order = pairs["source"][rows]
    mix(order, seed)
    chosen[rows[np.argsort(order, kind="stable")[:count]]] = True
    return chosen


def _write_shard(table: "Table", gone: np.ndarray, folder: str) -> "Table":
    """Writes those of the pairs that are kept and not `gone`, in a file that is named for the place of the first."""
    import pyarrow

    texts = table.filter(table["kept"]).select(["place", "line"])
    texts = texts.filter(~np.isin(texts["place"].to_numpy(), gone))
    if not len(texts):
        return pyarrow.table({"name": pyarrow.array([], pyarrow.string()), "sha256": [], "pairs": []})
    place = texts["place"][0].as_py()
    name = shards_of("train").replace("*", f"{place >> LINE_BITS:05}-{place & (1 << LINE_BITS) - 1:010}")
    sha256 = write_shard(f"{folder}/{name}", b"".join(texts["line"].to_pylist()))
    return pyarrow.table({"name": [name], "sha256": [sha256], "pairs": [len(texts)]})


def _is_alive(pairs: Columns) -> np.ndarray:
    return pairs["kept"] & (pairs["times"] < FAR_LONGER)


def _earliest(pairs: Columns, among: np.ndarray) -> int:
    """The row of the pair that stood first in the input; -1 if there is none."""
    rows = np.flatnonzero(among)
    return int(rows[pairs["place"][rows].argmin()]) if len(rows) else -1


def _columns(table: "Table") -> Columns:
    return {name: table[name].to_numpy() for name in table.column_names}


def _collected(pairs: "Dataset", function: "Callable[[Table], Table]", by: str = "place") -> "Table":
    """What a function makes of all pairs, some at a time, sorted."""
    import pyarrow
    import ray

    made: Any = pairs.map_batches(function, batch_format="pyarrow", batch_size=None).to_arrow_refs()
    tables = ray.get(made)
    return pyarrow.concat_tables([table for table in tables if len(table)] or tables[:1]).sort_by(by)
