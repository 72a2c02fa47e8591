"""Tokenizer: text to ids of words or subwords and back, with the `tokenizers` library.

The special symbols have the first ids. In `bpe`, `unigram` and `character`, 256 byte ids follow; they spell characters
never seen in training, so nothing is unknown. The library's pieces come last. Symbols and bytes are not in the
library's model: `[EOS]`, `</s>` or `<0x0A>` typed by a person is ordinary text.

Text is converted to Unicode normal form C (`byte_bpe` keeps every byte); case is kept. `decode(encode(text))` equals
`normalise(text)` for the subword kinds, spaces and line ends included; the word kinds insert spaces by rule.
"""

import hashlib
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Self

from tokenizers import Regex, normalizers, pre_tokenizers

from dragoman.config import Content, Settings, read_json_as
from dragoman.errors import TokenizerError
from dragoman.files import write_file
from dragoman.languages import SPACELESS
from dragoman.surface.placeholders import PLACEHOLDERS, readable
from dragoman.tokenizing.pretokenizing import (
    GAP_BETWEEN_WORDS,
    WORD_PATTERN,
    cut_running,
    join_words,
    may_follow_space,
    spacy_split,
)
from dragoman.tokenizing.settings import WHOLE_WORDS
from dragoman.tokenizing.special_tokens import SYMBOLS, UNKNOWN
from dragoman.tokenizing.vocabulary import FORMAT, Vocabulary, build_library, spelling

_FIRST_PIECE = SYMBOLS + 256
TAG = re.compile(r">>(\S+?)<<")
"""The tag of a language at the beginning of a text, as in `>>it<<`."""
_RUNNING = 1_000_000
"""Number of characters of running text to encode at a time."""
_PUNCTUATION = string.punctuation + "«»“”‘’…¿¡–—"


class Tokenizer:
    """Immutable tokenizer with one vocabulary, made by `learn_tokenizer` or `load`.

    Attributes:
        size: number of ids V, special symbols included.
        placeholders: the id of each placeholder; empty if the vocabulary was learned without them.
        languages: the ids of the symbols of languages, by the names of these. A text may begin with the tag of one, as
            in `>>it<<`.
    """

    unknown = UNKNOWN
    placeholders: Mapping[str, int] = MappingProxyType({})
    languages: Mapping[str, int] = MappingProxyType({})

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.kind = vocabulary.kind
        self._library = build_library(self.kind, vocabulary)
        self._split = spacy_split(vocabulary.language) if self.kind == "spacy" and vocabulary.language else None
        self._spells = self.kind in ("bpe", "unigram", "character")
        self._adds_space = self.kind in ("bpe", "unigram")
        spellings = [spelling(self.kind, piece) for piece in vocabulary.pieces]
        self._nothing = len(spellings)
        first = _FIRST_PIECE if self._spells else SYMBOLS
        self._id_of = [*range(first, first + len(spellings)), UNKNOWN]
        if vocabulary.pieces[: len(PLACEHOLDERS)] == PLACEHOLDERS:
            self.placeholders = dict(zip(PLACEHOLDERS, self._id_of, strict=False))
        self._spelling = [name.encode() for name in vocabulary.specials.names]
        self._spelling += [bytes([value]) for value in range(256)] if self._spells else []
        self._spelling += spellings
        self._add_languages(vocabulary.languages)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without start and end symbols."""
        return self.encode_batch([text])[0]

    def encode_running(self, text: str | Iterable[str]) -> Iterator[list[int]]:
        """Yield the ids of a long text piece by piece; joined, they equal those of `encode`.

        `encode` needs at least 100 bytes of memory per character. The text may be given in parts. Requires a tokenizer
        that keeps every space.

        Raises:
            TokenizerError: there are millions of characters without a space, which this kind cannot cut.
        """
        parts = [text] if isinstance(text, str) else text
        for number, piece in enumerate(cut_running(parts, _RUNNING, GAP_BETWEEN_WORDS)):
            if not number or not self._adds_space:
                yield self.encode(piece)
            elif piece.startswith(" "):
                yield self.encode(piece[1:])  # the library puts the space back
            elif piece.startswith("\n"):
                yield self.encode(piece)[1:]  # the library put a space before the line end
            else:
                raise TokenizerError(
                    f"the text has millions of characters without a space or line end, which kind = {self.kind!r} "
                    "cannot cut; use byte_bpe or character"
                )

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; uses all cores."""
        if self._has_tags(texts):
            tags, texts = zip(*map(self._split_tag, texts), strict=True)
            return [[*tag, *row] for tag, row in zip(tags, self.encode_batch(texts), strict=True)]
        with only_unicode(texts):
            split = self._split
            inputs = [[word for word, _ in split(text)] for text in texts] if split else texts
            encodings = self._library.encode_batch_fast(inputs, is_pretokenized=bool(split), add_special_tokens=False)
        rows, id_of = [encoding.ids for encoding in encodings], self._id_of
        if not self._spells:
            return [[id_of[i] for i in row] for row in rows]
        return [
            [piece for piece, _, _ in self._pieces(text)] if self._nothing in row else [id_of[i] for i in row]
            for row, text in zip(rows, texts, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids. Special symbols are left out, except that the unknown symbol appears by its name.

        Bytes that are no character, which a model may write, become U+FFFD.
        """
        spelled = [self._spelling[i] for i in ids if i >= SYMBOLS or i == UNKNOWN]
        if self.whole_words:
            return join_words(word.decode() for word in spelled if word)
        text = b"".join(spelled).decode(errors="replace")
        return text.removeprefix(" ") if self._adds_space else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable form of each id: a space is `▁`, a placeholder `[word 1]`, unprintable bytes `<0x0A>`, a
        language `>>it<<`.
        """
        return [self._tag_of.get(i) or _readable(self._spelling[i]) for i in ids]

    def spelling(self, id_: int) -> bytes:
        """Return the UTF-8 bytes of an id, or the name of a special symbol; the symbol of a language has none."""
        return self._spelling[id_]

    def spells_characters(self, id_: int) -> bool:
        """Return True if an id represents whole characters, and is neither unknown nor part of a character."""
        return id_ != UNKNOWN and "\ufffd" not in self._spelling[id_].decode(errors="replace")

    @property
    def whole_words(self) -> bool:
        """Return True if each id is a word or punctuation mark, with spaces inserted by rule."""
        return self.kind in WHOLE_WORDS

    def spelling_in_line(self, id_: int) -> bytes:
        """Return what an id adds to a line: its spelling, after a space if it is a word that may follow one."""
        spelled = self._spelling[id_]
        return b" " + spelled if self.whole_words and may_follow_space(spelled.decode()) else spelled

    def is_special(self, id_: int) -> bool:
        """Return True if an id is a special symbol or that of a language."""
        return id_ < SYMBOLS or id_ in self._tag_of

    def is_text(self, id_: int) -> bool:
        """Return True if an id represents text; the unknown symbol does."""
        return id_ == UNKNOWN or not self.is_special(id_)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the span of characters of `text`, as (first, last + 1), for each id of `encode(text)`.

        The bytes of one character share its span; in a `unigram` tokenizer, so do the bytes of a
        run of unseen characters.
        """
        return [(first, last) for _, first, last in self._pieces(text)]

    def unknown_words(self, text: str, ids: Sequence[int] | None = None) -> list[str]:
        """Return the distinct words of `text` that are not in the vocabulary. Passing the text's `ids` saves time.

        For subwords, these are the words with a character that training saw never or too rarely. `byte_bpe` knows all
        words.
        """
        if ids is not None and min(ids, default=_FIRST_PIECE) >= (_FIRST_PIECE if self._spells else SYMBOLS):
            return []
        pieces = self._pieces(text)
        if self._spells:
            spelled = [(first, last) for piece, first, last in pieces if piece < _FIRST_PIECE]
            words = (word_around(text, first, last) for first, last in spelled if not text[first:last].isspace())
        else:
            words = (text[first:last] for piece, first, last in pieces if piece == UNKNOWN)
        return list(dict.fromkeys(words))

    def normalise(self, text: str) -> str:
        """Return the form of `text` that `decode(encode(text))` gives back."""
        with only_unicode([text]):
            return text if self.kind == "byte_bpe" else normalizers.NFC().normalize_str(text)

    @cached_property
    def identity(self) -> str:
        """Return the SHA-256, in hexadecimal, of everything that determines the ids of a text."""
        canonical = json.dumps(content_of(self.vocabulary), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def shares_ids(self, tokenizer: "Tokenizer") -> bool:
        """Return True if every piece has the same id in both tokenizers."""
        return self is tokenizer

    def save(self, path: Path | str) -> None:
        """Write one JSON file, atomically."""
        content = content_of(self.vocabulary)
        lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())
        write_file(path, "{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a file that `save` wrote. Every part is checked, and nothing is executed."""
        advice = "dragoman train-tokenizer makes tokenizers"
        return cls(read_json_as(path, Vocabulary, FORMAT, error=TokenizerError, advice=advice))

    def _pieces(self, text: str) -> list[tuple[int, int, int]]:
        """Return the ids of `text`, each with its first character position and the one after its last."""
        if self._has_tags([text]):
            tag, rest = self._split_tag(text)
            start = len(text) - len(rest)
            pieces = [(piece, start + first, start + last) for piece, first, last in self._pieces(rest)]
            return [*((symbol, 0, start) for symbol in tag), *pieces]
        with only_unicode([text]):
            if self._split:
                words = self._split(text)
                ids = self._library.encode([word for word, _ in words], is_pretokenized=True).ids
                return [(self._id_of[i], start, start + len(word)) for i, (word, start) in zip(ids, words, strict=True)]
            encoding = self._library.encode(text, add_special_tokens=False)
        if self._spells:
            return self._spelled(text, encoding.ids, _extended(text, encoding.offsets))
        spans = encoding.offsets if self.kind == "byte_bpe" else _extended(text, encoding.offsets)
        return [(self._id_of[i], *span) for i, span in zip(encoding.ids, spans, strict=True)]

    def _add_languages(self, names: Sequence[str]) -> None:
        """Give each of these languages a symbol, after all pieces."""
        symbols = range(len(self._spelling), len(self._spelling) + len(names))
        self.languages = dict(zip(names, symbols, strict=True))
        self._tag_of = {symbol: f">>{name}<<" for name, symbol in self.languages.items()}
        self._spelling += [b""] * len(names)
        self.size = len(self._spelling)

    def _has_tags(self, texts: Sequence[str]) -> bool:
        """Return True if one of the texts begins with the tag of a language that has a symbol."""
        return bool(self.languages) and any(text.startswith(">>") and self._split_tag(text)[0] for text in texts)

    def _split_tag(self, text: str) -> tuple[list[int], str]:
        """Split off the tag at the beginning of a text, as its symbol, if there is one."""
        tag = TAG.match(text)
        symbol = self.languages.get(tag[1]) if tag else None
        return ([symbol], text[tag.end() :]) if tag and symbol is not None else ([], text)

    def _spelled(self, text: str, ids: list[int], spans: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Replace unseen characters by their bytes. The space before the first word has an empty span."""
        normal = self.normalise(text)
        in_normal = self._library.encode(normal, add_special_tokens=False).offsets
        if self._adds_space and ids and self._spelling[self._id_of[ids[0]]] == b" ":
            spans = [(0, 0), *spans[1:]]
        pieces = []
        for i, span, (first, last) in zip(ids, spans, in_normal, strict=True):
            unseen = normal[first:last].encode() if i == self._nothing else None
            written = [self._id_of[i]] if unseen is None else [SYMBOLS + value for value in unseen]
            pieces += [(piece, *span) for piece in written]
        return pieces


def content_of(vocabulary: Settings) -> Content:
    """Return the content of the file of a vocabulary; models of one language pair name no languages, as always."""
    content = vocabulary.model_dump(mode="json")
    return {key: value for key, value in content.items() if key != "languages" or value}


@contextmanager
def only_unicode(texts: Sequence[str]) -> Iterator[None]:
    """Replace the library's error about invalid Unicode by ours, which names the character.

    Raises:
        TokenizerError: a text contains half a surrogate pair.
    """
    try:
        yield
    except (TypeError, UnicodeEncodeError):
        for text in texts:
            if half := re.search("[\ud800-\udfff]", text):
                raise TokenizerError(
                    f"character {half.start() + 1} of {text[:60]!r} is half of a surrogate pair "
                    f"(U+{ord(half[0]):04X}) and no character; read the text as UTF-8"
                ) from None
        raise


def _extended(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extend each span to the next one, spaces excluded: the library's end before a mark that it joined to a letter."""
    following = chain((first for first, _ in spans[1:]), [len(text)])
    return [
        (first, max(last, first + len(text[first:start].rstrip())))
        for (first, last), start in zip(spans, following, strict=False)
    ]


@lru_cache(maxsize=1 << 16)
def _readable(spelled: bytes) -> str:
    text = spelled.decode(errors="replace")
    if text.isprintable() and "\ufffd" not in text:
        return text.replace(" ", "▁")
    if text in PLACEHOLDERS:
        return readable(text)
    return "".join(f"<0x{value:02X}>" for value in spelled)


def word_around(text: str, first: int, last: int) -> str:
    """Return the word, without punctuation, around the characters from `first` to `last`."""
    begin = max((space.end() for space in re.finditer(r"\s", text[:first])), default=0)
    space = re.compile(r"\s").search(text, last)
    word = text[begin : space.start() if space else None]
    return word.strip(_PUNCTUATION) or word


_CUT = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(rf"(?=[{SPACELESS}])\X"), "isolated"),
        pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True),
    ]
)


def split_words(text: str) -> list[tuple[str, int]]:
    """Split a text into words and punctuation marks with their start positions, as the word tokenizer does.

    In scripts without spaces every character is a word.

    >>> split_words("The dog barks.")
    [('The', 0), ('dog', 4), ('barks', 8), ('.', 13)]
    >>> [word for word, _ in split_words("5G网络很快")]
    ['5G', '网', '络', '很', '快']
    """
    with only_unicode([text]):
        return [(word, first) for word, (first, _) in _CUT.pre_tokenize_str(text)]


def encode_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[list[list[int]]]:
    """Return the ids of each word of each sentence; a word without ids is unknown."""
    ids = [row or [UNKNOWN] for row in tokenizer.encode_batch([*chain.from_iterable(sentences)])]
    return [ids[first:last] for first, last in pairwise(accumulate(map(len, sentences), initial=0))]
