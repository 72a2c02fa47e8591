"""Classifiers and taggers as tasks: texts with a label, or words with a label each, and scores on held-out text."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from dragoman.data.batching import LabelledBatch, LabelledBatches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_labelled
from dragoman.errors import DecodeError, Error
from dragoman.evaluating.baselines import classify_baselines, tag_baselines
from dragoman.evaluating.confusion import draw_confusion
from dragoman.evaluating.label_metrics import Labelled, marks_ends
from dragoman.evaluating.labels_evaluation import (
    MOST_PROBABLE,
    LabelEvaluation,
    compare_with_better,
    evaluate_labels,
    judge_baselines,
)
from dragoman.evaluating.metrics import SAMPLES
from dragoman.evaluating.scores import write_scores
from dragoman.files import sha256, write_file
from dragoman.inference.labels import Transitions, best_labels, expected_calibration_error, fit_temperature
from dragoman.inference.predictor import Predictor, project, softmax
from dragoman.languages import is_spaceless
from dragoman.model.transformer import EncoderModel
from dragoman.runs.choices import TextFacts
from dragoman.runs.task import Task, Validated
from dragoman.store.description import ModelFiles
from dragoman.text.prepare import prepare_labelled
from dragoman.text.prepared import evenly_spaced, read_examples, read_tagged
from dragoman.text.report import LabelledReport, read_labelled_report
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizer

SHOWN = 3
"""Number of held-out texts that the log shows of a validation, wrong ones first."""
LONGEST_SHOWN = 100
"""Most characters of a text that are shown."""
SAMPLED_TEXTS = 1_000
"""Number of texts by which their script is judged."""
VALID_SEQUENCE = "the most probable valid labels"
ADVICE = "more text or a model to start from (start.model) may help"

NOT_BIO = (
    "the labels look like BIOES or BILOU: they are scored as plain labels, without F1 of entities, and no valid "
    "sequence is searched; convert them to BIO for both"
)

log = logging.getLogger(__name__)

Example = tuple[Sequence[str], Sequence[str]]
"""A text and its label, or words and a label for each, as two sequences of equal length."""


class LabelledTask(Task):
    """The task of labelling texts or words. The best model has the highest dev accuracy, or F1 of entities."""

    @property
    def kind(self) -> Literal["classify", "tag"]:
        """Unit that gets a label: each text (classify), or each word (tag)."""
        return "tag" if self.recipe.task == "tag" else "classify"

    def prepare(self) -> None:
        prepare_labelled(self.recipe.data, self.kind, self.run.data, self.progress)

    @cached_property
    def report(self) -> LabelledReport:
        return read_labelled_report(self.run.data)

    def text_facts(self) -> TextFacts:
        """Return the number of texts and the share in scripts without spaces; log the extreme counts of labels."""
        count, labels = self.report.splits["train"].examples, self.report.labels.values()
        if self.kind == "classify":
            log.info("the most frequent label has %s texts, the rarest %s", f"{max(labels):,}", f"{min(labels):,}")
        sample = [" ".join(parts) for parts, _ in evenly_spaced(self.examples("train"), count, SAMPLED_TEXTS)]
        spaceless = sum(map(is_spaceless, sample)) / max(1, len(sample))
        return TextFacts(count, spaceless=spaceless)

    @cached_property
    def labels(self) -> Labels:
        return Labels(task=self.report.task, names=tuple(self.report.labels))

    def examples(self, split: str) -> Iterator[Example]:
        """Return the examples of one split of the text."""
        return read_labelled(self.run.data, self.report.task, split)

    @cached_property
    def dev_examples(self) -> list[Example]:
        """Examples of the dev set, without empty texts and those whose labels no training text has."""
        known = set(self.labels.names)
        return [example for example in self.examples("dev") if known.issuperset(example[1]) and any(example[0])]

    def encode(self) -> Self:
        if marks_ends(self.labels):
            log.warning("%s", NOT_BIO)
        return super().encode()

    def encode_split(self, name: str, tokenizers: Tokenizers, folder: Path) -> EncodedCorpus:
        examples = self.dev_examples if name == "dev" else self.examples(name)
        return encode_labelled(examples, tokenizers.source, self.labels, folder, self.progress)

    @property
    def has_dev(self) -> bool:
        return bool(self.dev_examples)

    def learn_tokenizers(self) -> Tokenizers:
        texts = (part for parts, _ in self.examples("train") for part in parts)
        tokenizer = learn_tokenizer(texts, self.recipe.tokenizer, self.progress, self.report.language)
        return Tokenizers(tokenizer, tokenizer)

    def batches_of(self, corpus: EncodedCorpus, seed: int | None = None) -> LabelledBatches:
        return LabelledBatches(super().batches_of(corpus, seed))

    @cached_property
    def _dev_batches(self) -> list[LabelledBatch]:
        batches = self.batches_of(self.dev)
        return [batches.batch(indices) for indices in batches.epoch(0)]

    def measure(self, model: EncoderModel) -> Validated:
        rows, logits, gold = self._logits(model)
        if not logits.isfinite().all():
            raise DecodeError("the model's outputs on held-out text are not finite; its weights are damaged")
        loss = float(torch.nn.functional.cross_entropy(logits, gold))
        evaluation = self._evaluate(rows, logits)
        scores = {name: score.value for name, score in evaluation.scores.items()}
        best = "f1" if self.labels.bio else "accuracy"
        named = ", ".join(f"{score.name} {score.printed}" for score in evaluation.scores.values())
        return Validated(
            score=scores[best] - min(loss, 10.0) / 1_000,  # among equal ones the likelier model
            facts={"dev_loss": loss, "dev_temperature": fit_temperature(logits, gold)}
            | {f"dev_{name}": value for name, value in scores.items()},
            summary=f"loss {loss:.3f}, {named}",
            brief=f"{loss:.2f} {evaluation.scores[best].name} {scores[best]:.1f}",
            samples=self._samples(rows, evaluation),
            quality=f"On the dev set: {named}.\n",
        )

    @torch.inference_mode()
    def _logits(self, model: EncoderModel) -> tuple[list[int], Tensor, Tensor]:
        """Return the rows of the dev set in the order of the corpus, with logits (M, C) and gold labels (M)."""
        model.eval()
        parts: dict[int, tuple[Tensor, Tensor]] = {}
        for batch in self._dev_batches:
            rows = batch.pairs.tolist()
            logits, counts = project(model, batch.to(self.device)).cpu(), self._counts(rows)
            for row, row_logits, gold in zip(rows, logits.split(counts), batch.labels.split(counts), strict=True):
                parts[row] = row_logits, gold
        rows = sorted(parts)
        return rows, torch.cat([parts[row][0] for row in rows]), torch.cat([parts[row][1] for row in rows])

    def _counts(self, rows: Sequence[int]) -> list[int]:
        return [len(self.dev_examples[row][1]) for row in rows]

    def _evaluate(self, rows: Sequence[int], logits: Tensor) -> LabelEvaluation:
        transitions = Transitions.of(self.labels)
        row_log_probs = logits.log_softmax(-1).split(self._counts(rows))
        answers = [[self.labels.names[i] for i in best_labels(row, transitions)] for row in row_log_probs]
        gold = [list(self.dev_examples[row][1]) for row in rows]
        return evaluate_labels(self.labels, gold, answers, system="dev", test="dev", sha256="", samples=0)

    def _samples(self, rows: Sequence[int], evaluation: LabelEvaluation) -> str:
        """Return a few texts with the predicted labels, wrong ones first."""
        order = sorted(
            range(len(evaluation.gold)), key=lambda row: list(evaluation.gold[row]) == list(evaluation.predicted[row])
        )
        lines = []
        for row in order[:SHOWN]:
            sample = (self.dev_examples[rows[row]][0], evaluation.gold[row], evaluation.predicted[row])
            text, gold, answer = (" ".join(words)[:LONGEST_SHOWN] for words in sample)
            lines.append(f"  {text} → {answer} (right: {gold})")
        return "\n".join(lines)

    @property
    def model_files(self) -> ModelFiles:
        """Tokenizer, labels and framing."""
        return ModelFiles(self.corpora.tokenizers, framing=self.framing, labels=self.labels)

    def files(self, weights: int, steps: int, tokens: int, validated: Validated | None) -> ModelFiles:
        """Return the files as for any task; the labels get the temperature that validation found."""
        files = super().files(weights, steps, tokens, validated)
        if validated is None:
            return files
        return files._replace(labels=self.labels.but(temperature=validated.facts["dev_temperature"]))

    def card(self, weights: int, training: str, quality: str) -> str:
        labels, texts = self.labels, self.report.splits["train"].examples
        made = self.made_with("An encoder-only Transformer", self.recipe.model.encoder_layers, weights)
        return (
            f"# {'Classifier' if labels.task == 'classify' else 'Tagger'}\n\n"
            f"{made} It knows {labels.size} labels: "
            f"{', '.join(labels.names[:20])}{', …' if labels.size > 20 else ''}.\n\n"
            f"Trained on {texts:,} texts of {self.text_name(self.report.name)}, {training}.\n\n"
            f"{quality}\n"
            f'    dragoman predict FOLDER "…"\n'
        )

    def score(self) -> tuple[LabelEvaluation, ...]:
        """Score the best model and simple baselines, and draw the confusions. Warn if a baseline is better."""
        models, baselines = list[LabelEvaluation](), list[LabelEvaluation]()
        tests = [name for name, split in self.report.splits.items() if split.examples and name not in ("train", "dev")]
        train = list(self.examples("train"))
        predictor = Predictor.load(self.run.best, self.device, progress=self.progress)
        with self.progress.track("score", unit="systems") as advance:
            for name in tests:
                test, path = list(self.examples(name)), self.run.split(name)
                model = evaluate_predictor(predictor, test, path, system=str(self.run.best))
                rivals = judge_baselines(model, _baselines(self.kind, train, test))
                advance(1 + len(rivals))
                models.append(model)
                baselines += rivals
                for ahead in compare_with_better(model, rivals):
                    place = "beats this model" if ahead.better else "is level with this model, and far cheaper,"
                    log.warning("a baseline %s on %s: %s; %s", place, path.name, ahead, ADVICE)
        write_scores(self.run.scores, models, baselines=baselines)
        for model in models[:1]:
            self._draw(model)
        return (*baselines, *models)

    def _draw(self, evaluation: LabelEvaluation) -> None:
        try:
            write_file(self.run.confusion, draw_confusion(evaluation.confusion))
            log.info("confusions: %s", self.run.confusion)
        except Error as error:
            log.info("the confusions are not drawn: %s", error)


def read_labelled(data: Path, task: str, split: str) -> Iterator[Example]:
    """Yield the examples of one split of prepared labelled text."""
    if task == "tag":
        yield from read_tagged(data, split)
    else:
        yield from (([text], [label]) for text, label in read_examples(data, split))


def evaluate_predictor(
    predictor: Predictor, test: Sequence[Example], path: Path, system: str, samples: int = SAMPLES
) -> LabelEvaluation:
    """Score a classifier or tagger on labelled text."""
    labels, off = predictor.stored.labels, None
    if labels.task == "tag":
        answers = [[choice.name for choice in choices] for choices in predictor.tag([words for words, _ in test])]
    else:
        logits = predictor.text_logits([parts[0] for parts, _ in test])
        answers = [[labels.names[best]] for best in np.argmax(logits, axis=1)]
        off = 100 * _calibration_error(labels, logits, [names[0] for _, names in test])
    gold = [list(names) for _, names in test]
    digest = sha256(path) if path.is_file() else hashlib.sha256(json.dumps(test).encode()).hexdigest()  # of the hub
    facts = {"system": system, "test": path.name, "sha256": digest, "samples": samples}
    search = f"{VALID_SEQUENCE if labels.bio else MOST_PROBABLE}, {predictor.precision} on {predictor.device}"
    return replace(evaluate_labels(labels, gold, answers, search=search, **facts), calibration_error=off)


def _calibration_error(labels: Labels, logits: np.ndarray, gold: Sequence[str]) -> float:
    """Return the calibration error in per cent; a label that the model never predicts is always a mistake."""
    ids = torch.tensor([labels.id_of(name) if name in labels.names else -1 for name in gold])
    return expected_calibration_error(torch.from_numpy(softmax(logits / labels.temperature)), ids)


def _baselines(kind: str, train: Sequence[Example], test: Sequence[Example]) -> Mapping[str, Labelled]:
    """Return the predictions of simple methods, trained in seconds on the same text."""
    if kind == "tag":
        return tag_baselines(train, test)
    pairs = [[(parts[0], label[0]) for parts, label in split] for split in (train, test)]
    return classify_baselines(*pairs)
