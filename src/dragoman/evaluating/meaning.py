"""What scores mean for a reader who knows no BLEU: one plain sentence, which is a rule of thumb."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.evaluating.metrics import Score

BASELINE = "a baseline"
"""How the `search` of an evaluation begins that is no model's."""
TRANSLATIONS = (
    (75.0, 55.0, "most sentences come out right"),
    (50.0, 35.0, "about half of the sentences come out right or nearly so"),
    (35.0, 20.0, "few sentences come out right; of many others a part is understood"),
    (20.0, 5.0, "hardly any sentence comes out right, only some of its words"),
    (0.0, 0.0, "it has learnt next to nothing"),
)
"""From which chrF or BLEU on translations are how good: read off a few models of English to Italian. Either is enough,
because chrF is low in scripts that write a word in a few characters.
"""
WRITING = (
    (0.5, "it has learnt words, and which of them follow each other"),
    (0.7, "it has learnt to spell most words"),
    (0.9, "it has learnt which letters follow each other"),
    (math.inf, "it has learnt next to nothing"),
)
"""Up to which share of the loss that the frequencies of characters alone leave a language model has learnt what."""
GAINS = (
    (0.5, "far more than by"),
    (0.1, "more than by"),
    (1e-9, "hardly more than by"),
    (-math.inf, "no more than by"),
)
"""Which share of the mistakes of the best baseline a model must avoid, to be how much better."""
LABELS = {
    "accuracy": "labels are right",
    "entity F1": "entities are found whole",
    "masked tokens found": "masked tokens are found",
}


def in_short(evaluation: Any, others: Sequence[Any] = ()) -> str:
    """What the scores of a model on a test set mean; among the `others` may be baselines. All of them may be
    evaluations of any task, also as `scores.json` keeps them.
    """
    scores, test = evaluation.scores, _name(evaluation)
    baselines = [each for each in others if each.search.startswith(BASELINE) and _name(each) == test]
    if not {"chrf", "bleu", "ter"}.isdisjoint(scores):
        meant = _of_translations(scores)
    elif "character" in scores:
        meant = _of_writing(scores["character"].value, *(each.scores["character"].value for each in baselines))
    else:
        meant = _of_labels(scores, baselines)
    return meant and f"{meant} (a rule of thumb, for text like {test})"


def _name(evaluation: Any) -> str:
    return getattr(evaluation.test, "name", evaluation.test)


def _of_translations(scores: Mapping[str, Score]) -> str:
    chrf, bleu = (scores[name].value if name in scores else -1.0 for name in ("chrf", "bleu"))
    return next((words for least, other, words in TRANSLATIONS if chrf >= least or bleu >= other), "")


def _of_writing(loss: float, frequencies: float | None = None) -> str:
    """By nats a character, also of the frequencies of characters alone."""
    doubt = f"the next character is as open as between {math.exp(loss):.1f} equally likely ones"
    if frequencies is None:
        return doubt
    learnt = next(words for most, words in WRITING if loss <= most * frequencies)
    return f"{learnt}: {doubt}, by frequencies alone {math.exp(frequencies):.0f}"


def _of_labels(scores: Mapping[str, Score], baselines: Sequence[Any]) -> str:
    metric, score = next(iter(scores.items()))
    meant = f"about {score.value:.0f} of 100 {LABELS.get(score.name, score.name)}"
    if not baselines:
        return meant
    best = max(baselines, key=lambda each: each.scores[metric].value)
    reached = best.scores[metric].value
    mended = (score.value - reached) / max(1e-9, 100 - reached)
    than = next(words for least, words in GAINS if mended >= least)
    return f"{meant}, {than} {best.system} ({reached:.0f})"
