"""Translation as a task: batches of pairs, each next target token predicted, and BLEU and chrF on the dev set."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from torch import Tensor, nn

import dragoman
from dragoman.config import check
from dragoman.data.batch import Batch
from dragoman.data.batching import build_batches
from dragoman.evaluating.evaluation import Evaluation, evaluate, write_scores
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.model import StepNoise, build_model
from dragoman.progress import Progress
from dragoman.recipe.recipe import Recipe
from dragoman.run_folder import RunFolder
from dragoman.store import ModelFiles, StoredModel, place_weights
from dragoman.tasks.pairs import PairData
from dragoman.tasks.run_data import identity_of
from dragoman.training.loss import Loss
from dragoman.training.next_token import NextToken, OnDevice, mean_loss
from dragoman.training.task import Validated
from dragoman.translating import SearchOptions, Translator
from dragoman.translating import Translation as Translated

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
SIGNS = {
    "truncated": "do not end by themselves",
    "repetition": "repeat some words over and over",
    "alike": "are one and the same text",
}
"""What a metric `dev_…` says about translations, in words."""


class Translation:
    """The task of a run that trains a translation model. The best model has the highest chrF on the dev set."""

    def __init__(self, recipe: Recipe, data: PairData, device: str) -> None:
        self.recipe, self.data, self.device = recipe, data, device
        self.batches = OnDevice(build_batches(data.train, recipe.batches, recipe.train.seed), device)
        self.objective = NextToken.of(self.batches, recipe.train)

    def loss(self, model: nn.Module, batch: Batch, noise: StepNoise) -> Loss:
        """Sums over the target tokens of one micro-batch."""
        return self.objective.loss(model, batch, noise)

    @property
    def identity(self) -> dict[str, str]:
        """What must be unchanged when a run resumes: data and tokenizers."""
        return identity_of(self.data)

    def validate(self, weights: Mapping[str, Tensor]) -> Validated | None:
        """Measures the loss on the dev set, and BLEU and chrF of greedy translations of a part of it."""
        return self._dev_set.measure(weights) if self._dev_set is not None else None

    def files(self, weights: int, steps: int, tokens: int, found: Validated | None) -> ModelFiles:
        """Tokenizers, languages, search options and model card."""
        generation = self.recipe.decode.model_dump(mode="json", exclude_none=True)
        card = self._card(weights, steps, tokens, found)
        return ModelFiles(self.data.tokenizers, self.data.languages, generation, card)

    @cached_property
    def _dev_set(self) -> "DevSet | None":
        return DevSet(self.recipe, self.data, self.device) if self.data.dev is not None else None

    def _card(self, weights: int, steps: int, tokens: int, found: Validated | None) -> str:
        """The model card: what the model is, what it learnt from, and how good it was when it was saved."""
        source, target = self.data.languages
        report, model = self.data.report, self.recipe.model
        quality = found.quality if found else "The scores of its run are in `scores.json` there.\n"
        return (
            f"# Translation, {source} to {target}\n\n"
            f"A Transformer ({model.preset}, {model.size}: width {model.d_model}, {model.encoder_layers} + "
            f"{model.decoder_layers} layers, {weights:,} weights) made with Dragoman {dragoman.__version__}.\n\n"
            f"Trained on {report.splits['train'].pairs:,} pairs of {report.inputs['train'].name}, "
            f"{steps:,} steps, {tokens:,} tokens.\n\n{quality}\n"
            f'    dragoman translate FOLDER "…"\n'
        )


class DevSet:
    """Measures any weights of one architecture on one dev set."""

    def __init__(self, recipe: Recipe, data: PairData, device: str) -> None:
        assert data.dev is not None, "a run without a dev set is not validated"
        self.data, self.device, self.precision = data, device, recipe.train.precision
        self.model = build_model(recipe.model, seed=None).to(device)
        batches = build_batches(data.dev, recipe.batches, seed=None)
        self.batches = [batches.batch(indices).to(device) for indices in batches.epoch(0)]
        count = min(TRANSLATED, len(data.dev_pairs))
        self.pairs = [data.dev_pairs[i * len(data.dev_pairs) // count] for i in range(count)]
        # An untrained model writes until the length limit, so a lower limit than usual keeps validation short.
        brief = {"beam_size": 1, "length_ratio": 1.5, "length_extra": 10}
        self.options: SearchOptions = check(brief, "validation", SearchOptions)

    def measure(self, weights: Mapping[str, Tensor]) -> Validated:
        """Validates these weights."""
        place_weights(self.model, weights)
        loss = mean_loss(self.model, self.batches)
        files = ModelFiles(self.data.tokenizers, self.data.languages)
        stored = StoredModel(self.model, self.model.config, files, Path("validation"))
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

    def _samples(self, found: Sequence[Translated]) -> str:
        pairs = list(zip(self.pairs, found, strict=True))
        count = min(SHOWN, len(pairs))
        shown = [pairs[(2 * i + 1) * len(pairs) // (2 * count)] for i in range(count)]
        return "".join(
            f"\n  source      {source}\n  reference   {reference}\n  translation {translation.text}"
            for (source, reference), translation in shown
        )


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


def _quality(facts: Mapping[str, float]) -> str:
    """The paragraph about validation in the model card."""
    quality = (
        f"On the dev set, greedy: BLEU {facts['dev_bleu']:.1f}, chrF {facts['dev_chrf']:.1f} (sacreBLEU), "
        f"{facts['dev_loss']:.3f} nats a token.\n"
    )
    signs = signs_of_nothing(facts)
    return quality + (f"**It has learnt next to nothing**: {signs}.\n" if signs else "")


def _shares(found: Sequence[Translated]) -> dict[str, float]:
    """The share of translations with each flag, and the share of the most frequent translation."""
    flagged = {f"dev_{flag}": sum(flag in each.flags for each in found) / len(found) for flag in FLAGGED}
    ((_, count),) = Counter(each.text for each in found).most_common(1)
    return {**flagged, "dev_alike": count / len(found) if count > 1 else 0.0}
