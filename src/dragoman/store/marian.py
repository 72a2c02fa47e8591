"""Marian folders of transformers, read, checked, and converted into model folders. Start with `convert`.

A folder may come from anyone, so only JSON, safetensors, models of SentencePiece, and pickles of bare tensors are read,
after a check of sizes and shapes.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251 (only the error of what torch refuses)
from typing import Any, Literal, NamedTuple

import pydantic
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dragoman.config import Content, Settings, check
from dragoman.errors import CheckpointError, ConfigError, TokenizerError
from dragoman.languages import LanguageTag
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import weight_shapes
from dragoman.model.transformer import build_model
from dragoman.serialization import read_object
from dragoman.store.description import CARD, CONFIG, GENERATION, Languages, ModelFiles, find_local_model, verify_model
from dragoman.store.hub import WEIGHTS as WEIGHT_FILES
from dragoman.store.hub import fetch, hub_address, is_marian, is_pointer
from dragoman.store.marian_search import Symbols, options_from
from dragoman.store.marian_weights import BIAS, POSITIONS, Rows, Vocabularies, from_marian, twins
from dragoman.store.saving import check_new_model, save_model
from dragoman.tokenizing.sentencepiece import SentencePieces, SentencePieceTokenizer, read_model
from dragoman.tokenizing.special_tokens import MARIAN_FRAMING
from dragoman.tokenizing.tokenizers import Tokenizers

TOKENIZER = "tokenizer_config.json"
WEIGHTS, PICKLED = WEIGHT_FILES
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
MODELS = ("source.spm", "target.spm")
UNKNOWN, PADDING, END = "<unk>", "<pad>", "</s>"
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""Marian's names of nonlinearities, and ours."""
_OTHER_WEIGHTS = ("*-of-*", "*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx")
"""Weights of other libraries, or in several files."""
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Architecture(Settings, extra="ignore"):
    """The architecture in `config.json`. Keys that are not listed here do not change any result."""

    model_type: Literal["marian"]
    is_encoder_decoder: Literal[True] = True
    vocab_size: int = pydantic.Field(ge=4, lt=2**31)
    decoder_vocab_size: int | None = pydantic.Field(default=None, ge=4, lt=2**31)
    d_model: int = pydantic.Field(ge=2, le=65_536, multiple_of=2)
    encoder_layers: int = pydantic.Field(ge=1, le=1_000)
    decoder_layers: int = pydantic.Field(ge=1, le=1_000)
    encoder_attention_heads: int = pydantic.Field(ge=1, le=65_536)
    decoder_attention_heads: int = pydantic.Field(ge=1, le=65_536)
    encoder_ffn_dim: int = pydantic.Field(ge=1, le=1_048_576)
    decoder_ffn_dim: int = pydantic.Field(ge=1, le=1_048_576)
    activation_function: Literal["swish", "silu", "relu", "gelu"] = "gelu"
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    activation_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    max_position_embeddings: int = pydantic.Field(default=1_024, ge=16, le=1_000_000)
    pad_token_id: int = 58_100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58_100
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    add_bias_logits: Literal[False] = False
    static_position_embeddings: Literal[True] = True
    quantization_config: None = None

    @pydantic.model_validator(mode="after")
    def _is_one_of_ours(self) -> "Architecture":
        for ours in ("attention_heads", "ffn_dim"):
            encoder, decoder = (getattr(self, f"{stack}_{ours}") for stack in ("encoder", "decoder"))
            if encoder != decoder:
                raise ValueError(
                    f"encoder_{ours} and decoder_{ours} must be equal, but are {encoder:,} and {decoder:,}"
                )
        if self.d_model % self.encoder_attention_heads:
            raise ValueError("encoder_attention_heads must divide d_model")
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


class MarianFolder(NamedTuple):
    """A Marian model, read and checked."""

    config: ModelConfig
    architecture: Architecture
    tokenizers: Tokenizers
    vocabularies: Vocabularies
    weights: Mapping[str, Tensor]
    """Tensors by Marian's names."""
    generation_file: Path
    """`generation_config.json`; in older folders without one, `config.json`."""
    stated_languages: tuple[Any, Any]
    """Source and target as `tokenizer_config.json` states them; they may be of any type."""

    @property
    def unnamed(self) -> int:
        """Number of embeddings without a piece, as in a vocabulary whose size was rounded up."""
        source, target = (len(rows) - 1 for rows in self.vocabularies)
        facts = self.architecture
        apart = not facts.share_encoder_decoder_embeddings
        return facts.vocab_size - source + apart * (facts.target_size - target)

    @property
    def unknown(self) -> int:
        """Marian's id of the unknown symbol of the target."""
        row = self.vocabularies.target[self.tokenizers.target.unknown]
        assert row is not None, "only our start symbol has no row there"
        return row


def read_marian(folder: Path) -> MarianFolder:
    """Read a whole folder, if our model can hold its content."""
    for name in (CONFIG, VOCABULARY, *MODELS):
        _refuse_missing(folder, name)
    _refuse_missing(folder, WEIGHTS, PICKLED)
    architecture = check(read_object(folder / CONFIG), str(folder / CONFIG), Architecture, CheckpointError)
    tokenizer_settings = read_object(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    tokenizers, vocabularies = _tokenizers(folder, tokenizer_settings, architecture)
    config = model_config(architecture, tokenizers)
    return MarianFolder(
        config,
        architecture,
        tokenizers,
        vocabularies,
        _weights(folder, config, architecture),
        folder / (GENERATION if (folder / GENERATION).is_file() else CONFIG),
        (tokenizer_settings.get("source_lang"), tokenizer_settings.get("target_lang")),
    )


def model_config(architecture: Architecture, tokenizers: Tokenizers) -> ModelConfig:
    """Return the same architecture in our terms."""
    tied = "all" if architecture.share_encoder_decoder_embeddings else "target"
    return ModelConfig.model_validate(
        {
            "preset": "paper",
            "source_vocabulary": tokenizers.source.size,
            "target_vocabulary": tokenizers.target.size,
            "d_model": architecture.d_model,
            "encoder_layers": architecture.encoder_layers,
            "decoder_layers": architecture.decoder_layers,
            "heads": architecture.encoder_attention_heads,
            "d_ff": architecture.encoder_ffn_dim,
            "activation": ACTIVATIONS[architecture.activation_function],
            "embedding_scale": architecture.scale_embedding,
            "output_bias": True,
            "tied": tied if architecture.tie_word_embeddings else "none",
            "dropout": architecture.dropout,
            "attention_dropout": architecture.attention_dropout,
            "activation_dropout": architecture.activation_dropout,
        }
    )


def _refuse_missing(folder: Path, *names: str) -> None:
    """Refuse a folder that holds no file of these names, or only a pointer of Git LFS."""
    here = [folder / name for name in names if (folder / name).is_file()]
    if not here:
        others = [file.name for pattern in _OTHER_WEIGHTS for file in sorted(folder.glob(pattern))]
        instead = f"; {', '.join(others)} cannot be read" if WEIGHTS in names and others else ""
        raise CheckpointError(f"{folder} is not a complete Marian folder: {' or '.join(names)} is missing{instead}")
    if is_pointer(here[0]):
        raise CheckpointError(f"{here[0]} is only a pointer of Git LFS; fetch the file with: git lfs pull")


def _tokenizers(
    folder: Path, tokenizer_settings: Content, architecture: Architecture
) -> tuple[Tokenizers, Vocabularies]:
    if tokenizer_settings.get("sp_model_kwargs"):
        raise TokenizerError(f"{folder / TOKENIZER}: sp_model_kwargs would sample pieces; leave them out")
    separate = bool(tokenizer_settings.get("separate_vocabs", False))
    names = (VOCABULARY, TARGET_VOCABULARY if separate else VOCABULARY)
    if separate:
        _refuse_missing(folder, TARGET_VOCABULARY)
    if separate and architecture.share_encoder_decoder_embeddings:
        raise CheckpointError(f"{folder}: separate_vocabs contradicts share_encoder_decoder_embeddings")
    sizes = (architecture.vocab_size, architecture.target_size)
    sides = [_side(folder, *files, architecture) for files in zip(names, MODELS, sizes, strict=True)]
    (source, source_rows), (target, target_rows) = sides
    return Tokenizers(source, target), Vocabularies(source_rows, target_rows)


def _side(
    folder: Path, name: str, model: str, size: int, architecture: Architecture
) -> tuple[SentencePieceTokenizer, Rows]:
    """Return the tokenizer of one side, and the order of its ids in that folder."""
    ids = _table(folder / name, size)
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
    try:
        return SentencePieceTokenizer(SentencePieces(pieces=tuple(pieces)), read_model(folder / model)), rows
    except TokenizerError as error:
        raise TokenizerError(f"{folder / model}: {error}") from None


def _table(path: Path, size: int) -> dict[str, int]:
    """Return the id of each piece, from 0 to `size` - 1; some ids may have none, if embeddings are padded."""
    ids = read_object(path)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in ids.values()):
        raise TokenizerError(f"{path} should give every piece a number")
    if len(set(ids.values())) < len(ids) or min(ids.values(), default=0) < 0 or max(ids.values(), default=0) >= size:
        raise TokenizerError(
            f"{path} should give each piece a different number from 0 to {size - 1:,}, because {CONFIG} says that "
            f"there are {size:,} embeddings"
        )
    for symbol in (UNKNOWN, PADDING, END):
        if symbol not in ids:
            raise TokenizerError(f"{path} has no {symbol}")
    return ids


def _weights(folder: Path, config: ModelConfig, architecture: Architecture) -> dict[str, Tensor]:
    expected = _expected(config, architecture)
    safe = folder / WEIGHTS
    path = safe if safe.is_file() else folder / PICKLED
    if path == safe:
        tensors = _from_safetensors(path, expected)
    else:
        tensors = _from_pickle(path, expected, [twin.names[0] for twin in twins(config).values()])
    weights: dict[str, Tensor] = {}
    for twin in twins(config).values():
        aliases = [tensors[name] for name in twin.names if name in tensors]
        if not aliases and twin.names != (BIAS,):
            raise CheckpointError(f"{path}: tensor {twin.names[0]} is missing")
        if any(not torch.equal(aliases[0], alias) for alias in aliases[1:]):
            raise CheckpointError(f"{path}: {', '.join(twin.names)} should be one matrix, but differ")
        weights[twin.names[0]] = aliases[0] if aliases else torch.zeros(expected[BIAS])
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path}: {name} holds numbers that are not finite")
    return weights


def _expected(config: ModelConfig, architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Return the shape of each of Marian's tensors, under all of its names."""
    shapes: dict[str, tuple[int, ...]] = {}
    rows = {"source": architecture.vocab_size, "target": architecture.target_size}
    ours = weight_shapes(config)
    for name, twin in twins(config).items():
        sizes = [rows.get(holds, size) for holds, size in zip(twin.axes, ours[name], strict=True)]
        shapes |= dict.fromkeys(twin.names, (1, *sizes) if twin.names == (BIAS,) else tuple(sizes))
    return shapes


def _from_safetensors(path: Path, expected: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                _refuse_shape(path, name, tuple(file.get_slice(name).get_shape()), expected)
            return {name: _float(path, name, file.get_tensor(name)) for name in file.keys() if name in expected}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from None


def _from_pickle(path: Path, expected: Mapping[str, tuple[int, ...]], needed: Sequence[str]) -> dict[str, Tensor]:
    """Load tensors by torch with `weights_only`, which makes tensors and plain containers and runs nothing.

    The size of the file is compared with the weights that it must hold under the names `needed`, because a tensor may
    repeat one number any number of times, and a record may be packed.
    """
    size, most = path.stat().st_size, 8 * sum(map(math.prod, expected.values())) + (1 << 24)
    least = 2 * sum(math.prod(expected[name]) for name in needed if name != BIAS)
    if not least <= size <= most:
        raise CheckpointError(
            f"{path} has {size:,} bytes, but the weights that {CONFIG} asks for need from {least:,} to {most:,}"
        )
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as records:
                if sum(record.file_size for record in records.infolist()) > size:
                    raise ValueError("its records are packed, and torch writes them as they are")
        tensors = torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 (the one pickle that we read)
    except UnpicklingError:
        raise CheckpointError(
            f"{path} is damaged, or holds more than tensors, which could run a program and is never read; save the "
            "weights as safetensors"
        ) from None
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path} is not a readable file of tensors: {reason[:200]}") from None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise CheckpointError(f"{path} should hold tensors by name, and nothing else")
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type != "cpu":
            raise CheckpointError(
                f"{path}: {str(name)[:100]} is sparse, nested or without numbers; save it as safetensors"
            )
        _refuse_shape(path, str(name), tuple(tensor.shape), expected)
    return {name: _float(path, name, tensor) for name, tensor in tensors.items() if name in expected}


def _refuse_shape(path: Path, name: str, shape: tuple[int, ...], expected: Mapping[str, tuple[int, ...]]) -> None:
    if name in POSITIONS:
        return
    if name not in expected:
        raise CheckpointError(f"{path}: tensor {name[:100]} does not belong to a Marian model of this form")
    if shape != expected[name]:
        raise CheckpointError(f"{path}: {name} has shape {list(shape)}, but {CONFIG} asks for {list(expected[name])}")


def _float(path: Path, name: str, tensor: Tensor) -> Tensor:
    if tensor.dtype not in _FLOATS:
        raise CheckpointError(f"{path}: {name} is of type {tensor.dtype}, but weights are floating-point numbers")
    return tensor.float()


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


class Conversion(NamedTuple):
    """A folder that was written, and notes for its user."""

    folder: Path
    what: str
    """Description of the new folder."""
    notes: tuple[str, ...] = ()


def convert(folder: Path | str, to: Path | str, languages: Sequence[str] | None = None) -> Conversion:
    """Convert a Marian model of transformers, in a folder or on the hub (`hub:OWNER/NAME`), into a model folder, which
    translates as it does. `languages` are its source and target; by default those that its folder states, or its name
    if that is one of OPUS-MT's. `export` is the inverse.

    Raises:
        CheckpointError, TokenizerError: a file is missing or damaged, or holds what our model cannot; it is named.
        ConfigError: languages are not two tags, or the folder is a model of Dragoman.
        DataError: `to` exists already.
        MissingExtra: the SentencePiece library is not installed.
    """
    to = Path(to)
    check_new_model(to)
    source = _source(folder)
    requested = None if languages is None else _pair(languages)
    marian = read_marian(source.folder)
    stated = requested or _stated(marian, source.folder)
    files, notes = _files(marian, stated, source)
    with torch.device("meta"):
        model = build_model(marian.config, seed=None)
    save_model(to, model, files, from_marian(marian.weights, marian.config, marian.vocabularies))
    weights = sum(tensor.numel() for tensor in marian.weights.values())
    what = f"a model folder, {stated.source} to {stated.target}: {weights:,} weights"
    return Conversion(to, what, (*notes, *_notes(marian, stated, source)))


class _MarianSource(NamedTuple):
    """A Marian folder, its name for people, and the licence that it states."""

    folder: Path
    name: str
    licence: str | None
    is_fetched: bool
    """True if it was fetched from the hub."""


def _source(path: Path | str) -> _MarianSource:
    """Find or fetch a Marian folder. Any other folder is refused."""
    address = hub_address(path)
    folder = Path(path) if address is None else fetch(address)
    if not is_marian(folder):
        try:
            verify_model(find_local_model(folder))
        except CheckpointError as error:
            raise CheckpointError(f"{error}; convert takes a Marian folder of transformers") from None
        raise ConfigError(f"{folder} is a model of Dragoman already; dragoman export writes it for other toolkits")
    name = folder.resolve().name if address is None else f"{address} (commit {folder.name})"
    return _MarianSource(folder, name, _licence(folder), address is not None)


def _files(marian: MarianFolder, languages: Languages, source: _MarianSource) -> tuple[ModelFiles, list[str]]:
    """Return the files of the new model folder, and notes on search options that differ."""
    facts, path = marian.architecture, marian.generation_file
    symbols = Symbols(marian.unknown, facts.pad_token_id, facts.eos_token_id)
    options, notes = options_from(read_object(path), facts.max_position_embeddings, symbols, str(path))
    card = _card(marian, languages, source)
    return ModelFiles(marian.tokenizers, languages, options, card, MARIAN_FRAMING), notes


def _notes(marian: MarianFolder, languages: Languages, source: _MarianSource) -> Iterator[str]:
    """Yield what a person should know of the new model besides its search options."""
    targets = list(marian.tokenizers.source.target_languages)
    if targets:
        yield (
            f"it translates into {', '.join(targets)}; begin each text with a tag such as >>{targets[0]}<<, or give "
            "--target-language"
        )
    if source.licence or source.is_fetched:
        yield f"licence: {source.licence or 'not stated; ask its authors'}"
    if marian.unnamed:
        yield f"{marian.unnamed:,} embeddings of no piece are left out; no text has them"
    if languages == Languages() and not targets:
        yield "the folder does not say its languages; give them, as in: --languages en it"


def _pair(languages: Sequence[str]) -> Languages:
    if len(languages) != 2:
        raise ConfigError(f"languages are two tags, of source and target, but {len(languages)} were given")
    tags = check(dict(zip(Languages._fields, languages, strict=True)), "--languages", _StatedLanguages)
    return Languages(tags.source, tags.target)


def _stated(marian: MarianFolder, folder: Path) -> Languages:
    """Return the languages that the tokenizer's settings name, else those in a name of OPUS-MT, else `und`."""
    named = next(filter(None, map(_NAMED.search, reversed(folder.resolve().parts[-3:]))), None)  # or the hub's cache
    for languages in (marian.stated_languages, named.groups() if named else (None, None)):
        try:
            tags = _StatedLanguages.model_validate(dict(zip(Languages._fields, languages, strict=True)))
        except pydantic.ValidationError:
            continue
        source, target = ("und" if tag.lower() in _GROUPS else tag for tag in (tags.source, tags.target))
        return Languages(source, "und" if len(marian.tokenizers.source.target_languages) > 1 else target)
    return Languages()


def _licence(folder: Path) -> str | None:
    """Return the licence in the first lines of `README.md`, as on the hub."""
    if not (folder / CARD).is_file():
        return None
    _, _, facts = (folder / CARD).read_text("utf-8", errors="replace")[:10_000].partition("---\n")
    licence = re.search(r"^licen[sc]e:\s*(?:- *)?([\w.-]+)", facts.partition("\n---")[0], re.MULTILINE)
    return licence[1] if licence else None


def _card(marian: MarianFolder, languages: Languages, source: _MarianSource) -> str:
    config, licence = marian.config, source.licence or "the one that its authors chose"
    targets = ", ".join(marian.tokenizers.source.target_languages)
    return (
        f"# Translation, {languages.source} to {languages.target}\n\n"
        f"The Marian model in {source.name}, converted to Dragoman: width {config.d_model}, "
        f"{config.encoder_layers} + {config.decoder_layers} layers. Its licence: {licence}.\n"
        + (f"\nEach text begins with the tag of its target language, such as >>ita<<: {targets}.\n" if targets else "")
    )
