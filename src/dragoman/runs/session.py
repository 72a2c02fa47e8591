"""One session of training: from the newest checkpoint, or from fresh weights, to the end or to a request to stop.

Every process of a run executes the same lines; only the first validates, writes files and prints. A run resumes only
from a checkpoint with the same data, tokenizer, settings and machine.
"""

import logging
import math
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dragoman import system
from dragoman.compiled import kernels
from dragoman.config import differences, flatten
from dragoman.errors import CheckpointError, DecodeError, DiskFull, Interrupted
from dragoman.memory import memory_bytes, report_memory
from dragoman.model.adapters import merged
from dragoman.model.shapes import count_weights
from dragoman.model.transformer import AnyModel
from dragoman.progress import Advance
from dragoman.runs.metrics_log import MetricsLog
from dragoman.runs.signals import stop_on_signals
from dragoman.runs.starting import adapter_for, fresh_state, training_memory
from dragoman.runs.task import Task, Validated
from dragoman.serialization import write_json
from dragoman.store.description import Adapter, ModelFiles
from dragoman.store.saving import save_model
from dragoman.training.checkpoint import TrainState, newest_checkpoint, read_checkpoint_facts, restore, save_checkpoint
from dragoman.training.distributed import World
from dragoman.training.freezing import count_trained
from dragoman.training.loop import Every, StepReport, Trainer
from dragoman.training.settings import CHANGEABLE_ON_RESUME, TrainSettings

log = logging.getLogger(__name__)

MIB = 2**20
ADVICE = "lower batches.batch_tokens, set train.gradient_checkpointing=true, or fine-tune with --lora or --freeze"


class Session:
    """Model, state and task of one session of training. `begin` makes one; `train` runs it."""

    def __init__(
        self,
        task: Task,
        model: AnyModel,
        state: TrainState,
        envelope: Mapping[str, Any],
        adapter: Adapter | None,
        world: World,
        command: str,
    ) -> None:
        self.task, self.envelope, self.world = task, envelope, world
        self.run, self.recipe, self.settings = task.run, task.recipe, task.recipe.train
        self.model, self.state, self.adapter = model, state, adapter
        self.command = command
        self.metrics: MetricsLog | None = None
        self.started, self.tokens = 0.0, 0
        self.unwritten: dict[str, type[Exception]] = {}
        """Things that could not be written at the last attempt, and the types of the errors."""

    @classmethod
    def begin(cls, task: Task, world: World, anyway: bool, command: str) -> "Session":
        """Begin a session at the newest undamaged checkpoint, or before the first step. With `anyway`, the checkpoint
        may come from another machine. The `command` continues the run after it was stopped.
        """
        recipe = task.recipe
        envelope = system.envelope(
            threads=torch.get_num_threads(),
            world_size=world.size,
            precision=recipe.train.precision,
            compiled=task.device == "cpu" and kernels.available(),
            device=task.device,
        )
        checkpoint = world.share(lambda: newest_checkpoint(task.run.checkpoints))
        adapter = adapter_for(recipe)
        if world.is_first and task.device == "cpu":
            report_memory("training", {"the program": memory_bytes() or 0, **training_memory(recipe)}, ADVICE)
        model, state = fresh_state(recipe, task.device, checkpoint is not None, task.corpora.tokenizers)
        session = cls(task, model, state, envelope, adapter, world, command)
        if recipe.start is not None:
            log.info("%s", count_trained(model))
        if checkpoint is not None:
            session._resume(checkpoint, anyway)
        return session

    def train(self) -> TrainState:
        """Train to the end, and save the final model and the best one.

        Raises:
            Interrupted: stopped on request; a checkpoint is saved, and the same command continues.
            DiskFull, CheckpointError: stopped on request, but the last steps cannot be saved.
            Diverged: the gradients were not finite many times in a row; `diverged.json` names the last pairs.
        """
        track = self.task.progress.track("train", self.steps, "steps")
        with self._metrics(), track as advance, stop_on_signals() as stop:
            advance(self.state.step)
            self.started = time.monotonic()
            callbacks = [
                (Every(steps=self.settings.validate_every, at_end=True), partial(self._validate, advance)),
                (Every(self.settings.save_every, self.settings.save_minutes), self._save_if_possible),
            ]
            log_step = partial(self._log, advance)
            trainer = Trainer(self.model, self.task.objective, self.settings, self.state, self.world, log_step)
            trainer.run(callbacks, lambda: stop.is_set() or self._is_over())
            if self._is_over():
                self._save_if_possible()
            if self.world.any(stop.is_set()):  # also if the request came in the last step or later
                self._save()
                again = self.command
                if self.world.size > 1:
                    again = f"torchrun … -m {again}, with the same number of processes"
                raise Interrupted(f"stopped at step {self.state.step:,} of {self.steps:,}; continue with: {again}")
            if self.metrics is not None:
                self.metrics.secure()
        if self.world.is_first:
            self._save_model(self.run.final, None)
            if not self.run.best.exists():
                self._save_model(self.run.best, None)
        return self.state

    def _metrics(self) -> AbstractContextManager[Any]:
        if not self.world.is_first:
            return nullcontext()
        self.metrics = MetricsLog(self.run, self.state.step)
        return self.metrics

    def _resume(self, checkpoint: Path, anyway: bool) -> None:
        if self.world.is_first:
            refuse_other_checkpoint(checkpoint, self.identity, self.envelope, self.settings, anyway)
        restore(checkpoint, self.state)
        if self.state.step == self.settings.continued_from:
            self.state.validations_since_best = 0  # when a finished run is trained further, its patience starts again
        log.info("continuing from step %s (%s)", f"{self.state.step:,}", checkpoint.name)

    @property
    def identity(self) -> dict[str, Any]:
        """Facts that must be unchanged when the run resumes: data, tokenizer, and settings that decide the weights."""
        base = {} if self.adapter is None else {"base model": self.adapter.sha256}
        groups = self.recipe.model_dump(mode="json", include={"model", "batches", "variation", "train", "tuning"})
        groups["train"] = {name: value for name, value in groups["train"].items() if name not in CHANGEABLE_ON_RESUME}
        return {**self.task.identity, **base, **flatten(groups)}

    @property
    def steps(self) -> int:
        """Number of steps of the whole run."""
        assert self.settings.steps is not None, "resolved before training"
        return self.settings.steps

    def _is_over(self) -> bool:
        """Return True if all steps are done, or patience has run out."""
        patience = self.settings.patience
        impatient = patience is not None and self.state.validations_since_best >= patience
        return self.state.step >= self.steps or impatient

    def _log(self, advance: Advance, report: StepReport) -> None:
        if self.metrics is None:
            return
        self.tokens += report.tokens
        self.metrics.write(
            report.step,
            loss=report.loss,
            plain_loss=report.plain_loss,
            learning_rate=report.rate,
            gradient_norm=report.norm,
            tokens=report.tokens,
            seconds=round(report.seconds, 4),
        )
        memory = memory_bytes(self.task.device)
        facts = {"memory": f"{memory / MIB:,.0f} MiB"} if memory else {}
        rate = self.tokens / max(1e-9, time.monotonic() - self.started)
        advance(1, loss=f"{report.plain_loss:.2f}", tokens=f"{rate:,.0f}/s", **facts)
        if report.is_skipped:
            log.warning("step %d skipped: its gradient is not finite", report.step)
            pairs = [list(map(int, batch.pairs)) for batch in report.batches]
            with self._tolerate(self.run.diverged.name):
                write_json(self.run.diverged, {"step": report.step, "pairs": pairs})

    def _validate(self, advance: Advance, state: TrainState) -> None:
        if self.metrics is not None:
            self._measure(self.metrics, advance, state)
        # Every process needs this count, because patience depends on it.
        state.validations_since_best = self.world.share(lambda: state.validations_since_best)

    def _measure(self, metrics: MetricsLog, advance: Advance, state: TrainState) -> None:
        try:
            validated = self.task.validate(merged(self.model, state.weights))
        except DecodeError as error:  # the weights are diverging; the loop decides whether the run ends
            log.warning("step %s is not validated: %s", f"{state.step:,}", error)
            state.validations_since_best += 1
            return
        if validated is None:
            return
        state.validations_since_best += 1
        metrics.write(state.step, **validated.facts)
        advance(0, dev=validated.brief)
        log.info("step %s: held-out text: %s", f"{state.step:,}", validated.summary)
        if validated.samples:
            log.log(logging.INFO if state.step == self.steps else logging.DEBUG, "%s", validated.samples)
        if not math.isfinite(validated.score):
            log.warning("step %s cannot be the best: its score is %s", f"{state.step:,}", validated.score)
        elif state.best_score is None or validated.score > state.best_score:
            with self._tolerate("the best model"):
                self._save_model(self.run.best, validated)
                state.best_score, state.best_step, state.validations_since_best = validated.score, state.step, 0

    def _save_if_possible(self, *_: object) -> None:
        with self._tolerate("a checkpoint"):
            self._save()

    def _save(self) -> None:
        if self.metrics is None:
            return
        self.metrics.secure()
        save_checkpoint(
            self.run.checkpoints,
            self.state,
            self.model,
            self._files(None)._replace(generation={}, card=""),
            self.identity,
            self.envelope,
            self.settings.keep_checkpoints,
        )

    @contextmanager
    def _tolerate(self, what: str) -> Generator[None]:
        """Continue training with a warning if `what` cannot be written. Warn again only if the reason changes, or after
        a write succeeded.

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

    def _save_model(self, folder: Path, validated: Validated | None) -> None:
        save_model(folder, self.model, self._files(validated), self.state.weights, replace=True)

    def _files(self, validated: Validated | None) -> ModelFiles:
        files = self.task.files(count_weights(self.recipe.model), self.state.step, self.state.tokens, validated)
        return files._replace(adapter=self.adapter)


RENEWED = {f"train.{name}" for name in ("steps", "continued_from", "learning_rate", "warmup_steps", "validate_every")}
"""Settings that may change when a finished run is trained further."""


def refuse_other_checkpoint(
    checkpoint: Path, identity: Mapping[str, Any], envelope: Mapping[str, Any], settings: TrainSettings, anyway: bool
) -> None:
    """Refuse a checkpoint of other data or settings, or, unless `anyway`, of another machine."""
    facts = read_checkpoint_facts(checkpoint)
    then, now = facts.identity, identity
    if facts.step < (settings.continued_from or 0):
        raise CheckpointError(
            f"{checkpoint} is older than step {settings.continued_from:,}, from which --more trains the run, and "
            "the checkpoint of that step is damaged or missing; put it back, or use --fresh to start again"
        )
    begins_more = facts.step == settings.continued_from
    if begins_more:
        then, now = ({key: facts[key] for key in facts.keys() - RENEWED} for facts in (then, now))
    if changes := differences(then, now):
        raise CheckpointError(
            f"{checkpoint} belongs to other data, another tokenizer or other settings ({changes}); "
            "put back what was changed, or use --fresh to start again"
        )
    if (changes := differences(facts.envelope, envelope)) and not anyway and not begins_more:
        raise CheckpointError(
            f"{checkpoint} was made on another machine or by another version, and continuing here would not end in the "
            f"same weights ({changes}); use --anyway to continue nevertheless, or --fresh to start again"
        )
