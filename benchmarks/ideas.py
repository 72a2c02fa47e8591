"""What is each idea in a training step worth? A whole step with it, beside a step without it.

    python benchmarks/ideas.py [--data train.en train.de] [--rounds 12] [--batches 2] [--out results.json]

Each way is timed beside a step with all ideas, in one process, on the same batches, in alternating order. A round times
every way once. The first two rounds warm up, until memory is reused and no longer comes from the system. The interval
is a 95 % bootstrap of the median ratio. An idea whose interval does not stay above 1 is not worth its lines.

    drop, rms_norm, ...       without the compiled kernel of this name: its plain twin does the work
    all kernels               without any compiled kernel
    joined projections        without joining q, k, v, and the cross-attention keys of all layers, in one product
    loss in chunks            `F.cross_entropy` on the logits of the whole batch instead
    few shapes of rows        without filling batches up to a multiple of 64 rows (which saves memory, not time)
    rows without padding      every sentence of a batch is padded to its longest
    bf16 weights              float32 instead
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from command_line import command_line, figures_file
from peers.contest import Contender, Shape, timed
from peers.own import build
from peers.worker import Run
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from training import MULTI30K, encode

from dragoman.compiled import kernels
from dragoman.data.batching import Batch
from dragoman.memory import keep_freed_memory
from dragoman.model import attention as multi_head
from dragoman.model import blocks as decoder
from dragoman.model import transformer
from dragoman.model.projection import Projection
from dragoman.system import describe, gemm_rate, machine
from dragoman.tokenizing.special_tokens import PADDING
from dragoman.training import loop, loss
from dragoman.training.loss import Loss

WARM_UP = 2
"""Rounds that are not counted."""


class Without(NamedTuple):
    """A step without an idea: the contender that takes the step, and the context it runs in."""

    contender: Contender
    within: Callable[[], AbstractContextManager[Any]]


def ways(batches: Sequence[Batch], shape: Shape, preset: str) -> dict[str, Without]:
    """Steps in bf16 that each leave out one idea, by its name. The one named '' leaves out nothing."""
    ours = build(batches, shape, "bf16 weights", preset)
    padded = build([pad(batch) for batch in batches], shape, "bf16 weights", preset)
    exact = build(batches, shape, "float32", preset)
    return {
        "": Without(ours, nullcontext),
        **{name: Without(ours, partial(kernels.without, name)) for name in kernels.KERNELS},
        "all kernels": Without(ours, partial(kernels.without, *kernels.KERNELS)),
        "joined projections": Without(ours, partial(replaced, [multi_head, decoder], "join", one_by_one)),
        "loss in chunks": Without(ours, partial(replaced, [loop], "label_smoothed_loss", loss_at_once)),
        "few shapes of rows": Without(ours, partial(replaced, [transformer, loss], "ROW_MULTIPLE", 1)),
        "rows without padding": Without(padded, nullcontext),
        "bf16 weights": Without(exact, nullcontext),
    }


@contextmanager
def replaced(modules: Sequence[ModuleType], name: str, value: object) -> Generator[None]:
    with ExitStack() as stack:
        for module in modules:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield


def one_by_one(projections: Sequence[Projection]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.cat([projection(x) for projection in projections], dim=1)


def loss_at_once(hidden: Tensor, output: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """The loss as users of PyTorch write it. The unsmoothed loss, which is only shown, is left out."""
    smoothed = F.cross_entropy(hidden @ output.T, labels, label_smoothing=smoothing, reduction="sum")
    return Loss(smoothed.float(), smoothed.detach().float())


def pad(batch: Batch) -> Batch:
    """The same sentences, padded to the longest; padding is computed like tokens."""
    assert batch.source is not None and batch.source_lengths is not None

    def fill(ids: Tensor, lengths: Tensor) -> Tensor:
        return pad_sequence(list(ids.split(lengths.tolist())), batch_first=True, padding_value=PADDING).flatten()

    return replace(
        batch,
        source=fill(batch.source, batch.source_lengths),
        source_lengths=torch.full_like(batch.source_lengths, int(batch.source_lengths.max())),
        target=fill(batch.target, batch.target_lengths),
        labels=fill(batch.labels, batch.target_lengths),
        target_lengths=torch.full_like(batch.target_lengths, int(batch.target_lengths.max())),
    )


def measure(ideas: dict[str, Without], batches: int, rounds: int) -> dict[str, list[float]]:
    """Seconds without each idea over seconds with all ideas, round by round."""
    ratios: dict[str, list[float]] = {name: [] for name in ideas if name}
    for number in range(WARM_UP + rounds):
        for name, found in ratios.items():
            seconds = {}
            for way in ("", name)[:: -1 if number % 2 else 1]:
                with ideas[way].within():
                    seconds[way], _ = timed(ideas[way].contender, range(batches))
            found.append(seconds[name] / seconds[""])
    return {name: found[WARM_UP:] for name, found in ratios.items()}


def interval(ratios: list[float]) -> tuple[float, float]:
    """A 95 % bootstrap interval of the median."""
    rng = np.random.default_rng(1)
    medians = np.median(rng.choice(ratios, (2_000, len(ratios))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=[f"{MULTI30K}/train.en", f"{MULTI30K}/train.de"])
    parser.add_argument("--size", default="small", choices=["tiny", "mini", "small", "base", "big"])
    parser.add_argument("--preset", default="modern", choices=["paper", "modern"])
    parser.add_argument("--vocabulary-size", type=int, default=8_000)
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--batches", type=int, default=2, help="batches a round")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    if not kernels.prepare():
        parser.error("there are no compiled kernels on this machine")
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        shape = Shape(options.size, encode(options.data, options.vocabulary_size, Path(name)), everywhere=False)
        run = Run(Path(name) / "corpus", options.batch_tokens, options.batches, shape, options.threads)
        ratios = measure(ways(run.load(), shape, options.preset), options.batches, options.rounds)
    print(f"{'a step without':<24}{'takes times':>12}{'95 % interval':>18}")
    results = {name: {"ratio": statistics.median(found), "interval": interval(found)} for name, found in ratios.items()}
    for name, found in results.items():
        low, high = found["interval"]
        print(f"{name:<24}{found['ratio']:>12.3f}{f'{low:.3f} - {high:.3f}':>18}")
    print(f"\n{describe()}, {gemm_rate('bf16'):,.0f} GFLOP/s in bf16")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "rounds": options.rounds, "results": results}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
