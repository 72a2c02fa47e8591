"""Vocabularies and new languages: how well one spells a text (`spelled`), its growth (`grow`), and the old ids from
which the embeddings of new ones start (`origins`).
"""

import logging
from collections.abc import Iterable, Sequence

from dragoman.errors import ConfigError
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer
from dragoman.tokenizing.settings import TokenizerSettings, reserved
from dragoman.tokenizing.special_tokens import SYMBOLS
from dragoman.tokenizing.tokenizer import Tokenizer, split_words
from dragoman.tokenizing.training import learn_tokenizer
from dragoman.tokenizing.vocabulary import Vocabulary

log = logging.getLogger(__name__)


def spelled(tokenizer: Tokenizer, texts: Sequence[str]) -> str:
    """Return in words how a vocabulary spells these texts."""
    ids = [id_ for row in tokenizer.encode_batch(texts) for id_ in row]
    words, strange = sum(len(split_words(text)) for text in texts), sum(not tokenizer.spells_characters(i) for i in ids)
    return f"{len(ids) / max(1, words):.2f} tokens a word, {strange / max(1, len(ids)):.1%} of them bytes or unknown"


def grow(tokenizer: Tokenizer, languages: Iterable[str], texts: Iterable[str] | None, share: float = 1.0) -> Tokenizer:
    """Return a tokenizer with the symbols of these languages too. If texts in new ones are given, it also gets the
    pieces of a vocabulary of these, `share` times as large, that have a character which it spelled in bytes. A text
    without such characters is cut as before. SentencePiece's models and `byte_bpe` get no pieces.

    Raises:
        ConfigError: the ids are whole words, of which a new language has too many.
    """
    vocabulary = tokenizer.vocabulary
    if tokenizer.whole_words:
        raise ConfigError(
            f"the model's tokenizer has whole words (kind = {tokenizer.kind!r}), to which no language can be added; "
            "start from a model with pieces of words, such as tokenizer.kind = 'bpe'"
        )
    missing = [name for name in languages if name not in tokenizer.languages]
    symbols = {"languages": (*vocabulary.languages, *missing)}
    if isinstance(tokenizer, SentencePieceTokenizer):
        return SentencePieceTokenizer(tokenizer.vocabulary.model_copy(update=symbols), tokenizer.model)
    if texts is not None and tokenizer.kind != "byte_bpe":
        vocabulary = _with_pieces(vocabulary, texts, share)
    return Tokenizer(vocabulary.model_copy(update=symbols))


def _with_pieces(vocabulary: Vocabulary, texts: Iterable[str], share: float) -> Vocabulary:
    """Return a vocabulary with pieces for characters that it lacks."""
    known, size = {*vocabulary.pieces, *PLACEHOLDERS}, SYMBOLS + sum(reserved(vocabulary.kind).values())
    settings = TokenizerSettings(kind=vocabulary.kind, vocabulary_size=size + int(share * len(vocabulary.pieces)))
    learned = learn_tokenizer(texts, settings).vocabulary
    new = {piece for piece in learned.pieces if len(piece) == 1 and piece not in known}
    writable, merges = known | new, [*vocabulary.merges]
    for left, right in learned.merges:  # the old ones come first, so they do what they did
        if {left, right} <= writable and not new.isdisjoint(left + right):
            merges.append((left, right))
            writable.add(left + right)
    pieces = [
        piece for piece in learned.pieces if not new.isdisjoint(piece) and (piece in writable or not learned.merges)
    ]
    log.info("the vocabulary grows by %s pieces, for %s characters that it spelled in bytes", len(pieces), len(new))
    scores = dict(zip(learned.pieces, learned.scores, strict=False))
    scores = (*vocabulary.scores, *(scores[piece] for piece in pieces if scores))
    changes = {"pieces": (*vocabulary.pieces, *pieces), "merges": tuple(merges), "scores": scores}
    return vocabulary.model_copy(update=changes)


def origins(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """Return, for every id of a grown tokenizer, the old ids whose mean its embedding starts from: its own; for a new
    piece, those that spelled it; for the symbol of a new language, those of the others, or all if there were none.
    """
    own = {name: id_ for name, id_ in old.languages.items() if old.is_special(id_)}
    others = [*old.languages.values()] or [*range(SYMBOLS, old.size)]
    symbols = {id_: [own[name]] if name in own else others for name, id_ in new.languages.items()}
    pieces = [[id_] for id_ in range(old.size - len(own))]
    for id_ in range(len(pieces), new.size):
        if id_ in symbols:
            pieces.append(symbols[id_])
        else:
            text = new.spelling(id_).decode()
            ids = old.encode(text.removeprefix(" "))  # which puts a space before it
            pieces.append(ids[1:] if old.spelling(ids[0]) == b" " and not text.startswith(" ") else ids)
    return pieces
