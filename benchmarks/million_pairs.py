"""Does a million pairs train in the memory of ten thousand, and what does it take to get there?

    python benchmarks/million_pairs.py [--pairs 1000000] [--steps 50] [--rounds 3] [--out results.json]

Made-up pairs of 5 to 25 words, the same at every run, go from a TSV file through every stage, each in a process of its
own: prepared, vocabulary learned, encoded. Then a small model takes some training steps on all of it and on its first
10,000 pairs, by turns, each time in a fresh process. Memory is the most that the process held, its imports included.
The difference between the two trainings is to be at most 300 MB.
"""

import argparse
import json
import multiprocessing
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus, encode_corpus
from dragoman.data.prepare import DataSettings, prepare_data, read_split
from dragoman.data.tokenizer import Tokenizers
from dragoman.data.tokenizer_training import train_tokenizers
from dragoman.evaluating.speed import Spread
from dragoman.files import memory_bytes, peak_memory_bytes
from dragoman.machine import choose_precision, describe, machine
from dragoman.model import ModelConfig, build_model
from dragoman.training import TrainSettings, TrainState
from dragoman.training.loop import train_step
from dragoman.training.optimiser import Masters

FEW = 10_000
LIMIT_BYTES = 300 * 10**6
WORDS, SHORTEST, LONGEST = 50_000, 5, 25
SYLLABLES = [first + vowel + last for first in "bcdfglmnprstv" for vowel in "aeiou" for last in ("", "n", "r", "s")]


# The text


def write_pairs(path: Path, count: int) -> None:
    """A TSV file of sentence pairs; words have the frequencies of a natural language (Zipf)."""
    chance = np.random.default_rng(1)
    words = np.array(["".join(chance.choice(SYLLABLES, size)) for size in chance.integers(1, 5, WORDS)], object)
    frequency = 1 / np.arange(1, WORDS + 1)
    cumulated = np.cumsum(frequency / frequency.sum())
    with open(path, "w", encoding="utf-8") as file:
        file.write("en\tit\n")
        for first in range(0, count, 10_000):
            lengths = chance.integers(SHORTEST, LONGEST + 1, 2 * min(10_000, count - first))
            drawn = words[np.minimum(np.searchsorted(cumulated, chance.random(lengths.sum())), WORDS - 1)]
            sentences = sentences_of(drawn.tolist(), lengths.tolist())
            file.writelines(f"{source}\t{target}\n" for source, target in zip(sentences, sentences, strict=True))


def sentences_of(words: list[str], lengths: list[int]) -> Iterator[str]:
    stream = iter(words)
    return (" ".join(islice(stream, length)) + "." for length in lengths)


# The stages, each run in a process of its own


def prepare(folder: Path) -> dict[str, float]:
    report = prepare_data(DataSettings(path=str(folder / "pairs.tsv")), folder / "data")
    return {"pairs": report.splits["train"].pairs}


def learn_vocabulary(folder: Path) -> dict[str, float]:
    tokenizers = train_tokenizers(lambda: read_split(folder / "data", "train"))
    tokenizers.save(folder)
    return {"vocabulary": tokenizers.target.size}


def encode(folder: Path) -> dict[str, float]:
    corpus = encode_corpus(folder / "data" / "train.jsonl", Tokenizers.load(folder), folder / "all")
    assert corpus.source is not None
    return {"pairs": len(corpus), "tokens": len(corpus.source.ids) + len(corpus.target.ids)}


def encode_few(folder: Path) -> dict[str, float]:
    pairs = islice(read_split(folder / "data", "train"), FEW)
    return {"pairs": len(encode_corpus(pairs, Tokenizers.load(folder), folder / "few"))}


def train(corpus_folder: Path, steps: int, size: str, batch_tokens: int) -> dict[str, float]:
    """Opens a corpus and takes some steps. The clock starts after the imports, as both corpora have the same."""
    start = time.perf_counter()
    corpus = EncodedCorpus.open(corpus_folder)
    opened = time.perf_counter()
    batches = Batches(corpus, batch_tokens, seed=1)
    order = batches.epoch(0)
    ordered = time.perf_counter()
    vocabulary = corpus.facts.target.vocabulary_size
    config = {"size": size, "source_vocabulary": vocabulary, "target_vocabulary": vocabulary, "tied": "all"}
    model = build_model(ModelConfig.model_validate(config))
    precision = "bf16" if choose_precision()[0] == "bf16" else "float32"
    state = TrainState(Masters(model, precision, "adamw", (0.9, 0.98), 1e-9, 0.01))
    settings = TrainSettings(steps=steps, learning_rate=1e-3, warmup_steps=steps, precision=precision)
    first, tokens = 0.0, 0
    for step in range(steps):
        tokens += train_step(model, [batches.batch(order[step % len(order)])], settings, state).tokens
        first = first or time.perf_counter() - start
    return {
        "pairs": len(corpus),
        "open_seconds": opened - start,
        "order_seconds": ordered - opened,
        "first_step_seconds": first,
        "tokens_per_second": tokens / (time.perf_counter() - ordered),
    }


# Measuring


def apart(function: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """Runs a stage in a fresh process; its time, memory before and most memory come with its result."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(observed, (function, torch.get_num_threads(), arguments))


def observed(function: Callable[..., dict[str, float]], threads: int, arguments: tuple[Any, ...]) -> dict[str, float]:
    torch.set_num_threads(threads)
    before, start = memory_bytes() or 0, time.perf_counter()
    found = function(*arguments)
    seconds = time.perf_counter() - start
    return {**found, "seconds": seconds, "memory_before_bytes": before, "peak_memory_bytes": peak_memory_bytes() or 0}


def trainings(folder: Path, rounds: int, *arguments: Any) -> dict[str, list[dict[str, float]]]:
    """Both trainings, by turns, in every second round the other first."""
    found: dict[str, list[dict[str, float]]] = {"few": [], "all": []}
    for number in range(rounds):
        for name in list(found)[:: -1 if number % 2 else 1]:
            found[name].append(apart(train, folder / name, *arguments))
    return found


def show_stages(stages: dict[str, dict[str, float]]) -> None:
    print(f"{'':<20}{'seconds':>10}{'pairs/s':>12}{'memory before':>16}{'peak':>12}")
    pairs = stages["prepare"]["pairs"]
    for name, found in stages.items():
        rate = found.get("pairs", pairs) / found["seconds"]
        memory = [f"{found[key] / 1e6:,.0f} MB" for key in ("memory_before_bytes", "peak_memory_bytes")]
        print(f"{name:<20}{found['seconds']:>10.1f}{rate:>12,.0f}{memory[0]:>16}{memory[1]:>12}")


def show_trainings(few: dict[str, Spread], everything: dict[str, Spread]) -> None:
    pairs = [f"{side['pairs'].median:,.0f} pairs" for side in (few, everything)]
    print(f"{'training on':<24}{pairs[0]:>30}{pairs[1]:>30}")
    for key in list(few)[1:]:
        cells = [cell(key, spread) for spread in (few[key], everything[key])]
        print(f"{key.removesuffix('_bytes').replace('_', ' '):<24}{cells[0]:>30}{cells[1]:>30}")


def cell(key: str, spread: Spread) -> str:
    if key.endswith("_bytes"):
        spread, form = Spread(*(value / 1e6 for value in spread)), "{:,.0f} MB ({:,.0f} - {:,.0f})"
    elif key.endswith("seconds"):
        form = "{:,.3f} ({:,.3f} - {:,.3f})"
    else:
        form = "{:,.0f} ({:,.0f} - {:,.0f})"
    return form.format(*spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", default="small", choices=["tiny", "small", "base"])
    parser.add_argument("--batch-tokens", type=int, default=2_048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    stages: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pairs(folder / "pairs.tsv", options.pairs)
        for stage in (prepare, learn_vocabulary, encode, encode_few):
            stages[stage.__name__.replace("_", " ")] = apart(stage, folder)
        found = trainings(folder, options.rounds, options.steps, options.size, options.batch_tokens)
    few, everything = (
        {key: Spread.of([run[key] for run in runs]) for key in runs[0]} for runs in (found["few"], found["all"])
    )
    difference = everything["peak_memory_bytes"].median - few["peak_memory_bytes"].median
    show_stages(stages)
    print()
    show_trainings(few, everything)
    print(f"\ndifference in memory: {difference / 1e6:,.0f} MB, at most {LIMIT_BYTES / 1e6:,.0f} MB allowed")
    print(describe())
    if options.out:
        facts = {"machine": machine(), "command": shlex.join(sys.argv), "difference_bytes": difference}
        options.out.write_text(json.dumps({**facts, "stages": stages, "trainings": found}, indent=2) + "\n")
    sys.exit(f"over {LIMIT_BYTES / 1e6:,.0f} MB" if difference > LIMIT_BYTES else 0)


if __name__ == "__main__":
    main()
