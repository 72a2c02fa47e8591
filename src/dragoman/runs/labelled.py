"""Classifiers and taggers as tasks: texts with a label, or words with a label each, and scores on held-out text."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import dragoman
from dragoman.data.batching import LabelledBatches, build_batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_labelled
from dragoman.errors import DecodeError, Error
from dragoman.evaluating.baselines import classify_baselines, tag_baselines
from dragoman.evaluating.confusion import draw_confusion
from dragoman.evaluating.evaluation import write_scores
from dragoman.evaluating.label_metrics import Labelled, marks_ends
from dragoman.evaluating.labels_evaluation import (
    MOST_PROBABLE,
    LabelEvaluation,
    ahead_of,
    evaluate_labels,
    judge_baselines,
)
from dragoman.evaluating.metrics import SAMPLES
from dragoman.files import sha256, write_file
from dragoman.inference.labels import Transitions, best_labels, expected_calibration_error, fit_temperature
from dragoman.inference.predictor import Predictor, project, softmax
from dragoman.model import EncoderModel, build_model
from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.runs.choices import TextFacts
from dragoman.runs.corpus_task import UNMEASURED, CorpusTask, find_corpus, find_tokenizers
from dragoman.runs.recipe import Recipe
from dragoman.store import ModelFiles, find_model, place_weights, read_config
from dragoman.text import prepare as preparing
from dragoman.text.labels import Task
from dragoman.text.prepare import prepare_labelled
from dragoman.text.prepared import read_examples, read_tagged
from dragoman.text.report import LabelledReport, read_labelled_report
from dragoman.text.settings import name_on_card
from dragoman.tokenizing.labels import Labels, class_weights
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizer
from dragoman.training.objective import CrossEntropy, OnDevice, Validated

SHOWN = 4
"""Held-out texts that the log shows at each validation, wrong ones first."""
LONGEST_SHOWN = 100
"""Characters of a text that are shown."""
VALID_SEQUENCE = "the most probable valid labels"
ADVICE = "more text or a model to start from (start.model) may help"

NOT_BIO = (
    "the labels look like BIOES or BILOU: they are scored as plain labels, without F1 of entities, and no valid "
    "sequence is searched; convert them to BIO for both"
)

log = logging.getLogger(__name__)

Example = tuple[Sequence[str], Sequence[str]]
"""A text and its label, or words and a label for each, as two sequences of one length."""


class LabelledData(NamedTuple):
    """Labelled text, prepared and encoded."""

    report: LabelledReport
    tokenizers: Tokenizers
    """The same tokenizer on both sides."""
    labels: Labels
    train: EncodedCorpus
    dev: EncodedCorpus | None
    """None if nothing is held out."""
    dev_examples: list[Example]
    """The text of `dev`."""


def prepare(run: RunFolder, recipe: Recipe, progress: Progress) -> LabelledReport:
    """Reads, checks and splits labelled text into the run's folder, unless it is there already.

    Raises:
        DataError: the text cannot be used, or is not what the folder was made from.
    """
    return prepare_labelled(recipe.data, _kind(recipe), run.data, progress)


def is_made_from(folder: Path, recipe: Recipe) -> bool:
    """Whether the text in a folder is the text that a recipe names, split by the same rules."""
    return preparing.is_made_from(folder, recipe.data, recipe.task)


def facts(_run: RunFolder, _recipe: Recipe, report: LabelledReport) -> TextFacts:
    """The number of texts, of words, and how often each label occurs."""
    train = report.splits["train"]
    return TextFacts(texts=train.examples, labels=tuple(report.labels.values()))


def gather(run: RunFolder, recipe: Recipe, progress: Progress) -> LabelledData:
    """Trains a tokenizer and encodes labelled text, unless they are in the run's folder already."""
    report = read_labelled_report(run.data)
    labels = Labels(task=report.task, names=tuple(report.labels))
    if marks_ends(labels):
        log.warning("%s", NOT_BIO)
    read = partial(read_labelled, run.data, report.task)

    def learn() -> Tokenizers:
        texts = (part for parts, _ in read("train") for part in parts)
        tokenizer = learn_tokenizer(texts, recipe.tokenizer, progress, report.language)
        return Tokenizers(tokenizer, tokenizer)

    tokenizers = find_tokenizers(run, recipe, learn)

    def encoded(name: str, examples: Iterator[Example]) -> EncodedCorpus:
        folder = run.corpus(name)
        make = partial(encode_labelled, examples, tokenizers.source, labels, folder, progress)
        return find_corpus(folder, tokenizers, make, labels=labels)

    known = set(labels.names)
    dev_examples = [example for example in read("dev") if known.issuperset(example[1]) and any(example[0])]
    dev = encoded("dev", iter(dev_examples)) if dev_examples else None
    return LabelledData(report, tokenizers, labels, encoded("train", read("train")), dev, dev_examples)


def read_labelled(data: Path, task: str, split: str) -> Iterator[Example]:
    """The examples of one split of prepared labelled text."""
    if task == "tag":
        yield from read_tagged(data, split)
    else:
        yield from (([text], [label]) for text, label in read_examples(data, split))


def start(recipe: Recipe, data: LabelledData, device: str) -> CorpusTask:
    """The task of a run that trains a classifier or a tagger. The best model has the highest accuracy on the dev set,
    or the highest F1 of entities.
    """
    framing = encoder_framing(recipe)
    order = build_batches(data.train, recipe.batches, recipe.train.seed, framing)
    weights = None
    if recipe.train.class_weights == "balanced":
        weights = torch.tensor(class_weights(list(data.report.labels.values())), device=device)
    objective = CrossEntropy.of(OnDevice(LabelledBatches(order), device), recipe.train, weights)
    dev_set = partial(HeldOut, recipe, data, device, framing) if data.dev is not None else None
    return CorpusTask(recipe, data, device, dev_set, partial(_files, recipe, data, framing), framing, objective)


def encoder_framing(recipe: Recipe) -> Framing:
    """The symbols around texts: those of the model that a run starts from, if there is one.

    A run that resumes may do without that model. If its symbols were others, its checkpoints say so.
    """
    if recipe.start is None or not Path(recipe.start.model).exists():
        return DEFAULT_FRAMING
    return read_config(find_model(recipe.start.model)).framing


class HeldOut:
    """Measures any weights of one architecture on the dev set, in the run's precision."""

    def __init__(self, recipe: Recipe, data: LabelledData, device: str, framing: Framing) -> None:
        assert data.dev is not None, "a run without a dev set is not validated"
        self.data, self.labels = data, data.labels
        self.dtype = torch.bfloat16 if recipe.train.precision == "bf16" else torch.float32
        model = build_model(recipe.model, seed=None).to(device, self.dtype)
        assert isinstance(model, EncoderModel), "the recipe says so"
        self.model = model
        batches = LabelledBatches(build_batches(data.dev, recipe.batches, None, framing))
        self.batches = [batches.batch(indices) for indices in batches.epoch(0)]
        self.device = device

    def measure(self, weights: Mapping[str, Tensor]) -> Validated:
        """Validates these weights."""
        place_weights(self.model, {name: weight.to(self.dtype) for name, weight in weights.items()})
        logits, gold = self._logits()
        if not logits.isfinite().all():
            raise DecodeError("the model's outputs on held-out text are not finite; its weights are damaged")
        loss = float(torch.nn.functional.cross_entropy(logits, gold))
        found = self._evaluate(logits)
        scores = {name: score.value for name, score in found.scores.items()}
        best = "f1" if self.labels.bio else "accuracy"
        named = ", ".join(f"{score.name} {score.printed}" for score in found.scores.values())
        return Validated(
            score=scores[best] - min(loss, 10.0) / 1_000,  # of equal ones the likelier model
            facts={"dev_loss": loss, "dev_temperature": fit_temperature(logits, gold)}
            | {f"dev_{name}": value for name, value in scores.items()},
            summary=f"loss {loss:.3f}, {named}",
            brief=f"{loss:.2f} {found.scores[best].name} {scores[best]:.1f}",
            samples=self._samples(found),
            quality=f"On the dev set: {named}.\n",
        )

    @torch.inference_mode()
    def _logits(self) -> tuple[Tensor, Tensor]:
        """Logits (M, C) and gold labels (M) of the whole dev set, in the order of the corpus."""
        self.model.eval()
        parts: dict[int, tuple[Tensor, Tensor]] = {}
        for batch in self.batches:
            logits, counts = project(self.model, batch.to(self.device)).cpu(), self._counts(batch.pairs.tolist())
            for row, of_row, gold in zip(
                batch.pairs.tolist(), logits.split(counts), batch.labels.split(counts), strict=True
            ):
                parts[row] = of_row, gold
        self.rows = sorted(parts)
        return torch.cat([parts[row][0] for row in self.rows]), torch.cat([parts[row][1] for row in self.rows])

    def _counts(self, rows: Sequence[int]) -> list[int]:
        return [len(self.data.dev_examples[row][1]) for row in rows]

    def _evaluate(self, logits: Tensor) -> LabelEvaluation:
        transitions = Transitions.of(self.labels)
        of_rows = logits.log_softmax(-1).split(self._counts(self.rows))
        found = [[self.labels.names[i] for i in best_labels(each, transitions)] for each in of_rows]
        gold = [list(self.data.dev_examples[row][1]) for row in self.rows]
        return evaluate_labels(self.labels, gold, found, system="dev", test="dev", sha256="", samples=0)

    def _samples(self, found: LabelEvaluation) -> str:
        """A few texts with the labels that were found, wrong ones first."""
        order = sorted(range(len(found.gold)), key=lambda row: list(found.gold[row]) == list(found.found[row]))
        lines = []
        for row in order[:SHOWN]:
            told = (self.data.dev_examples[self.rows[row]][0], found.gold[row], found.found[row])
            text, gold, answer = (" ".join(each)[:LONGEST_SHOWN] for each in told)
            lines.append(f"\n  text        {text}\n  label       {gold}\n  found       {answer}")
        return "".join(lines)


def _files(
    recipe: Recipe,
    data: LabelledData,
    framing: Framing,
    weights: int,
    steps: int,
    tokens: int,
    found: Validated | None,
) -> ModelFiles:
    """Tokenizer, labels with their temperature, framing and model card."""
    model, train, labels = recipe.model, data.report.splits["train"], data.labels
    what = "Classifier" if labels.task == "classify" else "Tagger"
    card = (
        f"# {what}\n\n"
        f"An encoder-only Transformer ({model.preset}, {model.size}: width {model.d_model}, {model.encoder_layers} "
        f"layers, {weights:,} weights) made with Dragoman {dragoman.__version__}. It knows {labels.size} labels: "
        f"{', '.join(labels.names[:20])}{', …' if labels.size > 20 else ''}.\n\n"
        f"Trained on {train.examples:,} texts of {name_on_card(recipe.data, data.report.name)}, "
        f"{steps:,} steps, {tokens:,} tokens.\n\n"
        f"{found.quality if found else UNMEASURED}\n"
        f'    dragoman predict FOLDER "…"\n'
    )
    if found is not None:
        labels = labels.but(temperature=found.facts["dev_temperature"])
    return ModelFiles(data.tokenizers, card=card, framing=framing, labels=labels)


def score_run(run: RunFolder, recipe: Recipe, device: str, progress: Progress) -> tuple[LabelEvaluation, ...]:
    """Scores the best model of a run on its test sets, beside simple baselines, and writes `scores.json` and a picture
    of the confusions. Warns where a baseline is ahead.
    """
    kind, models, baselines = _kind(recipe), list[LabelEvaluation](), list[LabelEvaluation]()
    names = [name for name, split in read_labelled_report(run.data).splits.items() if split.examples]
    train, predictor = list(read_labelled(run.data, kind, "train")), Predictor.load(run.best, device)
    with progress.track("score", unit="systems") as advance:
        for name in (name for name in names if name not in ("train", "dev")):
            test, path = list(read_labelled(run.data, kind, name)), run.split(name)
            model = evaluate_predictor(predictor, test, path, system=str(run.best))
            rivals = judge_baselines(model, _baselines(kind, train, test))
            advance(1 + len(rivals))
            models.append(model)
            baselines += rivals
            for ahead in ahead_of(model, rivals):
                place = "beats this model" if ahead.better else "is level with this model, and far cheaper,"
                log.warning("a baseline %s on %s: %s; %s", place, path.name, ahead, ADVICE)
    write_scores(run.scores, models, baselines=baselines)
    for model in models[:1]:
        _draw(run, model)
    return (*baselines, *models)


def evaluate_predictor(
    predictor: Predictor, test: Sequence[Example], path: Path, system: str, samples: int = SAMPLES
) -> LabelEvaluation:
    """Scores a classifier or tagger on labelled text."""
    labels, off = predictor.stored.labels, None
    if labels.task == "tag":
        found = [[choice.name for choice in each] for each in predictor.tag([words for words, _ in test])]
    else:
        logits = predictor.text_logits([parts[0] for parts, _ in test])
        found = [[labels.names[best]] for best in np.argmax(logits, axis=1)]
        off = 100 * _calibration_error(labels, logits, [names[0] for _, names in test])
    gold = [list(names) for _, names in test]
    facts = {"system": system, "test": path.name, "sha256": sha256(path), "samples": samples}
    return replace(evaluate_labels(labels, gold, found, search=_search(predictor), **facts), calibration_error=off)


def _calibration_error(labels: Labels, logits: np.ndarray, gold: Sequence[str]) -> float:
    """How far the probabilities are off; a label that the model never gives is always a mistake."""
    ids = torch.tensor([labels.id_of(name) if name in labels.names else -1 for name in gold])
    return expected_calibration_error(torch.from_numpy(softmax(logits / labels.temperature)), ids)


def _search(predictor: Predictor) -> str:
    how = VALID_SEQUENCE if predictor.stored.labels.bio else MOST_PROBABLE
    return f"{how}, {predictor.precision} on {predictor.device}"


def _baselines(kind: str, train: Sequence[Example], test: Sequence[Example]) -> Mapping[str, Labelled]:
    """What simple methods, learnt in seconds, find on the same text."""
    if kind == "tag":
        return tag_baselines(train, test)
    pairs = [[(parts[0], label[0]) for parts, label in split] for split in (train, test)]
    return classify_baselines(*pairs)


def _draw(run: RunFolder, model: LabelEvaluation) -> None:
    try:
        write_file(run.confusion, draw_confusion(model.confusion))
        log.info("confusions: %s", run.confusion)
    except Error as error:
        log.info("the confusions are not drawn: %s", error)


def _kind(recipe: Recipe) -> Task:
    assert recipe.task == "classify" or recipe.task == "tag", "the tasks of labelled text"
    return recipe.task
