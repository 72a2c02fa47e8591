"""Training steps and translating on a GPU, compared with Hugging Face in the same run.

    make gpu                                 the tests that need a GPU, then this, in at most five minutes
    python benchmarks/gpu.py [--model FOLDER] [--out gpu.json]
    python benchmarks/gpu.py --train DATA    train tatoeba-en-it with this folder of data, and score it (make gpu-train)
    python benchmarks/gpu.py --count         what Python queues in a step, on any machine
    python benchmarks/gpu.py --try           the same with tiny sizes and float32 on a processor, to check this script

Steps are in bf16 with AdamW, on the same twelve batches of random sentences of 4 to 25 tokens, about 24,500 on each
side. Ours are recorded and replayed, and once ordinary. The peer is Marian's architecture in transformers with torch's
fused attention, under autocast, with torch's fused AdamW on padded rectangles. It is left out if transformers is
missing. "Of the roof" compares a model's multiply-adds with torch's fastest matrix products in bf16.

Lines are those of the test set of the model's run, 2,000 at most: our search with `--device cuda`, then with the
processor's decoder, and `generate` on random weights of the same sizes, with the same number of steps.
"""

import gc
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from command_line import markdown, new_parser, report, write_figures
from peers.contest import BETAS, CLIP, DECAY, EPSILON, RATE, SMOOTHING, Padded, Shape
from peers.own import build_trainer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from training import flops

import dragoman
from dragoman import SearchOptions, Translator
from dragoman.compiled import kernels
from dragoman.data.batching import Batch, pinned
from dragoman.errors import Error
from dragoman.evaluating.references import own_test_set, read_references
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import build_model
from dragoman.store.folder import load_model
from dragoman.system import describe, gemm_rate
from dragoman.tokenizing.special_tokens import END, PADDING, START
from dragoman.training.distributed import ALONE
from dragoman.training.optimiser import Precision
from dragoman.training.prefetching import MicroBatch, fetch

VOCABULARY, BATCHES, ROUNDS, ALONE_LINES = 8_000, 12, 5, 40
LONGEST = 25
SEARCHES = {"greedy": 1, "beam 4": 4}
Step = Callable[[int], Any]


@dataclass
class Row:
    """Figures of one way to do the same work."""

    work: str
    way: str
    milliseconds: float
    """Median time of a step, of all lines, or of one line."""
    low: float
    high: float
    tokens_per_second: float
    roof_share: float | None
    gigabytes: float
    """Most memory on the card."""
    ready: float
    """Seconds until the first round, compiling and recording included."""

    def cells(self) -> list[str]:
        """Return a row of the table."""
        share = f"{self.roof_share:.1%}" if self.roof_share else ""
        times = f"{self.milliseconds:,.2f} ({self.low:,.2f} to {self.high:,.2f})"
        return [
            self.work,
            self.way,
            times,
            f"{self.tokens_per_second:,.0f}",
            share,
            f"{self.gigabytes:.1f}",
            f"{self.ready:.0f}",
        ]


class StoredShape(NamedTuple):
    """Sizes of a finished model."""

    stored: ModelConfig
    vocabulary: int

    def config(self) -> ModelConfig:
        """Return the settings of the model."""
        return self.stored


COLUMNS = ["work", "way", "milliseconds", "tokens/s", "of the roof", "GiB", "ready after, s"]


def random_batches(tokens: int, vocabulary: int, count: int) -> list[Batch]:
    """Return batches of sentence pairs with this number of tokens on each side, of 4 to 25 a sentence."""
    random, batches = torch.Generator().manual_seed(1), list[Batch]()
    for _ in range(count):
        lengths = [torch.randint(4, LONGEST + 1, (tokens // 14,), generator=random) for _ in range(2)]
        fits = int(torch.stack(lengths).cumsum(1).max(0).values.le(tokens).sum())
        source, target = (
            torch.randint(END + 1, vocabulary, (int(side[:fits].sum()),), generator=random) for side in lengths
        )
        inputs = target.clone()
        inputs[lengths[1][:fits].cumsum(0)[:-1]] = inputs[0] = START
        batches.append(Batch(source, lengths[0][:fits], inputs, target, lengths[1][:fits], torch.arange(fits)))
    return batches


def our_step(
    batches: Sequence[Batch], shape: Shape, preset: str, device: str, records: bool, precision: Precision = "bf16"
) -> tuple[nn.Module, Step]:
    """Return our model and the step of our loop."""
    trainer = build_trainer(batches, shape, preset, precision, device, records)
    steps = [fetch(trainer.batches, [number], ALONE) for number in range(len(batches))]
    if device == "cuda":
        steps = [[MicroBatch(size, pinned(batch)) for size, batch in step] for step in steps]
    return trainer.model, lambda number: trainer.step(steps[number])


def marian_step(batches: Sequence[Batch], shape: Shape, device: str) -> tuple[nn.Module, Step]:
    """Return Marian's architecture in transformers, and a step as its users write it."""
    from peers.marian import marian

    model: Any = marian(shape, "sdpa")
    model = model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY, fused=True)
    padded = [Padded(*(part.to(device) for part in Padded.from_batch(batch))) for batch in batches]

    def step(number: int) -> None:
        batch = padded[number]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(
                input_ids=batch.source,
                attention_mask=batch.source_mask.long(),
                decoder_input_ids=batch.target,
                use_cache=False,
            ).logits
            labels = batch.labels.flatten()
            loss = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=PADDING, label_smoothing=SMOOTHING)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP, foreach=True)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return model, step


def time_steps(size: str, tokens: int, device: str) -> list[Row]:
    """Return the rows of a size of model: ours, recorded and ordinary, and the peer."""
    shape, batches = Shape(size, VOCABULARY), random_batches(tokens, VOCABULARY, BATCHES)
    precision: Precision = "bf16" if device == "cuda" else "float32"
    total = sum(batch.size.tokens for batch in batches)
    roof = gemm_rate(precision, size=8_192 if device == "cuda" else 512, device=device)
    multiply_adds = flops(build_model(shape.config("paper")), batches)  # a token
    ways: dict[str, Callable[[], tuple[nn.Module, Step]]] = {
        "dragoman paper": lambda: our_step(batches, shape, "paper", device, True, precision),
        "dragoman modern": lambda: our_step(batches, shape, "modern", device, True, precision),
        "dragoman paper, not recorded": lambda: our_step(batches, shape, "paper", device, False, precision),
        "transformers Marian": lambda: marian_step(batches, shape, device),
    }
    rows = []
    for name, build in ways.items():
        report(f"steps of {size}: {name}")
        forget(device)
        began = time.perf_counter()
        try:
            step = build()[1]
        except ImportError as error:
            report(f"{name} is left out: {error}")
            continue
        for number in [*range(BATCHES)] * 2:
            step(number)
        wait(device)
        ready, seconds = time.perf_counter() - began, list[float]()
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for number in range(BATCHES):
                step(number)
            wait(device)
            seconds.append((time.perf_counter() - start) / BATCHES)
        speed = total / BATCHES / statistics.median(seconds)
        rows.append(row_of(f"step of {size}, {total // BATCHES:,} tokens", name, seconds, speed, device, ready))
        rows[-1].roof_share = multiply_adds * speed / roof / 1e9
        del step  # with its model, before the next one
    return rows


def time_translating(model: Path, lines: int, device: str) -> list[Row]:
    """Return the rows of translating lines with a model: on the card, on the processor, and by the peer."""
    texts = read_references(own_test_set(model)).sources[:lines]
    rows, steps = [], dict[str, int]()
    for where in dict.fromkeys((device, "cpu")):
        report(f"translating on {where}")
        forget(device)
        began = time.perf_counter()
        translator, ready = Translator.load(model, device=where, progress=False), 0.0
        way = f"dragoman {where} {translator.precision}"
        for search, beam in SEARCHES.items():
            options = SearchOptions(beam_size=beam)
            translations = translator.translate(texts, options)
            ready = time.perf_counter() - began
            tokens = [len(translation.tokens) for translation in translations]
            steps[search] = max(tokens)
            seconds = repeated(partial(translator.translate, texts, options), device)
            rows.append(
                row_of(
                    f"{len(texts):,} lines, {search}",
                    way,
                    seconds,
                    sum(tokens) / statistics.median(seconds),
                    where,
                    ready,
                )
            )
        seconds = []
        for text in texts[:ALONE_LINES]:
            start = time.perf_counter()
            translator.translate(text)
            seconds.append(time.perf_counter() - start)
        rows.append(row_of("one line", way, seconds, 0.0, where, ready))
    try:
        return rows + time_generate(model, texts, steps, device)
    except ImportError as error:
        report(f"transformers is left out: {error}")
        return rows


def time_generate(model: Path, texts: Sequence[str], steps: dict[str, int], device: str) -> list[Row]:
    """Return the rows of `generate` on random weights of the model's width, layers and vocabulary."""
    from peers.marian import marian

    config = load_model(model).config
    vocabulary = config.target_vocabulary or VOCABULARY
    peer: Any = marian(cast("Shape", StoredShape(config, vocabulary)), "sdpa")
    peer = peer.to(device, torch.bfloat16).eval()
    lengths = sorted((len(text.split()) + 3 for text in texts), reverse=True)
    rows = []
    for search, beam in SEARCHES.items():
        report(f"translating with transformers, {search}")

        def work(search: str = search, beam: int = beam) -> None:
            for first in range(0, len(lengths), 500):
                part = lengths[first : first + 500]
                ids = torch.randint(END + 1, vocabulary, (len(part), part[0]), device=device)
                count = steps[search] + 1
                peer.generate(
                    input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=beam, do_sample=False,
                    max_length=count, min_length=count,
                )  # fmt: skip

        forget(device)
        began = time.perf_counter()
        work()
        ready = time.perf_counter() - began
        rows.append(
            row_of(
                f"{len(texts):,} lines, {search}", "transformers generate", repeated(work, device), 0.0, device, ready
            )
        )
    return rows


def repeated(work: Callable[[], Any], device: str) -> list[float]:
    """Return the seconds of three rounds."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return seconds


def row_of(work: str, way: str, seconds: Sequence[float], speed: float, device: str, ready: float) -> Row:
    """Return a row of these times, with the memory used so far."""
    median, low, high = (1000 * value for value in (statistics.median(seconds), min(seconds), max(seconds)))
    gigabytes = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    return Row(work, way, median, low, high, speed, None, gigabytes, ready)


def wait(device: str) -> None:
    """Wait until the device has done all work."""
    if device == "cuda":
        torch.cuda.synchronize()


def forget(device: str) -> None:
    """Free what the way before has left."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


class Operations(TorchDispatchMode):
    """A counter of the operations that Python queues."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [x for x in (result if isinstance(result, tuple | list) else [result]) if isinstance(x, Tensor)]
        if not getattr(func, "is_view", False) and tensors:
            self.counts[str(func)] += 1
        return result


def count_operations() -> list[list[str]]:
    """Return what a step of each size queues: operations of an ordinary step, and of one that is recorded once."""
    rows = []
    for size in ("base", "mini"):
        batches = random_batches(60, VOCABULARY, 2)
        cells = [size]
        for records in (False, True):
            with kernels.without(*kernels.KERNELS):
                _, step = our_step(batches, Shape(size, VOCABULARY), "paper", "cpu", records, "float32")
                step(0)
                with Operations() as operations:
                    step(1)
            cells.append(f"{operations.counts.total():,}")
        rows.append(cells)
    return rows


def train_recipe(data: Path) -> list[list[str]]:
    """Train the built-in recipe from nothing; return its steps, its minutes with preparing, and its scores."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        overrides = [f"data.folder={data.absolute()}"]
        result = dragoman.train("tatoeba-en-it", overrides=overrides, runs=folder, device="cuda")
        minutes = (time.perf_counter() - start) / 60
    scores = [str(score) for evaluation in result.evaluations for score in evaluation.scores.values()]
    return [[f"{result.steps:,}", f"{minutes:.1f}", *scores]]


def main() -> int:
    parser = new_parser(__doc__)
    parser.add_argument("--model", type=Path, help="a run or model folder to translate with")
    parser.add_argument("--lines", type=int, default=2_000)
    parser.add_argument("--train", type=Path, help="the folder of data to train tatoeba-en-it with")
    parser.add_argument("--count", action="store_true", help="count what Python queues in a step")
    parser.add_argument("--try", dest="tries", action="store_true", help="tiny sizes on a processor")
    arguments = parser.parse_args()
    if arguments.count:
        print(
            markdown(["size", "operations of a step", "of a recorded step, replayed by two calls"], count_operations())
        )
        return 0
    if not torch.cuda.is_available() and not arguments.tries:
        print("skipped: benchmarks/gpu.py needs a CUDA device, and torch finds none")
        return 0
    if arguments.train is not None:
        if not arguments.train.is_dir():
            print(f"skipped: {arguments.train} is no folder; dragoman prepare-data makes it")
            return 0
        print(markdown(["steps", "minutes, preparing included", "BLEU", "chrF"], train_recipe(arguments.train)))
        return 0
    device, tokens = ("cpu", 100) if arguments.tries else ("cuda", 24_576)
    where = describe() if arguments.tries else f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    sizes = ["mini"] if arguments.tries else ["base", "mini"]
    rows = [row for size in sizes for row in time_steps(size, tokens, device)]
    try:
        if arguments.model is not None:
            rows += time_translating(arguments.model, arguments.lines, device)
    except Error as error:
        report(str(error))
    print(where)
    print(markdown(COLUMNS, [row.cells() for row in rows]))
    write_figures(arguments.out, device=where, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
