"""Tasks of runs: `Task`, with a subclass in a separate file for each kind of task.

The methods are in the order in which a run calls them. All processes of a run execute them.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

import dragoman
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import CheckpointError, ConfigError, TokenizerError
from dragoman.files import discard, new_folder
from dragoman.model.transformer import AnyModel, build_model
from dragoman.progress import Progress, silent
from dragoman.run_folder import RunFolder
from dragoman.runs.choices import TextFacts, VocabularySizes
from dragoman.runs.recipe import Recipe, too_few_positions
from dragoman.store.description import Description, ModelFiles, read_config
from dragoman.store.folder import find_model, load_model
from dragoman.store.tensors import place_weights
from dragoman.text.settings import name_on_card
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.training.objective import CrossEntropy, Objective

log = logging.getLogger(__name__)

LOOKED_AT, STRANGE = 1_000, 0.4
"""Rows in which a finished model's vocabulary is tried, and the share of tokens from which it does not suit them."""
UNMEASURED = "The scores of its run are in `scores.json` there.\n"
"""Sentence of a model card about the quality of a model that validation did not choose."""


class Corpora(NamedTuple):
    """The text of a run, tokenized and encoded."""

    tokenizers: Tokenizers
    """For a task that reads one text, the same tokenizer on both sides."""
    train: EncodedCorpus
    dev: EncodedCorpus | None
    """None if nothing is held out."""


class Validated(NamedTuple):
    """The result of one validation."""

    score: float
    """The model with the highest score is the best."""
    facts: Mapping[str, float]
    """The numbers for the metrics: `dev_loss` and others."""
    summary: str
    """Sentence for the log."""
    brief: str
    """A few characters for the progress bar."""
    samples: str = ""
    """Output of the model for some examples, one a line."""
    quality: str = ""
    """Paragraph about quality in the model card."""
    generation: Mapping[str, Any] = {}
    """Search options that were measured; those of the recipe replace them."""


@dataclass(frozen=True)
class Task(ABC):
    """The task of one run. `prepare` and `encode` make something only once: a later call finds it in the run's folder.

    `score` measures again each time, and overwrites the earlier scores. The other methods write nothing.
    """

    run: RunFolder
    recipe: Recipe
    """Recipe as far as it is resolved."""
    device: str = "cpu"
    progress: Progress = silent
    encoded: Corpora | None = None
    """None until the text is encoded."""

    def with_recipe(self, recipe: Recipe) -> Self:
        """Return the same task and text with other settings."""
        return replace(self, recipe=recipe)

    # Before training: text

    def prepared_before(self) -> dict[str, Any] | None:
        """Return settings from the report on the recipe's data, if the data was prepared before the run."""
        return None

    @abstractmethod
    def prepare(self) -> None:
        """Read, check and split text into the run's folder."""

    @property
    @abstractmethod
    def report(self) -> Any:
        """Report on the prepared text."""

    def notes(self) -> Iterator[str]:
        """Yield what was found in the prepared text, in words."""
        yield from self.report.notes()

    @abstractmethod
    def text_facts(self) -> TextFacts:
        """Return the amount of the training text."""

    # Before training: ids

    @abstractmethod
    def learn_tokenizers(self) -> Tokenizers:
        """Learn tokenizers from the training text."""

    def grown(self, tokenizers: Tokenizers) -> Tokenizers:
        """Return the tokenizers of the model that the run starts from, with what this text needs besides."""
        return tokenizers

    @property
    @abstractmethod
    def has_dev(self) -> bool:
        """True if text is held out for validation."""

    @abstractmethod
    def encode_split(self, name: str, tokenizers: Tokenizers, folder: Path) -> EncodedCorpus:
        """Encode one split of the prepared text into a new folder."""

    def is_fit(self, _name: str, _corpus: EncodedCorpus) -> bool:
        """Return True if a corpus that was encoded earlier still suits the recipe, whose settings may have changed."""
        return True

    def encode(self) -> Self:
        """Return the same task with its text encoded. Tokenizers are learned now if there are none."""
        tokenizers = self._find_tokenizers()
        train = self._find_corpus("train", tokenizers)
        dev = self._find_corpus("dev", tokenizers) if self.has_dev else None
        if self.recipe.start is not None:
            self._warn_of_strange_text(train, tokenizers)
        return replace(self, encoded=Corpora(tokenizers, train, dev))

    def _warn_of_strange_text(self, train: EncodedCorpus, tokenizers: Tokenizers) -> None:
        target = None if train.labels_only else train.target
        begin, pool = next(iter(train.facts.pools.items()), (len(train), None))
        first = min(LOOKED_AT, begin or (pool.rows if pool else 0))
        for side, rows, tokenizer in zip(("source", "target"), (train.source, target), tokenizers, strict=True):
            if rows is None:
                continue
            ids = rows.ids[: rows.offsets[first]].tolist()
            strange = sum(not tokenizer.spells_characters(id_) for id_ in ids) / max(1, len(ids))
            if strange > STRANGE:
                log.warning(
                    "the model's vocabulary can hardly write the %s text: %s of its tokens are unknown or single "
                    "bytes, so training will help little; take a model of this language and script, or train a new one",
                    side,
                    f"{strange:.0%}",
                )

    @property
    def corpora(self) -> Corpora:
        """Encoded text."""
        assert self.encoded is not None, "text is encoded before it is trained on"
        return self.encoded

    @property
    def dev(self) -> EncodedCorpus:
        """Encoded text that validation measures."""
        assert self.corpora.dev is not None, "a run without a dev set is not validated"
        return self.corpora.dev

    @property
    def labels(self) -> Labels | None:
        """Labels of the text; None if nothing is labelled."""
        return None

    @property
    def vocabularies(self) -> VocabularySizes:
        """Numbers of tokens and labels."""
        source, target = self.corpora.tokenizers
        return VocabularySizes(
            source.size, target.size, self.corpora.tokenizers.joint, None if self.labels is None else self.labels.size
        )

    @cached_property
    def start(self) -> Description | None:
        """Description of the model that the run starts from; a resumed run may do without it, so None if it is lost."""
        if self.recipe.start is None:
            return None
        try:
            return read_config(find_model(self.recipe.start.model))
        except CheckpointError:
            return None

    @property
    def framing(self) -> Framing:
        """Symbols around texts: those of the model that the run starts from, if there is one."""
        return DEFAULT_FRAMING if self.start is None else self.start.framing

    def _find_tokenizers(self) -> Tokenizers:
        """Return the run's tokenizers: saved earlier, those of the model that it starts from, or new ones."""
        if self.run.tokenizer.exists():
            return Tokenizers.load(self.run.tokenizer)
        if self.recipe.start is None:
            tokenizers = self.learn_tokenizers()
        else:
            tokenizers = self.grown(load_model(self.recipe.start.model).tokenizers)
        if self.recipe.model.family == "encoder":
            tokenizers = Tokenizers(tokenizers.source, tokenizers.source)
        with new_folder(self.run.tokenizer) as aside:
            tokenizers.save(aside)
        return tokenizers

    def _find_corpus(self, name: str, tokenizers: Tokenizers) -> EncodedCorpus:
        """Return the corpus of one split: encoded earlier, and read once to check it; or encoded now."""
        folder = self.run.corpus(name)
        if not folder.exists():
            return self.encode_split(name, tokenizers, folder)
        corpus = EncodedCorpus.open(folder)
        corpus.verify()
        target = tokenizers.target if self.labels is None else self.labels
        for facts, vocabulary in ((corpus.facts.source, tokenizers.source), (corpus.facts.target, target)):
            if facts is not None and facts.tokenizer != vocabulary.identity:
                raise TokenizerError(f"{folder} was encoded by another tokenizer than the run has now; use --fresh")
        if self.is_fit(name, corpus):
            return corpus
        discard(folder)
        return self.encode_split(name, tokenizers, folder)

    # Training

    @cached_property
    def objective(self) -> Objective:
        """Objective of training: the cross-entropy of each target token or label."""
        if complaint := too_few_positions(self.recipe, self.framing):
            raise ConfigError(complaint)
        return self.make_objective(self.batches_of(self.corpora.train, self.recipe.train.seed))

    @property
    def batches(self) -> Any:
        """Batches of the training corpus, in the order that the seed gives."""
        return self.objective.batches

    def batches_of(self, corpus: EncodedCorpus, seed: int | None = None) -> Any:
        """Return the batches of a corpus; without a seed, in an order that is always the same."""
        settings = self.recipe.batches
        return Batches(corpus, settings.batch_tokens, settings.sentence_tokens, seed, self.framing)

    def make_objective(self, batches: Any) -> Objective:
        """Return the objective on these batches."""
        train = self.recipe.train
        return CrossEntropy(batches, train.label_smoothing, alignment_weight=train.alignment_weight or 0.0)

    @property
    def identity(self) -> dict[str, str]:
        """Facts that must be unchanged when the run resumes: data, tokenizers and the symbols around texts."""
        train, tokenizers = self.corpora.train, self.corpora.tokenizers
        identity = {
            "data": train.identity,
            "source tokenizer": tokenizers.source.identity,
            "target tokenizer": tokenizers.target.identity,
        }
        return identity if self.framing == DEFAULT_FRAMING else {**identity, "framing": str(self.framing)}

    def validate(self, weights: Mapping[str, Tensor]) -> Validated | None:
        """Measure weights on the dev set, if any, in the run's precision; raise `DecodeError` if one is not finite."""
        if self.corpora.dev is None:
            return None
        place_weights(self._validated, {name: weight.to(self._dtype) for name, weight in weights.items()})
        return self.measure(self._validated)

    @cached_property
    def _validated(self) -> AnyModel:
        """A second model, whose weights are those to be validated."""
        with torch.device("meta"):
            return build_model(self.recipe.model, seed=None)

    @property
    def _dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.recipe.train.precision == "bf16" else torch.float32

    @abstractmethod
    def measure(self, model: Any) -> Validated:
        """Measure a model on the dev set. The model with the highest score is the best."""

    # The model folder

    @property
    @abstractmethod
    def model_files(self) -> ModelFiles:
        """Files of a model folder besides weights and card."""

    def files(self, weights: int, steps: int, tokens: int, validated: Validated | None) -> ModelFiles:
        """Return the files of a model folder besides its weights. The card states the number of `weights`, the `steps`
        and `tokens` of their training, and their quality if they were `validated`.
        """
        quality, measured = (validated.quality, validated.generation) if validated else (UNMEASURED, {})
        files, card = self.model_files, self.card(weights, f"{steps:,} steps, {tokens:,} tokens", quality)
        return files._replace(card=card, generation={**measured, **files.generation})

    @abstractmethod
    def card(self, weights: int, training: str, quality: str) -> str:
        """Return the model card."""

    def made_with(self, architecture: str, layers: object, weights: int) -> str:
        """Return the sentence of a model card about the model."""
        model = self.recipe.model
        return (
            f"{architecture} ({model.preset}, {model.size}: width {model.d_model}, {layers} layers, {weights:,} "
            f"weights) made with Dragoman {dragoman.__version__}."
        )

    def text_name(self, name: str) -> str:
        """Return the name of the text in a model card."""
        return name_on_card(self.recipe.data, name)

    # After training

    @abstractmethod
    def score(self) -> Sequence[Any]:
        """Score the best model of the run on its test sets, and write `scores.json`."""

    def warning(self, _metrics: Sequence[Mapping[str, Any]], _best_step: int) -> str | None:
        """Return a warning if, according to the metrics, the best model has learned next to nothing; else None."""
        return None
