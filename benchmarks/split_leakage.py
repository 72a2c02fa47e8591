"""How many test sentences of a random split occur in training, and how many of Dragoman's split?

    python benchmarks/split_leakage.py CORPUS [--out results.json]

CORPUS is anything that `dragoman train` reads. If a folder holds dev and test sets, they are first added to the
training text. For several seeds, both splits hold out the same number of pairs. The table shows how many of these share
a sentence, on either side, with training. The check is independent of the splitter: it compares only the letters and
digits of each sentence, without case, punctuation or spaces, with accents in decomposed form.
"""

import argparse
import json
import os
import platform
import statistics
import time
import unicodedata
from typing import NamedTuple

import numpy as np
from command_line import figures_file

import dragoman
from dragoman.text.inputs import open_inputs
from dragoman.text.settings import DataSettings
from dragoman.text.split import TEST, TRAIN, assign, components, sentence_key

SEEDS = (1, 2, 3, 4, 5)


class Corpus(NamedTuple):
    """The sentences of both sides: as keys for the splitter, as strings for this check."""

    source_keys: np.ndarray
    target_keys: np.ndarray
    sources: list[str]
    targets: list[str]


class Leakage(NamedTuple):
    """Pairs held out, and how many of them share a sentence with training."""

    pairs: int
    sources: int
    targets: int
    either: int


def read_corpus(settings: DataSettings) -> Corpus:
    keys, texts = ([], []), ([], [])
    with open_inputs(settings) as inputs:
        for reading in inputs.values():
            for pair in reading:
                for side, sentence in enumerate((pair.source, pair.target)):
                    keys[side].append(sentence_key(sentence))
                    texts[side].append(plain(sentence))
    return Corpus(np.array(keys[0], np.uint64), np.array(keys[1], np.uint64), *texts)


def plain(sentence: str) -> str:
    """Letters, digits and accents, lower case, fully decomposed; the whole sentence if it has none of these."""
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", sentence).lower())
    return "".join(each for each in apart if unicodedata.category(each)[0] in "LNM") or sentence


def leakage(corpus: Corpus, train: np.ndarray, held_out: np.ndarray) -> Leakage:
    """How many held-out pairs share a sentence with training."""
    found = []
    for sentences in (corpus.sources, corpus.targets):
        known = {sentences[row] for row in train}
        found.append([sentences[row] in known for row in held_out])
    either = sum(map(any, zip(*found, strict=True)))
    return Leakage(len(held_out), sum(found[0]), sum(found[1]), either)


def split_at_random(sources: np.ndarray, targets: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The baseline: any pair may go anywhere."""
    side = np.full(len(sources), TRAIN, np.uint8)
    side[np.random.default_rng(seed).choice(len(sources), size, replace=False)] = TEST
    return side


def split_together(sources: np.ndarray, targets: np.ndarray, size: int, seed: int) -> np.ndarray:
    return assign(sources, targets, dev=0, test=size, seed=seed)


def measure(split, corpus: Corpus, size: int, seed: int) -> tuple[Leakage, float]:
    start = time.perf_counter()
    side = split(corpus.source_keys, corpus.target_keys, size, seed)
    seconds = time.perf_counter() - start
    return leakage(corpus, np.flatnonzero(side == TRAIN), np.flatnonzero(side == TEST)), seconds


def summarise(runs: list[tuple[Leakage, float]]) -> dict[str, float]:
    """Medians over the seeds in percent of the held-out pairs, and the spread of the total."""
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
    corpus = read_corpus(
        DataSettings(
            path=options.corpus, source_language=options.source_language, target_language=options.target_language
        )
    )
    sizes = np.bincount(components(corpus.source_keys, corpus.target_keys))
    pairs = len(corpus.sources)
    print(f"{options.corpus}: {pairs:,} pairs in {len(sizes):,} components, the largest of {sizes.max():,} pairs")
    print(f"{options.size:,} pairs held out; median of {len(SEEDS)} seeds, in percent of them\n")
    print(f"{'split':<12}{'source seen':>12}{'target seen':>12}{'either':>9}{'lowest - highest':>19}{'seconds':>9}")
    results = {}
    for name, split in (("random", split_at_random), ("together", split_together)):
        found = summarise([measure(split, corpus, options.size, seed) for seed in SEEDS])
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
            "corpus": {"pairs": pairs, "components": len(sizes), "largest_component": int(sizes.max())},
        }
        options.out.write_text(json.dumps({**facts, "splits": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
