"""One stretch of training: from the newest checkpoint, or from fresh weights, to the end or to a request to stop."""

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dragoman import kernels, machine
from dragoman.config import flatten
from dragoman.data.batch import Batch, BatchSize
from dragoman.data.batching import Batches
from dragoman.errors import CheckpointError, DecodeError, DiskFull, Interrupted, OutOfMemory
from dragoman.files import write_json
from dragoman.memory import memory_bytes, usable_memory_bytes
from dragoman.model import EncoderDecoder, LanguageModel, ModelConfig, build_model, count_weights
from dragoman.progress import Advance
from dragoman.recipe.recipe import Recipe
from dragoman.runs.card import model_card
from dragoman.runs.data import RunData, training_batches
from dragoman.runs.metrics import Journal
from dragoman.runs.place import Workplace
from dragoman.runs.signals import stop_on_signals
from dragoman.runs.validation import Measured, Validation
from dragoman.store import load_model, named_weights, place_weights, save_model
from dragoman.training import Chore, Every, TrainSettings, TrainState, run_steps
from dragoman.training.checkpoint import newest_checkpoint, read_facts, restore, save_checkpoint
from dragoman.training.loop import StepReport
from dragoman.training.optimiser import MasterWeights
from dragoman.training.settings import HARMLESS

CHECKPOINTS, BEST, FINAL, DIVERGED = "checkpoints", "best", "final", "diverged.json"
RENEWED = {f"train.{name}" for name in ("steps", "continued_from", "learning_rate", "warmup_steps", "validate_every")}
"""Settings that the new steps of a finished run may have otherwise than those before."""
MIB = 2**20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OnDevice:
    """Batches of a corpus, brought to a device."""

    batches: Batches
    device: str

    def epoch(self, number: int) -> Any:
        return self.batches.epoch(number)

    def batch(self, indices: Any) -> Batch:
        return self.batches.batch(indices).to(self.device)

    def size_of(self, indices: Any) -> BatchSize:
        return self.batches.size_of(indices)


def refuse_too_large(config: ModelConfig, device: str) -> None:
    """Refuses, by arithmetic and before anything is built, a model whose training cannot fit in this machine's memory:
    its weights, gradients and at least one moment, float32 each; on a GPU, its weights while they are made on the host.
    Vocabularies that are not known yet count for nothing.

    Raises:
        OutOfMemory: it cannot.
    """
    sizes = {side: getattr(config, side) or 5 for side in ("source_vocabulary", "target_vocabulary")}
    weights, limit = count_weights(config.model_copy(update=sizes)), usable_memory_bytes()
    least = weights * (12 if device == "cpu" else 4)
    if limit is not None and least > limit:
        raise OutOfMemory(
            f"the model would have {weights:,} weights, and training it would take {least / 2**30:,.1f} GiB or more, "
            f"but this process may hold {limit / 2**30:,.1f} GiB; lower model.encoder_layers, model.decoder_layers, "
            "model.d_model or model.d_ff, or take a smaller model.size"
        )


def fresh_state(
    recipe: Recipe, device: str, resumed: bool = False
) -> tuple[EncoderDecoder | LanguageModel, TrainState]:
    """A model before its first step: new weights, or those of the model it starts from (unneeded where `resumed`)."""
    settings = recipe.train
    refuse_too_large(recipe.model, device)
    model = build_model(recipe.model, settings.seed)
    if recipe.start is not None and not resumed:
        place_weights(model, named_weights(load_model(recipe.start.model).model))
    model.to(device)
    precision = "bf16" if settings.precision == "bf16" else "float32"
    masters = MasterWeights(
        model, precision, settings.optimiser, settings.betas, settings.epsilon, settings.weight_decay
    )
    masters.attach(model)
    return model, TrainState(masters)


class Session:
    """What the chores of one stretch of training share."""

    def __init__(self, place: Workplace, recipe: Recipe, run_data: RunData) -> None:
        self.recipe, self.run_data = recipe, run_data
        self.folder, device, anyway, self.progress, self.world = place
        self.device = device
        self.identity = {**run_data.identity, **decisive_settings(recipe)}
        compiled = device == "cpu" and kernels.available()
        self.envelope = machine.envelope(
            threads=machine.threads(),
            world_size=self.world.size,
            precision=recipe.train.precision,
            compiled=compiled,
            device=device,
        )
        checkpoint = newest_checkpoint(self.folder / CHECKPOINTS)
        self.model, self.state = fresh_state(recipe, device, resumed=checkpoint is not None)
        if checkpoint is not None:
            self._resume(checkpoint, anyway)
        self.world.share(checkpoint and str(checkpoint))
        self.validation = Validation(recipe, run_data, device) if run_data.dev is not None else None
        self.journal = Journal(self.folder, self.state.step)
        self.started, self.tokens = time.monotonic(), 0
        self.unwritten: dict[str, type[Exception]] = {}
        """What could not be written when it was last tried, and the kind of reason."""

    def run(self) -> TrainState:
        """Trains to the end.

        Raises:
            Interrupted: stopped on request; a checkpoint is saved, and the same command goes on.
            DiskFull, CheckpointError: stopped on request, but what was trained last cannot be saved.
            Diverged: the gradients were not finite many times in a row; the batch is kept in `diverged.json`.
        """
        settings, steps = self.recipe.train, self.recipe.train.steps
        assert steps is not None, "resolved before training"
        batches = OnDevice(training_batches(self.run_data, self.recipe), self.device)
        with self.journal, self.progress.track("train", steps, "steps") as advance, stop_on_signals() as stop:
            advance(self.state.step)
            chores = [
                Chore(Every(steps=1), partial(self._log, advance)),
                Chore(Every(steps=settings.validate_every, at_end=True), partial(self._validate, advance)),
                Chore(Every(settings.save_every, settings.save_minutes), self._save_if_possible),
            ]

            def is_enough() -> bool:
                return stop() or is_over(self.state, settings)

            run_steps(self.model, batches, settings, self.state, chores, is_enough, self.world)
            if not is_over(self.state, settings):
                self._save()
                again = f"dragoman train {self.folder}"
                if self.world.size > 1:
                    again = f"torchrun … -m {again}, in as many processes"
                raise Interrupted(f"stopped at step {self.state.step:,} of {steps:,}; go on with: {again}")
            self._save_if_possible()
            self.journal.secure()
        self._finish()
        return self.state

    def _resume(self, checkpoint: Path, anyway: bool) -> None:
        facts, settings = read_facts(checkpoint), self.recipe.train
        then, now = facts["identity"], self.identity
        if facts["step"] < (settings.continued_from or 0):
            raise CheckpointError(
                f"{checkpoint} is older than step {settings.continued_from:,}, from which the run is trained on, and "
                "the checkpoint of that step is damaged or missing; put it back, or use --fresh to start again"
            )
        trained_on = facts["step"] == settings.continued_from
        if trained_on:
            then, now = ({key: each[key] for key in each.keys() - RENEWED} for each in (then, now))
        if changes := _differences(then, now):
            raise CheckpointError(
                f"{checkpoint} belongs to other data, another tokenizer or other settings ({changes}); "
                "put back what was changed, or use --fresh to start again"
            )
        if (changes := _differences(facts["envelope"], self.envelope)) and not anyway and not trained_on:
            raise CheckpointError(
                f"{checkpoint} was made elsewhere, and going on here would not end in the same weights "
                f"({changes}); use --anyway to go on all the same, or --fresh to start again"
            )
        pick_up(checkpoint, self.state, settings)
        log.info("going on from step %s (%s)", f"{self.state.step:,}", checkpoint.name)

    def _log(self, advance: Advance, _state: TrainState, report: StepReport) -> None:
        self.tokens += report.tokens
        self.journal.write(
            report.step,
            loss=report.loss,
            plain_loss=report.plain_loss,
            learning_rate=report.rate,
            gradient_norm=report.norm,
            tokens=report.tokens,
            seconds=round(report.seconds, 4),
        )
        memory = memory_bytes()
        facts = {"memory": f"{memory / MIB:,.0f} MiB"} if memory else {}
        rate = self.tokens / max(1e-9, time.monotonic() - self.started)
        advance(1, loss=f"{report.plain_loss:.2f}", tokens=f"{rate:,.0f}/s", **facts)
        if self.state.skipped_in_a_row:
            log.warning("step %d skipped: its gradient is not finite", report.step)
            pairs = [list(map(int, batch.pairs)) for batch in report.batches]
            with self._done_without(DIVERGED):
                write_json(self.folder / DIVERGED, {"step": report.step, "pairs": pairs})

    def _validate(self, advance: Advance, state: TrainState, _report: StepReport) -> None:
        if self.validation is not None:
            self._measure(self.validation, advance, state)
        self.world.share(state.validations_since_best)  # the other processes wait for what patience depends on

    def _measure(self, validation: Validation, advance: Advance, state: TrainState) -> None:
        state.validations_since_best += 1
        try:
            found = validation.measure(state.weights)
        except DecodeError as error:  # weights on their way out of the finite numbers; the loop judges them
            log.warning("step %s is not validated: %s", f"{state.step:,}", error)
            return
        self.journal.write(state.step, **found.facts)
        advance(0, dev=f"{found.loss:.2f} BLEU {found.bleu:.1f} chrF {found.chrf:.1f}")
        scores = f"dev loss {found.loss:.3f}, BLEU {found.bleu:.1f}, chrF {found.chrf:.1f}"
        samples = "".join(_sample(sample) for sample in found.samples)
        log.info("step %s: %s (greedy, %d sentences)%s", f"{state.step:,}", scores, len(validation.pairs), samples)
        if state.best_score is None or found.chrf > state.best_score:
            with self._done_without("the best model"):
                self._save_model(BEST, found)
                state.best_score, state.best_step, state.validations_since_best = found.chrf, state.step, 0

    def _save_if_possible(self, *_: object) -> None:
        with self._done_without("a checkpoint"):
            self._save()

    def _save(self) -> None:
        self.journal.secure()
        save_checkpoint(
            self.folder / CHECKPOINTS,
            self.state,
            self.model,
            self.run_data.tokenizers,
            self.run_data.languages,
            self.identity,
            self.envelope,
            self.recipe.train.keep_checkpoints,
        )

    @contextmanager
    def _done_without(self, what: str) -> Generator[None]:
        """If `what` cannot be written in the middle of training, training goes on with what was written before, and
        warns: once, and again only after it could be written, or for another reason.

        Weights that are not finite cannot be written either; if they stay so, the loop ends the run.
        """
        try:
            yield
        except (DiskFull, CheckpointError) as error:
            if self.unwritten.get(what) is not type(error):
                log.warning("%s; training goes on", str(error).partition(";")[0])
            self.unwritten[what] = type(error)
        else:
            if self.unwritten.pop(what, None):
                log.info("step %s: %s could be written again", f"{self.state.step:,}", what)

    def _finish(self) -> None:
        self._save_model(FINAL, None)
        if not (self.folder / BEST).exists():
            self._save_model(BEST, None)

    def _save_model(self, name: str, found: Measured | None) -> None:
        save_model(
            self.folder / name,
            self.model,
            self.run_data.tokenizers,
            self.run_data.languages,
            self.recipe.decode.model_dump(mode="json", exclude_none=True),
            model_card(self.recipe, self.run_data, self.state, found),
            self.state.weights,
            replace=True,
        )


def is_over(state: TrainState, settings: TrainSettings) -> bool:
    """Whether all steps are done, or patience has ended."""
    assert settings.steps is not None, "resolved before training"
    impatient = settings.patience is not None and state.validations_since_best >= settings.patience
    return state.step >= settings.steps or impatient


def pick_up(checkpoint: Path, state: TrainState, settings: TrainSettings) -> None:
    """Brings back the state of a checkpoint. The patience of a finished run that is trained on begins anew."""
    restore(checkpoint, state)
    if state.step == settings.continued_from:
        state.validations_since_best = 0


def decisive_settings(recipe: Recipe) -> dict[str, Any]:
    """The settings that decide the weights once data and tokenizer are made; a resumed run must find them unchanged."""
    groups = recipe.model_dump(mode="json", include={"model", "batches", "train"})
    groups["train"] = {name: value for name, value in groups["train"].items() if name not in HARMLESS}
    return flatten(groups)


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    then, now = flatten(then), flatten(now)
    return "; ".join(
        f"{name}: {then.get(name)!r} then, {now.get(name)!r} now"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    )


def _sample(sample: tuple[str, str, str]) -> str:
    source, reference, translation = sample
    return f"\n  source      {source}\n  reference   {reference}\n  translation {translation}"
