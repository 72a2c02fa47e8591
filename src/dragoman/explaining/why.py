"""Why a model wrote a word: how far the word's probability falls when one of the words that the model read is deleted
(leave one out, Li et al. 2016).

A word is deleted with all its pieces. Replacing it by the unknown symbol finds the decisive word no more often
(benchmarks/contributions.py), and most models have never read that symbol.

`why` compares two words (Yin and Neubig 2022), because that is what people ask: why *stanca* and not *stanco*? Because
of *sister*. The words are compared at the first piece in which they differ.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.brief import brief
from dragoman.errors import DataError
from dragoman.explaining.record import Contributions, Erased
from dragoman.inference.alignment import Word
from dragoman.inference.teacher_forcing import ForcedText, passes, teacher_force
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.words import words_of

_NUMBERED = re.compile(r"(?P<word>.+)#(?P<number>[1-9]\d*)", re.DOTALL)

MOST_NAMED = 40
"""Words of a text that a message lists."""


class Reason(NamedTuple):
    """How much one word that the model had read speaks for the one word or for the other."""

    stack: str
    """`encoder` for words of the source, `decoder` for words written before."""
    text: str
    fall: float
    """By how many nats the log-probability of the written word falls when this one is deleted."""
    fall_of_other: float
    """The same for the other word."""

    @property
    def contrast(self) -> float:
        """The first fall minus the second: above zero if this word speaks for the written one."""
        return self.fall - self.fall_of_other


class Why(NamedTuple):
    """The choice between two pieces at one step."""

    __repr__ = brief

    step: int
    """The place of the choice among the tokens of the target, counted from 0."""
    pieces: tuple[str, str]
    """The written piece and the other one, as a person reads them."""
    log_probs: tuple[float, float]
    """The log-probabilities of both."""
    reasons: tuple[Reason, ...]
    """A reason for each word of the source, then for each word written before the choice, in the order of the text."""

    def facts(self) -> dict[str, Any]:
        """As plain values for JSON."""
        reasons = [{**reason._asdict(), "contrast": reason.contrast} for reason in self.reasons]
        return {**self._asdict(), "reasons": reasons}


def why(
    model: EncoderDecoder | LanguageModel,
    tokenizers: Tokenizers,
    framing: Framing,
    source: str | None,
    target: str,
    word: str,
    other: str,
) -> Why:
    """Why the model wrote `word` in `target`, and not `other` in its place.

    `word` is a word of `target`; `casa#2` is the second *casa*. `other` is any text. A language model has no source.
    """
    given, instead = read_choice(tokenizers, framing, source, target, word, other)
    choice = (given.labels[-1], instead)
    sides = {
        "encoder": words_of(tokenizers.source, given.source or []),
        "decoder": words_of(tokenizers.target, given.target),
    }
    pairs = torch.tensor([choice], device=model.output.device).expand(len(given.labels), 2)
    at_choice = falls(model, given, sides["encoder"], sides["decoder"], pairs)[:, -1]
    words = ((stack, each.text) for stack, side in sides.items() for each in side)
    reasons = (Reason(*each, *both) for each, both in zip(words, at_choice.tolist(), strict=True))
    one, another = tokenizers.target.tokens(choice)
    with torch.inference_mode():
        hidden, _ = teacher_force(model, [given])
        log_probs = model.project(hidden[-1:]).float().log_softmax(-1)[0]
    chances = float(log_probs[choice[0]]), float(log_probs[choice[1]])
    return Why(len(given.labels) - 1, (one, another), chances, tuple(reasons))


def read_choice(
    tokenizers: Tokenizers, framing: Framing, source: str | None, target: str, word: str, other: str
) -> tuple[ForcedText, int]:
    """What the model had read when it chose, with the chosen piece as the last label; and the piece of `other`."""
    ids = tokenizers.target.encode(target)
    name = "the text" if source is None else "the translation"
    first, last = find_word(tokenizers.target, target, ids, word, name)
    others = tokenizers.target.encode(f"{target[:first]}{other}{target[last:]}")
    if source is None:
        given = ForcedText(None, ids[:-1], ids[1:])
        instead = others[1:]
    else:
        given = ForcedText.of(framing, tokenizers.source.encode(source), ids)
        instead = framing.labels(others)
    step = _first_difference(given.labels, instead)
    if ids == others:
        raise DataError(f"the model writes '{word}' and '{other}' with the same pieces, so there is nothing to compare")
    if source is None and ids[:1] != others[:1]:
        raise DataError(
            f"a language model chooses by the words before, but nothing stands before the choice of '{word}'; name a "
            "later word"
        )
    if step >= min(len(given.labels), len(instead)):
        raise DataError(f"'{word}' and '{other}' begin alike, and the text ends before they differ; give a longer text")
    if tokenizers.target.unknown in (given.labels[step], instead[step]):
        strange = word if given.labels[step] == tokenizers.target.unknown else other
        raise DataError(f"'{strange}' is not in the model's vocabulary, so its probability isn't known; name another")
    return ForcedText(given.source, given.target[: step + 1], given.labels[: step + 1]), instead[step]


def find_word(
    tokenizer: Tokenizer, text: str, ids: Sequence[int], word: str, called: str = "the text"
) -> tuple[int, int]:
    """Where a word stands in a text with these `ids`: the places of its first character and of the one after its last.

    Words are compared in Unicode's normal form C. Messages call the text `called`.
    """
    places = tokenizer.offsets(text)
    words = [_as_written(tokenizer, each, text, ids, places) for each in words_of(tokenizer, ids)]
    word = unicodedata.normalize("NFC", word)
    numbered = _NUMBERED.fullmatch(word)
    name, number = (numbered["word"], int(numbered["number"])) if numbered else (word, None)
    same = [each for each in words if each.text == name]
    if not same:
        listed = list(dict.fromkeys(each.text for each in words))
        more = " ..." if len(listed) > MOST_NAMED else ""
        raise DataError(f"'{name}' is no word of {called}; its words are {', '.join(listed[:MOST_NAMED])}{more}")
    times = "once" if len(same) == 1 else f"{len(same)} times"
    if number is None and len(same) > 1:
        raise DataError(f"'{name}' stands {times} in {called}; name one, as in {name}#2")
    if number is not None and number > len(same):
        raise DataError(f"there is no {word}: '{name}' stands {times} in {called}")
    chosen = same[(number or 1) - 1]
    first, last = places[chosen.first][0], places[chosen.last - 1][1]
    return last - len(text[first:last].lstrip()), last


def _as_written(
    tokenizer: Tokenizer, word: Word, text: str, ids: Sequence[int], places: Sequence[tuple[int, int]]
) -> Word:
    """A word as it stands in the text, in normal form C. A token that stands for an unknown word doesn't spell it."""
    unknown = ids[word.first] == tokenizer.unknown
    spelled = text[slice(*places[word.first])] if unknown else word.text
    return word._replace(text=unicodedata.normalize("NFC", spelled))


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    return next(place for place, (a, b) in enumerate([*zip_longest(one, other), (0, 1)]) if a != b)


def contributions_of(
    model: EncoderDecoder | LanguageModel,
    given: ForcedText,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> Contributions:
    """`falls` for a record: of the candidates at each step, and of the tokens of the text."""
    labels = torch.tensor(given.labels, device=candidates.device)
    both = torch.cat([candidates, labels[:, None]], dim=1)
    fall = falls(model, given, source_words, target_words, both).float().cpu().numpy()
    of_source: list[Erased] = [("encoder", number) for number in range(len(source_words))]
    of_target: list[Erased] = [("decoder", number) for number in range(len(target_words))]
    return Contributions((*of_source, *of_target), erasure=fall[:, :, :-1], written_erasure=fall[:, :, -1])


@torch.inference_mode()
def falls(
    model: EncoderDecoder | LanguageModel,
    given: ForcedText,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> Float[Tensor, "W T C"]:
    """By how many nats the log-probability of each candidate falls at each step when each word is deleted; above zero
    if the word speaks for the candidate. The W words are those of the source, then those of the target.

    The places of target words count the tokens that the decoder reads. A target word has no effect, so zero, on the
    steps before it. A step in the middle of a word has read some of its pieces, and these are deleted; if it has read
    nothing else, as in the first word of a language model, the fall is set to zero.
    """
    texts = [given, *(without_source(given, word) for word in source_words)]
    texts += [without_target(given, word) for word in target_words]
    rows = _row_of_step(len(given.target), len(source_words), target_words).to(candidates.device)
    parts, start = [], 0
    for portion in passes(texts):
        end = start + len(portion)
        parts.append(_log_probs(model, portion, rows[start:end].clamp(min=0), candidates))
        start = end
    log_probs = torch.cat(parts)  # (1 + W, T, C)
    fall = log_probs[:1] - log_probs[1:]
    # A step whose row has not moved had not read the word. A step below row 0 had read nothing but the word.
    had_read = (rows[1:] >= 0) & (rows[1:] < rows[0])
    had_read[: len(source_words)] = True
    return fall * had_read[:, :, None]


def without_source(given: ForcedText, word: Word) -> ForcedText:
    source = given.source or []
    return given._replace(source=source[: word.first] + source[word.last :])


def without_target(given: ForcedText, word: Word) -> ForcedText:
    """What the decoder reads without a word; all of it if nothing would be left. Labels are dropped, because they would
    no longer stand beside their tokens.
    """
    return given._replace(target=given.target[: word.first] + given.target[word.last :] or given.target, labels=[])


def _log_probs(
    model: EncoderDecoder | LanguageModel,
    texts: Sequence[ForcedText],
    rows: Int[Tensor, "B T"],
    candidates: Int[Tensor, "T C"],
) -> Float[Tensor, "B T C"]:
    """The log-probabilities of candidates at those rows of each text."""
    hidden, packing = teacher_force(model, texts, share_sources=True)
    logits = model.project(hidden).float()
    starts = packing.lengths.cumsum(0) - packing.lengths
    places = (starts[:, None] + rows)[:, :, None]
    return logits[places, candidates] - logits.logsumexp(-1)[places]


def _row_of_step(steps: int, unmoved: int, words: Sequence[Word]) -> Int[Tensor, "1+W T"]:
    """The row of each step in each text: in the whole text and in `unmoved` texts without a source word, where it is
    the step's own number, then in the texts without a target word.
    """
    step = torch.arange(steps)
    rows = [step] * (1 + unmoved)
    for word in words:
        # How many tokens of the word the step had read: none before it, all of them behind it, some within it.
        read = (step + 1 - word.first).clamp(0, word.last - word.first)
        rows.append(step - read)
    return torch.stack(rows)
