"""From text to batches: prepared data, tokenizers and encoded corpora of a run, each made once and found again."""

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman.data.batching import Batches, build_batches
from dragoman.data.corpus import EncodedCorpus, encode_corpus
from dragoman.errors import DataError, TokenizerError
from dragoman.files import new_folder
from dragoman.progress import Progress
from dragoman.recipe.recipe import Recipe, StartSettings
from dragoman.store import CONFIG, Languages, load_model, read_config
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.text.reading.languages import UNKNOWN_LANGUAGE
from dragoman.text.report import DataReport, read_report
from dragoman.tokenizing.tokenizer import Tokenizers
from dragoman.tokenizing.training import learn_tokenizers

log = logging.getLogger(__name__)

DATA, TOKENIZER, CORPUS = "data", "tokenizer", "corpus"
SAMPLE = 1_000_000
"""Pairs that a vocabulary is learnt from at most, spread over all of the training text."""


class RunData(NamedTuple):
    report: DataReport
    tokenizers: Tokenizers
    train: EncodedCorpus
    dev: EncodedCorpus | None
    dev_pairs: list[tuple[str, str]]
    languages: Languages

    @property
    def identity(self) -> dict[str, str]:
        """What a resumed run must find unchanged."""
        return {
            "data": self.train.identity,
            "source tokenizer": self.tokenizers.source.identity,
            "target tokenizer": self.tokenizers.target.identity,
        }


def prepare(folder: Path, recipe: Recipe, anyway: bool, progress: Progress) -> DataReport:
    """Data read, checked and split into the run's folder, or found there.

    Raises:
        DataError: it cannot be used, or is not what was found there; `anyway` goes on with what was found.
    """
    data = folder / DATA
    try:
        return prepare_data(recipe.data, data, progress)
    except DataError as error:
        if not data.exists():
            raise
        held = _held(data)
        if not anyway:
            raise DataError(
                f"{error}; --anyway goes on with the data that the run holds, --fresh begins a new run"
            ) from None
        log.warning("%s; going on with the data that the run holds", error)
        return held


def _held(data: Path) -> DataReport:
    """The report on the data of a run."""
    try:
        return read_report(data)
    except DataError as error:
        raise DataError(f"{error}; --fresh begins a new run") from None


def gather(folder: Path, recipe: Recipe, report: DataReport, progress: Progress) -> RunData:
    """Tokenizers trained and text encoded, or found in the run's folder."""
    data = folder / DATA
    languages = _languages(report, recipe.start)
    tokenizers = find_tokenizers(folder / TOKENIZER, data, recipe, languages, progress)
    train = _encoded(folder / CORPUS / "train", lambda: _training_pairs(data, recipe.start), tokenizers, progress)
    dev_pairs = list(read_split(data, "dev")) if report.splits["dev"].pairs else []
    dev_pairs = [pair for pair in dev_pairs if pair[0].strip() and pair[1].strip()]
    dev = _encoded(folder / CORPUS / "dev", lambda: iter(dev_pairs), tokenizers, progress) if dev_pairs else None
    return RunData(report, tokenizers, train, dev, dev_pairs, languages)


def find_tokenizers(folder: Path, data: Path, recipe: Recipe, languages: Languages, progress: Progress) -> Tokenizers:
    """The run's tokenizers: saved earlier, those of the model it starts from, or trained on its training text."""
    if folder.exists():
        return Tokenizers.load(folder)
    if recipe.start is not None:
        tokenizers = load_model(recipe.start.model).tokenizers
    else:
        pairs = read_report(data).splits["train"].pairs
        tokenizers = learn_tokenizers(
            lambda: evenly_spaced(read_split(data, "train"), pairs, SAMPLE), recipe.tokenizer, progress, languages
        )
    with new_folder(folder) as aside:
        tokenizers.save(aside)
    return tokenizers


def training_batches(run_data: RunData, recipe: Recipe) -> Batches:
    """The batches of the training corpus, in the order that the seed gives."""
    return build_batches(run_data.train, recipe.batches, recipe.train.seed)


def _languages(report: DataReport, start: StartSettings | None) -> Languages:
    """Those of the data; what it leaves open, a model that is fine-tuned knows."""
    found = Languages(report.source_language, report.target_language)
    if start is None or not (Path(start.model) / CONFIG).is_file():
        return found
    known, _ = read_config(Path(start.model))
    both = [
        (of_data if of_data != UNKNOWN_LANGUAGE else of_model) for of_data, of_model in zip(found, known, strict=True)
    ]
    if UNKNOWN_LANGUAGE not in known and tuple(both) != known:
        log.warning("the model translates %s to %s, but the data is called %s to %s", *known, *both)
    return Languages(*both)


def _training_pairs(data: Path, start: StartSettings | None) -> Iterator[tuple[str, str]]:
    """The training pairs, and when a model is fine-tuned the old ones mixed in at the stated rate.

    The rate is one of text, not of pairs: old sentences are often shorter, and would weigh little by their number.
    """
    yield from read_split(data, "train")
    if start is None or start.mix_data is None:
        return
    new, old = (_Amount.of(read_split(folder, "train")) for folder in (data, start.mix_data))
    share = new.characters * start.mix_rate / (1 - start.mix_rate) / max(1, old.characters)
    wanted = min(old.pairs, round(share * old.pairs))
    log.info("mixing in %s of %s old pairs", f"{wanted:,}", f"{old.pairs:,}")
    yield from evenly_spaced(read_split(start.mix_data, "train"), old.pairs, wanted)


class _Amount(NamedTuple):
    """How much text some pairs hold, both sides together."""

    pairs: int
    characters: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "_Amount":
        count = characters = 0
        for source, target in pairs:
            count, characters = count + 1, characters + len(source) + len(target)
        return cls(count, characters)


def _encoded(
    folder: Path, pairs: Callable[[], Iterator[tuple[str, str]]], tokenizers: Tokenizers, progress: Progress
) -> EncodedCorpus:
    if not folder.exists():
        return encode_corpus(pairs(), tokenizers, folder, progress)
    corpus = EncodedCorpus.open(folder)
    corpus.verify()
    for facts, tokenizer in ((corpus.facts.source, tokenizers.source), (corpus.facts.target, tokenizers.target)):
        if facts is not None and facts.tokenizer != tokenizer.identity:
            raise TokenizerError(f"{folder} was encoded by another tokenizer than the run holds now; use --fresh")
    return corpus
