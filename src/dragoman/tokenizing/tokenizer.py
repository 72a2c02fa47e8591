"""Text to ids and back: words, or pieces of words, over the `tokenizers` library.

Ids begin with the special symbols. In `bpe`, `unigram` and `character`, 256 bytes follow, which spell characters
never seen in training, so that nothing is unknown. Then come the library's pieces. Symbols and bytes are not in the
library's model: `[EOS]`, `</s>` or `<0x0A>` typed by a person is text like any other.

Text is brought to Unicode's normal form C (`byte_bpe` keeps every byte); case is kept. `decode(encode(text))` is
`normalise(text)` for the subword kinds, spaces and line ends included; the word kinds put spaces by rule.

Words as pieces, each word apart, so that its label stays with the piece that it begins with.
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

from dragoman.config import read_json_as
from dragoman.errors import TokenizerError
from dragoman.files import write_file
from dragoman.languages import SPACELESS
from dragoman.surface.placeholders import PLACEHOLDERS, readable
from dragoman.tokenizing.pretokenizing import (
    GAP_BETWEEN_WORDS,
    WORD_PATTERN,
    cut_running,
    join_words,
    may_stand_apart,
    spacy_split,
)
from dragoman.tokenizing.special_tokens import SYMBOLS, UNKNOWN
from dragoman.tokenizing.vocabulary import FORMAT, WHOLE_WORDS, Vocabulary, build_library, spelling

_FIRST_PIECE = SYMBOLS + 256
_RUNNING = 1_000_000
"""Characters of running text that are encoded at a time."""
_PUNCTUATION = string.punctuation + "«»“”‘’…¿¡–—"


class Tokenizer:
    """One vocabulary and its rules, made by `learn_tokenizer` or `load`. It never changes.

    Attributes:
        size: number of ids V, special symbols included.
        placeholders: the id of each placeholder; none if the vocabulary was learnt without them.
        target_languages: the id of each piece that asks a model for a language, by the name that stands in it.
    """

    unknown = UNKNOWN
    placeholders: Mapping[str, int] = MappingProxyType({})
    target_languages: Mapping[str, int] = MappingProxyType({})

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.kind = vocabulary.kind
        self._library = build_library(self.kind, vocabulary)
        self._split = spacy_split(vocabulary.language) if self.kind == "spacy" and vocabulary.language else None
        self._spells = self.kind in ("bpe", "unigram", "character")
        self._adds_space = self.kind in ("bpe", "unigram")
        known = [spelling(self.kind, piece) for piece in vocabulary.pieces]
        self._nothing = len(known)
        first = _FIRST_PIECE if self._spells else SYMBOLS
        self._id_of = [*range(first, first + len(known)), UNKNOWN]
        if vocabulary.pieces[: len(PLACEHOLDERS)] == PLACEHOLDERS:
            self.placeholders = dict(zip(PLACEHOLDERS, self._id_of, strict=False))
        self._spelling = [name.encode() for name in vocabulary.specials.names]
        self._spelling += [bytes([value]) for value in range(256)] if self._spells else []
        self._spelling += known
        self.size = len(self._spelling)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without start and end."""
        return self.encode_batch([text])[0]

    def encode_running(self, text: str | Iterable[str]) -> Iterator[list[int]]:
        """The ids of a long text, which may be given in parts, piece by piece; joined, they are those of `encode`,
        which takes 100 bytes and more of memory for each character. For tokenizers that keep every space.

        Raises:
            TokenizerError: millions of characters without a space; byte by byte they can be cut, in whole words not.
        """
        parts = [text] if isinstance(text, str) else text
        for number, piece in enumerate(cut_running(parts, _RUNNING, GAP_BETWEEN_WORDS)):
            if not number or not self._adds_space:
                yield self.encode(piece)
            elif piece.startswith(" "):
                yield self.encode(piece[1:])  # the library puts the space back
            elif piece.startswith("\n"):
                yield self.encode(piece)[1:]  # and here it put one before a line end
            else:
                raise TokenizerError(
                    f"the text has millions of characters without a space or line end, which kind = {self.kind!r} "
                    "cannot cut; take byte_bpe or character"
                )

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, on all cores at once."""
        with only_unicode(texts):
            split = self._split
            inputs = [[word for word, _ in split(text)] for text in texts] if split else texts
            found = self._library.encode_batch_fast(inputs, is_pretokenized=bool(split), add_special_tokens=False)
        rows, id_of = [encoding.ids for encoding in found], self._id_of
        if not self._spells:
            return [[id_of[i] for i in row] for row in rows]
        return [
            [piece for piece, _, _ in self._pieces(text)] if self._nothing in row else [id_of[i] for i in row]
            for row, text in zip(rows, texts, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special symbols, except that the unknown one appears by its name.

        Bytes that are no character, which a model may write, become U+FFFD.
        """
        spelled = [self._spelling[i] for i in ids if self.is_text(i)]
        if self.whole_words:
            return join_words(word.decode() for word in spelled)
        text = b"".join(spelled).decode(errors="replace")
        return text.removeprefix(" ") if self._adds_space else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id as a person reads it: a space is `▁`, a placeholder `[word 1]`, unprintable text its bytes, as in
        `<0x0A>`."""
        return [_readable(self._spelling[i]) for i in ids]

    def spelling(self, id_: int) -> bytes:
        """What one id stands for in a text, as UTF-8; the name of a special symbol."""
        return self._spelling[id_]

    def spells_characters(self, id_: int) -> bool:
        """Whether an id stands for whole characters; it may be unknown, or bytes of a character."""
        return id_ != UNKNOWN and "\ufffd" not in self._spelling[id_].decode(errors="replace")

    @property
    def whole_words(self) -> bool:
        """Whether each id is a word or a punctuation mark, around which spaces stand by rule."""
        return self.kind in WHOLE_WORDS

    def spelling_in_line(self, id_: int) -> bytes:
        """What one id adds to a line: its spelling, and before a word the space that may stand there."""
        spelled = self._spelling[id_]
        return b" " + spelled if self.whole_words and may_stand_apart(spelled.decode()) else spelled

    def is_special(self, id_: int) -> bool:
        """Whether an id is a special symbol, and no part of a text."""
        return id_ < SYMBOLS

    def is_text(self, id_: int) -> bool:
        """Whether an id stands for a part of a text, as what stands for an unknown word does too."""
        return id_ == UNKNOWN or not self.is_special(id_)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The characters of `text` that each id of `encode(text)` stands for, as (first, last + 1).

        Bytes that spell one character share its place, and in a `unigram` those of a run of unseen characters do too.
        """
        return [(first, last) for _, first, last in self._pieces(text)]

    def unknown_words(self, text: str, ids: Sequence[int] | None = None) -> list[str]:
        """The words of `text` that the vocabulary does not hold, each once. The text's `ids`, if they are known, save
        time.

        In subwords: the words with a character that training saw never or too rarely. `byte_bpe` knows all words.
        """
        if ids is not None and min(ids, default=_FIRST_PIECE) >= (_FIRST_PIECE if self._spells else SYMBOLS):
            return []
        pieces = self._pieces(text)
        if self._spells:
            spelled = [(first, last) for piece, first, last in pieces if piece < _FIRST_PIECE]
            found = (word_around(text, first, last) for first, last in spelled if not text[first:last].isspace())
        else:
            found = (text[first:last] for piece, first, last in pieces if piece == UNKNOWN)
        return list(dict.fromkeys(found))

    def normalise(self, text: str) -> str:
        """The form of `text` that `decode(encode(text))` gives back."""
        with only_unicode([text]):
            return text if self.kind == "byte_bpe" else normalizers.NFC().normalize_str(text)

    @cached_property
    def identity(self) -> str:
        """SHA-256, in hexadecimal, of everything that decides the ids of a text."""
        canonical = json.dumps(self.vocabulary.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def shares_ids(self, other: "Tokenizer") -> bool:
        """Whether a piece has the same id in both."""
        return self is other

    def save(self, path: Path | str) -> None:
        """Writes one JSON file, atomically."""
        content = self.vocabulary.model_dump(mode="json")
        lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())
        write_file(path, "{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads what `save` wrote. Every part is checked, and nothing is executed."""
        advice = "dragoman train-tokenizer makes tokenizers"
        return cls(read_json_as(path, Vocabulary, FORMAT, error=TokenizerError, advice=advice))

    def _pieces(self, text: str) -> list[tuple[int, int, int]]:
        """Each id of `text`, with the positions of its first character and of the one after its last."""
        with only_unicode([text]):
            if self._split:
                words = self._split(text)
                ids = self._library.encode([word for word, _ in words], is_pretokenized=True).ids
                return [(self._id_of[i], place, place + len(word)) for i, (word, place) in zip(ids, words, strict=True)]
            encoding = self._library.encode(text, add_special_tokens=False)
        if self._spells:
            return self._spelled(text, encoding.ids, _covering(text, encoding.offsets))
        places = encoding.offsets if self.kind == "byte_bpe" else _covering(text, encoding.offsets)
        return [(self._id_of[i], *place) for i, place in zip(encoding.ids, places, strict=True)]

    def _spelled(self, text: str, ids: list[int], places: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Puts bytes in the place of unseen characters. The space before the first word stands for no character."""
        normal = self.normalise(text)
        in_normal = self._library.encode(normal, add_special_tokens=False).offsets
        if self._adds_space and ids and self._spelling[self._id_of[ids[0]]] == b" ":
            places = [(0, 0), *places[1:]]
        pieces = []
        for i, place, (first, last) in zip(ids, places, in_normal, strict=True):
            unseen = normal[first:last].encode() if i == self._nothing else None
            written = [self._id_of[i]] if unseen is None else [SYMBOLS + value for value in unseen]
            pieces += [(piece, *place) for piece in written]
        return pieces


@contextmanager
def only_unicode(texts: Sequence[str]) -> Iterator[None]:
    """Explains why the library refuses `texts`.

    Raises:
        TokenizerError: a text holds half a surrogate pair.
    """
    try:
        yield
    except (TypeError, UnicodeEncodeError):
        for text in texts:
            if found := re.search("[\ud800-\udfff]", text):
                raise TokenizerError(
                    f"character {found.start() + 1} of {text[:60]!r} is half of a surrogate pair "
                    f"(U+{ord(found[0]):04X}) and no character; read the text as UTF-8"
                ) from None
        raise


def _covering(text: str, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extends places to the next one, except for spaces: the library's end before a mark that it joined to a letter."""
    following = chain((first for first, _ in places[1:]), [len(text)])
    return [
        (first, max(last, first + len(text[first:start].rstrip())))
        for (first, last), start in zip(places, following, strict=False)
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
    """The word, without punctuation, around the characters from `first` to `last`."""
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
    """The words and punctuation marks of a text, as the word tokenizer cuts it, and where each begins. In scripts
    without spaces every character is a word.

    >>> split_words("The dog barks.")
    [('The', 0), ('dog', 4), ('barks', 8), ('.', 13)]
    >>> [word for word, _ in split_words("5G网络很快")]
    ['5G', '网', '络', '很', '快']
    """
    with only_unicode([text]):
        return [(word, first) for word, (first, _) in _CUT.pre_tokenize_str(text)]


def encode_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[list[list[int]]]:
    """The ids of each word of each sentence; a word without any is unknown."""
    ids = [row or [UNKNOWN] for row in tokenizer.encode_batch([*chain.from_iterable(sentences)])]
    return [ids[first:last] for first, last in pairwise(accumulate(map(len, sentences), initial=0))]
