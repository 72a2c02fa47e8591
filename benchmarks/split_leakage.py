"""How much does a random split leak, and what does keeping connected pairs together change?

    python benchmarks/split_leakage.py CORPUS [--out results.json]

CORPUS is anything that `dragoman train` reads; the sets that a folder holds beside the training text are put back into
it first. For several seeds both ways hold out the same number of pairs, and the table says how many of those have a
sentence, on either side, that training holds too (case, spacing and final punctuation aside).
"""

import argparse
import json
import os
import platform
import statistics
import time

import numpy as np
from command_line import figures_file

import dragoman
from dragoman.data.inputs import DataSettings, open_inputs
from dragoman.data.split import TEST, TRAIN, Leakage, assign, components, leakage, sentence_key

SEEDS = (1, 2, 3, 4, 5)


def read_keys(settings: DataSettings) -> tuple[np.ndarray, np.ndarray]:
    """The keys of all sentences of a corpus, of both sides."""
    sources, targets = [], []
    with open_inputs(settings) as inputs:
        for reading in inputs.values():
            for pair in reading:
                sources.append(sentence_key(pair.source))
                targets.append(sentence_key(pair.target))
    return np.array(sources, np.uint64), np.array(targets, np.uint64)


def split_at_random(sources: np.ndarray, targets: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The baseline: any pair may go anywhere."""
    side = np.full(len(sources), TRAIN, np.uint8)
    side[np.random.default_rng(seed).choice(len(sources), size, replace=False)] = TEST
    return side


def split_together(sources: np.ndarray, targets: np.ndarray, size: int, seed: int) -> np.ndarray:
    return assign(sources, targets, dev=0, test=size, seed=seed)


def measure(split, sources: np.ndarray, targets: np.ndarray, size: int, seed: int) -> tuple[Leakage, float]:
    start = time.perf_counter()
    side = split(sources, targets, size, seed)
    seconds = time.perf_counter() - start
    train, test = side == TRAIN, side == TEST
    return leakage((sources[train], targets[train]), (sources[test], targets[test])), seconds


def summarise(runs: list[tuple[Leakage, float]]) -> dict[str, float]:
    """Medians over the seeds, in percent of the held-out pairs, and the spread of the total."""
    percent = {
        name: [100 * getattr(found, name) / found.pairs for found, _ in runs]
        for name in ("sources", "targets", "either")
    }
    return {name: statistics.median(values) for name, values in percent.items()} | {
        "either_lowest": min(percent["either"]),
        "either_highest": max(percent["either"]),
        "pairs": statistics.median(found.pairs for found, _ in runs),
        "seconds": statistics.median(seconds for _, seconds in runs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", nargs="?", default="../shared/data/tatoeba-en-it")
    parser.add_argument("--size", type=int, default=2000, help="pairs held out")
    parser.add_argument("--source-language", default="en")
    parser.add_argument("--target-language", default="it")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    sources, targets = read_keys(
        DataSettings(
            path=options.corpus, source_language=options.source_language, target_language=options.target_language
        )
    )
    sizes = np.bincount(components(sources, targets))
    print(
        f"{options.corpus}: {len(sources):,} pairs in {len(sizes):,} components, the largest of {sizes.max():,} pairs"
    )
    print(f"{options.size:,} pairs held out; median of {len(SEEDS)} seeds, in percent of them\n")
    print(f"{'split':<12}{'source seen':>12}{'target seen':>12}{'either':>9}{'lowest - highest':>19}{'seconds':>9}")
    results = {}
    for name, split in (("random", split_at_random), ("together", split_together)):
        found = summarise([measure(split, sources, targets, options.size, seed) for seed in SEEDS])
        spread = f"{found['either_lowest']:.1f} - {found['either_highest']:.1f}"
        print(
            f"{name:<12}{found['sources']:>12.1f}{found['targets']:>12.1f}{found['either']:>9.1f}{spread:>19}"
            f"{found['seconds']:>9.2f}"
        )
        results[name] = found
    if options.out:
        facts = {
            "machine": f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores",
            "version": dragoman.__version__,
            "corpus": {"pairs": len(sources), "components": len(sizes), "largest_component": int(sizes.max())},
        }
        options.out.write_text(json.dumps({**facts, "splits": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
