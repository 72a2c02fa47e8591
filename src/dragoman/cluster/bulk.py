"""Much text translated, or many pairs scored, on many machines: shards in, shards out.

Each shard of the input is cut into parts of some thousand lines. A translator on each machine takes one part after
another and writes its result as a file, whole or not at all: `00002-00014.txt` is made of part 14 of shard 2, so by
name the results stand in the order of the input. A call that was stopped goes on: parts that are there are left alone.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.cluster.connection import connected
from dragoman.cluster.shards import (
    everywhere,
    fetched,
    list_shards,
    numbered,
    parts_of,
    read_shard,
    refuse_full,
    size_of,
    write_shard,
)
from dragoman.config import check, choose, differences
from dragoman.errors import DataError
from dragoman.evaluating.pairs import ScoredPair, open_scored, score_pairs
from dragoman.files import sha256
from dragoman.formats.addresses import Address
from dragoman.formats.foreign import refuse_document
from dragoman.formats.lines import read_lines
from dragoman.formats.rows import format_of, open_table
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
"""Lines, records or pairs of a part."""
RESULTS = {"translation", "score", "flags"}
"""The keys that a translated record gains."""
ASKED = "asked.json"
"""The file among the results that says what was asked for."""


class Model(NamedTuple):
    """The model that works in every process, and how it searches."""

    path: str
    device: str = "auto"
    precision: str = "auto"
    adapter: str | None = None
    threads: int = 1
    """Of each process."""
    overrides: Sequence[str] = ()
    """As `decode.key=value`."""
    settings: Mapping[str, Any] = {}
    """Those of `SearchOptions` that differ from the model's own."""

    def load(self) -> tuple[Translator, SearchOptions]:
        path, device, precision, adapter, threads, overrides, settings = self
        translator = Translator.load(path, device, precision, silent, adapter, threads=threads)
        return translator, choose(SearchOptions, "decode", overrides, translator.options.but(**settings))


@dataclass(frozen=True)
class Work(ABC):
    """What is done with each part."""

    model: Model
    suffix: str
    """How the names of results end."""

    @abstractmethod
    def read(self, shard: Address) -> Iterator[Any]:
        """The lines, records or pairs of a shard on this machine, as plain values."""

    @abstractmethod
    def make(
        self, translator: Translator, options: SearchOptions, items: Sequence[Any], first: int
    ) -> tuple[str, Counter[str]]:
        """The result of some of them, the first of which has this number in its shard, and what was counted."""


def translate_shards(
    model: str,
    texts: str,
    folder: str,
    ray: str = "local",
    column: str | None = None,
    write: Callable[[int, Translation, SearchOptions], Sequence[str]] = lambda _number, each, _options: [each.text],
    suffix: str = "txt",
    progress: Progress | bool = True,
    **options: Any,
) -> tuple[int, Counter[str]]:
    """Translates every line of the shards that match `texts` on the Ray cluster at the address `ray`; `local` starts
    one here. Returns how many were translated now, and how many of them have each flag.

    Of JSON Lines and Parquet, the text in `column` is translated; the results are JSON Lines, each the record with
    `translation`, its score and its flags. Of other files each line is translated, and the results hold what `write`
    makes of its number, its translation and the search options. `options` are the other fields of `Model`.

    Raises:
        ConfigError: no cluster answers, or Ray is not installed.
        DataError: nothing matches, or `folder` holds the results of another job.
    """
    work = _Translating(_model(model, **options), suffix, column, write)
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
    """Scores the pairs of the shards that match `data`, likewise. The results hold what `write` makes of each pair.
    Returns how many were scored now, and how many of them are written, or have a problem.
    """
    work = _Scoring(_model(model, **options), suffix, reading or ReadingSettings(), write)
    return _in_bulk(work, data, folder, ray, as_progress(progress))


def _model(path: str, *, adapter: str | None = None, **options: Any) -> Model:
    return Model(str(everywhere(path)), adapter=adapter and str(everywhere(adapter)), **options)


@dataclass(frozen=True)
class _Translating(Work):
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
                advice = "" if self.column else "; name the column that does with --only"
                raise DataError(f"{path.name}:{number} has no text under {self.column or 'text'!r}{advice}")
            if taken := RESULTS & record.keys():
                raise DataError(f"{path.name}:{number} has a column {min(taken)!r}, as the result would; rename it")
            yield record

    def make(
        self, translator: Translator, options: SearchOptions, items: Sequence[Any], first: int
    ) -> tuple[str, Counter[str]]:
        texts = [item if isinstance(item, str) else item[self.column or "text"] for item in items]
        lines: list[str] = []
        counts = Counter[str]()
        for number, item, each in zip(count(first), items, translator.translate(texts, options, silent), strict=False):
            counts.update({flag for one in (each, *each.alternatives) for flag in one.flags})
            if isinstance(item, str):
                lines += self.write(number, each, options)
            else:
                made = {"translation": each.text, "score": each.score, "flags": each.flags}
                lines.append(json.dumps({**item, **made}, ensure_ascii=False))
        return "".join(f"{line}\n" for line in lines), counts


@dataclass(frozen=True)
class _Scoring(Work):
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


def _in_bulk(work: Work, data: Address, folder: str, ray: str, progress: Progress) -> tuple[int, Counter[str]]:
    shards, folder = list_shards(data), str(everywhere(folder))
    with connected(ray), progress.track(folder, unit="lines") as advance:
        if (before := read_shard(f"{folder}/{ASKED}")) is None:
            refuse_full(folder)  # results without it may be those of any job
        asked = _identity(work, shards)
        if before is None:
            write_shard(f"{folder}/{ASKED}", f"{json.dumps(asked)}\n".encode())
        elif changes := differences(parse_json(before), asked):
            raise DataError(
                f"{folder} holds results of another model, other options or text ({changes}); name another one"
            )
        lines, counts = 0, Counter[str]()
        for made in _made(work, shards, folder).iter_rows():
            lines += made["lines"]
            counts.update(json.loads(made["counts"]))
            advance(made["lines"])
    return lines, counts


def _identity(work: Work, shards: Sequence[Address]) -> dict[str, Any]:
    """Return what decides the results. The cluster reads every shard once for its SHA-256."""
    import ray

    def content(shard: Address) -> tuple[str, list[str]]:
        with fetched(shard) as here:  # no file of a set on the hub
            return " ".join(parts_of(shard)), [sha256(part) for part in parts_of(here) if Path(part).is_file()]

    contents = dict(ray.get([ray.remote(content).remote(shard) for shard in shards]))
    model, how = work.model, vars(work) | {"write": _described(vars(work)["write"])}
    usual = check(read_object(find_model(model.adapter or model.path) / GENERATION), model.path, SearchOptions)
    options = choose(SearchOptions, "decode", model.overrides, usual.but(**model.settings))
    how |= {"device": model.device, "precision": model.precision, "shards": contents}
    return identity([model.path], model.adapter, options, **how)


def _described(function: Any) -> list[Any]:
    """Return what tells a function from another: its name, its code, and the arguments that are bound to it."""
    if isinstance(function, partial):
        return [*_described(function.func), function.args, function.keywords]
    code = getattr(function, "__code__", _described.__code__)  # of a class, only the name is known
    values = [value for value in code.co_consts if isinstance(value, str | float | int)]
    return [getattr(function, "__qualname__", type(function).__qualname__), code.co_code.hex(), values]


def _made(work: Work, shards: Sequence[Address], folder: str) -> "Dataset":
    """A row for each part, once its result is written."""
    import ray

    cut: Any = partial(_parts, work=work, folder=folder)
    rows = ray.data.from_items(numbered(shards), override_num_blocks=len(shards))
    parts = rows.map_batches(cut, batch_size=1, num_cpus=0)
    threads, gpus = work.model.threads, 1 if work.model.device == "cuda" else None
    pool = ray.data.ActorPoolStrategy(
        min_size=1, max_size=max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    )
    return parts.map(_worker(work, folder), num_cpus=threads, num_gpus=gpus, compute=pool)


def _parts(batch: dict[str, Any], work: Work, folder: str) -> Iterator[dict[str, Any]]:
    """Yields the parts of a shard that have no result yet."""
    for number, shard in zip(batch["number"].tolist(), map(json.loads, batch["shard"]), strict=True):
        with fetched(shard) as here:
            items = work.read(here)
            for place in count():
                if not (part := list(islice(items, LINES))):
                    break
                name = f"{number:05}-{place:05}.{'jsonl' if isinstance(part[0], dict) else work.suffix}"
                if not size_of(f"{folder}/{name}"):
                    yield {"name": [name], "first": [place * LINES + 1], "items": [json.dumps(part, default=str)]}


def _worker(work: Work, folder: str) -> Any:
    """The class of a translator at work in one process."""

    class Worker:
        def __init__(self) -> None:
            self.translator, self.options = work.model.load()

        def __call__(self, part: dict[str, Any]) -> dict[str, Any]:
            items = json.loads(part["items"])
            content, counts = work.make(self.translator, self.options, items, int(part["first"]))
            write_shard(f"{folder}/{part['name']}", content.encode())
            return {"lines": len(items), "counts": json.dumps(counts)}

    return Worker
