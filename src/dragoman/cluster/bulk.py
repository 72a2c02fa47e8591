"""Translating and scoring of shards of text on many machines.

Each shard of the input is cut into parts of some thousand lines. A translator on each machine takes one part after
another and writes its result as a file, atomically: `00002-00014.txt` is the result of part 14 of shard 2, so results
sorted by name have the order of the input. A stopped call can be resumed: existing results are kept.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.cluster.connection import connected
from dragoman.cluster.shards import (
    everywhere,
    fetched,
    is_written,
    list_shards,
    numbered,
    parts_of,
    read_shard,
    refuse_full,
    write_shard,
)
from dragoman.config import check, choose, differences
from dragoman.errors import DataError
from dragoman.evaluating.pairs import ScoredPair, open_scored, score_pairs
from dragoman.files import remove_partial, sha256
from dragoman.formats.addresses import Address
from dragoman.formats.foreign import refuse_document
from dragoman.formats.lines import read_lines
from dragoman.formats.rows import format_of, open_table
from dragoman.inference.documents import Summary, translate_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.resumable import identity
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.progress import Progress, as_progress, silent
from dragoman.serialization import parse_json, read_object
from dragoman.store.description import GENERATION
from dragoman.store.folder import find_model
from dragoman.text.readers import Pair
from dragoman.text.settings import ReadingSettings

if TYPE_CHECKING:
    from ray.data import Dataset

LINES = 10_000
"""Number of lines, records or pairs in a part."""
RESULTS = {"translation", "score", "flags"}
"""Keys that are added to a translated record."""
IDENTITY = "asked.json"
"""File among the results that identifies model, options and text."""


class ModelOptions(NamedTuple):
    """Model that every process loads, and its search options."""

    path: str
    device: str = "auto"
    precision: str = "auto"
    adapter: str | None = None
    threads: int = 1
    """Threads of each process."""
    overrides: Sequence[str] = ()
    """Search settings as `decode.key=value`."""
    settings: Mapping[str, Any] = {}
    """Fields of `SearchOptions` that differ from the model's own."""

    def load(self) -> tuple[Translator, SearchOptions]:
        path, device, precision, adapter, threads, overrides, settings = self
        translator = Translator.load(path, device, precision, silent, adapter, threads=threads)
        return translator, choose(SearchOptions, "decode", overrides, translator.options.but(**settings))


@dataclass(frozen=True)
class ShardWork(ABC):
    """Work to do on each part of a shard."""

    model: ModelOptions
    suffix: str
    """Suffix of the result files."""

    @abstractmethod
    def read(self, shard: Address) -> Iterator[Any]:
        """Yield the lines, records or pairs of a shard on this machine, as plain values."""

    @abstractmethod
    def make(
        self, translator: Translator, options: SearchOptions, items: Sequence[Any], first: int
    ) -> tuple[str, Counter[str]]:
        """Return the result of items and counts; `first` is the number of the first item in its shard."""


def translate_shards(
    model: str,
    texts: str,
    folder: str,
    ray: str = "local",
    column: str | None = None,
    write: Callable[[int, Translation, SearchOptions], Sequence[str]] = lambda _number, result, _options: [result.text],
    suffix: str = "txt",
    progress: Progress | bool = True,
    **options: Any,
) -> tuple[int, Counter[str]]:
    """Translate every line of the shards that match `texts` on the Ray cluster at the address `ray`.

    `local` starts a cluster on this machine. Returns the number of lines translated by this call, and the counts of a
    `Summary`.

    In JSON Lines and Parquet, the text in `column` is translated; the results are JSON Lines of records with
    `translation`, `score` and `flags`. In other files each line is translated, and the results are what `write` returns
    for its number, its translation and the search options. `options` are the other fields of `ModelOptions`.

    Raises:
        ConfigError: no cluster answers, or Ray is not installed.
        DataError: nothing matches, or `folder` contains the results of another call.
    """
    work = _Translating(_model_options(model, **options), suffix, column, write)
    return _in_bulk(work, texts, folder, ray, as_progress(progress))


def score_shards(
    model: str,
    data: Address,
    folder: str,
    ray: str = "local",
    reading: ReadingSettings | None = None,
    write: Callable[[ScoredPair], str] = lambda pair: f"{json.dumps(asdict(pair), ensure_ascii=False)}\n",
    suffix: str = "jsonl",
    progress: Progress | bool = True,
    **options: Any,
) -> tuple[int, Counter[str]]:
    """Score the pairs of the shards that match `data`, like `translate_shards`; `write` returns the lines of each pair.

    Returns the number of pairs scored by this call, and the numbers of those written (`kept`) and those with a problem.
    """
    work = _Scoring(_model_options(model, **options), suffix, reading or ReadingSettings(), write)
    return _in_bulk(work, data, folder, ray, as_progress(progress))


def _model_options(path: str, *, adapter: str | None = None, **options: Any) -> ModelOptions:
    return ModelOptions(str(everywhere(path)), adapter=adapter and str(everywhere(adapter)), **options)


@dataclass(frozen=True)
class _Translating(ShardWork):
    column: str | None
    write: Callable[[int, Translation, SearchOptions], Sequence[str]]

    def read(self, shard: Address) -> Iterator[Any]:
        path = Path(str(shard))
        format, reason = format_of(path)
        if format not in ("jsonl", "parquet"):
            refuse_document(path, read_lines(path))
            yield from read_lines(path)
            return
        for number, record in open_table(path, format, reason, "strict").rows(Counter()):
            if not isinstance(record, dict) or not isinstance(record.get(self.column or "text"), str):
                advice = "" if self.column else "; name the column of the text with --only"
                raise DataError(f"{path.name}:{number} has no text under {self.column or 'text'!r}{advice}")
            if taken := RESULTS & record.keys():
                raise DataError(f"{path.name}:{number} has a column {min(taken)!r}, as the result would; rename it")
            yield record

    def make(
        self, translator: Translator, options: SearchOptions, items: Sequence[Any], first: int
    ) -> tuple[str, Counter[str]]:
        texts = [item if isinstance(item, str) else item[self.column or "text"] for item in items]
        lines, summary = list[str](), Summary()
        chunks = translate_lines(translator, texts, options, silent, summary=summary, at_once=LINES)
        for number, item, translation in zip(count(first), items, chain.from_iterable(chunks), strict=False):
            if isinstance(item, str):
                lines += self.write(number, translation, options)
            else:
                added = {"translation": translation.text, "score": translation.score, "flags": translation.flags}
                lines.append(json.dumps({**item, **added}, ensure_ascii=False))
        return "".join(f"{line}\n" for line in lines), summary.counts


@dataclass(frozen=True)
class _Scoring(ShardWork):
    reading: ReadingSettings
    write: Callable[[ScoredPair], str]

    def read(self, shard: Address) -> Iterator[Any]:
        return iter(open_scored(self.model.path, shard, self.reading))

    def make(
        self, translator: Translator, options: SearchOptions, items: Sequence[Any], first: int
    ) -> tuple[str, Counter[str]]:
        scored = score_pairs(translator, [Pair(*item) for item in items], options)
        lines = [self.write(pair) for pair in scored]
        return "".join(lines), Counter(kept=sum(map(bool, lines)), problem=sum(bool(pair.problem) for pair in scored))


def _in_bulk(work: ShardWork, data: Address, folder: str, ray: str, progress: Progress) -> tuple[int, Counter[str]]:
    shards, folder = list_shards(data), str(everywhere(folder))
    with connected(ray), progress.track(folder, unit="lines") as advance:
        remove_partial(folder)
        if (previous := read_shard(f"{folder}/{IDENTITY}")) is None:
            refuse_full(folder)  # results without an identity may be those of any call
        current = _identity(work, shards)
        if previous is None:
            write_shard(f"{folder}/{IDENTITY}", f"{json.dumps(current)}\n".encode())
        elif changes := differences(parse_json(previous), current):
            raise DataError(
                f"{folder} contains results of another model, other options or text ({changes}); name another folder"
            )
        lines, counts = 0, Counter[str]()
        for part in _results(work, shards, folder).iter_rows():
            lines += part["lines"]
            counts.update(json.loads(part["counts"]))
            advance(part["lines"])
    return lines, counts


def _identity(work: ShardWork, shards: Sequence[Address]) -> dict[str, Any]:
    """Return everything that determines the results. The cluster reads every shard once for its SHA-256."""
    import ray

    def content(shard: Address) -> tuple[str, list[str]]:
        with fetched(shard) as local:  # a data set on the hub has no file
            return " ".join(parts_of(shard)), [sha256(part) for part in parts_of(local) if Path(part).is_file()]

    contents = dict(ray.get([ray.remote(content).remote(shard) for shard in shards]))
    model, facts = work.model, vars(work) | {"write": _fingerprint(vars(work)["write"])}
    default = check(read_object(find_model(model.adapter or model.path) / GENERATION), model.path, SearchOptions)
    options = choose(SearchOptions, "decode", model.overrides, default.but(**model.settings))
    facts |= {"device": model.device, "precision": model.precision, "shards": contents}
    return identity([model.path], model.adapter, options, **facts)


def _fingerprint(function: Any) -> list[Any]:
    """Return values that distinguish a function from others: its name, its code, and the arguments bound to it."""
    if isinstance(function, partial):
        return [*_fingerprint(function.func), function.args, function.keywords]
    code = getattr(function, "__code__", _fingerprint.__code__)  # a class is known only by its name
    values = [value for value in code.co_consts if isinstance(value, str | float | int)]
    return [getattr(function, "__qualname__", type(function).__qualname__), code.co_code.hex(), values]


def _results(work: ShardWork, shards: Sequence[Address], folder: str) -> "Dataset":
    """Return a lazy data set with a row for each part; computing a row writes the part's result."""
    import ray

    split: Any = partial(_parts, work=work, folder=folder)
    rows = ray.data.from_items(numbered(shards), override_num_blocks=len(shards))
    parts = rows.map_batches(split, batch_size=1, num_cpus=0)
    gpus, processes = _divide(ray.cluster_resources(), work.model)
    pool = ray.data.ActorPoolStrategy(min_size=1, max_size=processes)
    return parts.map(_worker(work, folder), num_cpus=work.model.threads, num_gpus=gpus, compute=pool)


def _divide(resources: Mapping[str, float], model: ModelOptions) -> tuple[int | None, int]:
    """Return the GPUs of each process, because Ray hides others from it, and the most processes on the cluster."""
    processes, gpus = int(resources.get("CPU", 1)) // model.threads, int(resources.get("GPU", 0))
    if model.device == "cuda" or (model.device == "auto" and gpus):
        return 1, max(1, min(processes, gpus))
    return None, max(1, processes)


def _parts(batch: dict[str, Any], work: ShardWork, folder: str) -> Iterator[dict[str, Any]]:
    """Yield the parts of a shard that have no result yet."""
    for number, shard in zip(batch["number"].tolist(), map(json.loads, batch["shard"]), strict=True):
        with fetched(shard) as local:
            items = work.read(local)
            for index in count():
                if not (part := list(islice(items, LINES))):
                    break
                name = f"{number:05}-{index:05}.{'jsonl' if isinstance(part[0], dict) else work.suffix}"
                if not is_written(f"{folder}/{name}"):
                    yield {"name": [name], "first": [index * LINES + 1], "items": [json.dumps(part, default=str)]}


def _worker(work: ShardWork, folder: str) -> Any:
    """Return the class of a Ray actor that loads the model once and processes parts."""

    class Worker:
        def __init__(self) -> None:
            self.translator, self.options = work.model.load()

        def __call__(self, part: dict[str, Any]) -> dict[str, Any]:
            items = json.loads(part["items"])
            content, counts = work.make(self.translator, self.options, items, int(part["first"]))
            write_shard(f"{folder}/{part['name']}", content.encode())
            return {"lines": len(items), "counts": json.dumps(counts)}

    return Worker
