"""Which words of a text spoke for its label: gradient times input (Shrikumar et al. 2017)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dragoman.model import EncoderModel
from dragoman.predicting.rows import Row, laid_out, project
from dragoman.tokenizing.framing import Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.words import split_words


def word_shares(
    model: EncoderModel, tokenizer: Tokenizer, framing: Framing, text: str, row: Row, label: int
) -> tuple[tuple[str, float], ...]:
    """Each word of a text, and how much its vectors times their gradients add to the label's logit, less the mean of
    all logits, because what raises them all alike says nothing; above 0 the word speaks for the label.
    """
    batch = laid_out([row], framing, model.output.device)
    with torch.enable_grad(), _vectors(model) as seen:
        logits = project(model, batch)[0]
        (gradient,) = torch.autograd.grad(logits[label] - logits.mean(), seen)
    first = len(framing.source_before)
    of_tokens = (gradient * seen[0]).float().sum(-1)[first : first + len(row.ids)].tolist()
    return tuple(_by_word(tokenizer, text, of_tokens))


def _by_word(tokenizer: Tokenizer, text: str, of_tokens: list[float]) -> Iterator[tuple[str, float]]:
    """Sums over the tokens that end inside each word: the space before a word is part of its first token."""
    ends = [last for _, last in tokenizer.offsets(text)]
    for word, begin in split_words(text):
        inside = range(begin + 1, begin + len(word) + 1)
        yield word, sum(share for share, last in zip(of_tokens, ends, strict=True) if last in inside)


@contextmanager
def _vectors(model: EncoderModel) -> Iterator[list[Tensor]]:
    """Collects the vectors that enter the encoder; gradients reach them and go no further."""
    seen: list[Tensor] = []

    def detach(_module: object, _inputs: object, vectors: Tensor) -> Tensor:
        seen.append(vectors.detach().requires_grad_())
        return seen[0]

    handle = model.source_embedding.register_forward_hook(detach)
    try:
        yield seen
    finally:
        handle.remove()
