"""Why this word rather than that one: a contrast that a person names, at the first piece in which the two differ.

Contrastive explanations ask what speaks for one output and not for another (Yin and Neubig 2022), which is what people
mean by why: *stanca* and not *stanco*, because of *sister*. Start reading at `why`.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import torch

from dragoman.errors import DataError
from dragoman.explaining.erasure import falls
from dragoman.inference.alignment import Given, Word, run_given, words_of
from dragoman.model.families import EncoderDecoder, LanguageModel
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers

_NUMBERED = re.compile(r"(?P<word>.+)#(?P<number>[1-9]\d*)", re.DOTALL)

MOST_NAMED = 40
"""Words of a text that a message lists."""


class Reason(NamedTuple):
    """What one word that the model had read says to the choice between two."""

    stack: str
    """`encoder` for words of the source, `decoder` for words written before."""
    text: str
    fall: float
    """How far the log-probability of the word falls without it; nats."""
    fall_of_other: float

    @property
    def contrast(self) -> float:
        """The one fall minus the other: above zero if it speaks for the word rather than for the other."""
        return self.fall - self.fall_of_other


class Why(NamedTuple):
    """The choice between two pieces at one step."""

    step: int
    """Counted from 0: what the model reads up to this token decides."""
    pieces: tuple[str, str]
    """Which pieces are compared, as a person reads them."""
    log_probs: tuple[float, float]
    """Of both after what was read."""
    reasons: tuple[Reason, ...]
    """The words of the source, then those written before, as they stand in the text."""

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
    """Why `target` goes on with `word` and not with `other` at this place.

    `word` is a word of `target`; `casa#2` is the second *casa*. `other` is any text. Words of several pieces are
    compared at the first in which they differ. A language model has no source.

    Raises:
        DataError: `word` doesn't stand in the translation or stands there more than once, or the model can't tell the
            two apart.
    """
    given, instead = read_choice(tokenizers, framing, source, target, word, other)
    choice = (given.labels[-1], instead)
    sides = {
        "encoder": words_of(tokenizers.source, given.source or []),
        "decoder": words_of(tokenizers.target, given.target),
    }
    pairs = torch.tensor([choice], device=model.output.device).expand(len(given.labels), 2)
    found = falls(model, given, sides["encoder"], sides["decoder"], pairs)[:, -1]
    words = ((stack, each.text) for stack, side in sides.items() for each in side)
    reasons = (Reason(*each, *both) for each, both in zip(words, found.tolist(), strict=True))
    one, another = tokenizers.target.tokens(choice)
    return Why(len(given.labels) - 1, (one, another), _log_probs(model, given, choice), tuple(reasons))


def read_choice(
    tokenizers: Tokenizers, framing: Framing, source: str | None, target: str, word: str, other: str
) -> tuple[Given, int]:
    """What the model had read when it chose, with its choice as the last label; and the piece that it didn't choose.

    The rest is said at `why`.
    """
    ids = tokenizers.target.encode(target)
    name = "the text" if source is None else "the translation"
    first, last = find_word(tokenizers.target, target, ids, word, name)
    others = tokenizers.target.encode(f"{target[:first]}{other}{target[last:]}")
    if source is None:
        given = Given(None, ids[:-1], ids[1:])
        instead = others[1:]
    else:
        given = Given.of(framing, tokenizers.source.encode(source), ids)
        instead = framing.labels(others)
    step = _first_difference(given.labels, instead)
    if ids == others:
        raise DataError(f"the model writes '{word}' and '{other}' with the same pieces; there is nothing to compare")
    if source is None and ids[:1] != others[:1]:
        raise DataError(
            f"a language model chooses what follows a text, and nothing stands before the choice of '{word}'"
        )
    if step >= min(len(given.labels), len(instead)):
        raise DataError(f"'{word}' and '{other}' begin alike, and the text ends before they differ; give a longer text")
    if tokenizers.target.unknown in (given.labels[step], instead[step]):
        strange = word if given.labels[step] == tokenizers.target.unknown else other
        raise DataError(f"'{strange}' is not in the model's vocabulary, so its probability isn't known; name another")
    return Given(given.source, given.target[: step + 1], given.labels[: step + 1]), instead[step]


def find_word(
    tokenizer: Tokenizer, text: str, ids: Sequence[int], word: str, called: str = "the text"
) -> tuple[int, int]:
    """The characters of a word of a text, whose ids these are: the first, and the one after the last.

    Words are equal in Unicode's normal form C. Messages call the text so.

    Raises:
        DataError: it doesn't stand there, or more than once, and none is named by its number.
    """
    places = tokenizer.offsets(text)
    words = [_as_written(tokenizer, each, text, ids, places) for each in words_of(tokenizer, ids)]
    word = unicodedata.normalize("NFC", word)
    numbered = _NUMBERED.fullmatch(word)
    name, number = (numbered["word"], int(numbered["number"])) if numbered else (word, None)
    found = [each for each in words if each.text == name]
    if not found:
        raise DataError(f"'{name}' is no word of {called}; its words are {_listed(words)}")
    if number is None and len(found) > 1:
        raise DataError(f"'{name}' stands {len(found)} times in {called}; name one, as in {name}#2")
    if number is not None and number > len(found):
        raise DataError(f"there is no {word}: '{name}' stands {_times(len(found))} in {called}")
    chosen = found[(number or 1) - 1]
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


@torch.inference_mode()
def _log_probs(model: EncoderDecoder | LanguageModel, given: Given, choice: tuple[int, int]) -> tuple[float, float]:
    hidden, _ = run_given(model, [given])
    found = model.project(hidden[-1:]).float().log_softmax(-1)[0]
    return float(found[choice[0]]), float(found[choice[1]])


def _listed(words: Sequence[Word]) -> str:
    named = list(dict.fromkeys(word.text for word in words))
    return ", ".join(named[:MOST_NAMED]) + (" ..." if len(named) > MOST_NAMED else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
