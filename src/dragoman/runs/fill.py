"""Filling in masked words as a task: plain text, some of its tokens hidden, and how well they are found again."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

import dragoman
from dragoman.data.batching import LabelledBatch, build_batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_lines
from dragoman.documents import write_json
from dragoman.errors import DecodeError
from dragoman.evaluating.evaluation import FORMAT
from dragoman.evaluating.metrics import Score
from dragoman.files import sha256
from dragoman.inference.predictor import project
from dragoman.model import EncoderModel, StepNoise, build_model
from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.runs.corpus_task import UNMEASURED, CorpusTask, find_corpus, find_tokenizers
from dragoman.runs.labelled import encoder_framing
from dragoman.runs.language_model import TextEvaluation, learn_vocabulary
from dragoman.runs.recipe import Recipe
from dragoman.store import ModelFiles, load_model, place_weights
from dragoman.text.prepared import read_text_lines
from dragoman.text.report import TextReport, read_text_report
from dragoman.text.settings import name_on_card
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.training.masking import MaskedBatches, MaskedTokens, mask
from dragoman.training.objective import CrossEntropy, OnDevice, Validated

SEED = 12_345
"""Of the masks by which weights are measured: always the same ones."""


class FillData(NamedTuple):
    """Lines of plain text, prepared and encoded."""

    report: TextReport
    tokenizers: Tokenizers
    """The same tokenizer on both sides."""
    train: EncodedCorpus
    dev: EncodedCorpus | None
    """None if nothing is held out."""


def gather(run: RunFolder, recipe: Recipe, progress: Progress) -> FillData:
    """Trains a tokenizer and encodes text, unless they are in the run's folder already."""
    report = read_text_report(run.data)
    tokenizers = find_tokenizers(run, recipe, lambda: learn_vocabulary(run, recipe, report, progress))

    def encoded(name: str) -> EncodedCorpus:
        make = partial(encode_split, run.data, name, tokenizers.source, run.corpus(name), recipe, progress)
        return find_corpus(run.corpus(name), tokenizers, make)

    return FillData(report, tokenizers, encoded("train"), encoded("dev") if report.splits["dev"].characters else None)


def encode_split(
    data: Path, name: str, tokenizer: Tokenizer, folder: Path, recipe: Recipe, progress: Progress
) -> EncodedCorpus:
    """Encodes one split of prepared text, line by line."""
    lines = (line.strip() for line in read_text_lines(data, name))
    full = (line for line in lines if line)
    return encode_lines(full, tokenizer, folder, recipe.batches.sentence_tokens, progress)


def start(recipe: Recipe, data: FillData, device: str) -> CorpusTask:
    """The task of a run that learns to fill in masked words. The best model has the lowest loss on the dev text."""
    framing = encoder_framing(recipe)
    order = build_batches(data.train, recipe.batches, recipe.train.seed, framing)
    cross_entropy = CrossEntropy.of(OnDevice(MaskedBatches(order), device), recipe.train)
    objective = MaskedTokens(cross_entropy, data.tokenizers.source.size)
    dev_set = partial(_open_dev_set, recipe, data.dev, device, framing) if data.dev is not None else None
    return CorpusTask(recipe, data, device, dev_set, partial(_files, recipe, data, framing), framing, objective)


def _open_dev_set(recipe: Recipe, dev: EncodedCorpus, device: str, framing: Framing) -> "HeldOut":
    dtype = torch.bfloat16 if recipe.train.precision == "bf16" else torch.float32
    model = build_model(recipe.model, seed=None).to(device, dtype)
    assert isinstance(model, EncoderModel), "the recipe says so"
    return HeldOut(model, dev, recipe, framing)


class HeldOut:
    """Measures any weights of one architecture on held-out text, some of whose tokens are masked."""

    def __init__(self, model: EncoderModel, corpus: EncodedCorpus, recipe: Recipe, framing: Framing) -> None:
        self.model, self.dtype = model, model.output.dtype
        batches, noise = MaskedBatches(build_batches(corpus, recipe.batches, None, framing)), StepNoise(SEED, 0)
        self.batches: list[LabelledBatch] = []
        vocabulary = model.config.source_vocabulary
        assert vocabulary is not None, "a model that is built has a vocabulary"
        for indices in batches.epoch(0):
            size = batches.size_of(indices)
            self.batches.append(mask(batches.batch(indices), noise, vocabulary))
            noise = noise.after(size.source_tokens, size.target_tokens)

    def measure(self, weights: Mapping[str, Tensor]) -> Validated:
        """Validates these weights, in the precision that the model has."""
        place_weights(self.model, {name: weight.to(self.dtype) for name, weight in weights.items()})
        loss, right = self.losses()
        return Validated(
            score=-loss,
            facts={"dev_loss": loss, "dev_accuracy": 100 * right},
            summary=f"loss {loss:.3f}, {right:.1%} of the masked tokens found",
            brief=f"{loss:.2f}, {right:.1%} found",
            quality=f"On the dev text: {right:.1%} of the masked tokens found, {loss:.3f} nats a masked token.\n",
        )

    @torch.inference_mode()
    def losses(self) -> tuple[float, float]:
        """Nats a masked token, and the share of them whose likeliest token is the right one.

        Raises:
            DecodeError: the loss is not finite.
        """
        self.model.eval()
        loss = right = count = 0.0
        for batch in self.batches:
            logits = project(self.model, batch.to(self.model.output.device)).cpu()
            loss += float(torch.nn.functional.cross_entropy(logits, batch.labels, reduction="sum"))
            right += float((logits.argmax(-1) == batch.labels).sum())
            count += len(batch.labels)
        if not math.isfinite(loss):
            raise DecodeError("the model's loss on held-out text is not finite; its weights are damaged")
        return loss / max(1, count), right / max(1, count)


def _files(
    recipe: Recipe, data: FillData, framing: Framing, weights: int, steps: int, tokens: int, found: Validated | None
) -> ModelFiles:
    """Tokenizer, framing and model card."""
    model, train = recipe.model, data.report.splits["train"]
    card = (
        f"# Masked words\n\n"
        f"An encoder-only Transformer ({model.preset}, {model.size}: width {model.d_model}, {model.encoder_layers} "
        f"layers, {weights:,} weights) made with Dragoman {dragoman.__version__}.\n\n"
        f"Trained on {train.characters:,} characters of {name_on_card(recipe.data, data.report.name)}, "
        f"{steps:,} steps, {tokens:,} tokens.\n\n"
        f"{found.quality if found else UNMEASURED}\n"
        f'    dragoman predict FOLDER "The [MASK] barks."\n'
        f"    dragoman train LABELLED_TEXT --set start.model=FOLDER\n"
    )
    return ModelFiles(data.tokenizers, card=card, framing=framing)


def score_run(run: RunFolder, recipe: Recipe, device: str, progress: Progress) -> tuple[TextEvaluation, ...]:
    """Measures the best model of a run on its test text, in float32, and writes `scores.json`. Returns nothing if there
    is no test text.
    """
    test = run.text("test")
    found = ()
    if test.is_file() and test.stat().st_size:
        found = (_score(run, test, recipe, device, progress),)
    evaluations: list[dict[str, Any]] = [each.facts() for each in found]
    write_json(run.scores, {"format": FORMAT, "evaluations": evaluations, "comparisons": []})
    return found


def _score(run: RunFolder, test: Path, recipe: Recipe, device: str, progress: Progress) -> TextEvaluation:
    stored = load_model(run.best)
    model = stored.model.to(device)
    assert isinstance(model, EncoderModel), "the recipe says so"
    with TemporaryDirectory(prefix="dragoman-") as folder:
        corpus = encode_split(run.data, "test", stored.tokenizers.source, Path(folder) / "test", recipe, progress)
        held_out = HeldOut(model, corpus, recipe, stored.files.framing)
        loss, right = held_out.losses()
    masked = sum(len(batch.labels) for batch in held_out.batches)
    facts = f"masked:{masked}|seed:{SEED}|vocabulary:{stored.tokenizers.source.size}|version:{dragoman.__version__}"
    scores = {
        "accuracy": Score("masked tokens found", 100 * right, None, None, f"acc|{facts}", ""),
        "token": Score("nats a masked token", loss, None, None, f"nll|{facts}", ""),
    }
    return TextEvaluation(
        str(run.best), test.name, sha256(test), scores, {"masked tokens": masked}, "the likeliest token"
    )
