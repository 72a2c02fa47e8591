"""The description of a model folder: `config.json`, the files that it must hold, and the model in memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pydantic
from numpy.typing import NDArray

from dragoman.config import Settings, read_json_as
from dragoman.directions import SEVERAL, Directions
from dragoman.errors import CheckpointError
from dragoman.files import CONFIG, MANIFEST, REPORT, nearest
from dragoman.model.config import LoraSettings, ModelConfig
from dragoman.run_folder import RunFolder
from dragoman.serialization import read_object
from dragoman.store.hub import describe_foreign
from dragoman.store.manifest import listed_hash, verify_manifest
from dragoman.store.weights import Weights, restored
from dragoman.surface.conventions import LanguageConventions, PairConventions, load_conventions
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.tokenizers import Tokenizers

if TYPE_CHECKING:
    from torch import nn

FORMAT, SEVERAL_LANGUAGES, ADAPTER_FORMAT = 4, 5, 1
"""Format numbers of `config.json`: of a model, of one with several languages or an offset, and of an adapter."""
WEIGHTS, GENERATION, CARD = "model.safetensors", "generation_config.json", "README.md"
ADAPTER = "adapter.safetensors"

USES = {
    "encoder_decoder": "translates; use dragoman translate",
    "language_model": "continues texts; use dragoman generate",
    "encoder": "labels texts or fills in words; use dragoman predict",
}
"""The use of the models of each family, with the command for it."""


class Languages(NamedTuple):
    """The languages that a model translates from and to: BCP 47 tags; `und` if unknown, `mul` if there are several."""

    source: str = "und"
    target: str = "und"


class _Config(Settings):
    """`config.json`."""

    format: int
    languages: Directions | None = None
    framing: Framing | None = None
    quantised: bool = False
    model: ModelConfig

    @pydantic.model_validator(mode="after")
    def _symbols_are_tokens(self) -> "_Config":
        if self.framing is not None:
            self.framing.check_ids(self.model.source_vocabulary, self.model.target_vocabulary)
        return self


class Adapter(Settings):
    """The description of an adapter: its base, and its settings."""

    base: str
    """Folder of the base when the adapter was trained."""
    beside: str | None = None
    """The same folder, relative to the adapter's, so that both may move together."""
    sha256: str = pydantic.Field(min_length=64, max_length=64)
    """SHA-256 of the base's `model.safetensors`."""
    lora: LoraSettings


class _AdapterConfig(Settings):
    """`config.json` of an adapter folder."""

    format: int
    adapter: Adapter


class Description(NamedTuple):
    """The content of `config.json` of a model."""

    languages: Languages | None
    """None for a model that does not translate."""
    framing: Framing
    model: ModelConfig
    quantised: bool
    """True if the matrices are stored as 8-bit integers."""
    directions: Directions | None
    """None for a model with one direction."""


class ModelFiles(NamedTuple):
    """The content of a model folder besides architecture and weights; its task provides it."""

    tokenizers: Tokenizers | None = None
    """None for a model that reads no text."""
    languages: Languages | None = None
    """None for a model that does not translate."""
    generation: Mapping[str, Any] = {}
    """Default search options; of a language model, its context."""
    card: str = ""
    """Model card in Markdown; without one, a short one is written."""
    framing: Framing = DEFAULT_FRAMING
    """Symbols that the model expects around sources and targets."""
    labels: Labels | None = None
    """None for a model that predicts no labels."""
    adapter: Adapter | None = None
    """Description of an adapter; None for a whole model."""
    conventions: PairConventions | LanguageConventions | None = None
    """Conventions of the training text; None if they are unknown, or if the text is in one language."""
    directions: Directions | None = None
    """Directions of a model with several, whose `languages` are then those of `languages_of`."""


class StoredModel:
    """A model folder in memory, read from `folder`."""

    def __repr__(self) -> str:
        return f"StoredModel({str(self.folder)!r}: {self.config.family}, {self.config.preset}, {self.config.size})"

    def __init__(
        self,
        model: "nn.Module | None",
        config: ModelConfig,
        files: ModelFiles,
        folder: Path,
        weights: Mapping[str, NDArray[Any]] | None = None,
        quantised: bool = False,
    ) -> None:
        """Take a model, or the weights of one that is built on first use. The weights may be `quantised`."""
        self.config, self.files, self.folder, self.quantised = config, files, folder, quantised
        self._model, self._weights = model, weights

    @property
    def model(self) -> "nn.Module":
        """The model in PyTorch, in evaluation mode, float32."""
        if self._model is None:
            from dragoman.store.tensors import model_of

            assert self._weights is not None, "a model or its weights are given"
            self._model = model_of(self.config, self.weights)
        return self._model

    @property
    def weights(self) -> Weights:
        """Every weight by its name, as a pass uses it, in float32."""
        return restored(self.tensors) if self._model is None and self.quantised else self.tensors

    @property
    def tensors(self) -> Mapping[str, NDArray[Any]]:
        """Every weight as it is stored: quantised ones as integers with scales. Those of a file are read one by one."""
        if self._model is None and self._weights is not None:
            return self._weights  # nobody can have changed them
        from dragoman.store.tensors import effective_weights

        return effective_weights(self.model)

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of source and target."""
        if self.files.tokenizers is None:
            raise CheckpointError(f"{self.folder} holds no tokenizer, so its model reads no text")
        return self.files.tokenizers

    @property
    def labels(self) -> Labels:
        """The labels of a classifier or tagger."""
        if self.files.labels is None:
            raise CheckpointError(f"{self.folder} holds no labels, so its model neither classifies nor tags")
        return self.files.labels

    @property
    def languages(self) -> Languages:
        """The languages of a translation model, `mul` on a side with several; `und` for any other model."""
        return self.files.languages or Languages()


def find_local_model(path: Path | str) -> Path:
    """Return the model folder at a path: the folder itself, or `best/`, else `final/`, of a run folder."""
    path = Path(path)
    run = RunFolder(path)
    for folder in (path, run.best, run.final):
        if (folder / CONFIG).is_file() and ((folder / MANIFEST).is_file() or describe_foreign(folder) is None):
            return folder
    if not path.exists():
        raise CheckpointError(f"{path} does not exist{nearest(path) or '; MODEL is a model folder or a run folder'}")
    if (path / REPORT).is_file():
        raise CheckpointError(f"{path} is prepared data, not a model; train one on it with: dragoman train {path}")
    if run.recipe.is_file():
        raise CheckpointError(f"{path} is a run without a finished model yet; continue it with: dragoman train {path}")
    if kind := describe_foreign(path):
        raise CheckpointError(f"{path} is {kind}")
    raise CheckpointError(f"{path} is not a model folder: it has no {CONFIG}")


def verify_model(folder: Path) -> None:
    """Check that a model folder is complete and undamaged."""
    is_adapter = (folder / MANIFEST).is_file() and listed_hash(folder, ADAPTER) is not None
    for name in (MANIFEST, CONFIG, ADAPTER if is_adapter else WEIGHTS, GENERATION):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not a complete model folder: {name} is missing")
    verify_manifest(folder, free={CARD})


def read_config(folder: Path) -> Description:
    """Read `config.json`; that of its base for an adapter."""
    if (adapter := read_adapter(folder)) is not None:
        folder = find_base(folder, adapter)
    path = folder / CONFIG
    number = FORMAT if read_object(path).get("format") == FORMAT else SEVERAL_LANGUAGES
    config = read_json_as(path, _Config, number)
    if config.languages is None and config.model.family == "encoder_decoder":
        raise CheckpointError(f"{path}: languages must be given")
    languages = config.languages and languages_of(config.languages)
    directions = config.languages if SEVERAL in (languages or ()) else None
    return Description(languages, config.framing or DEFAULT_FRAMING, config.model, config.quantised, directions)


def read_adapter(folder: Path) -> Adapter | None:
    """Read the description of an adapter folder; None for the folder of a whole model."""
    if "adapter" not in read_object(folder / CONFIG):
        return None
    return read_json_as(folder / CONFIG, _AdapterConfig, ADAPTER_FORMAT).adapter


def languages_of(directions: Directions) -> Languages:
    """Return the languages of each side in one word: that language, or `mul` if there are several."""
    return Languages(*(side[0] if len(side) == 1 else SEVERAL for side in (directions.source, directions.target)))


def read_conventions(folder: Path) -> PairConventions | LanguageConventions | None:
    """Read the conventions of a model's training text, of its base for an adapter; None if the folder has none."""
    if (adapter := read_adapter(folder)) is not None:
        folder = find_base(folder, adapter)
    return load_conventions(folder)


def find_base(folder: Path, adapter: Adapter) -> Path:
    """Return the folder of an adapter's base, where it was or next to the adapter; prefer matching weights."""
    places = Path(adapter.base), folder / (adapter.beside or adapter.base)
    models = [place for place in places if (place / WEIGHTS).is_file()]
    if not models:
        raise CheckpointError(
            f"{folder} is an adapter of {adapter.base}, which is not there; put that model back, or merge both where "
            f"they are now: dragoman merge {folder} --base BASE --to FOLDER"
        )
    for place in models:
        if (place / MANIFEST).is_file() and listed_hash(place, WEIGHTS) == adapter.sha256:
            return place
    return models[0]


def default_card(languages: Languages | None, config: ModelConfig, origin: str = "") -> str:
    """Return the model card of a model that no run has described; `origin` names its source."""
    kind = {"encoder": "Encoder", "language_model": "Language model"}.get(config.family, "Translation model")
    title = kind if languages is None else f"{kind}, {languages.source} to {languages.target}"
    made = f"A Transformer ({config.preset}, {config.size}) made with Dragoman.\n"
    return "\n".join([f"# {title}\n", made, *([f"{origin}\n"] if origin else [])])
