"""Marian models of transformers, as OPUS-MT has them: their settings, vocabularies and languages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from dragoman.config import Content, Settings, check
from dragoman.errors import CheckpointError, ConfigError, TokenizerError
from dragoman.languages import LanguageTag
from dragoman.store import foreign
from dragoman.store.description import CONFIG, Languages, ModelFiles
from dragoman.store.foreign import END, PADDING, UNKNOWN, ForeignModel, refuse_missing
from dragoman.store.marian_search import Symbols
from dragoman.store.marian_weights import Rows, Vocabularies
from dragoman.tokenizing.sentencepiece import SentencePieceTokenizer
from dragoman.tokenizing.special_tokens import MARIAN_FRAMING
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
MODELS = ("source.spm", "target.spm")
_NAMED = re.compile(r"opus-mt-(?:.*[-_])?([a-z]{2,3})-([a-z]{2,3})$")
"""`opus-mt-en-it`, or `opus-mt-tc-big-en-it`."""
_GROUPS = frozenset(
    "mul romance afa art bat bnt cau ccs cel celtic cpf cpp cus dra euq fiu gem gmq gmw grk iir inc ine ira itc map "
    "mkh nah nic phi poz qwe roa sal scandinavia sem sit sla tai trk tut urj wen zle zls zlw".split()
)
"""Names that OPUS-MT gives to a side of several languages: codes of families (ISO 639-5), in lower case."""


class _StatedLanguages(Settings):
    source: LanguageTag
    target: LanguageTag


class MarianArchitecture(foreign.Architecture):
    """The architecture of a Marian model in `config.json`."""

    decoder_vocab_size: int | None = pydantic.Field(default=None, ge=4, lt=2**31)
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int = 58_100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58_100
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    add_bias_logits: Literal[False] = False
    static_position_embeddings: Literal[True] = True

    @pydantic.model_validator(mode="after")
    def _is_one_of_ours(self) -> Self:
        if self.share_encoder_decoder_embeddings and not self.tie_word_embeddings:
            raise ValueError("share_encoder_decoder_embeddings needs tie_word_embeddings, but it is false")
        if self.pad_token_id != self.decoder_start_token_id:
            raise ValueError(
                f"decoder_start_token_id must be pad_token_id ({self.pad_token_id}), but is "
                f"{self.decoder_start_token_id}"
            )
        return self

    @property
    def target_size(self) -> int:
        """Number of tokens of the target vocabulary."""
        shared = self.share_encoder_decoder_embeddings
        return self.vocab_size if shared else self.decoder_vocab_size or self.vocab_size

    @property
    def tied(self) -> str:
        """The matrices that are shared."""
        if not self.tie_word_embeddings:
            return "none"
        return "all" if self.share_encoder_decoder_embeddings else "target"


def read_marian(
    folder: Path, languages: Sequence[str] | None = None, texts: Iterable[str] | None = None
) -> ForeignModel:
    """Read a whole folder, if our model can hold its content. `languages` are source and target if it does not state
    them.
    """
    requested = None if languages is None else _pair(languages)
    if texts is not None:
        raise ConfigError("a text chooses the pieces of a model of several languages; this one is a Marian model")
    for name in (VOCABULARY, *MODELS):
        refuse_missing(folder, name)
    architecture = foreign.read_architecture(folder, MarianArchitecture)
    settings = foreign.tokenizer_settings(folder)
    tokenizers, vocabularies = _tokenizers(folder, settings, architecture)
    config = architecture.model_config_with(tokenizers, tied=architecture.tied, output_bias=True)
    unknown = vocabularies.target[tokenizers.target.unknown]
    assert unknown is not None, "only our start symbol has no row there"
    padding = architecture.pad_token_id
    symbols = Symbols(unknown, padding, architecture.eos_token_id, padding)
    options, notes = foreign.search_options(folder, architecture.max_position_embeddings, symbols)
    stated = requested or _stated((settings.get("source_lang"), settings.get("target_lang")), tokenizers, folder)
    notes += _notes(architecture, tokenizers.source, vocabularies, stated)
    files = ModelFiles(None, stated, options, framing=MARIAN_FRAMING)
    weights = foreign.read_weights(folder, config, architecture)
    return ForeignModel(config, tokenizers, files, vocabularies, weights, notes)


def _tokenizers(folder: Path, settings: Content, architecture: MarianArchitecture) -> tuple[Tokenizers, Vocabularies]:
    separate = bool(settings.get("separate_vocabs", False))
    names = (VOCABULARY, TARGET_VOCABULARY if separate else VOCABULARY)
    if separate:
        refuse_missing(folder, TARGET_VOCABULARY)
    if separate and architecture.share_encoder_decoder_embeddings:
        raise CheckpointError(f"{folder}: separate_vocabs contradicts share_encoder_decoder_embeddings")
    sizes = (architecture.vocab_size, architecture.target_size)
    sides = [_side(folder, *files, architecture) for files in zip(names, MODELS, sizes, strict=True)]
    (source, source_rows), (target, target_rows) = sides
    return Tokenizers(source, target), Vocabularies(source_rows, target_rows)


def _side(
    folder: Path, name: str, model: str, size: int, architecture: MarianArchitecture
) -> tuple[SentencePieceTokenizer, Rows]:
    """Return the tokenizer of one side, and the order of its ids in that folder."""
    ids = foreign.read_table(folder / name, size)
    for symbol, wanted, setting in (
        (PADDING, architecture.pad_token_id, "pad_token_id"),
        (END, architecture.eos_token_id, "eos_token_id"),
    ):
        if ids[symbol] != wanted:
            raise TokenizerError(
                f"{folder / name}: {symbol} has id {ids[symbol]:,}, but {CONFIG} says {setting} = {wanted:,}"
            )
    pieces = sorted(ids.keys() - {UNKNOWN, PADDING, END}, key=ids.__getitem__)
    rows = [ids[UNKNOWN], ids[PADDING], None, ids[END], *(ids[piece] for piece in pieces)]
    return foreign.tokenizer_of(folder / model, pieces), rows


def _notes(
    architecture: MarianArchitecture, source: Tokenizer, vocabularies: Vocabularies, languages: Languages
) -> Iterator[str]:
    """Yield what a person should know of the new model besides its search options."""
    if targets := list(source.languages):
        yield (
            f"it translates into {', '.join(targets)}; begin each text with a tag such as >>{targets[0]}<<, or give "
            "--target-language"
        )
    sides = zip(vocabularies, (architecture.vocab_size, architecture.target_size), strict=True)
    extra, extra_target = (size - (len(rows) - 1) for rows, size in sides)
    unnamed = extra + (0 if architecture.share_encoder_decoder_embeddings else extra_target)
    if unnamed:
        yield f"{unnamed:,} embeddings of no piece are left out; no text has them"
    if languages == Languages() and not targets:
        yield "the folder does not say its languages; give them, as in: --languages en,it"


def _pair(languages: Sequence[str]) -> Languages:
    if len(languages) != 2:
        raise ConfigError(
            f"languages of a Marian model are two tags, of source and target, but {len(languages)} were given"
        )
    tags = check(dict(zip(Languages._fields, languages, strict=True)), "--languages", _StatedLanguages)
    return Languages(tags.source, tags.target)


def _stated(stated: tuple[Any, Any], tokenizers: Tokenizers, folder: Path) -> Languages:
    """Return the languages that the tokenizer's settings name, else those in a name of OPUS-MT, else `und`."""
    named = next(filter(None, map(_NAMED.search, reversed(folder.resolve().parts[-3:]))), None)  # or the hub's cache
    for languages in (stated, named.groups() if named else (None, None)):
        try:
            tags = _StatedLanguages.model_validate(dict(zip(Languages._fields, languages, strict=True)))
        except pydantic.ValidationError:
            continue
        source, target = ("und" if tag.lower() in _GROUPS else tag for tag in (tags.source, tags.target))
        return Languages(source, "und" if len(tokenizers.source.languages) > 1 else target)
    return Languages()
