"""How fast is a training step beside other toolkits on the same batches, and how near the processor's limit?

    make bench-training        installs the toolkits into .venv-peers and runs this for both sizes, or by hand:
    python benchmarks/training.py [--size small base] [--precision bf16] [--rounds 5] [--out results.json]

A token is a real source or target token, including the special symbols of a sentence, never padding. A step is forward,
label-smoothed loss, backward, clipping and optimiser. All models have the same sizes, apply dropout at the same places
(`--dropout paper`: sublayer outputs and embeddings; `everywhere`: attention weights and the inner feed-forward layer
too), and share the optimiser and its master weights. Batches are padded for the other toolkits beforehand.

Heats come first. Every other toolkit runs in all its ways: bf16 weights with float32 masters, or autocast; its own
attention, or torch's fused one; never `torch.compile`. Each way takes three turns, with both settings of glibc's
allocator. The setting under which the fastest toolkit was fastest then applies to all, and the best one or two ways of
each toolkit go on. In the rounds all of them take turns, each in a process of its own, and the roof is measured in the
same rounds. A ratio is to one other toolkit, the one with the highest median, within each round. What is not installed
is named as left out.

The roof is the rate of square matrix products. The work of a token is 6 FLOP for each weight of a matrix product that
the token passes through (2 forward, 4 backward), without attention's own products and padding.

The tutorial stands apart: its model on our batches, and its way as published, eight sentences padded to 350.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import torch
from command_line import command_line, figures_file
from peers.contest import Shape
from peers.entrants import TOOLKITS, Entrant, entrants
from peers.figures import Contest, Entry, Heat, draw, show, told
from peers.worker import ALLOCATORS, Lost, Run, TextRun, Turn, Worker
from torch import Tensor, nn

from dragoman.data.batching import Batch
from dragoman.data.encoding import encode_corpus
from dragoman.evaluating.speed import MedianRange
from dragoman.model.transformer import build_model
from dragoman.system import describe, gemm_rate, machine
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import read_split
from dragoman.text.settings import DataSettings
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers
from dragoman.training.optimiser import Precision

MULTI30K = "../shared/data/multi30k"
HEAT_BATCHES, HEAT_ROUNDS = 1, 3
FINALISTS = {"tiny": 2, "mini": 2, "small": 2, "base": 1, "big": 1}
"""Ways of a toolkit that go on from the heats. Only the best for large models, because all stay in memory."""


def measure(
    run: Run,
    precision: Precision,
    toolkits: Sequence[str],
    allocators: Sequence[str],
    rounds: int,
    left_out: dict[str, str],
) -> Contest:
    """Runs the heats, then the rounds in which all take turns, and measures the roof in the same rounds."""
    field = [entrant for toolkit in toolkits for entrant in entrants(toolkit, precision)]
    heats = list(run_heats([entrant for entrant in field if entrant.is_peer], run, allocators, left_out))
    allocator = max(heats, key=lambda heat: heat.tokens_per_second).allocator if heats else allocators[-1]
    starting = [
        *(entrant for entrant in field if not entrant.is_peer),
        *finalists(heats, allocator, FINALISTS[run.shape.size]),
    ]
    roofs: list[float] = []

    def look_at_the_roof(number: int) -> None:
        progress(f"{run.shape.size} {precision}: {f'round {number} of {rounds}' if number else 'warming up'}")
        roofs.append(gemm_rate(precision))

    entries = take_turns(starting, run, allocator, run.batches, rounds, left_out, look_at_the_roof)
    batches = run.load()
    work = {preset: flops(build_model(run.shape.config(preset)), batches) for preset in ("paper", "modern")}
    return Contest(run.shape.size, precision, allocator, heats, entries, MedianRange.from_values(roofs[1:]), work)


def run_heats(
    field: Sequence[Entrant], run: Run, allocators: Sequence[str], left_out: dict[str, str]
) -> Iterator[Heat]:
    """Runs the ways of each toolkit in turns, so that a busy minute slows all of them."""
    for toolkit, allocator in product(dict.fromkeys(entrant.toolkit for entrant in field), allocators):
        ways = [entrant for entrant in field if entrant.toolkit == toolkit]
        for entry in take_turns(ways, run, allocator, HEAT_BATCHES, HEAT_ROUNDS, left_out):
            speed = entry.speed.median
            progress(f"{run.shape.size}: {entry.entrant.name}, {allocator} allocator: {speed:,.0f} tokens/s")
            yield Heat(entry.entrant, allocator, speed)


def take_turns(
    starting: Sequence[Entrant],
    run: Run | TextRun,
    allocator: str,
    batches: int,
    rounds: int,
    left_out: dict[str, str],
    before_each_round: Callable[[int], None] = lambda number: None,
) -> list[Entry]:
    """Everyone runs once a round, in alternating order. Round 0 warms up."""
    workers: dict[Entrant, Worker] = {}
    lost: set[Entrant] = set()
    turns: dict[Entrant, list[Turn]] = {entrant: [] for entrant in starting}
    for number in range(rounds + 1):
        before_each_round(number)
        for entrant in starting[:: -1 if number % 2 else 1]:
            if entrant in lost:
                continue
            try:
                worker = workers.get(entrant) or workers.setdefault(entrant, Worker(entrant, run, allocator))
                turns[entrant].append(worker.turn(batches))
            except Lost as error:
                lost.add(entrant)
                leave_out(left_out, f"{run.shape.size}, {entrant.name}", str(error))
    entries = [
        Entry(entrant, workers[entrant].facts.parameters, turns[entrant][0], turns[entrant][1:])
        for entrant in starting
        if entrant not in lost
    ]
    for worker in workers.values():
        worker.leave()
    return entries


def finalists(heats: Sequence[Heat], allocator: str, count: int) -> list[Entrant]:
    """The best ways of each toolkit with this setting of the allocator."""
    ranked = sorted(
        (heat for heat in heats if heat.allocator == allocator), key=lambda heat: heat.tokens_per_second, reverse=True
    )
    toolkits = dict.fromkeys(heat.entrant.toolkit for heat in heats)
    return [
        entrant
        for toolkit in toolkits
        for entrant in [heat.entrant for heat in ranked if heat.entrant.toolkit == toolkit][:count]
    ]


def flops(model: nn.Module, batches: Sequence[Batch]) -> float:
    """FLOP of an average token: 6 a weight. The encoder and the keys and values of its output see source tokens,
    all other weights target tokens.
    """
    of_source = of_target = 0
    for name, weight in model.named_parameters():
        if weight.dim() < 2 or "embedding" in name or name == "output":
            continue
        reads_memory = "cross_attention.key" in name or "cross_attention.value" in name
        if name.startswith("encoder") or reads_memory:
            of_source += weight.numel()
        else:
            of_target += weight.numel()
    assert isinstance(model.output, Tensor)
    of_target += model.output.numel()
    source, target = (
        sum(getattr(batch.size, side) for batch in batches) for side in ("source_tokens", "target_tokens")
    )
    return 6.0 * (of_source * source + of_target * target) / (source + target)


def encode(data: list[str], vocabulary_size: int, folder: Path) -> int:
    """Encodes the training pairs with one vocabulary, and returns its size."""
    path = data[0] if len(data) == 1 else (data[0], data[1])
    prepare_data(DataSettings(path=path), folder / "data")
    settings = TokenizerSettings(vocabulary_size=vocabulary_size)
    tokenizers = learn_tokenizers(lambda: read_split(folder / "data", "train"), settings)
    encode_corpus(read_split(folder / "data", "train"), tokenizers, folder / "corpus")
    return tokenizers.target.size


def leave_out(left_out: dict[str, str], name: str, reason: str) -> None:
    left_out[name] = reason
    progress(f"LEFT OUT: {name}: {reason}")


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def present(asked: Sequence[str], left_out: dict[str, str]) -> list[str]:
    """The toolkits that are installed."""
    found = []
    for name in asked:
        needed = TOOLKITS[name].requires
        if needed is None or importlib.util.find_spec(needed):
            found.append(name)
        else:
            leave_out(left_out, name, f"{needed} is not installed here; `make bench-training` installs it")
    return found


def main() -> None:
    options = parse()
    left_out: dict[str, str] = {}
    toolkits = present(options.toolkits, left_out)
    contests, tokens, vocabulary = [], [0, 0], 0
    with tempfile.TemporaryDirectory() as name:
        vocabulary = encode(options.data, options.vocabulary_size, Path(name))
        for size in options.size:
            shape = Shape(size, vocabulary, options.dropout == "everywhere")
            run = Run(Path(name) / "corpus", options.batch_tokens, options.batches, shape, options.threads)
            batches = run.load()
            tokens = [sum(getattr(batch.size, f"{side}_tokens") for batch in batches) for side in ("source", "target")]
            for precision in options.precision:
                contests.append(measure(run, precision, toolkits, options.allocator, options.rounds, left_out))
                show(contests[-1])
    print(
        f"\n{options.batches} batches, {tokens[0]:,} source and {tokens[1]:,} target tokens, vocabulary {vocabulary:,}"
    )
    print(describe())
    for name, reason in left_out.items():
        print(f"LEFT OUT: {name}: {reason}")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "tokens": tokens, "vocabulary": vocabulary}
        options.out.write_text(json.dumps({**facts, **told(contests), "left_out": left_out}, indent=2) + "\n")
        draw(contests, options.out.with_suffix(".png"))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--data", nargs="+", default=[f"{MULTI30K}/train.en", f"{MULTI30K}/train.de"], help="two aligned files, or one"
    )
    parser.add_argument("--size", nargs="+", default=["small"], choices=["tiny", "mini", "small", "base", "big"])
    parser.add_argument("--toolkits", nargs="+", default=list(TOOLKITS), choices=list(TOOLKITS), metavar="NAME")
    parser.add_argument("--vocabulary-size", type=int, default=8_000)
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--batches", type=int, default=6, help="batches a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", nargs="+", default=["bf16"], choices=["float32", "bf16"])
    parser.add_argument("--dropout", default="paper", choices=["paper", "everywhere"])
    parser.add_argument(
        "--allocator", nargs="+", default=list(ALLOCATORS), choices=ALLOCATORS, help="settings to try in the heats"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON, and beside it a picture")
    options = parser.parse_args()
    if missing := [path for path in options.data if not Path(path).exists()]:
        parser.error(f"{missing[0]} does not exist; name two aligned files with --data")
    return options


if __name__ == "__main__":
    main()
