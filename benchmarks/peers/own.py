"""Dragoman itself: the step of its own loop, on packed batches."""

from collections.abc import Sequence

from dragoman import kernels
from dragoman.data.batch import Batch
from dragoman.model import build_model
from dragoman.training import TrainSettings, TrainState
from dragoman.training.loop import train_step
from dragoman.training.optimiser import MasterWeights
from peers.contest import BETAS, CLIP, DECAY, EPSILON, RATE, SMOOTHING, Contender, Shape, Way


def build(batches: Sequence[Batch], shape: Shape, way: Way, preset: str) -> Contender:
    kernels.prepare()
    model = build_model(shape.config(preset)).train()
    precision = "float32" if way == "float32" else "bf16"
    settings = TrainSettings(
        steps=1_000_000, learning_rate=RATE, schedule="constant", warmup_steps=0, label_smoothing=SMOOTHING,
        clip_norm=CLIP, precision=precision,
    )  # fmt: skip
    masters = MasterWeights(model, precision, "adamw", BETAS, EPSILON, DECAY)
    masters.attach(model)
    state = TrainState(masters)
    return Contender(model, lambda number: train_step(model, [batches[number]], settings, state).loss)
