"""Value of each idea in a training step: a step with all ideas is compared with a step without one.

    python benchmarks/ideas.py [--data train.en train.de] [--rounds 12] [--batches 2] [--out results.json]

Each way is timed next to a step with all ideas, in one process, on the same batches, in alternating order. A round
times every way once. The first two rounds warm up, until memory is reused and no longer comes from the system. The
interval is a 95 % bootstrap of the median ratio. An idea whose interval does not stay above 1 is not worth its lines.

    drop, rms_norm, ...       without the compiled kernel of this name: its plain twin does the work
    all kernels               without any compiled kernel
    joined projections        without joining q, k, v, and the cross-attention keys of all layers, in one product
    loss in chunks            `F.cross_entropy` on the logits of the whole batch instead
    few shapes of rows        without filling batches up to a multiple of 64 rows (which saves memory, not time)
    rows without padding      every sentence of a batch is padded to its longest
    bf16 weights              float32 instead
"""

import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from command_line import MedianInterval, new_parser, write_figures
from peers.contest import Contender, Shape, timed
from peers.own import build
from peers.worker import Run
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from training import add_data_options, encode

from dragoman.compiled import kernels
from dragoman.data.batching import Batch
from dragoman.memory import keep_freed_memory
from dragoman.model import attention as multi_head
from dragoman.model import blocks as decoder
from dragoman.model import transformer
from dragoman.model.projection import Projection
from dragoman.system import describe, gemm_rate
from dragoman.tokenizing.special_tokens import PADDING
from dragoman.training import loss, objective
from dragoman.training.loss import Loss

WARM_UP = 2
"""Rounds that are not counted."""


class Without(NamedTuple):
    """A step without an idea: the contender that takes the step, and the context it runs in."""

    contender: Contender
    within: Callable[[], AbstractContextManager[Any]]


def ways(batches: Sequence[Batch], shape: Shape, preset: str) -> dict[str, Without]:
    """Return steps in bf16 that leave out one idea, keyed by its name. The step named '' leaves out nothing."""
    ours = build(batches, shape, "bf16 weights", preset)
    padded = build([pad(batch) for batch in batches], shape, "bf16 weights", preset)
    exact = build(batches, shape, "float32", preset)
    return {
        "": Without(ours, nullcontext),
        **{name: Without(ours, partial(kernels.without, name)) for name in kernels.KERNELS},
        "all kernels": Without(ours, partial(kernels.without, *kernels.KERNELS)),
        "joined projections": Without(ours, partial(replaced, [multi_head, decoder], "join", project_separately)),
        "loss in chunks": Without(ours, partial(replaced, [objective], "label_smoothed_loss", loss_at_once)),
        "few shapes of rows": Without(ours, partial(replaced, [transformer, loss], "ROW_MULTIPLE", 1)),
        "rows without padding": Without(padded, nullcontext),
        "bf16 weights": Without(exact, nullcontext),
    }


@contextmanager
def replaced(modules: Sequence[ModuleType], name: str, value: object) -> Generator[None]:
    """Replace a name in several modules for a while."""
    with ExitStack() as stack:
        for module in modules:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield


def project_separately(projections: Sequence[Projection]) -> Callable[[Tensor], Tensor]:
    """Return a function that concatenates projections instead of joining their matrices."""
    return lambda x: torch.cat([projection(x) for projection in projections], dim=1)


def loss_at_once(hidden: Tensor, output: Tensor, labels: Tensor, smoothing: float, bias: None) -> Loss:
    """Compute the loss as users of PyTorch write it, without the unsmoothed loss, which is only shown."""
    smoothed = F.cross_entropy(hidden @ output.T, labels, label_smoothing=smoothing, reduction="sum")
    return Loss(smoothed.float(), smoothed.detach().float())


def pad(batch: Batch) -> Batch:
    """Return the same sentences, padded to the longest; padding is computed like tokens."""
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


def measure(ideas: dict[str, Without], batches: int, rounds: int) -> dict[str, MedianInterval]:
    """Return the seconds without each idea over the seconds with all ideas."""
    ratios: dict[str, list[float]] = {name: [] for name in ideas if name}
    for number in range(WARM_UP + rounds):
        for name in ratios:
            seconds = {}
            for way in ("", name)[:: -1 if number % 2 else 1]:
                with ideas[way].within():
                    seconds[way], _ = timed(ideas[way].contender, range(batches))
            ratios[name].append(seconds[name] / seconds[""])
    return {name: MedianInterval.from_ratios(values[WARM_UP:]) for name, values in ratios.items()}


def main() -> None:
    parser = new_parser(__doc__)
    add_data_options(parser, batches=2, rounds=12)
    parser.add_argument("--preset", default="modern", choices=["paper", "modern"])
    options = parser.parse_args()
    if not kernels.prepare():
        parser.error("there are no compiled kernels on this machine")
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(options.size, encode(options.data, options.vocabulary_size, Path(folder)))
        run = Run(Path(folder) / "corpus", options.batch_tokens, options.batches, shape, options.threads)
        results = measure(ways(run.load(), shape, options.preset), options.batches, options.rounds)
    print(f"{'a step without':<24}takes times (95 % interval)")
    for name, result in results.items():
        print(f"{name:<24}{result}")
    print(f"\n{describe()}, {gemm_rate('bf16'):,.0f} GFLOP/s in bf16")
    ratios = {name: result._asdict() for name, result in results.items()}
    write_figures(options.out, rounds=options.rounds, results=ratios)


if __name__ == "__main__":
    main()
