"""Preparing parallel text on many machines as a folder of shards, with the rows, splits and counts of `prepare_data`.

One process reads and checks each shard of the input, as `prepare_data` does with all of it, and stores its pairs with
their keys. The driver process collects the keys on its disk, and splits them by the function used on one machine. Then
each shard's pairs are distributed to the sets. Text never moves between shards, so the training shards, concatenated,
equal the file that one machine writes.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pydantic

from dragoman.cluster.connection import connected
from dragoman.cluster.shards import (
    copy_shard,
    fetched,
    list_shards,
    new_shards,
    numbered,
    parts_of,
    read_shard,
    remove_shards,
    write_shard,
)
from dragoman.config import choose
from dragoman.files import REPORT, sha256
from dragoman.formats.addresses import Address
from dragoman.progress import Progress, as_progress, silent
from dragoman.run_folder import shards_of, split_of
from dragoman.text.columns import Naming
from dragoman.text.inputs import addresses_of
from dragoman.text.pair_set import KEYS, LINE_BITS, Observations, PairSet, SideLanguages, learn_side_languages
from dragoman.text.prepare import announce
from dragoman.text.prepare_pairs import PairSplit, deal_out, hashes
from dragoman.text.readers import Pair, Reading, open_pairs
from dragoman.text.report import DataReport
from dragoman.text.settings import DataSettings


def prepare_shards(
    data: DataSettings | Address, folder: str, ray: str = "local", progress: Progress | bool = True, **settings: Any
) -> DataReport:
    """Do the work of `prepare_data` on the Ray cluster at the address `ray`; `local` starts one on this machine.

    `data` and `folder` may also be addresses that fsspec supports (`s3://…`). The training text is written as shards
    `train-*.jsonl`; concatenated they equal the `train.jsonl` of one machine, and the other sets are the same files.

    Raises:
        ConfigError: no cluster answers, or Ray is not installed.
        DataError: the text cannot be read or used, or `folder` exists; nothing is left behind.
    """
    if isinstance(data, DataSettings):
        chosen = data.but(**settings)
    else:
        chosen = choose(DataSettings, "data", (), path=data, **settings)
    addresses = addresses_of(chosen)
    address = addresses.pop("train")
    shards = list_shards(address)
    with ExitStack() as stack:
        stack.enter_context(connected(ray))
        aside = stack.enter_context(new_shards(folder))
        local = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-")))
        plan, reading = _plan(chosen, address, shards, f"{aside}/pairs", stack)
        sets = {"train": PairSet(reading, local / "train", chosen.checks, plan.side_languages, keep_all=False)}
        known = chosen.naming.for_other_sets(reading.languages, reading.columns[:2])
        for name, set_address in addresses.items():
            file = stack.enter_context(fetched(set_address))
            set_reading = open_pairs(file, known, encoding_errors=chosen.encoding_errors)
            sets[name] = PairSet(set_reading, split_of(local, name), chosen.checks, plan.side_languages, keep_all=True)
            sets[name].fill(silent)

        bars = as_progress(progress)
        rows = numbered(shards)
        results = _map_rows(partial(_read_shard_pairs, plan=plan), rows, bars, f"read {reading.name}")
        summaries = [ShardSummary.model_validate_json(result["summary"]) for result in results]
        counts = _collect(sets["train"], summaries, plan)
        set_files = {name: hashes(pairs.reading) for name, pairs in sets.items() if name != "train"}

        split = PairSplit(chosen, sets)
        split.assign_alone()
        names, parts = ["train", *split.sizes], np.split(split.numbers, np.cumsum(counts)[:-1])
        tasks = [row | {"numbers": part.tobytes()} for row, part in zip(rows, parts, strict=True)]
        distribute = partial(_distribute, names=names, pairs=plan.pairs, folder=aside)
        results = _map_rows(distribute, tasks, bars, "distribute")
        contents = {name: b"".join(result[name] for result in results) for name in names[1:]}
        written = {name: write_shard(f"{aside}/{split_of(Path(), name)}", contents[name]) for name in contents}
        written["train"] = "".join(result["sha256"] for result in results)
        report = split.report({"train": _file_hashes(summaries), **set_files}, written)
        for name in addresses:
            copy_shard(sets[name].path, f"{aside}/{split_of(Path(), name)}")
        content = json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=2)
        write_shard(f"{aside}/{REPORT}", f"{content}\n".encode())
        remove_shards(plan.pairs)
    announce(report)
    return report


class ShardPlan(NamedTuple):
    """Settings and facts that every process needs."""

    settings: DataSettings
    naming: Naming
    side_languages: SideLanguages
    pairs: str
    """Folder for the pairs of each shard, with their keys, until they are distributed."""


class ShardSummary(pydantic.BaseModel):
    """Report of a process about its shard."""

    name: str
    """Prefix of the origins of its pairs."""
    sha256: dict[str, str]
    doubts: tuple[str, ...]
    observed: Observations


def _plan(
    settings: DataSettings, address: Address, shards: Sequence[Address], pairs: str, stack: ExitStack
) -> tuple[ShardPlan, Reading]:
    """Return the plan for all processes, and the first shard, opened, under the name of the whole text."""

    def opened(shard: Address, naming: Naming) -> Reading:
        return open_pairs(stack.enter_context(fetched(shard)), naming, settings.format, settings.encoding_errors)

    naming = settings.naming
    first = opened(shards[0], naming)
    if len(shards) > 1:
        naming = naming._replace(expected=first.languages, expected_by=first.name)
        reasons = {**first.reasons, "format": f"{first.reasons['format']}; the first of {len(shards)} files"}
        first = replace(first, reasons=reasons)

    def all_pairs(_: Counter[str]) -> Iterator[Pair]:
        yield from first
        for shard in shards[1:]:
            yield from opened(shard, naming)

    side_languages = learn_side_languages(replace(first, pairs=all_pairs), settings.checks)
    return ShardPlan(settings, naming, side_languages, pairs), replace(first, name=" and ".join(parts_of(address)))


def _map_rows(
    function: Callable[[dict[str, Any]], dict[str, Any]], rows: Sequence[dict[str, Any]], progress: Progress, label: str
) -> list[dict[str, Any]]:
    """Apply a function to each row on all processors of the cluster; return the results in the order of the rows."""
    import ray

    results = list[dict[str, Any]]()
    with progress.track(label, len(rows), "shards") as advance:
        for result in ray.data.from_items(list(rows), override_num_blocks=len(rows)).map(function).iter_rows():
            results.append(result)
            advance(1)
    return sorted(results, key=lambda row: row["number"])


def _read_shard_pairs(row: dict[str, Any], plan: ShardPlan) -> dict[str, Any]:
    """Read a shard, store its pairs with their keys, and return a summary."""
    number, shard, settings = row["number"], json.loads(row["shard"]), plan.settings
    with fetched(shard) as address, tempfile.TemporaryDirectory(prefix="dragoman-") as aside:
        reading = open_pairs(address, plan.naming, settings.format, settings.encoding_errors)
        pairs = PairSet(reading, Path(aside, "pairs"), settings.checks, plan.side_languages, False, settings.exchanged)
        pairs.fill(silent)
        files, parts = hashes(reading), parts_of(shard)
        if len(files) == len(parts):
            files = dict(zip(parts, files.values(), strict=True))
        copy_shard(pairs.path, _aside(plan.pairs, number, "jsonl"))
        copy_shard(pairs.keys_path, _aside(plan.pairs, number, "keys"))
        summary = ShardSummary(name=pairs.names[0], sha256=files, doubts=reading.doubts, observed=pairs.observed)
    return {"number": number, "summary": summary.model_dump_json()}


def _collect(train: PairSet, summaries: Sequence[ShardSummary], plan: ShardPlan) -> list[int]:
    """Collect the keys and summaries of all shards in the training set; return the number of pairs of each shard."""
    doubts = dict.fromkeys(chain.from_iterable(summary.doubts for summary in summaries))
    train.reading = replace(train.reading, doubts=tuple(doubts))
    train.observed = Observations.merged([summary.observed for summary in summaries])
    train.names, counts = [summary.name for summary in summaries], list[int]()
    with train.keys_path.open("wb") as file:
        for number in range(len(summaries)):
            keys = np.frombuffer(read_shard(_aside(plan.pairs, number, "keys")) or b"", KEYS).copy()
            keys["place"] += np.uint64(number << LINE_BITS)
            file.write(keys.tobytes())
            counts.append(len(keys))
    return counts


def _file_hashes(summaries: Sequence[ShardSummary]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its path relative to the common folder."""
    files = dict(chain.from_iterable(summary.sha256.items() for summary in summaries))
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    return {os.path.relpath(file, folder): content for file, content in files.items()}


def _distribute(row: dict[str, Any], names: Sequence[str], pairs: str, folder: str) -> dict[str, Any]:
    """Write the training pairs of a shard; return their SHA-256, and the lines of the other sets."""
    number = row["number"]
    with fetched(_aside(pairs, number, "jsonl")) as whole, tempfile.TemporaryDirectory(prefix="dragoman-") as local:
        deal_out(Path(str(whole)), np.frombuffer(row["numbers"], np.uint8), names, Path(local))
        train, *others = (split_of(Path(local), name) for name in names)
        if train.stat().st_size:
            copy_shard(train, f"{folder}/{shards_of('train').replace('*', f'{number:05}')}")
        contents = {name: path.read_bytes() for name, path in zip(names[1:], others, strict=True)}
        return {"number": number, "sha256": sha256(train) if train.stat().st_size else "", **contents}


def _aside(pairs: str, number: int, kind: str) -> str:
    return f"{pairs}/{number:05}.{kind}"
