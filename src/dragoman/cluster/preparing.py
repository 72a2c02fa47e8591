"""Parallel text becomes a folder of shards on many machines: the rows, splits and counts of `prepare_data`.

One process reads and checks a shard of the input, as `prepare_data` does with all of it, and sets its pairs aside with
their keys. The process that leads the work collects the keys on its disk, and splits them by the function that splits
them on one machine. Then each shard is dealt out. Text never moves from one shard to another, so the training shards,
one after another, hold the lines that one machine writes.
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
from dragoman.files import sha256
from dragoman.formats.addresses import Address
from dragoman.progress import Progress, as_progress, silent
from dragoman.run_folder import shards_of, split_of
from dragoman.text.columns import Naming
from dragoman.text.inputs import addresses_of
from dragoman.text.pair_set import KEYS, LINE_BITS, Observations, PairSet
from dragoman.text.prepare import announce
from dragoman.text.prepare_pairs import deal_out, hashes, split_pairs
from dragoman.text.readers import Pair, Reading, open_pairs
from dragoman.text.report import REPORT, DataReport
from dragoman.text.settings import DataSettings
from dragoman.text.side_languages import SideLanguages, learn_side_languages


def prepare_shards(
    data: DataSettings | Address, folder: str, ray: str = "local", progress: Progress | bool = True, **settings: Any
) -> DataReport:
    """Does the work of `prepare_data` on the Ray cluster at the address `ray`; `local` starts one here.

    `data` and `folder` may also lie at addresses that fsspec knows (`s3://…`). The training text becomes shards
    `train-*.jsonl`; together they are the `train.jsonl` of one machine, and the other sets are the same files.

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
        here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-")))
        plan, reading = _plan(chosen, address, shards, f"{aside}/pairs", stack)
        sets = {"train": PairSet(reading, here / "train", chosen.checks, plan.side_languages, keep_all=False)}
        known = chosen.naming.for_other_sets(reading.languages, reading.columns[:2])
        for name, beside in addresses.items():
            other = open_pairs(stack.enter_context(fetched(beside)), known, encoding_errors=chosen.encoding_errors)
            sets[name] = PairSet(other, split_of(here, name), chosen.checks, plan.side_languages, keep_all=True)
            sets[name].fill(silent)

        bars = as_progress(progress)
        rows = numbered(shards)
        taken_in = _on_all(partial(_take_in, plan=plan), rows, bars, f"read {reading.name}")
        met = [Met.model_validate_json(each["met"]) for each in taken_in]
        counts = _collect(sets["train"], met, plan)
        read = {name: hashes(pairs.reading) for name, pairs in sets.items() if name != "train"}

        def write(numbers: np.ndarray, names: Sequence[str]) -> dict[str, str]:
            parts = np.split(numbers, np.cumsum(counts)[:-1])
            tasks = [row | {"numbers": part.tobytes()} for row, part in zip(rows, parts, strict=True)]
            dealt = _on_all(partial(_deal_out, names=names, pairs=plan.pairs, folder=aside), tasks, bars, "deal out")
            held = {name: b"".join(each[name] for each in dealt) for name in names[1:]}
            written = {name: write_shard(f"{aside}/{split_of(Path(), name)}", held[name]) for name in held}
            return {"train": "".join(each["sha256"] for each in dealt), **written}

        report = split_pairs(chosen, sets, {"train": _files(met), **read}, write)
        for name in addresses:
            copy_shard(sets[name].path, f"{aside}/{split_of(Path(), name)}")
        content = json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=2)
        write_shard(f"{aside}/{REPORT}", f"{content}\n".encode())
        remove_shards(plan.pairs)
    announce(report)
    return report


class Plan(NamedTuple):
    """What every process knows."""

    settings: DataSettings
    naming: Naming
    side_languages: SideLanguages
    pairs: str
    """Where the pairs of each shard stand, with their keys, until they are dealt out."""


class Met(pydantic.BaseModel):
    """What a process tells of its shard."""

    name: str
    """What the origins of its pairs begin with."""
    sha256: dict[str, str]
    doubts: tuple[str, ...]
    observed: Observations


def _plan(
    settings: DataSettings, address: Address, shards: Sequence[Address], pairs: str, stack: ExitStack
) -> tuple[Plan, Reading]:
    """What all processes know, and how the training text is read, as its first shard tells."""

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
    return Plan(settings, naming, side_languages, pairs), replace(first, name=" and ".join(parts_of(address)))


def _on_all(
    function: Callable[[dict[str, Any]], dict[str, Any]], rows: Sequence[dict[str, Any]], progress: Progress, label: str
) -> list[dict[str, Any]]:
    """What a function makes of each row, on all processors of the cluster, in the order of the rows."""
    import ray

    made = list[dict[str, Any]]()
    with progress.track(label, len(rows), "shards") as advance:
        for each in ray.data.from_items(list(rows), override_num_blocks=len(rows)).map(function).iter_rows():
            made.append(each)
            advance(1)
    return sorted(made, key=lambda row: row["number"])


def _take_in(row: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Sets the pairs of a shard aside, and their keys; returns what was met."""
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
        met = Met(name=pairs.names[0], sha256=files, doubts=reading.doubts, observed=pairs.observed)
    return {"number": number, "met": met.model_dump_json()}


def _collect(train: PairSet, met: Sequence[Met], plan: Plan) -> list[int]:
    """Gives the training text the keys of all its pairs and what was met in all shards; returns how many pairs each
    shard has.
    """
    doubts = dict.fromkeys(chain.from_iterable(each.doubts for each in met))
    train.reading, train.observed = (
        replace(train.reading, doubts=tuple(doubts)),
        Observations.merged([each.observed for each in met]),
    )
    train.names, counts = [each.name for each in met], list[int]()
    with train.keys_path.open("wb") as file:
        for number in range(len(met)):
            keys = np.frombuffer(read_shard(_aside(plan.pairs, number, "keys")) or b"", KEYS).copy()
            keys["place"] += np.uint64(number << LINE_BITS)
            file.write(keys.tobytes())
            counts.append(len(keys))
    return counts


def _files(met: Sequence[Met]) -> dict[str, str]:
    """The SHA-256 of each file, by its name within the folder that holds all of them."""
    files = dict(chain.from_iterable(each.sha256.items() for each in met))
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    return {os.path.relpath(file, folder): content for file, content in files.items()}


def _deal_out(row: dict[str, Any], names: Sequence[str], pairs: str, folder: str) -> dict[str, Any]:
    """Writes those pairs of a shard that are trained on; returns their SHA-256, and the lines of the other sets."""
    number = row["number"]
    with fetched(_aside(pairs, number, "jsonl")) as whole, tempfile.TemporaryDirectory(prefix="dragoman-") as here:
        deal_out(Path(str(whole)), np.frombuffer(row["numbers"], np.uint8), names, Path(here))
        train, *others = (split_of(Path(here), name) for name in names)
        if train.stat().st_size:
            copy_shard(train, f"{folder}/{shards_of('train').replace('*', f'{number:05}')}")
        held = {name: path.read_bytes() for name, path in zip(names[1:], others, strict=True)}
        return {"number": number, "sha256": sha256(train) if train.stat().st_size else "", **held}


def _aside(pairs: str, number: int, kind: str) -> str:
    return f"{pairs}/{number:05}.{kind}"
