"""Translation as a task: batches of pairs, each next target token predicted, and BLEU and chrF on the dev set."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dragoman
from dragoman.config import check
from dragoman.data.batching import build_batches
from dragoman.evaluating.evaluation import Evaluation, evaluate, write_scores
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.model import build_model
from dragoman.progress import Progress
from dragoman.recipe.recipe import Recipe, StartSettings
from dragoman.recipe.translation_choices import FEW_PAIRS
from dragoman.run_folder import RunFolder
from dragoman.store import CONFIG, ModelFiles, StoredModel, place_weights, read_config
from dragoman.tasks.corpus_task import UNMEASURED, CorpusTask
from dragoman.tasks.pairs import PairData
from dragoman.text.inputs import name_on_card
from dragoman.text.report import read_report
from dragoman.tokenizing.framing import DEFAULT_FRAMING, Framing
from dragoman.training.objective import mean_loss
from dragoman.training.task import Validated
from dragoman.translating import SearchOptions, Translation, Translator

TRANSLATED = 400
"""Dev sentences that each validation translates, evenly spread over the dev set."""
SHOWN = 4
"""Translations that the log shows at each validation."""
POOR_BLEU, POOR_CHRF, MANY = 5.0, 20.0, 0.25
"""A model with a lower BLEU has learnt next to nothing if its chrF is lower too, or if this share of its translations
shows one of the `SIGNS` (LOG.md).
"""
FLAGGED = ("truncated", "repetition")
"""Flags for which each validation measures the share of translations."""
LEAST_MINUTES, MORE_TIMES = 20, 4
"""How long to train a model that has learnt next to nothing: at least so many minutes, and so many times as long."""
SIGNS = {
    "truncated": "do not end by themselves",
    "repetition": "repeat some words over and over",
    "alike": "are one and the same text",
}
"""What a metric `dev_…` says about translations, in words."""


def start(recipe: Recipe, data: PairData, device: str) -> CorpusTask:
    """The task of a run that trains a translation model. The best model has the highest chrF on the dev set."""
    framing = _framing(recipe.start)
    dev_set = partial(DevSet, recipe, data, device, framing) if data.dev is not None else None
    return CorpusTask(recipe, data, device, dev_set, partial(_files, recipe, data, framing), framing)


def _framing(start: StartSettings | None) -> Framing:
    """The symbols around sentences: those of the model that is fine-tuned, if there is one.

    A run that resumes may do without that model. If its symbols were others, its checkpoints say so.
    """
    if start is None or not (Path(start.model) / CONFIG).is_file():
        return DEFAULT_FRAMING
    return read_config(Path(start.model)).framing


class DevSet:
    """Measures any weights of one architecture on one dev set, in the run's precision."""

    def __init__(self, recipe: Recipe, data: PairData, device: str, framing: Framing = DEFAULT_FRAMING) -> None:
        assert data.dev is not None, "a run without a dev set is not validated"
        self.data, self.device, self.precision = data, device, recipe.train.precision
        self.files = ModelFiles(data.tokenizers, data.languages, framing=framing)
        self.dtype = torch.bfloat16 if recipe.train.precision == "bf16" else torch.float32
        self.model = build_model(recipe.model, seed=None).to(device, self.dtype)
        batches = build_batches(data.dev, recipe.batches, seed=None, framing=framing)
        self.batches = [batches.batch(indices).to(device) for indices in batches.epoch(0)]
        count = min(TRANSLATED, len(data.dev_pairs))
        self.pairs = [data.dev_pairs[i * len(data.dev_pairs) // count] for i in range(count)]
        # An untrained model writes until the length limit, so a lower limit than usual keeps validation short.
        brief = {"beam_size": 1, "length_ratio": 1.5, "length_extra": 10}
        self.options: SearchOptions = check(brief, "validation", SearchOptions)

    def measure(self, weights: Mapping[str, Tensor]) -> Validated:
        """Validates these weights."""
        place_weights(self.model, {name: weight.to(self.dtype) for name, weight in weights.items()})
        loss = mean_loss(self.model, self.batches)
        stored = StoredModel(self.model, self.model.config, self.files, Path("validation"))
        translator = Translator(stored, self.device, self.precision)
        found = translator.translate([source for source, _ in self.pairs], self.options)
        references = [[target] for _, target in self.pairs]
        scores = bleu_and_chrf([each.text for each in found], references, self.data.languages.target)
        facts = {"dev_loss": loss, "dev_bleu": scores["bleu"], "dev_chrf": scores["chrf"], **_shares(found)}
        return Validated(
            score=scores["chrf"],
            facts=facts,
            summary=f"loss {loss:.3f}, BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f} "
            f"(greedy, {len(self.pairs)} sentences)",
            brief=f"{loss:.2f} BLEU {scores['bleu']:.1f} chrF {scores['chrf']:.1f}",
            samples=self._samples(found),
            quality=_quality(facts),
        )

    def _samples(self, found: Sequence[Translation]) -> str:
        pairs = list(zip(self.pairs, found, strict=True))
        count = min(SHOWN, len(pairs))
        shown = [pairs[(2 * i + 1) * len(pairs) // (2 * count)] for i in range(count)]
        return "".join(
            f"\n  source      {source}\n  reference   {reference}\n  translation {translation.text}"
            for (source, reference), translation in shown
        )


def _files(
    recipe: Recipe, data: PairData, framing: Framing, weights: int, steps: int, tokens: int, found: Validated | None
) -> ModelFiles:
    """Tokenizers, languages, search options, model card and framing."""
    source, target = data.languages
    report, model = data.report, recipe.model
    text = name_on_card(recipe.data, report.inputs["train"].name)
    card = (
        f"# Translation, {source} to {target}\n\n"
        f"A Transformer ({model.preset}, {model.size}: width {model.d_model}, {model.encoder_layers} + "
        f"{model.decoder_layers} layers, {weights:,} weights) made with Dragoman {dragoman.__version__}.\n\n"
        f"Trained on {report.splits['train'].pairs:,} pairs of {text}, {steps:,} steps, {tokens:,} tokens.\n\n"
        f"{found.quality if found else UNMEASURED}\n"
        f'    dragoman translate FOLDER "…"\n'
    )
    options = recipe.decode.model_dump(mode="json", exclude_none=True)
    return ModelFiles(data.tokenizers, data.languages, options, card, framing)


def score_run(run: RunFolder, _recipe: Recipe, device: str, progress: Progress) -> tuple[Evaluation, ...]:
    """Scores the best model of a run on its test sets and writes `scores.json`."""
    names = [path.stem for path in sorted(run.data.glob("*.jsonl")) if path.stem not in ("train", "dev")]
    translator = Translator.load(run.best, device)
    evaluations = tuple(
        evaluate(translator, run.split(name), name=str(run.best), progress=progress)
        for name in names
        if run.split(name).stat().st_size
    )
    write_scores(run.scores, evaluations)
    return evaluations


def signs_of_nothing(facts: Mapping[str, float | None]) -> str | None:
    """The signs that a translation model has learnt next to nothing, in words; None if it has learnt something.

    `facts` is a line of the metrics. Older versions of Dragoman wrote no shares.
    """
    bleu, chrf = facts.get("dev_bleu"), facts.get("dev_chrf")
    if bleu is None or chrf is None or bleu >= POOR_BLEU:
        return None
    signs = [
        f"{share:.0%} of the translations {how}"
        for name, how in SIGNS.items()
        if (share := facts.get(f"dev_{name}")) and share >= MANY
    ]
    if chrf >= POOR_CHRF and not signs:
        return None
    return ", ".join([f"BLEU {bleu:.1f} and chrF {chrf:.1f} on the dev set", *signs])


def warning_of_nothing_learnt(
    run: RunFolder, recipe: Recipe, lines: Sequence[Mapping[str, Any]], best_step: int
) -> str | None:
    """A warning, with what to do, if the best model translates as one that has learnt next to nothing.

    `lines` are those of the run's metrics.
    """
    best = [signs for line in lines if line["step"] == best_step and (signs := signs_of_nothing(line))]
    if not best:
        return None
    minutes = sum(line.get("seconds") or 0 for line in lines) / 60
    return f"the best model has learnt next to nothing ({best[-1]}); {_advice(run, recipe, minutes)}"


def _advice(run: RunFolder, recipe: Recipe, minutes: float) -> str:
    """What may help a model that learnt next to nothing in this many minutes."""
    if recipe.start is not None:
        return "check that the text is in the model's languages and direction, or lower train.learning_rate"
    pairs = read_report(run.data).splits["train"].pairs
    if pairs < FEW_PAIRS:
        return f"{pairs:,} pairs are too few for a model of its own: give it more text, or fine-tune a finished model"
    more = max(LEAST_MINUTES, math.ceil(MORE_TIMES * minutes))
    advice = f"it was trained too briefly; train it further: dragoman train {run} --more --minutes {more}"
    if recipe.model.size != "tiny":
        advice += ", or a smaller model in a new run: --fresh --set model.size=tiny"
    return advice


def _quality(facts: Mapping[str, float]) -> str:
    """The paragraph about validation in the model card."""
    quality = (
        f"On the dev set, greedy: BLEU {facts['dev_bleu']:.1f}, chrF {facts['dev_chrf']:.1f} (sacreBLEU), "
        f"{facts['dev_loss']:.3f} nats a token.\n"
    )
    signs = signs_of_nothing(facts)
    return quality + (f"**It has learnt next to nothing**: {signs}.\n" if signs else "")


def _shares(found: Sequence[Translation]) -> dict[str, float]:
    """The share of translations with each flag, and the share of the most frequent translation."""
    flagged = {f"dev_{flag}": sum(flag in each.flags for each in found) / len(found) for flag in FLAGGED}
    ((_, count),) = Counter(each.text for each in found).most_common(1)
    return {**flagged, "dev_alike": count / len(found) if count > 1 else 0.0}
