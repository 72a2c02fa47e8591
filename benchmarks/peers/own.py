"""Dragoman itself: the step of its own loop, on packed batches."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.compiled import kernels
from dragoman.data.batching import Batch, BatchSize
from dragoman.model.transformer import build_model
from dragoman.training.checkpoint import TrainState
from dragoman.training.loop import Trainer
from dragoman.training.objective import CrossEntropy
from dragoman.training.optimiser import MasterWeights, Precision
from dragoman.training.prefetching import MicroBatch
from dragoman.training.settings import TrainSettings
from peers.contest import BETAS, CLIP, DECAY, EPSILON, RATE, SMOOTHING, Contender, Shape, TextShape, Way


@dataclass(frozen=True)
class BatchList:
    """Ready-made batches, the same in every epoch."""

    batches: Sequence[Batch]

    def epoch(self, _number: int) -> range:
        """Return the index of each batch, in order."""
        return range(len(self.batches))

    def batch(self, index: int) -> Batch:
        """Return the batch at this index."""
        return self.batches[index]

    def size_of(self, index: int) -> BatchSize:
        """Return the sizes of the batch at this index."""
        return self.batches[index].size


def build(batches: Sequence[Batch], shape: Shape | TextShape, way: Way, preset: str) -> Contender:
    """Build our model of a preset, and its step."""
    kernels.prepare()
    trainer = build_trainer(batches, shape, preset, "float32" if way == "float32" else "bf16")
    shares = [MicroBatch(batch.size, batch) for batch in batches]
    return Contender(trainer.model, lambda number: trainer.step([shares[number]]).report().loss)


def build_trainer(
    batches: Sequence[Batch],
    shape: Shape | TextShape,
    preset: str,
    precision: Precision,
    device: str = "cpu",
    records: bool | None = None,
) -> Trainer:
    """Build our model of a preset, and the loop that trains it."""
    model = build_model(shape.config(preset)).to(device).train()
    settings = TrainSettings(
        steps=1_000_000, learning_rate=RATE, schedule="constant", warmup_steps=0, label_smoothing=SMOOTHING,
        clip_norm=CLIP, precision=precision,
    )  # fmt: skip
    masters = MasterWeights(model, precision, "adamw", BETAS, EPSILON, DECAY)
    masters.attach(model)
    objective = CrossEntropy(BatchList(batches), settings.label_smoothing)
    return Trainer(model, objective, settings, TrainState(masters), records=records)
