"""Small models and batches for tests."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from dragoman.config import Settings, check, override, read
from dragoman.data.batching import Batch, BatchSize
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import EncoderDecoder, EncoderModel, LanguageModel, build_model
from dragoman.progress import Advance
from dragoman.training.checkpoint import TrainState
from dragoman.training.loop import Callback, Trainer
from dragoman.training.objective import BatchSource, CrossEntropy, Objective
from dragoman.training.optimiser import MasterWeights
from dragoman.training.settings import TrainSettings

VOCABULARY, START, END = 23, 2, 3

S = TypeVar("S", bound=Settings)
PRESETS = ["paper", "modern"]


def small_config(**settings: Any) -> ModelConfig:
    sizes = {"d_model": 16, "heads": 4, "d_ff": 24, "encoder_layers": 2, "decoder_layers": 2}
    vocabularies = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    if settings.get("family") == "language_model":
        del vocabularies["source_vocabulary"]
    if settings.get("family") == "encoder":
        del vocabularies["target_vocabulary"]
    return ModelConfig(**{**sizes, **vocabularies, **settings})


def translator(seed: int = 1, dtype: torch.dtype = torch.float64, **settings: Any) -> EncoderDecoder:
    """An encoder-decoder in double precision: two roads that differ by more than rounding are two roads."""
    model = build_model(small_config(**settings), seed)
    assert isinstance(model, EncoderDecoder)
    return model.to(dtype)


def language_model(seed: int = 1, dtype: torch.dtype = torch.float64, **settings: Any) -> LanguageModel:
    model = build_model(small_config(family="language_model", **settings), seed)
    assert isinstance(model, LanguageModel)
    return model.to(dtype)


def encoder_model(seed: int = 1, dtype: torch.dtype = torch.float64, **settings: Any) -> EncoderModel:
    """An encoder alone; without `labels` it fills in words."""
    model = build_model(small_config(family="encoder", **settings), seed)
    assert isinstance(model, EncoderModel)
    return model.to(dtype)


def sentences(lengths: Sequence[int], seed: int = 0) -> list[torch.Tensor]:
    """Random ids without special symbols, one tensor a sentence."""
    random = torch.Generator().manual_seed(seed)
    return [torch.randint(4, VOCABULARY, (length,), generator=random) for length in lengths]


def batch_of(sources: Sequence[torch.Tensor] | None, targets: Sequence[torch.Tensor]) -> Batch:
    """Sentences with their special symbols, laid end to end."""
    start, end = torch.tensor([START]), torch.tensor([END])
    framed = None if sources is None else [torch.cat([start, source, end]) for source in sources]
    return Batch(
        source=None if framed is None else torch.cat(framed),
        source_lengths=None if framed is None else torch.tensor([len(source) for source in framed]),
        target=torch.cat([part for target in targets for part in (start, target)]),
        labels=torch.cat([part for target in targets for part in (target, end)]),
        target_lengths=torch.tensor([len(target) + 1 for target in targets]),
        pairs=torch.arange(len(targets)),
    )


def random_batch(source_lengths: Sequence[int], target_lengths: Sequence[int], seed: int = 0) -> Batch:
    return batch_of(sentences(source_lengths, seed), sentences(target_lengths, seed + 1))


@dataclass
class Source:
    """Batches that are there already, every epoch in an order of its own."""

    batches: list[Batch]

    @property
    def tokens(self) -> int:
        return sum(batch.size.tokens for batch in self.batches)

    def epoch(self, number: int) -> list[int]:
        random = torch.Generator().manual_seed(number)
        return torch.randperm(len(self.batches), generator=random).tolist()

    def batch(self, indices: int) -> Batch:
        return self.batches[indices]

    def size_of(self, indices: int) -> BatchSize:
        return self.batches[indices].size


def objective(batches: BatchSource, settings: TrainSettings) -> CrossEntropy:
    return CrossEntropy(batches, settings.label_smoothing)


def few_batches(count: int = 5) -> list[Batch]:
    return [random_batch([3, 5, 2], [4, 1, 6], seed=10 * number) for number in range(count)]


def train_settings(**settings: Any) -> TrainSettings:
    given = {"steps": 10, "learning_rate": 0.01, "warmup_steps": 2, "precision": "float32", "betas": (0.9, 0.98)}
    return TrainSettings(**{**given, **settings})


def fresh_state(model: torch.nn.Module, settings: TrainSettings) -> TrainState:
    precision = "bf16" if settings.precision == "bf16" else "float32"
    masters = MasterWeights(
        model, precision, settings.optimiser, settings.betas, settings.epsilon, settings.weight_decay
    )
    masters.attach(model)
    return TrainState(masters)


def run_steps(
    model: torch.nn.Module,
    objective: Objective,
    settings: TrainSettings,
    state: TrainState,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> None:
    """Train with a `Trainer`, to the last step or until `stop()`."""
    Trainer(model, objective, settings, state, **options).run(callbacks, stop)


def parse(text: str, origin: str, schema: type[S], overrides: Sequence[str] = ()) -> S:
    """TOML text, with overrides `dotted.key=value`, as settings."""
    return check(override(read(text, origin), overrides), origin, schema)


class Counting:
    """A progress that knows how much was told of each piece of work: its total, and what was done."""

    def __init__(self) -> None:
        self.totals: dict[str, int | None] = {}
        self.done: Counter[str] = Counter()

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        self.totals[label] = total

        def advance(count: int = 1, **facts: str) -> None:
            self.done[label] += count

        yield advance
