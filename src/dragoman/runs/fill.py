"""Filling in masked words as a task: plain text, some of its tokens hidden, and the share that a model finds."""

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch

import dragoman
from dragoman.data.batching import LabelledBatch
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_lines
from dragoman.errors import DecodeError
from dragoman.evaluating.metrics import Score
from dragoman.inference.predictor import project
from dragoman.model.dropout import StepKey
from dragoman.model.transformer import EncoderModel
from dragoman.runs.language_model import TextTask
from dragoman.runs.task import Validated
from dragoman.store.description import ModelFiles, StoredModel
from dragoman.text.prepared import read_text_lines
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.training.masking import MaskedBatches, MaskedTokens, mask
from dragoman.training.objective import CrossEntropy

SEED = 12_345
"""Seed of the masks by which weights are measured: always the same ones."""


class FillTask(TextTask):
    """Learns to fill in masked words of plain text. The best model has the lowest loss on the dev text."""

    search = "the likeliest token"

    def encode_split(self, name: str, tokenizers: Tokenizers, folder: Path) -> EncodedCorpus:
        lines = (line.strip() for line in read_text_lines(self.run.data, name))
        full = (line for line in lines if line)
        return encode_lines(full, tokenizers.source, folder, self.recipe.batches.sentence_tokens, self.progress)

    def batches_of(self, corpus: EncodedCorpus, seed: int | None = None) -> MaskedBatches:
        return MaskedBatches(super().batches_of(corpus, seed))

    def make_objective(self, batches: MaskedBatches) -> MaskedTokens:
        cross_entropy = CrossEntropy(batches, self.recipe.train.label_smoothing)
        return MaskedTokens(cross_entropy, self.corpora.tokenizers.source.size)

    @cached_property
    def _dev_batches(self) -> list[LabelledBatch]:
        return self._masked(self.dev)

    def _masked(self, corpus: EncodedCorpus) -> list[LabelledBatch]:
        """Return the batches of a held-out text, with the same tokens masked at every call."""
        batches, dropout_key, masked = self.batches_of(corpus), StepKey(SEED, 0), list[LabelledBatch]()
        vocabulary = self.recipe.model.source_vocabulary
        assert vocabulary is not None, "a model that is built has a vocabulary"
        for indices in batches.epoch(0):
            size = batches.size_of(indices)
            masked.append(mask(batches.batch(indices), dropout_key, vocabulary))
            dropout_key = dropout_key.after(size.source_tokens, size.target_tokens)
        return masked

    def measure(self, model: EncoderModel) -> Validated:
        loss, right = losses(model, self._dev_batches)
        return Validated(
            score=-loss,
            facts={"dev_loss": loss, "dev_accuracy": 100 * right},
            summary=f"loss {loss:.3f}, {right:.1%} of the masked tokens found",
            brief=f"{loss:.2f}, {right:.1%} found",
            quality=f"On the dev text: {right:.1%} of the masked tokens found, {loss:.3f} nats a masked token.\n",
        )

    @property
    def model_files(self) -> ModelFiles:
        """Tokenizer and framing."""
        return ModelFiles(self.corpora.tokenizers, framing=self.framing)

    def card(self, weights: int, training: str, quality: str) -> str:
        made = self.made_with("An encoder-only Transformer", self.recipe.model.encoder_layers, weights)
        return (
            f"# Masked words\n\n{made}\n\n{self.trained_on(training)}\n\n{quality}\n"
            f'    dragoman predict FOLDER "The [MASK] barks."\n'
            f"    dragoman train LABELLED_TEXT --set start.model=FOLDER\n"
        )

    def evaluate(self, stored: StoredModel, corpus: EncodedCorpus) -> tuple[dict[str, Score], dict[str, int]]:
        batches, model = self._masked(corpus), stored.model.to(self.device)
        assert isinstance(model, EncoderModel), "the recipe says so"
        loss, right = losses(model, batches)
        masked = sum(len(batch.labels) for batch in batches)
        facts = f"masked:{masked}|seed:{SEED}|vocabulary:{stored.tokenizers.source.size}|version:{dragoman.__version__}"
        scores = {
            "accuracy": Score("masked tokens found", 100 * right, None, None, f"acc|{facts}", ""),
            "token": Score("nats a masked token", loss, None, None, f"nll|{facts}", ""),
        }
        return scores, {"masked tokens": masked}


@torch.inference_mode()
def losses(model: EncoderModel, batches: Sequence[LabelledBatch]) -> tuple[float, float]:
    """Return the loss in nats a masked token, and the share of masked tokens whose likeliest token is the right one."""
    model.eval()
    loss = right = count = 0.0
    for batch in batches:
        logits = project(model, batch.to(model.output.device)).cpu()
        loss += float(torch.nn.functional.cross_entropy(logits, batch.labels, reduction="sum"))
        right += float((logits.argmax(-1) == batch.labels).sum())
        count += len(batch.labels)
    if not math.isfinite(loss):
        raise DecodeError("the model's loss on held-out text is not finite; its weights are damaged")
    return loss / max(1, count), right / max(1, count)
