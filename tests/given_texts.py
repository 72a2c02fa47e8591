"""The plain way to the probability of a given text, for tests to compare with."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.inference.teacher_forcing import ForcedText, teacher_force
from dragoman.model.transformer import EncoderDecoder, LanguageModel


def log_probs_of(model: EncoderDecoder | LanguageModel, given: Sequence[ForcedText]) -> list[Tensor]:
    """The log-probability of every label of each text."""
    hidden, packing = teacher_force(model, given)
    labels = torch.tensor([label for each in given for label in each.labels])
    found = model.project(hidden).float().log_softmax(-1).gather(1, labels[:, None])[:, 0]
    return list(found.split(packing.lengths.tolist()))
