"""The reasons for a written word: the drop of its probability when a word that the model read is deleted (leave one
out, Li et al. 2016).

A word is deleted with all its pieces. Replacing it by the unknown symbol finds the decisive word no more often
(benchmarks/results/contributions.json), and most models have never read that symbol.

`why` compares two words (Yin and Neubig 2022), because that is what people ask: why *stanca* and not *stanco*? Because
of *sister*. The words are compared at the first piece in which they differ.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.brief import brief
from dragoman.errors import DataError
from dragoman.explaining.record import Contributions, Erased
from dragoman.inference.alignment import Word
from dragoman.inference.teacher_forcing import ForcedText, passes, teacher_force
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.shapes import Float, Int
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.words import words_of

_NUMBERED = re.compile(r"(?P<word>.+)#(?P<number>[1-9]\d*)", re.DOTALL)

MOST_NAMED = 40
"""Most words of a text that a message lists."""


class Reason(NamedTuple):
    """The contribution of one word that the model had read to the choice between two words."""

    stack: str
    """`encoder` for words of the source, `decoder` for words written before."""
    text: str
    drop: float
    """Drop of the written word's log-probability when this one is deleted, in nats."""
    drop_of_alternative: float
    """The same drop of the alternative."""

    @property
    def contrast(self) -> float:
        """First drop minus the second: above zero if this word supports the written one."""
        return self.drop - self.drop_of_alternative


class Why(NamedTuple):
    """The choice between two pieces at one step."""

    __repr__ = brief

    step: int
    """Place of the choice among the tokens of the target, counted from 0."""
    pieces: tuple[str, str]
    """The written piece and the alternative, as they are shown."""
    log_probs: tuple[float, float]
    """Log-probabilities of both."""
    reasons: tuple[Reason, ...]
    """A reason for each word of the source, then for each word written before the choice, in the order of the text."""

    def facts(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        reasons = [{**reason._asdict(), "contrast": reason.contrast} for reason in self.reasons]
        return {**self._asdict(), "reasons": reasons}


def why(
    model: EncoderDecoder | LanguageModel,
    tokenizers: Tokenizers,
    framing: Framing,
    source: str | None,
    target: str,
    word: str,
    alternative: str,
) -> Why:
    """Explain why the model wrote `word` in `target`, and not `alternative` in its place.

    `word` is a word of `target`; `casa#2` is the second *casa*. `alternative` is any text. A language model has no
    source.
    """
    forced, instead = read_choice(tokenizers, framing, source, target, word, alternative)
    choice = (forced.labels[-1], instead)
    sides = {
        "encoder": words_of(tokenizers.source, forced.source or []),
        "decoder": words_of(tokenizers.target, forced.target),
    }
    pairs = torch.tensor([choice], device=model.output.device).expand(len(forced.labels), 2)
    at_choice = probability_drops(model, forced, sides["encoder"], sides["decoder"], pairs)[:, -1]
    words = ((stack, word.text) for stack, side in sides.items() for word in side)
    reasons = (Reason(*word, *drops) for word, drops in zip(words, at_choice.tolist(), strict=True))
    piece, rival = tokenizers.target.tokens(choice)
    with torch.inference_mode():
        hidden, _ = teacher_force(model, [forced])
        log_probs = model.project(hidden[-1:]).float().log_softmax(-1)[0]
    both = float(log_probs[choice[0]]), float(log_probs[choice[1]])
    return Why(len(forced.labels) - 1, (piece, rival), both, tuple(reasons))


def read_choice(
    tokenizers: Tokenizers, framing: Framing, source: str | None, target: str, word: str, alternative: str
) -> tuple[ForcedText, int]:
    """Return what the model had read when it chose, with the chosen piece as the last label; and the piece of
    `alternative`.
    """
    ids = tokenizers.target.encode(target)
    name = "the text" if source is None else "the translation"
    first, last = find_word(tokenizers.target, target, ids, word, name)
    others = tokenizers.target.encode(f"{target[:first]}{alternative}{target[last:]}")
    if source is None:
        forced = ForcedText(None, ids[:-1], ids[1:])
        instead = others[1:]
    else:
        forced = ForcedText.of(framing, tokenizers.source.encode(source), ids)
        instead = framing.labels(others)
    pieces = enumerate([*zip_longest(forced.labels, instead), (0, 1)])
    step = next(place for place, (written, alternate) in pieces if written != alternate)
    if ids == others:
        raise DataError(
            f"the model writes '{word}' and '{alternative}' with the same pieces, so there is nothing to compare"
        )
    if source is None and ids[:1] != others[:1]:
        raise DataError(
            f"a language model chooses by the words before, but nothing comes before the choice of '{word}'; name a "
            "later word"
        )
    if step >= min(len(forced.labels), len(instead)):
        raise DataError(
            f"'{word}' and '{alternative}' have the same first pieces, and the text ends before they differ; give a "
            "longer text"
        )
    if tokenizers.target.unknown in (forced.labels[step], instead[step]):
        strange = word if forced.labels[step] == tokenizers.target.unknown else alternative
        raise DataError(f"'{strange}' is not in the model's vocabulary, so its probability isn't known; name another")
    return ForcedText(forced.source, forced.target[: step + 1], forced.labels[: step + 1]), instead[step]


def find_word(
    tokenizer: Tokenizer, text: str, ids: Sequence[int], word: str, called: str = "the text"
) -> tuple[int, int]:
    """Return the place of a word in a text with these `ids`: its first character, and the one after its last.

    Words are compared in Unicode's normal form C. Messages call the text `called`.
    """
    places = tokenizer.offsets(text)
    words = list[Word]()
    for read in words_of(tokenizer, ids):
        is_unknown = ids[read.first] == tokenizer.unknown  # a symbol that does not spell the word
        spelled = text[slice(*places[read.first])] if is_unknown else read.text
        words.append(read._replace(text=unicodedata.normalize("NFC", spelled)))
    word = unicodedata.normalize("NFC", word)
    numbered = _NUMBERED.fullmatch(word)
    name, number = (numbered["word"], int(numbered["number"])) if numbered else (word, None)
    same = [known for known in words if known.text == name]
    if not same:
        listed = list(dict.fromkeys(known.text for known in words))
        more = " ..." if len(listed) > MOST_NAMED else ""
        raise DataError(f"'{name}' is no word of {called}; its words are {', '.join(listed[:MOST_NAMED])}{more}")
    times = "once" if len(same) == 1 else f"{len(same)} times"
    if number is None and len(same) > 1:
        raise DataError(f"'{name}' appears {times} in {called}; name one, as in {name}#2")
    if number is not None and number > len(same):
        raise DataError(f"there is no {word}: '{name}' appears {times} in {called}")
    chosen = same[(number or 1) - 1]
    first, last = places[chosen.first][0], places[chosen.last - 1][1]
    return last - len(text[first:last].lstrip()), last


def find_contributions(
    model: EncoderDecoder | LanguageModel,
    forced: ForcedText,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> Contributions:
    """Return the probability drops for a record: of the candidates at each step, and of the tokens of the text."""
    labels = torch.tensor(forced.labels, device=candidates.device)
    both = torch.cat([candidates, labels[:, None]], dim=1)
    drops = probability_drops(model, forced, source_words, target_words, both).float().cpu().numpy()
    sources: list[Erased] = [("encoder", number) for number in range(len(source_words))]
    targets: list[Erased] = [("decoder", number) for number in range(len(target_words))]
    return Contributions((*sources, *targets), erasure=drops[:, :, :-1], written_erasure=drops[:, :, -1])


@torch.inference_mode()
def probability_drops(
    model: EncoderDecoder | LanguageModel,
    forced: ForcedText,
    source_words: Sequence[Word],
    target_words: Sequence[Word],
    candidates: Int[Tensor, "T C"],
) -> Float[Tensor, "W T C"]:
    """Return the drop in nats of the log-probability of each candidate at each step when each word is deleted; above
    zero if the word supports the candidate. The W words are those of the source, then those of the target.

    The places of target words count the tokens that the decoder reads. A target word has no effect, so zero, on the
    steps before it. A step in the middle of a word has read some of its pieces, and these are deleted; if it has read
    nothing else, as in the first word of a language model, the drop is set to zero.
    """
    source, target, step = forced.source or [], forced.target, torch.arange(len(forced.target))
    texts = [forced, *(forced._replace(source=source[: word.first] + source[word.last :]) for word in source_words)]
    # The row of each step in each text: the step's own number, except in the texts without a target word.
    step_rows = [step] * len(texts)
    for word in target_words:
        rest = target[: word.first] + target[word.last :] or target
        texts.append(forced._replace(target=rest, labels=[]))  # labels would no longer match their tokens
        # The number of the word's tokens that the step had read: none before it, all of them after it, some within it.
        step_rows.append(step - (step + 1 - word.first).clamp(0, word.last - word.first))
    rows = torch.stack(step_rows).to(candidates.device)
    parts, start = [], 0
    for portion in passes(texts):
        end = start + len(portion)
        hidden, packing = teacher_force(model, portion, share_sources=True)
        logits = model.project(hidden).float()
        starts = packing.lengths.cumsum(0) - packing.lengths
        places = (starts[:, None] + rows[start:end].clamp(min=0))[:, :, None]
        parts.append(logits[places, candidates] - logits.logsumexp(-1)[places])
        start = end
    log_probs = torch.cat(parts)  # (1 + W, T, C)
    drops = log_probs[:1] - log_probs[1:]
    # A step whose row has not moved had not read the word. A step below row 0 had read nothing but the word.
    had_read = (rows[1:] >= 0) & (rows[1:] < rows[0])
    had_read[: len(source_words)] = True
    return drops * had_read[:, :, None]
