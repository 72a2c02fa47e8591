"""All contributions to one text, as a record holds them: gradients and erasure."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.aligning.passes import Given
from dragoman.aligning.words import Word
from dragoman.explaining import record
from dragoman.explaining.contributions.agreement import agreement
from dragoman.explaining.contributions.erasure import falls
from dragoman.explaining.contributions.gradients import by_word, gradients, log_prob_of
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
    words of a source.
    """
    labels = torch.tensor(given.labels, device=candidates.device)
    found = gradients(model, given, log_prob_of(labels))
    fall = falls(model, given, source_words, target_words, torch.cat([candidates, labels[:, None]], dim=1))
    spoken = fall[: len(source_words), :, -1].T
    return record.Contributions(
        gradient=_array(found.norm[0]),
        gradient_x_input=_array(found.product[0]),
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


def _mean_agreement(first: Float[Tensor, "T W"], second: Float[Tensor, "T W"]) -> float | None:
    """The mean of Kendall's tau over the steps that rank the words; None if no step does."""
    found = agreement(first, second)
    return sum(found) / len(found) if found else None


def _array(values: Float[Tensor, "*B"]) -> record.Array:
    return values.detach().float().cpu().numpy()
