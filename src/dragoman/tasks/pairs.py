"""From text pairs to corpora of ids, for translation. Each part is made once, and found by later calls."""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_corpus
from dragoman.progress import Progress
from dragoman.recipe.choices import Prepared, TextFacts
from dragoman.recipe.recipe import Recipe, StartSettings
from dragoman.recipe.translation_choices import FEW_PAIRS
from dragoman.run_folder import RunFolder
from dragoman.store import CONFIG, Languages, read_config
from dragoman.tasks.corpus_task import find_corpus, find_tokenizers
from dragoman.text import inputs
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.text.reading.languages import UNKNOWN_LANGUAGE
from dragoman.text.report import REPORT, DataReport, read_report
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizers
from dragoman.translating.sentences import split_sentences

SAMPLED_LINES = 2_000
"""Training lines that are checked for holding several sentences."""
SAMPLE = 1_000_000
"""Most pairs that a vocabulary is learnt from, spread over all of the training text."""

log = logging.getLogger(__name__)


class PairData(NamedTuple):
    """Sentence pairs, prepared and encoded."""

    report: DataReport
    tokenizers: Tokenizers
    train: EncodedCorpus
    dev: EncodedCorpus | None
    """None if nothing is held out."""
    dev_pairs: list[tuple[str, str]]
    """The text of `dev`."""
    languages: Languages


def prepared_before(recipe: Recipe) -> Prepared | None:
    """Languages and rules from the report on a recipe's data, if the data was prepared before the run."""
    path = recipe.data.path
    if not isinstance(path, str) or not (Path(path) / REPORT).is_file():
        return None
    report = read_report(path)
    rules = {key.removeprefix("checks."): value for key, value in report.settings.items() if key.startswith("checks.")}
    return Prepared(report.source_language, report.target_language, rules)


def prepare(run: RunFolder, recipe: Recipe, progress: Progress) -> DataReport:
    """Reads, checks and splits pairs into the run's folder, unless they are there already.

    Raises:
        DataError: the text cannot be used, or is not what the folder was made from.
    """
    return prepare_data(recipe.data, run.data, progress)


def is_made_from(folder: Path, recipe: Recipe) -> bool:
    """Whether the pairs in a folder were made from the text that a recipe names, by the same rules."""
    return inputs.is_made_from(read_report(folder), recipe.data)


def facts(run: RunFolder, recipe: Recipe, report: DataReport) -> TextFacts:
    """The number of pairs, and the share of the first lines with several sentences. Warns of too few pairs."""
    pairs = report.splits["train"].pairs
    if 0 < pairs < FEW_PAIRS and recipe.start is None:
        log.warning("only %s pairs to train on: a model of its own needs at least some ten thousand", f"{pairs:,}")
    lines = [source for source, _ in islice(read_split(run.data, "train"), SAMPLED_LINES)]
    return TextFacts(pairs, sum(len(split_sentences(line)) > 1 for line in lines) / max(1, len(lines)))


def gather(run: RunFolder, recipe: Recipe, progress: Progress) -> PairData:
    """Trains tokenizers and encodes pairs, unless they are in the run's folder already."""
    report = read_report(run.data)
    languages = _languages(report, recipe.start)
    tokenizers = find_tokenizers(run, recipe, lambda: learn_vocabulary(run, recipe, languages, progress))

    def encoded(name: str, pairs: Callable[[], Iterable[tuple[str, str]]]) -> EncodedCorpus:
        folder = run.corpus(name)
        return find_corpus(folder, tokenizers, lambda: encode_corpus(pairs(), tokenizers, folder, progress))

    train = encoded("train", lambda: _training_pairs(run.data, recipe.start))
    dev_pairs = list(read_split(run.data, "dev")) if report.splits["dev"].pairs else []
    dev_pairs = [pair for pair in dev_pairs if pair[0].strip() and pair[1].strip()]
    dev = encoded("dev", lambda: dev_pairs) if dev_pairs else None
    return PairData(report, tokenizers, train, dev, dev_pairs, languages)


def learn_vocabulary(run: RunFolder, recipe: Recipe, languages: Languages, progress: Progress) -> Tokenizers:
    """Tokenizers learnt from training pairs, from a sample of them if there are many."""
    pairs = read_report(run.data).splits["train"].pairs
    return learn_tokenizers(
        lambda: evenly_spaced(read_split(run.data, "train"), pairs, SAMPLE), recipe.tokenizer, progress, languages
    )


def _languages(report: DataReport, start: StartSettings | None) -> Languages:
    """The languages of the data. Unknown ones are taken from the model that is fine-tuned, if there is one."""
    found = Languages(report.source_language, report.target_language)
    if start is None or not (Path(start.model) / CONFIG).is_file():
        return found
    known = read_config(Path(start.model)).languages or Languages()
    both = [
        (of_data if of_data != UNKNOWN_LANGUAGE else of_model) for of_data, of_model in zip(found, known, strict=True)
    ]
    if UNKNOWN_LANGUAGE not in known and tuple(both) != known:
        log.warning("the model translates %s to %s, but the data is called %s to %s", *known, *both)
    return Languages(*both)


def _training_pairs(data: Path, start: StartSettings | None) -> Iterator[tuple[str, str]]:
    """The training pairs; when a model is fine-tuned, followed by old pairs at the rate asked for.

    The rate counts characters, not pairs, because old sentences are often shorter and would weigh too little.
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
    """How much text some pairs hold, on both sides together."""

    pairs: int
    characters: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "_Amount":
        count = characters = 0
        for source, target in pairs:
            count, characters = count + 1, characters + len(source) + len(target)
        return cls(count, characters)
