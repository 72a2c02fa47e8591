"""An embedding table as a space of words: neighbours and analogies.

Start with `load_embeddings`. Each entry of the vocabulary is a direction, and its neighbours are those with the largest
cosine. Words are looked up as the tokenizer writes them inside a text; nothing is run through the model.
"""

import difflib
import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.errors import ConfigError, DataError
from dragoman.model.transformer import EncoderDecoder, EncoderModel, LanguageModel
from dragoman.shapes import Float
from dragoman.store.folder import load_model
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, UNKNOWN, Framing
from dragoman.tokenizing.tokenizer import Tokenizer

Side = Literal["source", "target"]

_SPACE_MARK = "▁"
_INSIDE = "##"
"""Prefix of a piece's name inside words, as WordPiece writes it."""
_SIGNS = {"+": 1, "-": -1}
_NOTHING = 1e-5
"""A sum of unit vectors that is shorter than this is zero up to rounding."""
_SAMPLES = 20_000
_WITH_PADDING = 0.5
"""Cosine with the padding symbol above which an entry counts as unused. In trained models most of those are above 0.9,
and few other entries above 0.4.
"""


class Term(NamedTuple):
    """A requested word or piece, and the entries of the vocabulary that represent it."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    """Names of the entries; a space is shown as `▁`."""


class Neighbour(NamedTuple):
    """An entry of the vocabulary, and the cosine between its vector and the requested one."""

    entry: str
    similarity: float


class Chance(NamedTuple):
    """Cosine of two random entries: the mean, and the limit that 95 % of such pairs stay below."""

    mean: float
    most: float


class EmbeddingSpace:
    """The rows of one embedding table (V, D), with the vocabulary that names them.

    Attributes:
        title: content of the table, for people.
        table: the rows (V, D) in float32, as the model holds them, before any scaling.
        unit: the rows at length one, so that products are cosines.
        entries: ids of the entries that spell text. Special symbols, placeholders and single bytes are not among them.
        unused: ids, also of bytes, that training hardly ever used. Vocabularies of pieces hold many: `▁proble` is only
            a step on the way to `▁problem`. The set is empty for models that read the padding symbol, as Marian's do.
    """

    def __init__(
        self,
        table: Float[Tensor, "V D"],
        tokenizer: Tokenizer,
        title: str = "embedding table",
        framing: Framing = DEFAULT_FRAMING,
    ) -> None:
        self.table, self.tokenizer, self.title = table.detach().float(), tokenizer, title
        self.unit = F.normalize(self.table, dim=-1)
        self.shown = tokenizer.tokens(range(tokenizer.size))
        first_piece = tokenizer.size - len(tokenizer.vocabulary.languages) - len(tokenizer.vocabulary.pieces)
        texts = (id_ for id_ in range(first_piece, tokenizer.size) if _is_text(tokenizer.spelling(id_)))
        self.entries = [id_ for id_ in texts if id_ not in tokenizer.placeholders.values()]
        self.unused = self._unused(framing.unused_id)
        self._entry_of = {self.shown[id_]: id_ for id_ in self.entries}

    def __repr__(self) -> str:
        return f"EmbeddingSpace({self.title!r}: {len(self.entries):,} entries, {self.table.size(1)} features)"

    def find(self, text: str) -> Term:
        """Find the entries that represent a word or a piece.

        `▁hou` is the piece of that name, and `##ing` is the piece `ing` inside words. Other text is a word as the
        tokenizer writes it inside a text, of one piece or several.

        Raises:
            DataError: the vocabulary holds no such piece, or no such word.
        """
        name = self.tokenizer.normalise(text)
        piece = name.removeprefix(_INSIDE)
        if name.startswith(_SPACE_MARK) or (piece != name and piece in self._entry_of):
            ids = [self._entry_of[piece]] if piece in self._entry_of else []
        else:
            # the name follows a space, which only `byte_bpe` does not put before the first word of a text
            word = f" {name}" if self.tokenizer.kind == "byte_bpe" else name
            ids = self.tokenizer.encode(word) if name.strip() else []
        if UNKNOWN in ids or not ids:
            if not text.strip():
                raise DataError("a word is blank; name a word, or a piece as it is shown, such as ▁the")
            what = "piece" if text.startswith(_SPACE_MARK) else "word"
            near = ", ".join(difflib.get_close_matches(text, self._entry_of, n=3))
            raise DataError(f"the vocabulary has no {what} {text[:60]!r}{f'; near it: {near}' if near else ''}")
        return Term(text, tuple(ids), tuple(self.shown[id_] for id_ in ids))

    def vector(self, term: Term) -> Float[Tensor, "D"]:
        """Return the direction of a term, at length one; of several pieces, that of the mean of their rows."""
        return F.normalize(self.table[list(term.ids)].mean(0), dim=0)

    def nearest(self, vector: Float[Tensor, "D"], count: int, without: Collection[int] = ()) -> list[Neighbour]:
        """Return the entries of the largest cosine with `vector`, nearest first, without those of `without`."""
        left_out = frozenset(without)
        entries = [id_ for id_ in self.entries if id_ not in left_out]
        similarity = self.unit[entries] @ F.normalize(vector, dim=0)
        order = similarity.argsort(descending=True, stable=True)[:count].tolist()
        return [Neighbour(self.shown[entries[place]], similarity[place].item()) for place in order]

    def unused_pieces(self, terms: Collection[Term]) -> list[str]:
        """Return the pieces of these terms that training hardly ever used."""
        named = {id_: piece for term in terms for id_, piece in zip(term.ids, term.pieces, strict=True)}
        return [piece for id_, piece in named.items() if id_ in self.unused]

    @cached_property
    def chance(self) -> Chance:
        """Cosine of two random used entries, from 20,000 pairs."""
        random = torch.Generator().manual_seed(0)
        used = torch.tensor([id_ for id_ in self.entries if id_ not in self.unused])
        drawn = used[torch.randint(len(used), (2, _SAMPLES), generator=random)]
        first, second = drawn[:, drawn[0] != drawn[1]]
        similarity = (self.unit[first] * self.unit[second]).sum(-1)
        return Chance(similarity.mean().item(), similarity.quantile(0.95).item())

    def _unused(self, unused_id: int | None) -> frozenset[int]:
        """Return the ids whose vectors are close to that of a symbol that the model never sees.

        If the table also is the pre-softmax matrix, training pushes all rows that it never uses in one direction (Land
        and Bartolo 2024, "Fishing for Magikarp"). Otherwise they stay random, and none is found.
        """
        if unused_id is None:
            return frozenset()
        similarity = self.unit @ self.unit[unused_id]
        least = max(_WITH_PADDING, 4 / math.sqrt(self.table.size(1)))  # four standard deviations of random directions
        ids = (similarity > least).nonzero().flatten().tolist()
        return frozenset(id_ for id_ in ids if not self.tokenizer.is_special(id_))


def load_embeddings(model: Path | str, side: Side | None = None) -> EmbeddingSpace:
    """Load the embedding table of a model folder, or of the best model of a run folder.

    A translation model has a table for the source and one for the target, unless both sides share one. Without `side`
    it is that of the source.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer, or holds no tokenizer.
        ConfigError: the model has no such side.
    """
    if side not in (None, *get_args(Side)):
        raise ConfigError(f"side must be source or target, but is {side!r}")
    stored = load_model(model)
    framing = stored.files.framing
    if isinstance(stored.model, LanguageModel):
        if side == "source":
            raise ConfigError(f"{model} holds a language model, which has no source; leave out --side")
        return EmbeddingSpace(stored.model.target_embedding.weight, stored.tokenizers.target, "text", framing)
    if isinstance(stored.model, EncoderModel):
        if side == "target":
            raise ConfigError(f"{model} holds an encoder alone, which has no target; leave out --side")
        return EmbeddingSpace(stored.model.source_embedding.weight, stored.tokenizers.source, "text", framing)
    assert isinstance(stored.model, EncoderDecoder)
    tables = {"source": stored.model.source_embedding.weight, "target": stored.model.target_embedding.weight}
    shared = tables["source"] is tables["target"]
    side = side or "source"
    language = getattr(stored.languages, side)
    title = f"source and target, {' and '.join(stored.languages)}" if shared else f"{side}, {language}"
    return EmbeddingSpace(tables[side], getattr(stored.tokenizers, side), title, framing)


def _is_text(spelled: bytes) -> bool:
    """Return True if bytes are whole characters; pieces of `byte_bpe` may be a part of one."""
    with suppress(UnicodeDecodeError):
        return bool(spelled.decode())
    return False


class Question(NamedTuple):
    """Words that are added and subtracted. A single word asks for its neighbours."""

    words: tuple[str, ...]
    signs: tuple[int, ...]
    """1 or -1 for each word."""

    def __str__(self) -> str:
        parts = [f"{'+' if sign > 0 else '-'} {word}" for word, sign in zip(self.words, self.signs, strict=True)]
        return " ".join(parts).removeprefix("+ ")


class EmbeddingAnswer(NamedTuple):
    """The entries nearest to a question."""

    question: Question
    terms: tuple[Term, ...]
    neighbours: list[Neighbour]
    alone: list[Neighbour]
    """Entries nearest to the first word alone. An analogy that is found among them owes nothing to the other words
    (Linzen 2016). Empty for a question of one word.
    """

    def facts(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "question": str(self.question),
            "terms": [{"text": term.text, "pieces": list(term.pieces)} for term in self.terms],
            "neighbours": [neighbour._asdict() for neighbour in self.neighbours],
            "nearest_to_first_word_alone": [neighbour._asdict() for neighbour in self.alone],
        }


def read_question(arguments: Sequence[str]) -> Question:
    """Read words with `-` and `+` between them. A single argument is a word, even if it is a sign.

    >>> str(read_question(["king", "-", "man", "+", "woman"]))
    'king - man + woman'
    """
    if len(arguments) == 1 and not _holds_sign(arguments[0]):
        return Question(tuple(arguments), (1,))
    form = "the form is: WORD - WORD + WORD, each a separate argument"
    typed = " ".join(arguments)
    for place, argument in enumerate(arguments):
        if _holds_sign(argument):
            raise ConfigError(f"{argument!r} is one argument; {form}")
        if place % 2 == 0 and argument in _SIGNS:
            raise ConfigError(f"{typed!r}: a word is missing before argument {place + 1}, {argument!r}; {form}")
        if place % 2 == 1 and argument not in _SIGNS:
            raise ConfigError(f"{typed!r}: - or + is missing between {arguments[place - 1]!r} and {argument!r}; {form}")
    if len(arguments) % 2 == 0:
        raise ConfigError(f"{typed!r} ends with a sign: a word is missing after it; {form}")
    return Question(tuple(arguments[::2]), (1, *(_SIGNS[sign] for sign in arguments[1::2])))


def answer(space: EmbeddingSpace, question: Question, count: int = 10) -> EmbeddingAnswer:
    """Return the `count` entries nearest to a question, without the entries of its words.

    Several words make an analogy by 3CosAdd (Mikolov et al. 2013, "Linguistic Regularities in Continuous Space Word
    Representations"): vectors of length one are added and subtracted, and the entry of the largest cosine with the sum
    answers. As in that paper, the words of the question are no answers; otherwise the first word would often answer
    itself.

    Raises:
        DataError: a word or piece that the vocabulary does not hold.
        ConfigError: the words cancel out.
    """
    terms = tuple(space.find(word) for word in question.words)
    vectors = torch.stack([space.vector(term) for term in terms])
    combined = (torch.tensor(question.signs)[:, None] * vectors).sum(0)
    if combined.norm() < _NOTHING:
        raise ConfigError(f"{question}: these words cancel out, so that no direction is left")
    without = {id_ for term in terms for id_ in term.ids}
    alone = space.nearest(vectors[0], 3, without) if len(terms) > 1 else []
    return EmbeddingAnswer(question, terms, space.nearest(combined, count, without), alone)


def _holds_sign(argument: str) -> bool:
    """Return True if an argument is several words with a sign between them: a question in quotes."""
    words = argument.split()
    return len(words) > 1 and any(word in _SIGNS for word in words)
