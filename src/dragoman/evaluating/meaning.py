"""Explanation of scores in one plain sentence, as a rule of thumb for readers who do not know BLEU."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.evaluating.metrics import Score

BASELINE = "a baseline"
"""Start of the `search` field of an evaluation of a baseline."""
TRANSLATIONS = (
    (75.0, 55.0, "most sentences are translated correctly"),
    (50.0, 35.0, "about half of the sentences are translated correctly or nearly so"),
    (35.0, 20.0, "few sentences are translated correctly; many others can be understood in part"),
    (20.0, 5.0, "hardly any sentence is translated correctly, only some of its words"),
    (0.0, 0.0, "it has learned next to nothing"),
)
"""Minimum chrF, minimum BLEU, and the quality of such translations, from a few models of English to Italian. One of the
two minima is enough, because chrF is low in scripts that write a word in a few characters.
"""
WRITING = (
    (0.5, "it has learned words, and which of them follow each other"),
    (0.7, "it has learned to spell most words"),
    (0.9, "it has learned which letters follow each other"),
    (math.inf, "it has learned next to nothing"),
)
"""Maximum loss of a language model, as a share of the loss of character frequencies alone, and what it has learned."""
GAINS = (
    (0.5, "far more than by"),
    (0.1, "more than by"),
    (1e-9, "hardly more than by"),
    (-math.inf, "no more than by"),
)
"""Minimum share of the best baseline's errors that the model avoids, and a comparison in words."""
LABELS = {
    "accuracy": "labels are right",
    "entity F1": "entities are found whole",
    "masked tokens found": "masked tokens are found",
}


def in_short(evaluation: Any, others: Sequence[Any] = ()) -> str:
    """Explain the scores of a model on a test set, compared with the baselines among the `others`.

    The evaluations may be of any task, also as read from `scores.json`.
    """
    scores, test = evaluation.scores, test_name(evaluation)
    baselines = [baseline for baseline in others if baseline.search.startswith(BASELINE)]
    baselines = [baseline for baseline in baselines if test_name(baseline) == test]
    if not {"chrf", "bleu", "ter"}.isdisjoint(scores):
        level = level_of(scores)
        sentence = "" if level is None else TRANSLATIONS[level][2]
    elif "character" in scores:
        frequencies = (baseline.scores["character"].value for baseline in baselines)
        sentence = _explain_writing(scores["character"].value, *frequencies)
    else:
        sentence = _explain_labels(scores, baselines)
    return sentence and f"{sentence} (a rule of thumb, for text like {test})"


def test_name(evaluation: Any) -> str:
    """Return the name of the test set of an evaluation of any task."""
    return getattr(evaluation.test, "name", evaluation.test)


def level_of(scores: Mapping[str, Score]) -> int | None:
    """Return the level of translations, the place in `TRANSLATIONS`, 0 for the best; None without chrF and BLEU."""
    chrf, bleu = (scores[name].value if name in scores else -1.0 for name in ("chrf", "bleu"))
    return next((n for n, least in enumerate(TRANSLATIONS) if chrf >= least[0] or bleu >= least[1]), None)


def _explain_writing(loss: float, frequencies: float | None = None) -> str:
    """Explain a loss in nats per character, compared with that of character frequencies alone."""
    perplexity = f"the next character is as uncertain as a choice from {math.exp(loss):.1f} equally likely ones"
    if frequencies is None:
        return perplexity
    learned = next(text for most, text in WRITING if loss <= most * frequencies)
    return f"{learned}: {perplexity}, by frequencies alone {math.exp(frequencies):.0f}"


def _explain_labels(scores: Mapping[str, Score], baselines: Sequence[Any]) -> str:
    metric, score = next(iter(scores.items()))
    sentence = f"about {score.value:.0f} of 100 {LABELS.get(score.name, score.name)}"
    if not baselines:
        return sentence
    best = max(baselines, key=lambda baseline: baseline.scores[metric].value)
    reached = best.scores[metric].value
    avoided = (score.value - reached) / max(1e-9, 100 - reached)
    comparison = next(text for least, text in GAINS if avoided >= least)
    return f"{sentence}, {comparison} {best.system} ({reached:.0f})"
