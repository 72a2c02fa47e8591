"""Does anything slow down as it grows: a training step, or a corpus?

    python benchmarks/growth.py [AXIS ...] [--quick] [--size small] [--precision bf16] [--out FOLDER]

A training step: tokens a second and peak memory, against the length of sentences, the tokens of a batch, the vocabulary
or the layers. One of them grows at a time; `--out` records the values of the others. Ids are random, and all sentences
are equally long. A step is forward, loss, backward, clipping and optimiser. Tokens are those of both sides.

A corpus: pairs a second and memory of each stage, from preparing made-up pairs of 5 to 25 words to the first batch and
the order of an epoch.

Each point runs in a process of its own. Peak memory includes imports (`memory_before_bytes`) and pages of mapped files,
which the system takes back when it needs them. Every axis becomes `growth-AXIS.json` and, if matplotlib is installed,
`growth-AXIS.png`.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from command_line import command_line
from peers.own import BatchList

from dragoman.compiled import kernels
from dragoman.data.batching import Batch, Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_corpus
from dragoman.memory import keep_freed_memory, memory_bytes, peak_memory_bytes
from dragoman.model.config import ModelConfig
from dragoman.runs.recipe import Recipe
from dragoman.runs.starting import fresh_state
from dragoman.runs.translation import SAMPLE
from dragoman.system import choose_precision, describe, machine
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import read_split
from dragoman.text.report import read_report
from dragoman.text.settings import DataSettings
from dragoman.tokenizing.special_tokens import END, START
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizers
from dragoman.training.loop import MicroBatch, Trainer
from dragoman.training.objective import CrossEntropy
from dragoman.training.settings import TrainSettings

FEWEST_STEPS, WARM_UP, SECONDS = 3, 2, 5.0
WORDS, SHORTEST, LONGEST = 50_000, 5, 25
SYLLABLES = [first + vowel + last for first in "bcdfglmnprstv" for vowel in "aeiou" for last in ("", "n", "r", "s")]

Found = dict[str, float]


class Shape(NamedTuple):
    """One training step."""

    size: str
    precision: str
    length: int = 32
    batch_tokens: int = 4_096
    vocabulary: int = 8_000
    layers: int = 3


AXES: dict[str, tuple[list[int], list[int]]] = {
    "length": ([16, 32, 64, 128, 256, 512, 1_024], [16, 64]),
    "batch_tokens": ([1_024, 2_048, 4_096, 8_192, 16_384, 32_768], [256, 512]),
    "vocabulary": ([4_000, 8_000, 16_000, 32_000, 64_000], [1_000, 2_000]),
    "layers": ([1, 2, 3, 6, 12], [1, 2]),
    "pairs": ([10_000, 100_000, 1_000_000, 10_000_000], [500, 1_000]),
}
"""What grows, to which values, and to which values with `--quick`."""


# A training step


def step(shape: Shape, seconds: float) -> Found:
    """Median tokens a second over some seconds of steps. The first few steps are not counted."""
    recipe = Recipe(
        model=ModelConfig.model_validate(
            {
                "size": shape.size,
                "source_vocabulary": shape.vocabulary,
                "target_vocabulary": shape.vocabulary,
                "tied": "all",
                "encoder_layers": shape.layers,
                "decoder_layers": shape.layers,
            }
        ),
        train=TrainSettings.model_validate(
            {"steps": 10**6, "learning_rate": 1e-3, "warmup_steps": 10**6, "precision": shape.precision}
        ),
    )
    kernels.prepare()
    model, state = fresh_state(recipe, "cpu")
    model.train()
    batch, rates, begin = random_batch(shape), [], time.perf_counter()
    objective = CrossEntropy(BatchList([batch]), recipe.train.label_smoothing)
    trainer = Trainer(model, objective, recipe.train, state)
    while len(rates) < WARM_UP + FEWEST_STEPS or time.perf_counter() - begin < seconds:
        started = time.perf_counter()
        trainer.step([MicroBatch(batch.size, batch)]).report()
        rates.append(batch.size.tokens / (time.perf_counter() - started))
    parameters = sum(weight.numel() for weight in model.parameters())
    return {"tokens_per_second": statistics.median(rates[WARM_UP:]), "steps": len(rates), "parameters": parameters}


def random_batch(shape: Shape) -> Batch:
    """Sentences of `length` tokens on each side, special symbols included."""
    rows = max(1, shape.batch_tokens // shape.length)
    lengths = torch.full((rows,), shape.length)
    source, text = torch.randint(END + 1, shape.vocabulary, (2, rows, shape.length))
    source[:, 0], source[:, -1] = START, END
    target, labels = text.clone(), text.roll(-1, 1)
    target[:, 0], labels[:, -1] = START, END
    return Batch(source.flatten(), lengths, target.flatten(), labels.flatten(), lengths, torch.arange(rows))


# A corpus


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


def prepare(folder: Path) -> Found:
    report = prepare_data(DataSettings(path=str(folder / "pairs.tsv")), folder / "data")
    return {"pairs": report.splits["train"].pairs}


def learn_vocabulary(folder: Path) -> Found:
    learn_tokenizers(lambda: islice(read_split(folder / "data", "train"), SAMPLE)).save(folder)
    return {"pairs": min(SAMPLE, read_report(folder / "data").splits["train"].pairs)}


def encode(folder: Path) -> Found:
    pairs = read_split(folder / "data", "train")
    corpus = encode_corpus(pairs, Tokenizers.load(folder), folder / "corpus")
    return {
        "pairs": len(corpus),
        "tokens": sum(side.tokens for side in (corpus.facts.source, corpus.facts.target) if side),
    }


def first_batch(folder: Path) -> Found:
    batches = Batches(EncodedCorpus.open(folder / "corpus"), seed=1)
    batches.batch(batches.epoch(0)[0])
    return {"pairs": len(batches)}


def order(folder: Path) -> Found:
    """Which pairs each batch of an epoch holds."""
    batches = Batches(EncodedCorpus.open(folder / "corpus"), seed=1)
    return {"pairs": len(batches), "batches": sum(1 for _ in batches.epoch(0))}


STAGES = (prepare, learn_vocabulary, encode, first_batch, order)


def corpus(pairs: int) -> dict[str, Found]:
    """What each stage costs, from a TSV file to the order of batches."""
    with tempfile.TemporaryDirectory() as name:
        write_pairs(Path(name) / "pairs.tsv", pairs)
        found = {stage.__name__.replace("_", " "): apart(stage, Path(name)) for stage in STAGES}
    for stage in found.values():
        stage["pairs_per_second"] = stage["pairs"] / stage["seconds"]
    return found


# Measuring and drawing


def apart(function: Callable[..., Found], *arguments: Any) -> Found:
    """Runs a function in a fresh process, and adds its time, its memory before and its peak memory to the result."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(observed, (function, torch.get_num_threads(), arguments))


def observed(function: Callable[..., Found], threads: int, arguments: tuple[Any, ...]) -> Found:
    torch.set_num_threads(threads)
    keep_freed_memory()
    before, start, processor = memory_bytes() or 0, time.perf_counter(), time.process_time()
    found = function(*arguments)
    return {
        **found,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor,
        "memory_before_bytes": before,
        "peak_memory_bytes": peak_memory_bytes() or 0,
    }


def measure(axis: str, values: list[int], base: Shape, seconds: float) -> dict[int, dict[str, Found]]:
    """What each stage cost, for each value. A training step is one stage."""
    found = {}
    for value in values:
        shape = base._replace(**{axis: value}) if axis != "pairs" else base
        found[value] = corpus(value) if axis == "pairs" else {"step": apart(step, shape, seconds)}
        for stage, facts in found[value].items():
            rate = facts.get("tokens_per_second") or facts["pairs_per_second"]
            memory = f"{facts['memory_before_bytes'] / 1e6:,.0f} to {facts['peak_memory_bytes'] / 1e6:,.0f} MB"
            print(f"{axis:<13}{value:>12,}  {stage:<18}{rate:>14,.0f}/s{facts['seconds']:>10.2f} s{memory:>24}")
    return found


def draw(path: Path, axis: str, found: dict[int, dict[str, Found]]) -> bool:
    """Draws rate and memory against one axis; False without matplotlib. Axes start at zero, except rates of stages."""
    try:
        from matplotlib.figure import Figure  # pyright: ignore
    except ImportError:
        return False
    figure: Any = Figure(figsize=(9, 3.4), layout="constrained", dpi=100)
    unit = "pairs" if axis == "pairs" else "tokens"
    panels = ((f"{unit}_per_second", f"{unit} a second", 1.0), ("peak_memory_bytes", "most memory held (MB)", 1e6))
    for axes, (key, label, scale) in zip(figure.subplots(1, 2), panels, strict=True):
        for stage in next(iter(found.values())):
            axes.plot(list(found), [facts[stage][key] / scale for facts in found.values()], "o-", label=stage)
        axes.set(xlabel=axis.replace("_", " "), ylabel=label, xscale="log")
        if unit == "pairs" and scale == 1.0:
            axes.set_yscale("log")  # stages differ by hundreds
        else:
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_xticks(list(found), [f"{value:,}" for value in found])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    if axis == "pairs":
        figure.axes[1].legend(fontsize="small", loc="upper left")
    figure.savefig(path)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(AXES)}; all, if none is given")
    parser.add_argument("--quick", action="store_true", help="two small values an axis: whether it runs at all")
    parser.add_argument("--size", default="small", choices=["tiny", "mini", "small", "base"])
    parser.add_argument("--precision", default=choose_precision()[0], choices=["float32", "bf16"])
    parser.add_argument("--largest", type=int, help="leave out larger values")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="a folder for JSON and pictures")
    options = parser.parse_args()
    if unknown := set(options.axes) - AXES.keys():
        parser.error(f"there is no axis {unknown.pop()}; there are {', '.join(AXES)}")
    if options.out and options.out.exists() and not options.out.is_dir():
        parser.error(f"{options.out} is a file; name a folder")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    base, seconds = Shape(options.size, options.precision), 0.0 if options.quick else SECONDS
    for axis in options.axes or AXES:
        values = [value for value in AXES[axis][options.quick] if value <= (options.largest or value)]
        found = measure(axis, values, base, seconds)
        if options.out:
            facts = {"machine": machine(), "command": command_line(), "axis": axis, "others": base._asdict()}
            path = options.out / f"growth-{axis}.json"
            path.write_text(json.dumps({**facts, "found": found}, indent=2) + "\n")
            draw(path.with_suffix(".png"), axis, found) or print("no picture: pip install 'dragoman[plots]'")
    print(describe())


if __name__ == "__main__":
    main()
