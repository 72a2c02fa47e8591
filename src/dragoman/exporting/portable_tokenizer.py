"""Conversion of our tokenizers into a `tokenizer.json` of the tokenizers library, with the same ids.

Our own file contains only what was learned; the rules are code. The library's file contains the rules too, so that
other programs split text as we do. Bytes are named as in SentencePiece: `<0x0A>`.
"""

from collections.abc import Iterator

import tokenizers
from tokenizers import AddedToken, decoders, models, processors

from dragoman.directions import listed
from dragoman.store.description import StoredModel
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer
from dragoman.tokenizing.special_tokens import MARIAN_FRAMING, SYMBOLS, Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.vocabulary import Vocabulary, build_library

_NEVER_BEST = -1e6
"""Score with which no piece is ever chosen, so that text that is spelled like a symbol is still text."""


def came_from_marian(stored: StoredModel) -> bool:
    """Return True if a model has Marian's framing and SentencePiece models, which are exported unchanged."""
    if stored.files.tokenizers is None or stored.files.framing != MARIAN_FRAMING:
        return False
    return all(isinstance(tokenizer, SentencePieceTokenizer) for tokenizer in stored.files.tokenizers)


def tokenizer_obstacles(stored: StoredModel) -> Iterator[str]:
    """Yield the reason, for each side, why its tokenizer cannot be converted."""
    if languages := stored.tokenizers.source.vocabulary.languages:
        yield f"its symbols of languages ({listed(languages)}) come after the pieces of its vocabulary"
    sides = {} if came_from_marian(stored) else stored.tokenizers._asdict()
    for side, tokenizer in sides.items():
        if isinstance(tokenizer, SentencePieceTokenizer):
            yield f"its {side} tokenizer is a SentencePiece model, which cannot be written as a tokenizer.json"
        elif tokenizer.whole_words:
            yield (
                f"its {side} tokenizer is of kind {tokenizer.kind!r}, and a tokenizer.json cannot express where words "
                "are joined without a space"
            )
        elif set(_symbols_and_bytes(tokenizer.vocabulary)) & set(tokenizer.vocabulary.pieces):
            yield f"its {side} tokenizer has pieces that are spelled like a symbol or a byte"


def portable(tokenizer: Tokenizer, framing: Framing) -> tokenizers.Tokenizer:
    """Build the library's tokenizer that encodes as `framing.source(tokenizer.encode(text))` and decodes as ours does.

    The tokenizer must have no `tokenizer_obstacles`.
    """
    vocabulary = tokenizer.vocabulary
    library = build_library(vocabulary.kind, vocabulary)
    library.model = _model(vocabulary)
    names = vocabulary.specials.names
    library.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    before = [names[symbol] for symbol in framing.source_before]
    after = [names[symbol] for symbol in framing.source_after]
    library.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", "$B", *after],
        special_tokens=[(name, number) for number, name in enumerate(names)],
    )
    if vocabulary.kind == "byte_bpe":
        library.decoder = decoders.ByteLevel()
    elif vocabulary.kind == "character":
        library.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    else:  # without the space before the first word
        library.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    library.encode_special_tokens = True
    return library


def names(tokenizer: Tokenizer) -> list[str]:
    """Return the name of every id in the other toolkit."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        pieces = set(tokenizer.vocabulary.pieces)  # may contain our name for a start symbol
        symbols = (name if name not in pieces else f"<{name}>" for name in tokenizer.vocabulary.specials.names)
        return [*symbols, *tokenizer.vocabulary.pieces]
    return [*_symbols_and_bytes(tokenizer.vocabulary), *tokenizer.vocabulary.pieces]


def _symbols_and_bytes(vocabulary: Vocabulary) -> list[str]:
    """Return the names of the ids before the pieces; in `byte_bpe`, the bytes are pieces."""
    spelled = [] if vocabulary.kind == "byte_bpe" else [f"<0x{value:02X}>" for value in range(256)]
    return [*vocabulary.specials.names, *spelled]


def _model(vocabulary: Vocabulary) -> models.Model:
    before = _symbols_and_bytes(vocabulary)
    assert len(vocabulary.specials.names) == SYMBOLS, "the symbols come first"
    if vocabulary.kind == "unigram":
        scored = [*((name, _NEVER_BEST) for name in before), *zip(vocabulary.pieces, vocabulary.scores, strict=True)]
        return models.Unigram(scored, unk_id=0, byte_fallback=True)
    ids = {name: number for number, name in enumerate([*before, *vocabulary.pieces])}
    merges = list(vocabulary.merges)
    if vocabulary.kind == "byte_bpe":
        return models.BPE(ids, merges)
    return models.BPE(ids, merges, unk_token=before[0], byte_fallback=True)
