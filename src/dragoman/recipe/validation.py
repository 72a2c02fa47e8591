"""How good the weights are now: loss on the dev set, and BLEU and chrF of translations of a part of it."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from dragoman.config import check
from dragoman.data.batching import build_batches
from dragoman.decoding import SearchOptions, Translator
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.model import build_model
from dragoman.recipe.materials import Materials
from dragoman.recipe.recipe import Recipe
from dragoman.store import StoredModel, place_weights
from dragoman.training.loop import mean_loss

TRANSLATED = 400
"""Dev sentences translated at each validation, evenly spread over the dev set."""
SHOWN = 4

log = logging.getLogger(__name__)


class Measured(NamedTuple):
    loss: float
    """Nats a target token."""
    bleu: float
    chrf: float
    samples: list[tuple[str, str, str]]
    """Source, reference, translation."""


class Validation:
    """Measures any weights of one architecture on one dev set."""

    def __init__(self, recipe: Recipe, materials: Materials, device: str) -> None:
        assert materials.dev is not None, "a run without a dev set is not validated"
        self.materials, self.device, self.precision = materials, device, recipe.train.precision
        self.model = build_model(recipe.model, seed=None).to(device)
        batches = build_batches(materials.dev, recipe.batches, seed=None)
        self.batches = [batches.batch(indices).to(device) for indices in batches.epoch(0)]
        pairs = materials.dev_pairs
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
            self.model, self.materials.tokenizers, self.model.config, self.materials.languages, {}, Path("validation")
        )
        translator = Translator(stored, self.device, self.precision)
        translations = [
            found.text for found in translator.translate([source for source, _ in self.pairs], self.options)
        ]
        references = [target for _, target in self.pairs]
        scores = bleu_and_chrf(translations, [[reference] for reference in references], self.materials.languages.target)
        samples = [
            (source, reference, translation)
            for (source, reference), translation in zip(self.pairs, translations, strict=True)
        ]
        return Measured(loss, scores["bleu"], scores["chrf"], _spread(samples, SHOWN))


def _spread(samples: list[tuple[str, str, str]], count: int) -> list[tuple[str, str, str]]:
    count = min(count, len(samples))
    return [samples[(2 * i + 1) * len(samples) // (2 * count)] for i in range(count)]
