"""All contributions to one text: gradients in one pass with gradients, erasure in one without."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.explaining import record
from dragoman.explaining.contributions.agreement import agreement
from dragoman.explaining.contributions.erasure import falls
from dragoman.explaining.contributions.gradients import by_word, difference, gradients, log_prob_of, side_by_side
from dragoman.explaining.passes import Given, run_given
from dragoman.explaining.words import Word
from dragoman.model import EncoderDecoder, LanguageModel


def contributions_of(
    model: EncoderDecoder | LanguageModel,
    given: Given,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> record.Contributions:
    """What spoke for each token of a text.

    The tokens of the words count those of `given.source` and `given.target`, symbols included. A language model has no
    words of a source. Each step has at least one candidate that was not written.
    """
    labels = torch.tensor(given.labels, device=candidates.device)
    places = _runners_up(model, given, candidates, labels)
    rivals = candidates.gather(1, places[:, None])[:, 0]
    found = gradients(model, given, side_by_side(log_prob_of(labels), difference(labels, rivals)))
    fall = falls(model, given, source_words, target_words, torch.cat([candidates, labels[:, None]], dim=1))
    spoken = fall[: len(source_words), :, -1].T
    return record.Contributions(
        gradient=_array(found.norm[0]),
        gradient_x_input=_array(found.product[0]),
        rivals=tuple(places.tolist()),
        contrast=_array(found.norm[1]),
        erased=(
            *(("encoder", number) for number in range(len(source_words))),
            *(("decoder", number) for number in range(len(target_words))),
        ),
        erasure=_array(fall[:, :, :-1]),
        written_erasure=_array(fall[:, :, -1]),
        agreement={
            "gradient": _mean_agreement(by_word(found.norm[0], source_words), spoken),
            "gradient_x_input": _mean_agreement(by_word(found.product[0], source_words), spoken),
        },
    )


@torch.inference_mode()
def _runners_up(
    model: EncoderDecoder | LanguageModel, given: Given, candidates: Int[Tensor, "T C"], labels: Int[Tensor, "T"]
) -> Int[Tensor, "T"]:
    """Which candidate of each step is the likeliest that was not written."""
    hidden, _ = run_given(model, [given])
    logits = model.project(hidden).float().gather(1, candidates)
    return logits.masked_fill(candidates == labels[:, None], -torch.inf).argmax(1)


def _mean_agreement(first: Float[Tensor, "T W"], second: Float[Tensor, "T W"]) -> float | None:
    """The mean of Kendall's tau over the steps that rank the words; None if no step does."""
    found = agreement(first, second)
    return sum(found) / len(found) if found else None


def _array(values: Float[Tensor, "*B"]) -> record.Array:
    return values.detach().float().cpu().numpy()
