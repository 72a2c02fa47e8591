"""All contributions to one translation, in one pass with gradients and one without."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.explaining.contributions.erasure import falls
from dragoman.explaining.contributions.gradients import difference, gradients, log_prob_of, side_by_side
from dragoman.explaining.passes import Given, run_given
from dragoman.explaining.words import Word
from dragoman.model import EncoderDecoder, LanguageModel


class Contributions(NamedTuple):
    """What the T tokens of a translation owe to P tokens (of the source, then those that the decoder reads) and to W
    words (of the source, then of the target).
    """

    written: Float[Tensor, "T P"]
    """The gradient of the log-probability of each written token: its norm, zero for the future."""
    contrast: Float[Tensor, "T P"]
    """The gradient of its logit minus that of the runner-up."""
    runner_up: Int[Tensor, "T"]
    """The likeliest candidate of each step that was not written."""
    erasure: Float[Tensor, "W T C"]
    """How far the log-probability of each candidate falls without each word."""


def contributions(
    model: EncoderDecoder | LanguageModel,
    given: Given,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> Contributions:
    """Everything about one text. The words are those of `given.source` and `given.target`, special symbols included in
    the count of tokens; each step has a candidate that was not written.
    """
    labels = torch.tensor(given.labels, device=candidates.device)
    rivals = _runners_up(model, given, candidates, labels)
    score = side_by_side(log_prob_of(labels), difference(labels, rivals))
    written, contrast = gradients(model, given, score).norm
    return Contributions(written, contrast, rivals, falls(model, given, source_words, target_words, candidates))


@torch.inference_mode()
def _runners_up(
    model: EncoderDecoder | LanguageModel, given: Given, candidates: Int[Tensor, "T C"], labels: Int[Tensor, "T"]
) -> Int[Tensor, "T"]:
    """The likeliest candidate of each step that was not written."""
    hidden, _ = run_given(model, [given])
    logits = model.project(hidden).float().gather(1, candidates)
    best = logits.masked_fill(candidates == labels[:, None], -torch.inf).argmax(1, keepdim=True)
    return candidates.gather(1, best)[:, 0]
