"""Translation as a task: pairs to corpora of ids, each next target token predicted; BLEU and chrF on the dev set."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import dragoman
from dragoman.config import check
from dragoman.data.batching import build_batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_corpus
from dragoman.evaluating.evaluation import Evaluation, evaluate, write_scores
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.inference.options import SearchOptions
from dragoman.inference.sentences import split_sentences
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.model import build_model
from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.runs.choices import Prepared, TextFacts
from dragoman.runs.corpus_task import UNMEASURED, CorpusTask, find_corpus, find_tokenizers
from dragoman.runs.recipe import Recipe, StartSettings
from dragoman.runs.translation_choices import FEW_PAIRS
from dragoman.store import CONFIG, Languages, ModelFiles, StoredModel, place_weights, read_config
from dragoman.text import prepare as preparing
from dragoman.text.languages import UNKNOWN_LANGUAGE
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.text.report import REPORT, DataReport, read_report
from dragoman.text.settings import name_on_card
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizers
from dragoman.training.objective import Validated, mean_loss

log = logging.getLogger(__name__)


SAMPLED_LINES = 2_000
"""Training lines that are checked for holding several sentences."""
SAMPLE = 1_000_000
"""Most pairs that a vocabulary is learnt from, spread over all of the training text."""


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
    return preparing.is_made_from(folder, recipe.data, recipe.task)


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


TRANSLATED = 400
"""Dev sentences that each validation translates, evenly spread over the dev set."""
SHOWN = 4
"""Translations that the log shows at each validation."""
POOR_BLEU, POOR_CHRF, MANY = 5.0, 20.0, 0.25
"""A model with a lower BLEU has learnt next to nothing if its chrF is lower too, or if this share of its translations
shows one of the `SIGNS` (LOG.md).
"""
FLAGGED = ("truncated", "repetition")
"""Flags for which each validation measures the share of translations."""
LEAST_MINUTES, MORE_TIMES = 20, 4
"""How long to train a model that has learnt next to nothing: at least so many minutes, and so many times as long."""
SIGNS = {
    "truncated": "do not end by themselves",
    "repetition": "repeat some words over and over",
    "alike": "are one and the same text",
}
"""What a metric `dev_…` says about translations, in words."""


def start(recipe: Recipe, data: PairData, device: str) -> CorpusTask:
    """The task of a run that trains a translation model. The best model has the highest chrF on the dev set."""
    framing = _framing(recipe.start)
    dev_set = partial(DevSet, recipe, data, device, framing) if data.dev is not None else None
    return CorpusTask(recipe, data, device, dev_set, partial(_files, recipe, data, framing), framing)


def _framing(start: StartSettings | None) -> Framing:
    """The symbols around sentences: those of the model that is fine-tuned, if there is one.

    A run that resumes may do without that model. If its symbols were others, its checkpoints say so.
    """
    if start is None or not (Path(start.model) / CONFIG).is_file():
        return DEFAULT_FRAMING
    return read_config(Path(start.model)).framing


class DevSet:
    """Measures any weights of one architecture on one dev set, in the run's precision."""

    def __init__(self, recipe: Recipe, data: PairData, device: str, framing: Framing = DEFAULT_FRAMING) -> None:
        assert data.dev is not None, "a run without a dev set is not validated"
        self.data, self.device, self.precision = data, device, recipe.train.precision
        self.files = ModelFiles(data.tokenizers, data.languages, framing=framing)
        self.dtype = torch.bfloat16 if recipe.train.precision == "bf16" else torch.float32
        self.model = build_model(recipe.model, seed=None).to(device, self.dtype)
        batches = build_batches(data.dev, recipe.batches, seed=None, framing=framing)
        self.batches = [batches.batch(indices).to(device) for indices in batches.epoch(0)]
        count = min(TRANSLATED, len(data.dev_pairs))
        self.pairs = [data.dev_pairs[i * len(data.dev_pairs) // count] for i in range(count)]
        # An untrained model writes until the length limit, so a lower limit than usual keeps validation short.
        brief = {"beam_size": 1, "length_ratio": 1.5, "length_extra": 10}
        self.options: SearchOptions = check(brief, "validation", SearchOptions)

    def measure(self, weights: Mapping[str, Tensor]) -> Validated:
        """Validates these weights."""
        place_weights(self.model, {name: weight.to(self.dtype) for name, weight in weights.items()})
        loss = mean_loss(self.model, self.batches)
        stored = StoredModel(self.model, self.model.config, self.files, Path("validation"))
        translator = Translator(stored, self.device, self.precision)
        found = translator.translate([source for source, _ in self.pairs], self.options)
        references = [[target] for _, target in self.pairs]
        scores = bleu_and_chrf([each.text for each in found], references, self.data.languages.target)
        facts = {"dev_loss": loss, "dev_bleu": scores["bleu"], "dev_chrf": scores["chrf"], **_shares(found)}
        return Validated(
            score=scores["chrf"],
            facts=facts,
            summary=f"loss {loss:.3f}, BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f} "
            f"(greedy, {len(self.pairs)} sentences)",
            brief=f"{loss:.2f} BLEU {scores['bleu']:.1f} chrF {scores['chrf']:.1f}",
            samples=self._samples(found),
            quality=_quality(facts),
        )

    def _samples(self, found: Sequence[Translation]) -> str:
        pairs = list(zip(self.pairs, found, strict=True))
        count = min(SHOWN, len(pairs))
        shown = [pairs[(2 * i + 1) * len(pairs) // (2 * count)] for i in range(count)]
        return "".join(
            f"\n  source      {source}\n  reference   {reference}\n  translation {translation.text}"
            for (source, reference), translation in shown
        )


def _files(
    recipe: Recipe, data: PairData, framing: Framing, weights: int, steps: int, tokens: int, found: Validated | None
) -> ModelFiles:
    """Tokenizers, languages, search options, model card and framing."""
    source, target = data.languages
    report, model = data.report, recipe.model
    text = name_on_card(recipe.data, report.inputs["train"].name)
    card = (
        f"# Translation, {source} to {target}\n\n"
        f"A Transformer ({model.preset}, {model.size}: width {model.d_model}, {model.encoder_layers} + "
        f"{model.decoder_layers} layers, {weights:,} weights) made with Dragoman {dragoman.__version__}.\n\n"
        f"Trained on {report.splits['train'].pairs:,} pairs of {text}, {steps:,} steps, {tokens:,} tokens.\n\n"
        f"{found.quality if found else UNMEASURED}\n"
        f'    dragoman translate FOLDER "…"\n'
    )
    options = recipe.decode.model_dump(mode="json", exclude_none=True)
    return ModelFiles(data.tokenizers, data.languages, options, card, framing)


def score_run(run: RunFolder, _recipe: Recipe, device: str, progress: Progress) -> tuple[Evaluation, ...]:
    """Scores the best model of a run on its test sets and writes `scores.json`."""
    names = [path.stem for path in sorted(run.data.glob("*.jsonl")) if path.stem not in ("train", "dev")]
    translator = Translator.load(run.best, device)
    evaluations = tuple(
        evaluate(translator, run.split(name), name=str(run.best), progress=progress)
        for name in names
        if run.split(name).stat().st_size
    )
    write_scores(run.scores, evaluations)
    return evaluations


def signs_of_nothing(facts: Mapping[str, float | None]) -> str | None:
    """The signs that a translation model has learnt next to nothing, in words; None if it has learnt something.

    `facts` is a line of the metrics. Older versions of Dragoman wrote no shares.
    """
    bleu, chrf = facts.get("dev_bleu"), facts.get("dev_chrf")
    if bleu is None or chrf is None or bleu >= POOR_BLEU:
        return None
    signs = [
        f"{share:.0%} of the translations {how}"
        for name, how in SIGNS.items()
        if (share := facts.get(f"dev_{name}")) and share >= MANY
    ]
    if chrf >= POOR_CHRF and not signs:
        return None
    return ", ".join([f"BLEU {bleu:.1f} and chrF {chrf:.1f} on the dev set", *signs])


def warning_of_nothing_learnt(
    run: RunFolder, recipe: Recipe, lines: Sequence[Mapping[str, Any]], best_step: int
) -> str | None:
    """A warning, with what to do, if the best model translates as one that has learnt next to nothing.

    `lines` are those of the run's metrics.
    """
    best = [signs for line in lines if line["step"] == best_step and (signs := signs_of_nothing(line))]
    if not best:
        return None
    minutes = sum(line.get("seconds") or 0 for line in lines) / 60
    return f"the best model has learnt next to nothing ({best[-1]}); {_advice(run, recipe, minutes)}"


def _advice(run: RunFolder, recipe: Recipe, minutes: float) -> str:
    """What may help a model that learnt next to nothing in this many minutes."""
    if recipe.start is not None:
        return "check that the text is in the model's languages and direction, or lower train.learning_rate"
    pairs = read_report(run.data).splits["train"].pairs
    if pairs < FEW_PAIRS:
        return f"{pairs:,} pairs are too few for a model of its own: give it more text, or fine-tune a finished model"
    more = max(LEAST_MINUTES, math.ceil(MORE_TIMES * minutes))
    advice = f"it was trained too briefly; train it further: dragoman train {run} --more --minutes {more}"
    if recipe.model.size != "tiny":
        advice += ", or a smaller model in a new run: --fresh --set model.size=tiny"
    return advice


def _quality(facts: Mapping[str, float]) -> str:
    """The paragraph about validation in the model card."""
    quality = (
        f"On the dev set, greedy: BLEU {facts['dev_bleu']:.1f}, chrF {facts['dev_chrf']:.1f} (sacreBLEU), "
        f"{facts['dev_loss']:.3f} nats a token.\n"
    )
    signs = signs_of_nothing(facts)
    return quality + (f"**It has learnt next to nothing**: {signs}.\n" if signs else "")


def _shares(found: Sequence[Translation]) -> dict[str, float]:
    """The share of translations with each flag, and the share of the most frequent translation."""
    flagged = {f"dev_{flag}": sum(flag in each.flags for each in found) / len(found) for flag in FLAGGED}
    ((_, count),) = Counter(each.text for each in found).most_common(1)
    return {**flagged, "dev_alike": count / len(found) if count > 1 else 0.0}
