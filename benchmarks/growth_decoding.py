"""Does translating slow down as something grows, and does CTranslate2?

    python benchmarks/growth_decoding.py MODEL SOURCES TARGETS [--axes batch beam ...] [--out FOLDER]

`batch`: sentences that are handed over together. `beam`: its width. `source`: tokens of a sentence, which gets 16.
`output`: tokens that are written for one sentence. `vocabulary`: its size, in models of MODEL's settings with random
weights and a tokenizer learnt from SOURCES and TARGETS, 20 tokens for each sentence. Others stay as they are.

Both runtimes have the same weights and both cores and take turns. CTranslate2's time at each point is the better one of
one worker of two threads and two of one. Every axis becomes `growth-decoding-AXIS.json` and `.png`.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from command_line import command_line, markdown
from peers.runtimes import Contender, Way

import dragoman
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import build_model
from dragoman.store.description import ModelFiles
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.system import describe, machine
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

ROUNDS, SECONDS = 3, 3.0
"""The fewest rounds of a point, and for how long short ones go on."""
FILE, FEW = 64, 8
"""Sentences of a point, where their number does not grow, and where each takes long."""
OURS, THEIRS = "dragoman", "ctranslate2"


class Point(NamedTuple):
    """What is translated at one value of an axis."""

    texts: Sequence[str]
    beam_size: int = 1
    output: int | None = None
    """Tokens that each translation has; None: as many as it needs."""
    unit: str = "sentence"


VALUES: dict[str, list[int]] = {
    "batch": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "beam": [1, 2, 4, 8, 16],
    "source": [8, 16, 32, 64, 128, 256, 512],
    "output": [10, 30, 100, 300, 1_000],
    "vocabulary": [4_000, 8_000, 16_000, 32_000, 64_000],
}


def point(axis: str, value: int, texts: Sequence[str], tokenizer: Tokenizer) -> Point:
    if axis == "batch":
        return Point(texts[:value])
    if axis == "beam":
        return Point(texts[:FILE], beam_size=value)
    if axis == "source":
        return Point([long_text(texts[i:], value, tokenizer) for i in range(FEW)], output=16)
    if axis == "output":
        return Point(texts[:1], output=value, unit="token")
    return Point(texts[:FILE], output=20)


def long_text(texts: Sequence[str], tokens: int, tokenizer: Tokenizer) -> str:
    """The first words of these texts, about so many tokens."""
    words = [word for text in itertools.islice(texts, tokens) for word in text.split()]
    count = next(n for n in range(1, len(words)) if len(tokenizer.encode(" ".join(words[: n + 1]))) > tokens)
    return " ".join(words[:count])


@contextmanager
def contenders(model: Path, precision: str) -> Iterator[dict[str, list[Contender]]]:
    """The processes of both runtimes."""
    with tempfile.TemporaryDirectory() as name:
        exported = Path(name) / "exported"
        dragoman.export(model, "ctranslate2", exported)
        ways = {OURS: [Way(OURS, precision, model, 2)]}
        ways[THEIRS] = [Way(THEIRS, precision, exported, 2, workers) for workers in (1, 2)]
        found = {runtime: [Contender(way, model) for way in own] for runtime, own in ways.items()}
        yield found
        for own in found.values():
            for each in own:
                each.leave()


def seconds(point: Point, found: dict[str, list[Contender]]) -> dict[str, float]:
    """Each runtime's seconds for a sentence or a token, the median of the rounds after the first, which warms up."""
    taken: dict[Contender, list[float]] = {each: [] for own in found.values() for each in own}
    began = time.perf_counter()
    for number in itertools.count():
        if number > ROUNDS and time.perf_counter() - began > SECONDS:
            break
        for contender in list(taken)[:: -1 if number % 2 else 1]:
            turn = contender.turn(point.texts, point.beam_size, alone=False, output=point.output)
            count = len(turn.said) if point.unit == "sentence" else sum(each.tokens for each in turn.said)
            if number:
                taken[contender].append(sum(turn.seconds) / count)
    return {runtime: min(statistics.median(taken[each]) for each in own) for runtime, own in found.items()}


def with_vocabulary(model: Path, folder: Path, size: int, pairs: Sequence[tuple[str, str]]) -> int:
    """Makes a model with random weights, and returns how many entries its vocabulary has."""
    stored = load_model(model)
    tokenizers = learn_tokenizers(lambda: pairs, TokenizerSettings(vocabulary_size=size))
    sizes = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    config = ModelConfig.model_validate({**stored.config.model_dump(), **sizes})
    save_model(folder, build_model(config, 1), ModelFiles(tokenizers, stored.languages))
    return tokenizers.target.size


def measure(axis: str, options: argparse.Namespace, pairs: Sequence[tuple[str, str]]) -> dict[int, dict[str, float]]:
    texts = [source for source, _ in pairs[:: max(1, len(pairs) // 4_000)]]
    texts = [*texts[1::2], *texts[::2]]
    tokenizer = load_model(options.model).tokenizers.source
    found: dict[int, dict[str, float]] = {}
    if axis != "vocabulary":
        with contenders(options.model, options.precision) as runtimes:
            for value in VALUES[axis]:
                found[value] = seconds(point(axis, value, texts, tokenizer), runtimes)
        return found
    with tempfile.TemporaryDirectory() as name:
        for value in VALUES[axis]:
            folder = Path(name) / str(value)
            size = with_vocabulary(options.model, folder, value, pairs)
            with contenders(folder, options.precision) as runtimes:
                found[size] = seconds(point(axis, size, texts, tokenizer), runtimes)
    return found


def draw(path: Path, axis: str, found: dict[int, dict[str, float]]) -> None:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(5, 3.4), layout="constrained", dpi=100)
    axes = figure.subplots()
    for runtime in (OURS, THEIRS):
        axes.plot(list(found), [1e3 * each[runtime] for each in found.values()], "o-", label=runtime)
    unit = "token" if axis == "output" else "sentence"
    axes.set(xlabel=axis, ylabel=f"ms for a {unit}", xscale="log", yscale="log")
    axes.set_xticks(list(found), [f"{value:,}" for value in found])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


def table(axis: str, found: dict[int, dict[str, float]]) -> str:
    rows = [
        [
            f"{value:,}",
            *(f"{1e3 * each[runtime]:.2f}" for runtime in (OURS, THEIRS)),
            f"{each[OURS] / each[THEIRS]:.2f}",
        ]
        for value, each in found.items()
    ]
    return markdown([axis, "Dragoman, ms", "CTranslate2, ms", "ratio"], rows)


def main() -> None:
    options = parse()
    sides = (path.read_text("utf-8").splitlines() for path in (options.sources, options.targets))
    pairs = list(zip(*sides, strict=True))
    for axis in options.axes:
        found = measure(axis, options, pairs)
        print(f"{table(axis, found)}\n", flush=True)
        if options.out:
            facts = {"command": command_line(), "machine": machine(), "precision": options.precision, "seconds": found}
            path = options.out / f"growth-decoding-{axis}.json"
            path.write_text(json.dumps(facts, indent=1) + "\n")
            draw(path.with_suffix(".png"), axis, found)
    print(describe())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("targets", type=Path)
    parser.add_argument("--axes", nargs="+", default=list(VALUES), choices=list(VALUES))
    parser.add_argument("--precision", default="float32", choices=["float32", "int8"])
    parser.add_argument("--out", type=Path, help="a folder for JSON and pictures")
    options = parser.parse_args()
    if options.out and not options.out.is_dir():
        parser.error(f"{options.out} is not a folder")
    return options


if __name__ == "__main__":
    main()
