"""Pieces to words: people ask about words, and models speak in pieces.

Word alignments from cross-attention: each target word is linked to the source word that it looks at most.

A word's weight on a source word is summed over the source word's tokens and averaged over its own (Garg et al. 2019).
`dragoman.explaining.gold_alignment` measures which layer and head align best.

Forward passes over given texts, watched from inside; the model's own code, with attention by its equation.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Regex, pre_tokenizers
from torch import Tensor, nn

from dragoman.model.attention import Attention
from dragoman.model.attention_backends import Backend
from dragoman.model.observer import Observer
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.tokenizing.special_tokens import UNKNOWN, Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.vocabulary import WHOLE_WORDS

_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = rf"[\w\u00AD\u200C\u200D&&[^{_SPACELESS}]]"  # marks too, soft hyphens, and what joins letters or parts them
_WORD = rf"{_LETTER}+['’](?=\w{{3}})|{_LETTER}+(?:['’]\w{{1,2}}\b)?['’]?|(?![\s\x1C-\x1F])\X"
_WORDS = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)  # Python's own `re` takes marks for no letters

_NO_CHARACTER = re.compile("[\udc80-\udcff]")


class Word(NamedTuple):
    """A word, and its tokens: those from `first` up to, but not including, `last`."""

    text: str
    first: int
    last: int


def split_words(text: str) -> list[str]:
    """The words and marks of a text. An elided article stands alone before a word of three letters or more.

    In scripts without spaces, such as Han, kana and Thai, every character is a word.

    >>> split_words("Don't! L'amica c'è.")
    ["Don't", '!', "L'", 'amica', "c'è", '.']
    """
    return [word for word, _ in _WORDS.pre_tokenize_str(text)]


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Word]:
    """The words that tokens spell, in order. What stands for an unknown word is a word.

    Every token belongs to one word, spaces to the one after them; the symbols around a text belong to none.
    """
    shown = [(place, tokenizer.spelling(id_)) for place, id_ in enumerate(ids) if _is_text(tokenizer, id_)]
    if tokenizer.kind in WHOLE_WORDS:
        return [Word(spelled.decode(), place, place + 1) for place, spelled in shown]
    line = b"".join(spelled for _, spelled in shown)
    characters, beginnings = _characters_and_words(line)
    numbered, number, start = [], 1, 0
    for place, spelled in shown:
        end = start + len(spelled)
        if start in characters:  # a token that begins inside a character stays with the one before
            visible = end - len(spelled.lstrip())
            number = max(bisect_right(beginnings, visible if visible < end else end), 1)
        numbered.append((number, place, spelled))
        start = end
    words = []
    for _, group in groupby(numbered, key=lambda each: each[0]):
        tokens = list(group)
        spelled = b"".join(each for _, _, each in tokens).decode(errors="replace").strip()
        words.append(Word(spelled, tokens[0][1], tokens[-1][1] + 1))
    return words


def words_in_tokens(tokenizer: Tokenizer, text: str, words: Sequence[str], symbols: int = 0) -> list[Word]:
    """The tokens of `encode(text)` that each word touches, after so many special symbols, whatever the tokenizer takes
    for a word.

    A token of spaces alone belongs to the word after it, as in `words_of`.
    """
    tokens, found, end = tokenizer.offsets(text), [], 0
    for word in words:
        before, start = end, text.index(word, end)
        end = start + len(word)
        own = [
            place
            for place, (first, last) in enumerate(tokens, symbols)
            if first < end and (last > start or (last >= before and not text[first:last].strip()))
        ]
        found.append(Word(word, own[0], own[-1] + 1) if own else Word(word, 0, 0))
    return found


def words_written(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Word]:
    """The words of a text that was decoded from `ids`, and the tokens of each: those that share a letter with it.

    They are those of `words_of`, except that what the tokenizer takes for several words may be one of the text, or the
    other way round.
    """
    spelled = words_of(tokenizer, ids)
    ends = [*accumulate(_visible(each.text) for each in spelled)]
    found, end = [], 0
    for word in split_words(text):
        begin, end = end, end + _visible(word)
        own = spelled[bisect_right(ends, begin) : bisect_left(ends, end) + 1]
        found.append(Word(word, own[0].first, own[-1].last) if own else Word(word, 0, 0))
    return found


def places_in_line(line: str, parts: Sequence[str]) -> list[list[int]]:
    """For each word of each part of a line, the number of the word of the line that it belongs to.

    >>> places_in_line("Good morning. He sleeps.", ["Good morning.", "He sleeps."])
    [[0, 1, 2], [3, 4, 5]]
    """
    begins = [first for _, (first, _) in _WORDS.pre_tokenize_str(line)]
    places, end = [], 0
    for part in parts:
        start = line.index(part, end)
        end = start + len(part)
        words = _WORDS.pre_tokenize_str(part)
        places.append([bisect_right(begins, start + first) - 1 for _, (first, _) in words])
    return places


def _visible(text: str) -> int:
    """How many characters of a text a person sees."""
    return sum(not (character.isspace() or character == "\0") for character in text)


def _is_text(tokenizer: Tokenizer, id_: int) -> bool:
    return id_ == UNKNOWN or not tokenizer.is_special(id_)


def _characters_and_words(line: bytes) -> tuple[set[int], list[int]]:
    """The places where characters begin, and those where words do. A byte that is no character, which a model may
    write, is a mark.
    """
    text = line.decode(errors="surrogateescape")
    places = [*accumulate((len(each.encode(errors="surrogateescape")) for each in text), initial=0)]
    words = _WORDS.pre_tokenize_str(_NO_CHARACTER.sub("\ufffd", text))
    return set(places), [places[first] for _, (first, _) in words]


Link = tuple[int, int]
"""A word of the source and a word of the target, counted from 0."""
Links = frozenset[Link]


@dataclass(frozen=True)
class AlignmentChoice:
    """Which cross-attention to read alignments from, and how well it aligns."""

    layer: int
    """A layer of the decoder, counted from 0."""
    head: int | None
    """None for the mean over the layer's heads."""
    shifted: bool = False
    """Whether the weights are those of the step that reads the word (Chen et al. 2020), not of that which writes it."""
    aer: float | None = None
    """The alignment error rate (Och and Ney 2003) on `pairs` aligned pairs; None if it was not measured."""
    pairs: int = 0

    @classmethod
    def unmeasured(cls, layers: int) -> "AlignmentChoice":
        """The choice for a model that nobody has aligned pairs for: the mean over the last layer but one.

        Layers near the end, but not the last, align best in most models (Garg et al. 2019, Chen et al. 2020), and no
        single head does in all. In ours, the step that writes the word does (benchmarks/alignment.py).
        """
        return cls(max(layers - 2, 0), None)

    @property
    def how(self) -> str:
        """Sentences that say what is read and how it was chosen.

        >>> AlignmentChoice(2, None).how.partition(". ")[0]
        'the mean over the heads of layer 2, at the step that writes the word'
        """
        heads = "the mean over the heads" if self.head is None else f"head {self.head}"
        step = "reads" if self.shifted else "writes"
        measured = "It was not measured: no aligned pairs are in these languages and fit the model."
        if self.aer is not None:
            pairs = f"{self.pairs:,} aligned pairs"
            measured = f"Of all layers and heads it aligns best; its alignment error rate is {self.aer:.2f} ({pairs})."
        return f"{heads} of layer {self.layer}, at the step that {step} the word. {measured}"

    def measured(self, aer: float, pairs: int) -> "AlignmentChoice":
        """The same choice with its alignment error rate on so many pairs."""
        return replace(self, aer=aer, pairs=pairs)


class WordAlignment(NamedTuple):
    """What cross-attention says of I target words and J source words."""

    links: Links
    """(source word, target word): one for each target word, or none if it looks at no word at all."""
    weights: Float[np.ndarray, "I J"]
    """Of each target word on each source word. A row sums to less than one if the word looks at special symbols too."""


def align_words(
    weights: Sequence[Float[np.ndarray, "H T S"]],
    source: Sequence[Word],
    target: Sequence[Word],
    choice: AlignmentChoice,
) -> WordAlignment:
    """The alignment of one sentence, from the cross-attention weights of every decoder layer.

    The words stand for tokens of what the encoder reads and of what the decoder writes, as
    `words_of(tokenizer, given.source)` and `words_of(tokenizer, given.labels)` give them.
    """
    layer = weights[choice.layer]
    chosen = layer.mean(0) if choice.head is None else layer[choice.head]
    by_word = word_weights(chosen, source, target, choice.shifted)
    return WordAlignment(best_links(by_word), by_word)


def word_weights(
    weights: Float[np.ndarray, "*heads T S"], source: Sequence[Word], target: Sequence[Word], shifted: bool = False
) -> Float[np.ndarray, "*heads I J"]:
    """Weights between tokens to weights between words: sums over source tokens, means over target tokens.

    Step t writes token t of the target, and reads token t - 1. A word that no step reads has no weights: the last one
    of a translation without an end.
    """
    steps = _membership(target, weights.shape[-2], int(shifted))
    steps /= np.maximum(steps.sum(1, keepdims=True), 1)
    return steps @ weights @ _membership(source, weights.shape[-1]).T


def best_links(weights: Float[np.ndarray, "I J"]) -> Links:
    """Each target word with the source word of the largest weight, of equal ones the first.

    >>> sorted(best_links(np.array([[0.1, 0.8], [0.6, 0.3], [0.0, 0.0]])))
    [(0, 1), (1, 0)]
    """
    if not weights.size:
        return frozenset()
    best = weights.argmax(1).tolist()
    return frozenset((place, word) for word, place in enumerate(best) if weights[word, place] > 0)


def _membership(words: Sequence[Word], tokens: int, shift: int = 0) -> Float[np.ndarray, "words tokens"]:
    """1 where a token belongs to a word."""
    member = np.zeros((len(words), tokens))
    for row, word in zip(member, words, strict=True):
        row[word.first + shift : word.last + shift] = 1
    return member


class Given(NamedTuple):
    """One text as a model reads and writes it, in ids with the symbols around them."""

    source: list[int] | None
    """What the encoder reads; None in a model without one."""
    target: list[int]
    """What the decoder reads."""
    labels: list[int]
    """What it should write: one token for each that it reads."""

    @classmethod
    def of(cls, framing: Framing, source: Sequence[int], target: Sequence[int]) -> "Given":
        """A source and its translation, in ids without symbols."""
        return cls(framing.source(source), framing.target(target), framing.labels(target))

    @property
    def longest(self) -> int:
        """The tokens of the longer side."""
        return max(len(self.source or []), len(self.target))


class Seen(dict[str, Tensor]):
    """An observer that keeps the tensor of every site, by name."""

    def tensor(self, site: str, value: Tensor) -> None:
        self[site] = value


@contextmanager
def plain_attention(model: nn.Module) -> Iterator[None]:
    """Computes every attention by its equation meanwhile, whatever is faster."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    before: list[Backend | None] = [attention.backend for attention in attentions]
    for attention in attentions:
        attention.backend = "equation"
    try:
        yield
    finally:
        for attention, backend in zip(attentions, before, strict=True):
            attention.backend = backend


def run_given(
    model: EncoderDecoder | LanguageModel,
    given: Sequence[Given],
    observer: Observer | None = None,
    *,
    share_sources: bool = False,
) -> tuple[Float[Tensor, "M D"], Packing]:
    """Decoder output for every target token of these texts, in one pass, and how its rows lie.

    `share_sources` encodes equal sources once. Then an observer, or a hook, sees fewer of them.
    """
    device = model.output.device
    of_target = Packing.of([len(each.target) for each in given], device)
    target = _rows([each.target for each in given], device)
    with plain_attention(model):
        if isinstance(model, LanguageModel):
            return model.decode(target, of_target, observer=observer), of_target
        sources = [tuple(each.source) for each in given if each.source is not None]
        assert len(sources) == len(given), "an encoder needs a source for every text"
        read = list(dict.fromkeys(sources)) if share_sources else sources
        lengths = [len(source) for source in read]
        memory = model.encode(_rows(read, device), Packing.of(lengths, device), observer=observer)
        if share_sources:
            memory_of = dict(zip(read, memory.split(lengths), strict=True))
            memory = torch.cat([memory_of[source] for source in sources])
        keys = model.cross_keys(memory, Packing.of([len(source) for source in sources], device))
        return model.decode(target, of_target, keys, observer=observer), of_target


def portions(texts: Sequence[Given], tokens: int = 1_024) -> Iterator[list[Given]]:
    """The texts in order, in portions of at most so many tokens, so that memory does not grow with their number.

    A longer text is a portion of its own.

    >>> [len(portion) for portion in portions([Given([1, 2], [3], [4])] * 5, tokens=6)]
    [2, 2, 1]
    """
    portion: list[Given] = []
    held = 0
    for text in texts:
        size = len(text.source or []) + len(text.target)
        if portion and held + size > tokens:
            yield portion
            portion, held = [], 0
        portion.append(text)
        held += size
    if portion:
        yield portion


class _CrossWeights(dict[int, Tensor]):
    """An observer that keeps the cross-attention weights (B, H, T, S) of each layer, and nothing else."""

    def tensor(self, site: str, value: Tensor) -> None:
        if site.endswith("cross_attention.weights"):
            self[len(self)] = value


@torch.inference_mode()
def cross_weights(model: EncoderDecoder, given: Sequence[Given]) -> Float[np.ndarray, "B L H T S"]:
    """The cross-attention weights of all layers, in one pass over these texts side by side."""
    seen = _CrossWeights()
    run_given(model, given, seen)
    return torch.stack([seen[layer] for layer in range(len(seen))], dim=1).float().cpu().numpy()


def _rows(ids: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return torch.tensor(list(chain.from_iterable(ids)), dtype=torch.int64, device=device)
