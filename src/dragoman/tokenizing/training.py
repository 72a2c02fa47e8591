"""Training of vocabularies: `learn_tokenizer` for one, `learn_tokenizers` for both sides of a translation, and
`train_tokenizer` for parallel text or prepared data, saved in a folder.

Texts are read once, from any iterator; memory grows only with the number of distinct words. The same texts give the
same vocabulary of words, BPE or byte-level BPE. Unigram training sums in no fixed order and may differ in a few pieces,
so a run is reproducible only from its saved tokenizer.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import normalizers, trainers

from dragoman.errors import ConfigError, TokenizerError
from dragoman.files import REPORT, new_folder
from dragoman.formats.addresses import Address
from dragoman.progress import Advance, Progress, as_progress, silent
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.text.prepared import read_split
from dragoman.text.readers import open_pairs
from dragoman.text.report import read_report
from dragoman.text.settings import ReadingSettings
from dragoman.tokenizing.pretokenizing import spacy_split
from dragoman.tokenizing.settings import Kind, TokenizerSettings, reserved
from dragoman.tokenizing.special_tokens import SYMBOLS
from dragoman.tokenizing.tokenizer import Tokenizer, only_unicode
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.vocabulary import BYTE_LEVEL, NOTHING, PATTERNS, Vocabulary, build_library

log = logging.getLogger(__name__)

_CHUNK = 1_000
_NO_LIMIT = 2**31 - 1
# The library keeps every character of the text. We drop rare ones afterwards, and these spare pieces fill the gap.
_SPARE = 2_000


def learn_tokenizer(
    texts: Iterable[str],
    settings: TokenizerSettings | None = None,
    progress: Progress = silent,
    language: str | None = None,
    symbols: Sequence[str] = (),
) -> Tokenizer:
    """Learn one vocabulary. It records `language` (a code such as "it"), which spaCy's rules need. The languages of
    `symbols` get one each.

    Raises:
        TokenizerError: there is no text, or it is not Unicode.
        ConfigError: the kind is `spacy`, but no language is given.
    """
    settings = settings or TokenizerSettings()
    if settings.kind == "spacy" and language is None:
        raise ConfigError("kind = 'spacy' needs one language, such as 'it', and joint = false")
    with progress.track("learn the vocabulary", unit="lines") as advance:
        reading = _ChunkCounter(texts, advance)
        learned = _learn(reading, settings, language, len(symbols))
    rules = {"kind": settings.kind, "pattern": PATTERNS[settings.kind][0], "language": language}
    tokenizer = Tokenizer(Vocabulary(**rules, specials=settings.specials, languages=tuple(symbols), **learned))
    if settings.vocabulary_size and tokenizer.size < settings.vocabulary_size:
        size, limit = f"{tokenizer.size:,}", f"{settings.vocabulary_size:,}"
        log.info("the text gives a vocabulary of %s, fewer than the %s requested", size, limit)
    return tokenizer


def learn_tokenizers(
    pairs: Callable[[], Iterable[tuple[str, str]]],
    settings: TokenizerSettings | None = None,
    progress: Progress = silent,
    languages: tuple[str | None, str | None] = (None, None),
    symbols: Sequence[str] = (),
) -> Tokenizers:
    """Learn the vocabularies of both sides. Each call of `pairs` returns all sentence pairs from the start. The
    languages of `symbols` get one each, on both sides.
    """
    settings = settings or TokenizerSettings()
    if settings.joint:
        shared = learn_tokenizer(chain.from_iterable(pairs()), settings, progress, symbols=symbols)
        return Tokenizers(shared, shared)
    source = learn_tokenizer((source for source, _ in pairs()), settings, progress, languages[0], symbols)
    target = learn_tokenizer((target for _, target in pairs()), settings, progress, languages[1], symbols)
    return Tokenizers(source, target)


class _ChunkCounter:
    """Iterator over texts in chunks that counts their characters."""

    def __init__(self, texts: Iterable[str], advance: Advance) -> None:
        self._texts = texts
        self._advance = advance
        self.characters: Counter[str] = Counter()

    def __iter__(self) -> Iterator[list[str]]:
        texts, normalise = iter(self._texts), normalizers.NFC().normalize_str
        while chunk := list(islice(texts, _CHUNK)):
            with only_unicode(chunk):
                self.characters.update(normalise("\n".join(chunk)))
            self.characters["\n"] -= len(chunk) - 1
            yield chunk
            self._advance(len(chunk))
        if not +self.characters:
            raise TokenizerError("there is no text to learn a vocabulary from")


def _learn(reading: _ChunkCounter, settings: TokenizerSettings, language: str | None, symbols: int) -> dict[str, Any]:
    """Return the learned fields of a `Vocabulary`, with the placeholders before its pieces."""
    kind, minimum = settings.kind, settings.minimum_frequency
    limit = (settings.vocabulary_size or _NO_LIMIT) - SYMBOLS - symbols
    if kind == "byte_bpe":
        trainer = trainers.BpeTrainer(
            vocab_size=limit, min_frequency=minimum, initial_alphabet=[*BYTE_LEVEL], show_progress=False
        )
        trained = _trained(kind, trainer, reading)
        return {"pieces": _in_order(trained["vocab"]), "merges": tuple(map(tuple, trained["merges"]))}
    limit -= sum(reserved(kind).values())
    if kind == "bpe":
        learned = _learn_bpe(reading, limit, minimum)
    elif kind == "unigram":
        learned = _learn_unigram(reading, limit, minimum)
    elif kind == "character":
        for _ in reading:
            pass
        count = reading.characters
        characters = sorted(_frequent(count, count, minimum), key=lambda piece: (-count[piece], piece))
        learned = {"pieces": tuple(characters[:limit])}
    else:
        split = spacy_split(language) if kind == "spacy" and language else None
        chunks = ([word for text in chunk for word, _ in split(text)] for chunk in reading) if split else reading
        trainer = trainers.WordLevelTrainer(vocab_size=limit, min_frequency=minimum, show_progress=False)
        words = _in_order(_trained(kind, trainer, chunks)["vocab"])
        learned = {"pieces": tuple(word for word in words if word not in PLACEHOLDERS)}
    return {**learned, "pieces": (*PLACEHOLDERS, *learned["pieces"])}


def _learn_bpe(reading: _ChunkCounter, limit: int, minimum: int) -> dict[str, Any]:
    """Learn characters, sorted by frequency, followed by merges in the order in which they were learned."""
    trainer = trainers.BpeTrainer(vocab_size=limit + _SPARE, min_frequency=minimum, show_progress=False)
    trained = _trained("bpe", trainer, reading)
    pieces, count = _in_order(trained["vocab"]), reading.characters
    alphabet = sorted(_frequent(pieces, count, minimum), key=lambda piece: (piece != " ", -count[piece], piece))
    kept = (*alphabet, *(piece for piece in pieces if len(piece) > 1))[:limit]
    known = set(kept)
    merges = tuple((left, right) for left, right in trained["merges"] if {left, right, left + right} <= known)
    return {"pieces": kept, "merges": merges}


def _learn_unigram(reading: _ChunkCounter, limit: int, minimum: int) -> dict[str, Any]:
    trainer = trainers.UnigramTrainer(vocab_size=limit + 1, unk_token=NOTHING, show_progress=False)
    try:
        scored = dict(_trained("unigram", trainer, reading)["vocab"])
    except Exception as error:
        if type(error) is not Exception:  # the library raises nothing narrower
            raise
        raise TokenizerError(
            f"a unigram vocabulary contains each of the {len(+reading.characters):,} characters of the text, but "
            f"tokenizer.vocabulary_size leaves room for {limit:,}; raise it, or use kind = 'bpe'"
        ) from error
    alphabet = {*_frequent(scored, reading.characters, minimum)}
    kept = tuple(piece for piece in scored if piece in alphabet or len(piece) > 1)
    # The library sums in no fixed order, so further decimals mean nothing.
    # A placeholder is always a separate piece, so its score has no effect.
    scores = (*(0.0 for _ in PLACEHOLDERS), *(round(scored[piece], 6) for piece in kept))
    return {"pieces": kept, "scores": scores}


def _trained(kind: Kind, trainer: trainers.Trainer, chunks: Iterable[list[str]]) -> dict[str, Any]:
    """Train the library and return its model as plain values; spaCy's words are passed one by one."""
    library = build_library(kind)
    library.train_from_iterator(chunks, trainer)
    return json.loads(library.to_str())["model"]


def _in_order(numbers: dict[str, int]) -> tuple[str, ...]:
    return tuple(sorted(numbers, key=numbers.__getitem__))


def _frequent(pieces: Iterable[str], count: Counter[str], minimum: int) -> Iterator[str]:
    """Yield the single characters that occur at least `minimum` times, and the space, which is added to every text."""
    single = (piece for piece in pieces if len(piece) == 1 and piece not in PLACEHOLDERS)
    return (piece for piece in single if piece == " " or minimum <= count[piece])


class TokenizerResult(NamedTuple):
    """Tokenizers of both sides, their folder, and the first pair of the training text."""

    folder: Path
    tokenizers: Tokenizers
    example: tuple[str, str]


def train_tokenizer(
    data: Address,
    folder: Path | str,
    settings: TokenizerSettings | None = None,
    reading: ReadingSettings | None = None,
    progress: Progress | bool = True,
    **changes: Any,
) -> TokenizerResult:
    """Learn vocabularies for both sides of `data`, and save the tokenizers in a new `folder`.

    `data` is the address of parallel text, read as `reading` says, or a folder of prepared data. `changes` override
    `settings`, as in `vocabulary_size=4000`.

    Raises:
        DataError: the text cannot be read, or `folder` exists already.
        TokenizerError: there is no text, or it is not Unicode.
        ConfigError: the kind is `spacy`, but the language is not known.
    """
    settings = (settings or TokenizerSettings()).but(**changes)
    with new_folder(folder) as aside:
        pairs, languages = _training_text(data, reading or ReadingSettings())
        tokenizers = learn_tokenizers(pairs, settings, as_progress(progress), languages)
        tokenizers.save(aside)
    return TokenizerResult(Path(folder), tokenizers, next(pairs()))


def _training_text(
    data: Address, settings: ReadingSettings
) -> tuple[Callable[[], Iterator[tuple[str, str]]], tuple[str, str]]:
    """Return a function that iterates over the training pairs from the start, and the languages."""
    if isinstance(data, str) and (Path(data) / REPORT).is_file():
        report = read_report(data)
        return partial(read_split, data, "train"), (report.source_language, report.target_language)
    reading = open_pairs(data, settings.naming, settings.format, settings.encoding_errors)
    for choice, reason in reading.reasons.items():
        log.info("%s: %s", choice, reason)
    for doubt in reading.doubts:
        log.warning("%s", doubt)
    return lambda: ((pair.source, pair.target) for pair in reading if not pair.fault), reading.languages
