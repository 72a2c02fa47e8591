"""What tasks on text have in common: tokenizers and corpora before training, and `CorpusTask` while it lasts."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

from torch import Tensor, nn

from dragoman.data.batching import build_batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import ConfigError, TokenizerError
from dragoman.files import new_folder
from dragoman.model import StepNoise
from dragoman.run_folder import RunFolder
from dragoman.runs.recipe import Recipe, too_few_positions
from dragoman.store import ModelFiles, load_model
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.training.loss import Loss
from dragoman.training.objective import CountedBatches, CrossEntropy, Objective, OnDevice, Validated

UNMEASURED = "The scores of its run are in `scores.json` there.\n"
"""What a model card says of the quality of a model that validation did not choose."""


class RunData(Protocol):
    """The text of a run, tokenized and encoded."""

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of source and target."""
        ...

    @property
    def train(self) -> EncodedCorpus:
        """The corpus to train on."""
        ...

    @property
    def dev(self) -> EncodedCorpus | None:
        """The corpus to validate on; None if nothing is held out."""
        ...


def identity_of(data: RunData) -> dict[str, str]:
    """What must be unchanged when a run resumes: data and tokenizers."""
    return {
        "data": data.train.identity,
        "source tokenizer": data.tokenizers.source.identity,
        "target tokenizer": data.tokenizers.target.identity,
    }


def find_tokenizers(run: RunFolder, recipe: Recipe, learn: Callable[[], Tokenizers]) -> Tokenizers:
    """The run's tokenizers: saved earlier, those of the model that it starts from, or learnt now and saved."""
    if run.tokenizer.exists():
        return Tokenizers.load(run.tokenizer)
    tokenizers = learn() if recipe.start is None else load_model(recipe.start.model).tokenizers
    if recipe.model.family == "encoder":
        tokenizers = Tokenizers(tokenizers.source, tokenizers.source)
    with new_folder(run.tokenizer) as aside:
        tokenizers.save(aside)
    return tokenizers


def find_corpus(
    folder: Path,
    tokenizers: Tokenizers,
    encode: Callable[[], EncodedCorpus],
    fits: Callable[[EncodedCorpus], bool] = lambda _: True,
    labels: Labels | None = None,
) -> EncodedCorpus:
    """A corpus that was encoded earlier, after reading all of it once to check it. One is encoded now if there is none,
    or if it no longer `fits` the recipe, whose settings may change until training begins.

    Raises:
        DataError: it is damaged.
        TokenizerError: it was encoded by another tokenizer.
    """
    if not folder.exists():
        return encode()
    corpus = EncodedCorpus.open(folder)
    corpus.verify()
    target = tokenizers.target if labels is None else labels
    for facts, vocabulary in ((corpus.facts.source, tokenizers.source), (corpus.facts.target, target)):
        if facts is not None and facts.tokenizer != vocabulary.identity:
            raise TokenizerError(f"{corpus.folder} was encoded by another tokenizer than the run has now; use --fresh")
    if fits(corpus):
        return corpus
    del corpus  # Windows replaces no folder whose files are open
    return encode()


class Measures(Protocol):
    """A dev set that measures weights."""

    def measure(self, weights: Mapping[str, Tensor], /) -> Validated: ...


class DescribeFiles(Protocol):
    """Says which files a model folder holds: see `Task.files`."""

    def __call__(self, weights: int, steps: int, tokens: int, found: Validated | None) -> ModelFiles: ...


class CorpusTask:
    """A task that predicts each next token of an encoded corpus. What sets one apart from another are two functions.

    Attributes:
        batches: of the training corpus, in the order that the seed gives, on the device.
        identity: what must be unchanged when a run resumes: data and tokenizers.
        files: which files a model folder holds.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: RunData,
        device: str,
        open_dev_set: Callable[[], Measures] | None,
        files: DescribeFiles,
        framing: Framing = DEFAULT_FRAMING,
        objective: Objective | None = None,
    ) -> None:
        """`open_dev_set` is called before the first validation; None where nothing is held out. Unless an `objective`
        is given, each next token of the target is predicted.

        Raises:
            ConfigError: the model has too few positions for the longest sentences and the symbols around them.
        """
        if complaint := too_few_positions(recipe, framing):
            raise ConfigError(complaint)
        if objective is None:
            batches = build_batches(data.train, recipe.batches, recipe.train.seed, framing)
            objective = CrossEntropy.of(OnDevice(batches, device), recipe.train)
        self.batches = cast("CountedBatches", objective.batches)
        self.identity, self.files = identity_of(data), files
        if framing != DEFAULT_FRAMING:
            self.identity["framing"] = str(framing)
        self._objective = objective
        self._open_dev_set = open_dev_set

    def loss(self, model: nn.Module, batch: Any, noise: StepNoise) -> Loss:
        """Sums over the target tokens of one micro-batch."""
        return self._objective.loss(model, batch, noise)

    def validate(self, weights: Mapping[str, Tensor]) -> Validated | None:
        """Measures these weights on the dev set."""
        return None if self._dev_set is None else self._dev_set.measure(weights)

    @cached_property
    def _dev_set(self) -> Measures | None:
        return self._open_dev_set and self._open_dev_set()
