"""Speed of a training step, compared with other toolkits on the same batches and with the processor's limit.

    make bench-training        installs the toolkits into .venv-peers and runs this for two sizes, or by hand:
    python benchmarks/training.py [--size small] [--precision bf16] [--rounds 5] [--out results.json]

A token is a real source or target token, including the special symbols of a sentence, never padding. A step is forward,
label-smoothed loss, backward, clipping and optimiser. All models have the same sizes, apply dropout at the same places
(sublayer outputs and embeddings), and share the optimiser and its master weights. Batches are padded for the other
toolkits beforehand. The allocator of all processes keeps freed memory.

Heats come first. Every other toolkit runs in all its ways: bf16 weights with float32 masters, or autocast; its own
attention, or torch's fused attention; never `torch.compile`. Each way takes three turns, and the best one or two ways
of each toolkit go on. In the rounds all of them take turns, each in a process of its own, and the roof is measured in
the same rounds. A ratio is to the toolkit with the highest median, within each round. Toolkits that are not installed
are reported as left out.

The roof is the rate of square matrix products. The work of a token is 6 FLOP for each weight of a matrix product that
the token passes through (2 forward, 4 backward), without attention's own products and padding.
"""

import argparse
import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from command_line import new_parser, report, write_figures
from peers.contest import Shape
from peers.entrants import TOOLKITS, Entrant, entrants
from peers.figures import Contest, Entry, Heat, show
from peers.processes import Lost
from peers.worker import Run, TextRun, Turn, Worker
from torch import Tensor, nn

from dragoman.data.batching import Batch
from dragoman.data.encoding import encode_corpus
from dragoman.evaluating.speed import MedianRange
from dragoman.model.transformer import build_model
from dragoman.system import describe, gemm_rate
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import read_split
from dragoman.text.settings import DataSettings
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers
from dragoman.training.optimiser import Precision

MULTI30K = "../shared/data/multi30k"
HEAT_BATCHES, HEAT_ROUNDS = 1, 3
FINALISTS = {"tiny": 2, "mini": 2, "small": 2, "base": 1, "big": 1}
"""Ways of a toolkit that go on from the heats. Only the best for large models, because all stay in memory."""


def measure(run: Run, precision: Precision, toolkits: Sequence[str], rounds: int, left_out: dict[str, str]) -> Contest:
    """Run the heats, then the rounds in which all take turns, and measure the roof in the same rounds."""
    field = [entrant for toolkit in toolkits for entrant in entrants(toolkit, precision)]
    heats = list(run_heats([entrant for entrant in field if entrant.is_peer], run, left_out))
    ours = [entrant for entrant in field if not entrant.is_peer]
    starting = [*ours, *finalists(heats, FINALISTS[run.shape.size])]
    entries, roof = take_turns_under_roof(starting, run, precision, rounds, left_out)
    batches = run.load()
    work = {preset: flops(build_model(run.shape.config(preset)), batches) for preset in ("paper", "modern")}
    return Contest(run.shape.size, precision, heats, entries, roof, work)


def run_heats(field: Sequence[Entrant], run: Run, left_out: dict[str, str]) -> Iterator[Heat]:
    """Run the ways of each toolkit interleaved, so that a busy minute slows all of them."""
    for toolkit in dict.fromkeys(entrant.toolkit for entrant in field):
        ways = [entrant for entrant in field if entrant.toolkit == toolkit]
        for entry in take_turns(ways, run, HEAT_BATCHES, HEAT_ROUNDS, left_out):
            report(f"{run.shape.size}: {entry.entrant.name}: {entry.speed.median:,.0f} tokens/s")
            yield Heat(entry.entrant, entry.speed.median)


def take_turns_under_roof(
    starting: Sequence[Entrant],
    run: Run | TextRun,
    precision: Precision,
    rounds: int,
    left_out: dict[str, str],
) -> tuple[list[Entry], MedianRange]:
    """Return the turns of all entrants, and the roof in the same rounds."""
    roofs: list[float] = []

    def measure_roof(number: int) -> None:
        report(f"{run.shape.size} {precision}: {f'round {number} of {rounds}' if number else 'warming up'}")
        roofs.append(gemm_rate(precision))

    entries = take_turns(starting, run, run.batches, rounds, left_out, measure_roof)
    return entries, MedianRange.from_values(roofs[1:])


def take_turns(
    starting: Sequence[Entrant],
    run: Run | TextRun,
    batches: int,
    rounds: int,
    left_out: dict[str, str],
    before_each_round: Callable[[int], None] = lambda number: None,
) -> list[Entry]:
    """Run every entrant once a round, in alternating order. Round 0 warms up."""
    workers: dict[Entrant, Worker] = {}
    lost: set[Entrant] = set()
    turns: dict[Entrant, list[Turn]] = {entrant: [] for entrant in starting}
    for number in range(rounds + 1):
        before_each_round(number)
        for entrant in starting[:: -1 if number % 2 else 1]:
            if entrant in lost:
                continue
            try:
                worker = workers.get(entrant) or workers.setdefault(entrant, Worker(entrant, run))
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


def finalists(heats: Sequence[Heat], count: int) -> list[Entrant]:
    """Return the best ways of each toolkit."""
    ranked = sorted(heats, key=lambda heat: heat.tokens_per_second, reverse=True)
    toolkits = dict.fromkeys(heat.entrant.toolkit for heat in heats)
    return [
        entrant
        for toolkit in toolkits
        for entrant in [heat.entrant for heat in ranked if heat.entrant.toolkit == toolkit][:count]
    ]


def flops(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Return the FLOP of an average token: 6 a weight.

    The encoder and the keys and values of its output read source tokens, all other weights target tokens.
    """
    source_weights = target_weights = 0
    for name, weight in model.named_parameters():
        if weight.dim() < 2 or "embedding" in name or name == "output":
            continue
        reads_memory = "cross_attention.key" in name or "cross_attention.value" in name
        if name.startswith("encoder") or reads_memory:
            source_weights += weight.numel()
        else:
            target_weights += weight.numel()
    assert isinstance(model.output, Tensor)
    target_weights += model.output.numel()
    source, target = count_tokens(batches)
    return 6.0 * (source_weights * source + target_weights * target) / (source + target)


def count_tokens(batches: Sequence[Batch]) -> tuple[int, int]:
    """Return the numbers of source and target tokens."""
    return sum(batch.size.source_tokens for batch in batches), sum(batch.size.target_tokens for batch in batches)


def encode(data: list[str], vocabulary_size: int, folder: Path) -> int:
    """Encode the training pairs with one vocabulary, and return its size."""
    path = data[0] if len(data) == 1 else (data[0], data[1])
    prepare_data(DataSettings(path=path), folder / "data")
    settings = TokenizerSettings(vocabulary_size=vocabulary_size)
    tokenizers = learn_tokenizers(lambda: read_split(folder / "data", "train"), settings)
    encode_corpus(read_split(folder / "data", "train"), tokenizers, folder / "corpus")
    return tokenizers.target.size


def leave_out(left_out: dict[str, str], name: str, reason: str) -> None:
    """Note and report that an entrant or toolkit is left out."""
    left_out[name] = reason
    report(f"LEFT OUT: {name}: {reason}")


def installed(toolkits: Sequence[str], left_out: dict[str, str]) -> list[str]:
    """Return the toolkits that are installed."""
    present = []
    for name in toolkits:
        needed = TOOLKITS[name].requires
        if needed is None or importlib.util.find_spec(needed):
            present.append(name)
        else:
            leave_out(left_out, name, f"{needed} is not installed here; `make bench-training` installs it")
    return present


def add_data_options(parser: argparse.ArgumentParser, batches: int, rounds: int) -> None:
    """Add the options of scripts that time training steps on batches of a text."""
    parser.add_argument("--data", nargs="+", default=[f"{MULTI30K}/train.en", f"{MULTI30K}/train.de"])
    parser.add_argument("--size", default="small", choices=list(FINALISTS))
    parser.add_argument("--vocabulary-size", type=int, default=8_000)
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--batches", type=int, default=batches, help="batches a round")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())


def main() -> None:
    parser = new_parser(__doc__)
    add_data_options(parser, batches=6, rounds=5)
    parser.add_argument("--toolkits", nargs="+", default=list(TOOLKITS), choices=list(TOOLKITS), metavar="NAME")
    parser.add_argument("--precision", default="bf16", choices=["float32", "bf16"])
    options = parser.parse_args()
    left_out: dict[str, str] = {}
    toolkits = installed(options.toolkits, left_out)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = encode(options.data, options.vocabulary_size, Path(folder))
        shape = Shape(options.size, vocabulary)
        run = Run(Path(folder) / "corpus", options.batch_tokens, options.batches, shape, options.threads)
        tokens = count_tokens(run.load())
        contest = measure(run, options.precision, toolkits, options.rounds, left_out)
    show(contest)
    print(f"\n{options.batches} batches, {tokens[0]:,} source and {tokens[1]:,} target tokens")
    print(f"vocabulary {vocabulary:,}; {describe()}")
    for name, reason in left_out.items():
        print(f"LEFT OUT: {name}: {reason}")
    write_figures(options.out, tokens=tokens, vocabulary=vocabulary, **contest.figures(), left_out=left_out)


if __name__ == "__main__":
    main()
