"""Models of several languages, M2M-100, SMaLL-100, NLLB-200 and mBART-50: one SentencePiece model for all, the
symbols of languages after its pieces, and trimming to some of these languages.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import langcodes
import regex

from dragoman.directions import Directions, find, listed
from dragoman.errors import ConfigError, TokenizerError
from dragoman.model.shapes import count_weights
from dragoman.store import foreign
from dragoman.store.description import CONFIG, ModelFiles, languages_of
from dragoman.store.marian_search import Symbols
from dragoman.store.marian_weights import Vocabularies
from dragoman.tokenizing.sentencepiece import SentencePieces, SentencePieceTokenizer, keep_pieces
from dragoman.tokenizing.special_tokens import PREFIXED_FRAMING, Framing
from dragoman.tokenizing.tokenizers import Tokenizers

MODEL = "sentencepiece.bpe.model"
SYMBOLS = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
"""Ids of the special symbols in all of these models."""
_MOST_UNNAMED = 128
"""Most embeddings after the languages: M2M-100 has 8, for words that it lacks, and sizes may be rounded up."""
_SCRIPTS = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hani Hira Kana", "Kore": "Hang Hani"}
"""The scripts that a code of ISO 15924 joins."""


class MultilingualArchitecture(foreign.Architecture):
    """The architecture of one of these models in `config.json`."""

    tie_word_embeddings: Literal[True] = True
    pad_token_id: Literal[1] = 1
    eos_token_id: Literal[2] = 2
    decoder_start_token_id: Literal[2]


def fairseq_table(folder: Path) -> dict[str, int]:
    """Return the ids of NLLB-200 and mBART-50: those of the SentencePiece model plus one, after the special symbols."""
    names = foreign.tokenizer_of(folder / MODEL, ()).pieces_of_model
    if names[:3] != ["<unk>", "<s>", "</s>"]:
        raise TokenizerError(f"{folder / MODEL} should begin with <unk>, <s> and </s>, as that of NLLB-200 or mBART-50")
    return SYMBOLS | {piece: id_ for id_, piece in enumerate(names[3:], len(SYMBOLS))}


def read_multilingual(
    folder: Path,
    architecture: MultilingualArchitecture,
    table: Mapping[str, int],
    tags: Sequence[str],
    languages: Sequence[str] | None,
    texts: Iterable[str] | None,
    framing: Framing = PREFIXED_FRAMING,
    **own: Any,
) -> foreign.ForeignModel:
    """Read a model with this `table` of ids, after which come the symbols of the languages `tags`. `own` are the
    settings of our architecture that its family determines. If `languages` are given, the model is `trimmed` to them.
    """
    unnamed = architecture.vocab_size - len(table) - len(tags)
    if not 0 <= unnamed <= _MOST_UNNAMED or SYMBOLS.items() - table.items() or max(table.values()) >= len(table):
        raise TokenizerError(
            f"{folder}: {len(table):,} pieces and symbols with {len(tags)} languages do not fit the "
            f"{architecture.vocab_size:,} embeddings of {CONFIG}; M2M-100, SMaLL-100, NLLB-200 and mBART-50 can be read"
        )
    pieces = sorted(table.keys() - SYMBOLS.keys(), key=table.__getitem__)
    tokenizer = whole = foreign.tokenizer_of(folder / MODEL, pieces, tags)
    if languages is not None:
        tokenizer = trimmed(whole, languages, texts)
    elif texts is not None:
        raise ConfigError("a text chooses the pieces of some languages; name these with --languages")
    kept = tokenizer.vocabulary.languages
    own |= {"tied": "all", "norm_position": "pre", "final_norm": True}
    config, before = (architecture.model_config_with(Tokenizers(side, side), **own) for side in (tokenizer, whole))
    ids = {tag: id_ for id_, tag in enumerate(tags, len(table))}
    symbols = Symbols(SYMBOLS["<unk>"], SYMBOLS["<pad>"], SYMBOLS["</s>"], SYMBOLS["</s>"], ids)
    options, notes = foreign.search_options(folder, architecture.max_position_embeddings - 1, symbols)
    options["length_extra"] -= framing.target_prefix
    if options.get("target_language") not in (None, *kept):
        del options["target_language"]
    if unnamed:
        notes.append(f"{unnamed:,} embeddings of no piece are left out; no text has them")
    if languages is not None:
        share = count_weights(config) / count_weights(before)
        left = f"{len(tokenizer.vocabulary.pieces):,} of {len(pieces):,} pieces"
        notes.append(f"{left} are left, and {share:.0%} of {count_weights(before):,} weights")
    rows = [table[name] for name in ("<unk>", "<pad>", "<s>", "</s>", *tokenizer.vocabulary.pieces)]
    rows += [ids[tag] for tag in kept]
    directions = Directions(source=kept, target=kept)
    files = ModelFiles(None, languages_of(directions), options, framing=framing, directions=directions)
    return foreign.ForeignModel(
        config,
        Tokenizers(tokenizer, tokenizer),
        files,
        Vocabularies(rows, rows),
        foreign.read_weights(folder, config, architecture),
        [f"languages: {listed(kept)}", *notes],
    )


def trimmed(
    tokenizer: SentencePieceTokenizer, languages: Sequence[str], texts: Iterable[str] | None
) -> SentencePieceTokenizer:
    """Return a tokenizer of some of its languages. It keeps the pieces that occur in `texts`, and single characters of
    the scripts of these languages; without texts, all pieces of these scripts. Digits, punctuation and the characters
    of ASCII belong to every script. Text is cut into the pieces that are left.

    Raises:
        DecodeError: the tokenizer lacks a language.
        ConfigError: fewer than two languages are given.
    """
    pieces, named = tokenizer.vocabulary.pieces, tokenizer.vocabulary.languages
    kept = tuple(dict.fromkeys(find(language, named, "source") for language in languages))
    if len(kept) < 2:
        raise ConfigError(f"at least two languages are to be kept, as in --languages en,it, not {', '.join(languages)}")
    observed = {token for text in texts or () for token in tokenizer.encode(text)}
    scripts = [langcodes.Language.get(language).maximize().script or "Latn" for language in kept]
    classes = [rf"\p{{Script={name}}}" for code in scripts for name in _SCRIPTS.get(code, code).split()]
    letters = f"[{''.join(classes)}\\p{{Script=Common}}\\p{{Script=Inherited}}]{'*' if texts is None else '?'}"
    fits = regex.compile(rf"▁?[!-~]|<0x[0-9A-F]{{2}}>|▁?{letters}")
    pieces = [piece for id_, piece in enumerate(pieces, len(SYMBOLS)) if id_ in observed or fits.fullmatch(piece)]
    table = SentencePieces(pieces=tuple(pieces), languages=kept)
    return SentencePieceTokenizer(table, keep_pieces(tokenizer.model, set(pieces)))


def tags_of(codes: str) -> tuple[str, ...]:
    """Return BCP 47 tags of languages, with the script only where it distinguishes two.

    >>> tags_of("eng_Latn zho_Hans zho_Hant pes_Arab")
    ('en', 'zh-Hans', 'zh-Hant', 'fa')
    """
    full = [langcodes.standardize_tag(code, macro=True) for code in codes.split()]
    short = [re.sub("-[A-Z][a-z]{3}", "", tag) for tag in full]
    return tuple(
        code[:3] if full.count(whole) > 1 else whole if short.count(tag) > 1 else tag
        for code, whole, tag in zip(codes.split(), full, short, strict=True)
    )
