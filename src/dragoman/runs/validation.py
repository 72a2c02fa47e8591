"""How good the weights are now: loss on the dev set, and BLEU and chrF of translations of a part of it."""

import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from dragoman.config import check
from dragoman.data.batching import build_batches
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.model import build_model
from dragoman.recipe.recipe import Recipe
from dragoman.runs.data import RunData
from dragoman.store import StoredModel, place_weights
from dragoman.training.loop import mean_loss
from dragoman.translating import SearchOptions, Translator

TRANSLATED = 400
"""Dev sentences translated at each validation, evenly spread over the dev set."""
SHOWN = 4
POOR_BLEU, POOR_CHRF, MANY = 5.0, 20.0, 0.25
"""A model whose BLEU is below has learnt next to nothing if its chrF is below too, or so many of its translations show
one of the signs (LOG.md).
"""
SIGNS = {
    "truncated": "do not end by themselves",
    "repetition": "repeat some words over and over",
    "alike": "are one and the same text",
}

log = logging.getLogger(__name__)


class Measured(NamedTuple):
    loss: float
    """Nats a target token."""
    bleu: float
    chrf: float
    samples: list[tuple[str, str, str]]
    """Source, reference, translation."""
    truncated: float
    repetition: float
    """Shares of the translations that carry these flags."""
    alike: float
    """Share of the translations that are the most frequent one."""

    @property
    def facts(self) -> dict[str, float]:
        """As they stand in the journal."""
        return {f"dev_{name}": value for name, value in self._asdict().items() if name != "samples"}


def signs_of_nothing(facts: Mapping[str, float | None]) -> str | None:
    """The signs that a model has learnt next to nothing, in words; None if it has learnt something.

    The facts are a line of the journal; lines of older versions lack the shares.
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


class Validation:
    """Measures any weights of one architecture on one dev set."""

    def __init__(self, recipe: Recipe, run_data: RunData, device: str) -> None:
        assert run_data.dev is not None, "a run without a dev set is not validated"
        self.run_data, self.device, self.precision = run_data, device, recipe.train.precision
        self.model = build_model(recipe.model, seed=None).to(device)
        batches = build_batches(run_data.dev, recipe.batches, seed=None)
        self.batches = [batches.batch(indices).to(device) for indices in batches.epoch(0)]
        pairs = run_data.dev_pairs
        count = min(TRANSLATED, len(pairs))
        self.pairs = [pairs[i * len(pairs) // count] for i in range(count)]
        self.options: SearchOptions = check(
            # A young model runs on to the longest output, which is shorter here than in earnest: a validation is brief.
            {"beam_size": 1, "length_ratio": 1.5, "length_extra": 10},
            "validation",
            SearchOptions,
        )

    def measure(self, weights: Mapping[str, Tensor]) -> Measured:
        place_weights(self.model, weights)
        loss = mean_loss(self.model, self.batches)
        stored = StoredModel(
            self.model, self.run_data.tokenizers, self.model.config, self.run_data.languages, {}, Path("validation")
        )
        translator = Translator(stored, self.device, self.precision)
        found = translator.translate([source for source, _ in self.pairs], self.options)
        translations = [each.text for each in found]
        references = [target for _, target in self.pairs]
        scores = bleu_and_chrf(translations, [[reference] for reference in references], self.run_data.languages.target)
        samples = [
            (source, reference, translation)
            for (source, reference), translation in zip(self.pairs, translations, strict=True)
        ]
        return Measured(
            loss,
            scores["bleu"],
            scores["chrf"],
            _spread(samples, SHOWN),
            truncated=sum("truncated" in each.flags for each in found) / len(found),
            repetition=sum("repetition" in each.flags for each in found) / len(found),
            alike=_share_of_commonest(translations),
        )


def _share_of_commonest(translations: list[str]) -> float:
    """0 where no two are the same."""
    ((_, count),) = Counter(translations).most_common(1)
    return count / len(translations) if count > 1 else 0.0


def _spread(samples: list[tuple[str, str, str]], count: int) -> list[tuple[str, str, str]]:
    count = min(count, len(samples))
    return [samples[(2 * i + 1) * len(samples) // (2 * count)] for i in range(count)]
