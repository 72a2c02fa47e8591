"""Do a million pairs read as lightly as ten thousand? Encoding, opening, batching, each size in its own process.

    python benchmarks/corpus.py [--pairs 1000000] [--out results.json]

The text is made up: words of the frequencies of a natural language, about twelve to a sentence. Encoding is timed once
from JSON lines on the disk; opening and the order of an epoch are medians of several runs, batches are medians over
epochs. Memory is the most that the process held, beside what it held before it began.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus, encode_corpus
from dragoman.data.tokenizer import Tokenizers
from dragoman.data.tokenizer_training import train_tokenizers
from dragoman.files import memory_bytes, peak_memory_bytes
from dragoman.machine import describe, machine

BASELINE_PAIRS = 10_000
RUNS = 5
SYLLABLES = [first + vowel + last for first in "bcdfglmnprstv" for vowel in "aeiou" for last in ("", "n", "r", "s")]


def pairs(count: int) -> Iterator[tuple[str, str]]:
    """Made-up sentence pairs, the same at every call."""
    chance = np.random.default_rng(1)
    words = ["".join(chance.choice(SYLLABLES, size)) for size in chance.integers(1, 4, 20_000)]
    frequency = 1 / np.arange(1, len(words) + 1)
    frequency /= frequency.sum()
    for first in range(0, count, 10_000):
        lengths = 2 + chance.poisson(10, (min(10_000, count - first), 2))
        drawn = iter(chance.choice(len(words), lengths.sum(), p=frequency))
        for source, target in lengths:
            yield sentence(words, drawn, source), sentence(words, drawn, target)


def sentence(words: list[str], drawn: Iterator[int], size: int) -> str:
    return " ".join(words[next(drawn)] for _ in range(size)) + "."


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def spread(seconds: list[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "lowest": min(seconds), "highest": max(seconds)}


def encode(folder: Path, text: Path) -> dict[str, Any]:
    """What encoding costs, in this process."""
    tokenizers = Tokenizers.load(folder)
    before = memory_bytes() or 0
    seconds, corpus = timed(lambda: encode_corpus(text, tokenizers, folder / text.stem))
    tokens = len(corpus.target.ids) + len(corpus.source.ids)
    return {
        "encode_seconds": seconds,
        "encode_pairs_per_second": len(corpus) / seconds,
        "encode_tokens_per_second": tokens / seconds,
        "encode_memory_before_bytes": before,
        "encode_peak_memory_bytes": peak_memory_bytes(),
    }


def read(folder: Path, text: Path) -> dict[str, Any]:
    """What opening a corpus and going through an epoch costs, in this process."""
    before = memory_bytes() or 0
    opening = [timed(lambda: EncodedCorpus.open(folder / text.stem))[0] for _ in range(RUNS)]
    first, batches = timed(lambda: Batches(EncodedCorpus.open(folder / text.stem), seed=1))
    ordering, building, tokens = [], [], 0
    for epoch in range(RUNS):
        seconds, order = timed(lambda epoch=epoch: batches.epoch(epoch))
        ordering.append(seconds)
        seconds, tokens = timed(lambda order=order: sum(batches.batch(pairs).tokens for pairs in order))
        building.append(seconds)
    steps = len(batches.epoch(0))
    return {
        "open_seconds": spread(opening),
        "open_and_measure_lengths_seconds": first,
        "order_of_epoch_seconds": spread(ordering),
        "batches": steps,
        "batches_per_second": steps / statistics.median(building),
        "batch_tokens_per_second": tokens / statistics.median(building),
        "read_memory_before_bytes": before,
        "read_peak_memory_bytes": peak_memory_bytes(),
    }


def apart(function: Callable[[Path, Path], dict[str, Any]], folder: Path, text: Path) -> dict[str, Any]:
    """Runs a function in a fresh process, whose peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, (folder, text))


def measure(count: int, folder: Path) -> dict[str, Any]:
    text = folder / f"{count}.jsonl"
    with open(text, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(pair) + "\n" for pair in pairs(count))
    return {"pairs": count, **apart(encode, folder, text), **apart(read, folder, text)}


def show(results: list[dict[str, Any]]) -> None:
    print(f"{'':<36}" + "".join(f"{result['pairs']:>16,}" for result in results))
    for key in list(results[0])[1:]:
        values = [result[key]["median"] if isinstance(result[key], dict) else result[key] for result in results]
        if key.endswith("_bytes"):
            cells = [f"{value / 2**20:,.0f} MiB" for value in values]
        else:
            cells = [f"{value:,.4f}" if key.endswith("_seconds") else f"{value:,.0f}" for value in values]
        print(f"{key.removesuffix('_bytes').replace('_', ' '):<36}" + "".join(f"{cell:>16}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_tokenizers(lambda: pairs(50_000)).save(folder)
        results = [measure(count, folder) for count in (BASELINE_PAIRS, options.pairs)]
    show(results)
    print(f"\n{describe()}")
    if options.out:
        options.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
