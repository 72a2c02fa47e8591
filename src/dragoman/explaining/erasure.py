"""Why this word: how far its probability falls without each word that was read (leave one out, Li et al. 2016).

The word is deleted with all its pieces. To put the unknown symbol in its place finds the word that decides no more
often (benchmarks/contributions.py has the sentences), and most models have never read that symbol: a text without a
word is a text like others.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.explaining.record import Array, Contributions
from dragoman.inference.alignment import Given, Word, portions, run_given
from dragoman.model.families import EncoderDecoder, LanguageModel


def contributions_of(
    model: EncoderDecoder | LanguageModel,
    given: Given,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> Contributions:
    """What spoke for each token of a text, as a record holds it. The words are those of `falls`."""
    labels = torch.tensor(given.labels, device=candidates.device)
    fall = falls(model, given, source_words, target_words, torch.cat([candidates, labels[:, None]], dim=1))
    return Contributions(
        erased=(
            *(("encoder", number) for number in range(len(source_words))),
            *(("decoder", number) for number in range(len(target_words))),
        ),
        erasure=_array(fall[:, :, :-1]),
        written_erasure=_array(fall[:, :, -1]),
    )


@torch.inference_mode()
def falls(
    model: EncoderDecoder | LanguageModel,
    given: Given,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> Float[Tensor, "W T C"]:
    """How far the log-probability of each candidate falls at each step without each word; nats, above zero if the word
    speaks for it. W are the words of the source, then those of the target, whose tokens count what the model reads.

    A word of the target is zero for the steps before it. At a step in its midst, the pieces of it that were read are
    deleted; zero if nothing else was, which happens at the first word of a language model. The fall of one candidate
    minus that of another is the contrast between them.
    """
    erased = [given, *(without_source(given, word) for word in source_words)]
    erased += [without_target(given, word) for word in target_words]
    rows = _row_of_step(len(given.target), len(source_words), target_words).to(candidates.device)
    parts, left = [], rows.clamp(min=0)
    for texts in portions(erased):
        named, left = left.split([len(texts), len(left) - len(texts)])
        parts.append(_log_probs(model, texts, named, candidates))
    found = torch.cat(parts)  # (1 + W, T, C)
    fall = found[:1] - found[1:]
    moved = (rows[1:] >= 0) & (rows[1:] < rows[0])
    moved[: len(source_words)] = True
    return fall * moved[:, :, None]


def without_source(given: Given, word: Word) -> Given:
    """The source without a word."""
    source = given.source or []
    return given._replace(source=source[: word.first] + source[word.last :])


def without_target(given: Given, word: Word) -> Given:
    """What the decoder reads, without a word, or all of it if nothing would be left. Labels are left out, because they
    no longer stand beside it.
    """
    return given._replace(target=given.target[: word.first] + given.target[word.last :] or given.target, labels=[])


def _log_probs(
    model: EncoderDecoder | LanguageModel,
    texts: Sequence[Given],
    rows: Int[Tensor, "B T"],
    candidates: Int[Tensor, "T C"],
) -> Float[Tensor, "B T C"]:
    """The log-probabilities of candidates at those rows of each text."""
    hidden, packing = run_given(model, texts, share_sources=True)
    logits = model.project(hidden).float()
    starts = packing.lengths.cumsum(0) - packing.lengths
    places = (starts[:, None] + rows)[:, :, None]
    return logits[places, candidates] - logits.logsumexp(-1)[places]


def _row_of_step(steps: int, unmoved: int, words: Sequence[Word]) -> Int[Tensor, "1+W T"]:
    """The row of each text in which each step stands: of the text itself and `unmoved` others, then of those without a
    word.
    """
    step = torch.arange(steps)
    moved = [step - (step + 1 - word.first).clamp(0, word.last - word.first) for word in words]
    return torch.stack([step] * (1 + unmoved) + moved)


def _array(values: Float[Tensor, "*B"]) -> Array:
    return values.float().cpu().numpy()
