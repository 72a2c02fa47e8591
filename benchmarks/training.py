"""How fast is a training step, beside torch.nn.Transformer on the same batches, and how near the processor's limit?

    python benchmarks/training.py [--data train.en train.de] [--rounds 5] [--batches 6] [--out results.json]

A token is a real source or target token, its sentence's special symbols included, padding never. A step is all of it:
forward, label-smoothed loss, backward, clipping, optimiser. Both models drop out at the same places (`--dropout paper`:
sublayer outputs and embeddings; `everywhere`: attention weights and the inner feed-forward layer too, as nn.Transformer
comes), and both learn through the same optimiser and masters, so that only model and loss differ. nn.Transformer is
padded to its batch; its padding and masks are made beforehand. In bf16 it runs in both ways it can, bf16 weights with
float32 masters and autocast, and ratios are to the better one. The contenders take turns, batch lists are the same.

The roof is the rate of square matrix products in the same rounds. The work of a token is 6 FLOP for each weight of a
matrix product that it passes through (2 forward, 4 backward); attention's own products and padding are not counted.
"""

import argparse
import json
import multiprocessing
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.data.batch import Batch
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus, encode_corpus
from dragoman.data.prepare import DataSettings, prepare_data, read_split
from dragoman.data.specials import PADDING
from dragoman.data.tokenizer_training import TokenizerSettings, train_tokenizers
from dragoman.evaluating.speed import Spread
from dragoman.machine import describe, gemm_rate, machine
from dragoman.memory import peak_memory_bytes
from dragoman.model import ModelConfig, Packing, build_model
from dragoman.model.positions import Sinusoidal
from dragoman.training import TrainSettings, TrainState
from dragoman.training.loop import train_step
from dragoman.training.optimiser import Masters, Precision

MULTI30K = "../shared/data/multi30k"
DROPOUT, SMOOTHING, CLIP, RATE = 0.1, 0.1, 1.0, 1e-4
CONTENDERS = {
    "float32": ("nn.Transformer", "dragoman paper", "dragoman modern"),
    "bf16": ("nn.Transformer bf16 weights", "nn.Transformer autocast", "dragoman paper", "dragoman modern"),
}


class Shape(NamedTuple):
    """What all contenders share."""

    size: str
    vocabulary: int
    everywhere: bool
    """Whether attention weights and the inner feed-forward layer are dropped out too."""

    def config(self, preset: str) -> ModelConfig:
        extra = DROPOUT if self.everywhere else 0.0
        return ModelConfig.model_validate(
            {
                "preset": preset,
                "size": self.size,
                "source_vocabulary": self.vocabulary,
                "target_vocabulary": self.vocabulary,
                "tied": "all",
                "dropout": DROPOUT,
                "attention_dropout": extra,
                "activation_dropout": extra,
            }
        )


class Contender(NamedTuple):
    model: nn.Module
    step: Callable[[int], None]
    """A whole training step on one of the batches."""


# torch.nn.Transformer, with what it lacks: embeddings, positions, output


class TorchTransformer(nn.Module):
    """nn.Transformer of the same sizes, one matrix for both embeddings and the output."""

    def __init__(self, config: ModelConfig, everywhere: bool) -> None:
        super().__init__()
        assert config.target_vocabulary
        self.embedding = nn.Parameter(torch.randn(config.target_vocabulary, config.d_model) * config.d_model**-0.5)
        self.positions = Sinusoidal(config.d_model)
        self.transformer = nn.Transformer(
            config.d_model,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.d_ff,
            DROPOUT,
            batch_first=True,
        )
        if not everywhere:
            self._drop_as_the_paper()

    def forward(self, padded: "Padded") -> Tensor:
        hidden = self.transformer(
            self._embed(padded.source),
            self._embed(padded.target),
            tgt_mask=padded.future,
            src_key_padding_mask=padded.no_source,
            tgt_key_padding_mask=padded.no_target,
            memory_key_padding_mask=padded.no_source,
        )
        return F.linear(hidden, self.embedding)

    def _embed(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.embedding) * self.embedding.size(1) ** 0.5
        position = torch.arange(ids.size(1)).expand(ids.shape).flatten()
        return F.dropout(self.positions(x.flatten(0, 1), position).view_as(x), DROPOUT, self.training)

    def _drop_as_the_paper(self) -> None:
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0  # the one inside the feed-forward network


class Padded(NamedTuple):
    """A batch as rectangles; True in a mask is what attention must not see."""

    source: Tensor
    target: Tensor
    labels: Tensor
    no_source: Tensor
    no_target: Tensor
    future: Tensor

    @classmethod
    def of(cls, batch: Batch) -> "Padded":
        assert batch.source is not None and batch.source_lengths is not None
        sources, targets = Packing.of(batch.source_lengths), Packing.of(batch.target_lengths)
        source, target, labels = (
            packing.pad(ids).masked_fill(~packing.visible, PADDING)
            for packing, ids in ((sources, batch.source), (targets, batch.target), (targets, batch.labels))
        )
        future = torch.ones(targets.longest, targets.longest, dtype=torch.bool).triu(1)
        return cls(source, target, labels, ~sources.visible, ~targets.visible, future)


def torch_transformer(batches: list[Batch], shape: Shape, precision: Precision, autocast: bool) -> Contender:
    model = TorchTransformer(shape.config("paper"), shape.everywhere).train()
    masters = Masters(model, precision, "adamw", (0.9, 0.98), 1e-9, 0.01)
    padded = [Padded.of(batch) for batch in batches]

    def step(number: int) -> None:
        given = padded[number]
        with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
            logits = model(given).flatten(0, 1)  # left in bf16 where they are: its cross-entropy is the faster one
            loss = F.cross_entropy(logits, given.labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING)
        loss.backward()
        masters.collect_gradients()
        masters.step(RATE, CLIP)

    return Contender(model, step)


def dragoman(batches: list[Batch], shape: Shape, precision: Precision, preset: str) -> Contender:
    model = build_model(shape.config(preset))
    settings = TrainSettings(
        steps=1_000_000, learning_rate=RATE, schedule="constant", warmup_steps=0, label_smoothing=SMOOTHING,
        clip_norm=CLIP, precision=precision,
    )  # fmt: skip
    state = TrainState(Masters(model, precision, "adamw", (0.9, 0.98), 1e-9, 0.01))
    return Contender(model.train(), lambda number: void(train_step(model, [batches[number]], settings, state)))


def void(_: object) -> None:
    """Takes a result that nobody needs."""


def build(name: str, batches: list[Batch], shape: Shape, precision: Precision) -> Contender:
    family, _, way = name.partition(" ")
    if family == "dragoman":
        return dragoman(batches, shape, precision, way)
    autocast = way == "autocast"
    return torch_transformer(batches, shape, "float32" if autocast else precision, autocast)


# Measuring


class Run(NamedTuple):
    """All a process needs to build the same batches and models as another."""

    corpus: Path
    batch_tokens: int
    batches: int
    shape: Shape
    threads: int

    def load(self) -> list[Batch]:
        torch.set_num_threads(self.threads)
        batches = Batches(EncodedCorpus.open(self.corpus), self.batch_tokens, seed=1)
        return [batches.batch(pairs) for pairs in batches.epoch(0)[: self.batches]]


def seconds_of(contender: Contender, batches: int) -> float:
    start = time.perf_counter()
    for number in range(batches):
        contender.step(number)
    return time.perf_counter() - start


def measure(run: Run, precision: Precision, rounds: int) -> tuple[list[dict[str, Any]], Spread]:
    """Tokens a second of each contender over rounds in which they take turns, and the roof over the same rounds."""
    batches = run.load()
    tokens = sum(batch.tokens for batch in batches)
    contenders = {name: build(name, batches, run.shape, precision) for name in CONTENDERS[precision]}
    for contender in contenders.values():  # libraries prepare themselves for each new shape of a batch
        seconds_of(contender, len(batches))
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    roofs = []
    for number in range(rounds):
        roofs.append(gemm_rate(precision))
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            speeds[name].append(tokens / seconds_of(contenders[name], len(batches)))
    roof = Spread.of(roofs)
    peers = [name for name in contenders if name.startswith("nn.")]
    best = max(peers, key=lambda name: Spread.of(speeds[name]).median)
    work = {preset: flops(build_model(run.shape.config(preset)), batches) / tokens for preset in ("paper", "modern")}
    return [
        {
            "model": name,
            "precision": precision,
            "parameters": sum(weight.numel() for weight in contenders[name].model.parameters()),
            "tokens_per_second": Spread.of(speeds[name])._asdict(),
            "against": best,
            "ratio": Spread.of([a / b for a, b in zip(speeds[name], speeds[best], strict=True)])._asdict(),
            "flop_per_token": (each := work["modern" if name.endswith("modern") else "paper"]),
            "share_of_roof": Spread.of(speeds[name]).median * each / (roof.median * 1e9),
            "peak_memory_bytes": apart(name, run, precision),
        }
        for name in contenders
    ], roof  # fmt: skip


def flops(model: nn.Module, batches: list[Batch]) -> float:
    """6 a weight and token: the encoder and the keys and values of its output see source tokens, the rest target
    tokens.
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
    source, target = (sum(getattr(batch, side) for batch in batches) for side in ("source_tokens", "target_tokens"))
    return 6.0 * (of_source * source + of_target * target)


def apart(name: str, run: Run, precision: Precision) -> int | None:
    """The most memory that a fresh process holds, which trains this contender alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(memory, (name, run, precision))


def memory(name: str, run: Run, precision: Precision) -> int | None:
    batches = run.load()
    contender = build(name, batches, run.shape, precision)
    for number in range(min(3, len(batches))):
        contender.step(number)
    return peak_memory_bytes()


def encode(data: list[str], vocabulary_size: int, folder: Path) -> int:
    """Encodes the training pairs with one vocabulary, and returns its size."""
    path = data[0] if len(data) == 1 else (data[0], data[1])
    prepare_data(DataSettings(path=path), folder / "data")
    settings = TokenizerSettings(vocabulary_size=vocabulary_size)
    tokenizers = train_tokenizers(lambda: read_split(folder / "data", "train"), settings)
    encode_corpus(folder / "data" / "train.jsonl", tokenizers, folder / "corpus")
    return tokenizers.target.size


def show(results: list[dict[str, Any]], roofs: dict[str, Spread]) -> None:
    print(
        f"{'':<36}{'parameters':>11}{'tokens/s':>10}{'range':>18}{'ratio':>7}{'range':>15}"
        f"{'of the roof':>13}{'peak memory':>13}"
    )
    for result in results:
        speed, ratio = Spread(**result["tokens_per_second"]), Spread(**result["ratio"])
        print(
            f"{result['precision']:<8}{result['model']:<28}{result['parameters']:>11,}{speed.median:>10,.0f}"
            f"{f'{speed.low:,.0f} - {speed.high:,.0f}':>18}{ratio.median:>7.2f}"
            f"{f'{ratio.low:.2f} - {ratio.high:.2f}':>15}{result['share_of_roof']:>13.0%}"
            f"{(result['peak_memory_bytes'] or 0) / 1e6:>10,.0f} MB"
        )
    for precision, roof in roofs.items():
        print(f"roof, {precision}: {roof.median:,.0f} GFLOP/s ({roof.low:,.0f} - {roof.high:,.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--data", nargs="+", default=[f"{MULTI30K}/train.en", f"{MULTI30K}/train.de"], help="two aligned files, or one"
    )
    parser.add_argument("--size", default="small", choices=["tiny", "small", "base", "big"])
    parser.add_argument("--vocabulary-size", type=int, default=8_000)
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--batches", type=int, default=6, help="batches a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", nargs="+", default=["float32", "bf16"], choices=["float32", "bf16"])
    parser.add_argument("--dropout", default="paper", choices=["paper", "everywhere"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    if missing := [path for path in options.data if not Path(path).exists()]:
        parser.error(f"{missing[0]} does not exist; name two aligned files with --data")
    with tempfile.TemporaryDirectory() as name:
        vocabulary = encode(options.data, options.vocabulary_size, Path(name))
        shape = Shape(options.size, vocabulary, options.dropout == "everywhere")
        run = Run(Path(name) / "corpus", options.batch_tokens, options.batches, shape, options.threads)
        batches = run.load()
        tokens = [sum(getattr(batch, f"{side}_tokens") for batch in batches) for side in ("source", "target")]
        measured = {precision: measure(run, precision, options.rounds) for precision in options.precision}
    results = [result for found, _ in measured.values() for result in found]
    roofs = {precision: roof for precision, (_, roof) in measured.items()}
    print(f"{len(batches)} batches, {tokens[0]:,} source and {tokens[1]:,} target tokens, vocabulary {vocabulary:,}\n")
    show(results, roofs)
    print(f"\n{describe()}")
    if options.out:
        facts = {"machine": machine(), "command": shlex.join(sys.argv), "tokens": tokens, "vocabulary": vocabulary}
        facts["roof_gflops"] = {precision: roof._asdict() for precision, roof in roofs.items()}
        options.out.write_text(json.dumps({**facts, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
