"""Translation as a task: sentence pairs, each next target token predicted, BLEU and chrF on the dev set."""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

from dragoman.config import check
from dragoman.data.corpus import EncodedCorpus, Pool
from dragoman.data.encoding import encode_corpus
from dragoman.data.variation import VariedBatches
from dragoman.evaluating.evaluation import Evaluation, evaluate
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.evaluating.scores import write_scores
from dragoman.files import REPORT
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation, doubtful_below
from dragoman.inference.translator import Translator
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.progress import silent
from dragoman.runs.choices import FEW_PAIRS, TextFacts
from dragoman.runs.recipe import StartSettings
from dragoman.runs.task import Task, Validated
from dragoman.store.description import Languages, ModelFiles, StoredModel, read_conventions
from dragoman.store.folder import find_model, load_model
from dragoman.surface.conventions import PairConventions
from dragoman.surface.learning import learn_pair_conventions, with_copies_counted
from dragoman.surface.letters import Normaliser, Truecaser
from dragoman.surface.protected import Names, shared_spans
from dragoman.surface.sentences import split_sentences
from dragoman.surface.target_language import TargetLanguages
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import evenly_spaced, evenly_spaced_from_first, read_split
from dragoman.text.report import DataReport, read_report
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizers
from dragoman.training.objective import mean_loss

log = logging.getLogger(__name__)

SAMPLED_LINES = 2_000
"""Number of training lines that are checked for several sentences."""
SAMPLED_PAIRS = 300_000
"""Number of training pairs from which conventions of the text are learned, spread over all of them."""
TRANSLATED = 400
"""Number of dev sentences that each validation translates, evenly spread over the dev set."""
SAMPLE = 1_000_000
"""Most pairs that a vocabulary is learned from, spread over all of the training text."""
EPOCHS_OF_POOL, LARGEST_POOL = 40, 1_000_000
"""Epochs for which old pairs are encoded before they repeat, and the most old pairs if one epoch needs fewer."""
SHOWN = 3
"""Number of translations that the log shows of a validation."""
POOR_BLEU, POOR_CHRF, MANY = 5.0, 20.0, 0.25
"""A model with a lower BLEU has learned next to nothing if its chrF is lower too, or if this share of its translations
shows one of the `SIGNS` (LOG.md).
"""
FLAGGED = ("truncated", "repetition")
"""Flags for which each validation measures the share of translations."""
LEAST_MINUTES, MORE_TIMES = 20, 4
"""Advice for a model that has learned next to nothing: the least minutes of training, and the factor of its minutes."""
SIGNS = {
    "truncated": "do not end by themselves",
    "repetition": "repeat some words over and over",
    "same": "are one and the same text",
}
"""Metrics `dev_…` of translations, in words."""
BRIEF = {"beam_size": 1, "length_ratio": 1.5, "length_extra": 10}
"""Search options of validation, with a low length limit, because an untrained model writes until it is reached."""


class TranslationTask(Task):
    """The task of translating, learned from sentence pairs. The best model has the highest chrF on the dev set."""

    def prepared_before(self) -> dict[str, Any] | None:
        path = self.recipe.data.path
        if not isinstance(path, str) or not (Path(path) / REPORT).is_file():
            return None
        report = read_report(path)
        rules = {
            key.removeprefix("checks."): value for key, value in report.settings.items() if key.startswith("checks.")
        }
        languages = {f"data.{side}_language": getattr(report, f"{side}_language") for side in ("source", "target")}
        return {**languages, "data.checks": rules}

    def prepare(self) -> None:
        prepare_data(self.recipe.data, self.run.data, self.progress)

    @cached_property
    def report(self) -> DataReport:
        return read_report(self.run.data)

    def text_facts(self) -> TextFacts:
        """Return the number of pairs and the share of the first lines with several sentences. Warn of few pairs."""
        pairs = self.report.splits["train"].pairs
        if 0 < pairs < FEW_PAIRS and self.recipe.start is None:
            log.warning(
                "only %s pairs to train on: a model from scratch needs at least some ten thousand", f"{pairs:,}"
            )
        lines = [source for source, _ in islice(read_split(self.run.data, "train"), SAMPLED_LINES)]
        return TextFacts(pairs, sum(len(split_sentences(line)) > 1 for line in lines) / max(1, len(lines)))

    def encode(self) -> Self:
        known, languages = self._languages_of_start, self.languages
        if UNKNOWN_LANGUAGE not in known and languages != known:
            log.warning("the model translates %s to %s, but the data is called %s to %s", *known, *languages)
        _ = self.conventions  # written by the first process, read by the others
        task = super().encode()
        if self.recipe.start is not None and self.recipe.start.mix_data is not None:
            train = task.corpora.train
            pool, old = train.facts.pool, len(train) - self.report.splits["train"].pairs
            which = f"different ones in each epoch, out of {old:,}" if pool else "the same ones in each epoch"
            log.info("mixing in %s old pairs, %s", f"{pool.drawn if pool else old:,}", which)
        return task

    def encode_split(self, name: str, tokenizers: Tokenizers, folder: Path) -> EncodedCorpus:
        pairs: Iterator[tuple[str, str]] = iter(self.dev_pairs) if name == "dev" else read_split(self.run.data, name)
        pool = None
        if name == "train" and self.recipe.start is not None and self.recipe.start.mix_data is not None:
            old, pool = _old_pairs(self.run.data, self.recipe.start)
            pairs = chain(pairs, old)
        pairs = self._normalised(pairs)
        languages, wanted = TargetLanguages(tokenizers.source.target_languages), self.recipe.decode.target_language
        if wanted is not None or languages.ids:
            languages.warn_of_missing_tags([source for source, _ in self.dev_pairs], wanted)
            pairs = ((languages.tagged([source], wanted)[0], target) for source, target in pairs)
        return encode_corpus(pairs, tokenizers, folder, self.progress, pool, linked=self._is_linked(name))

    def is_fit(self, name: str, corpus: EncodedCorpus) -> bool:
        return (corpus.links is not None) == self._is_linked(name)

    def _is_linked(self, name: str) -> bool:
        """Return True if the tokens of a split's pairs are aligned, so that a head learns from it."""
        return name == "train" and bool(self.recipe.train.alignment_weight)

    @property
    def has_dev(self) -> bool:
        return bool(self.dev_pairs)

    def learn_tokenizers(self) -> Tokenizers:
        """Learn tokenizers from training pairs, from a sample of them if there are many."""
        count, settings = self.report.splits["train"].pairs, self.recipe.tokenizer

        def pairs() -> Iterator[tuple[str, str]]:
            return self._normalised(evenly_spaced(read_split(self.run.data, "train"), count, SAMPLE))

        return learn_tokenizers(pairs, settings, self.progress, self.languages)

    @cached_property
    def conventions(self) -> PairConventions | None:
        """Conventions of the training text, or of the model that the run starts from; stored in the run's folder."""
        if (kept := PairConventions.load(self.run.path)) is not None:
            return kept
        if self.recipe.start is None:
            conventions = learn_conventions(self.run.data, self.report)
        else:
            conventions = read_conventions(find_model(self.recipe.start.model)) if self.start is not None else None
        if conventions is not None:
            conventions.save(self.run.path)
        return conventions

    def batches_of(self, corpus: EncodedCorpus, seed: int | None = None) -> Any:
        """Return the batches of a corpus. Those with a seed, which are trained on, are varied."""
        batches, settings = super().batches_of(corpus, seed), self.recipe.variation.model_dump(exclude_none=True)
        if seed is None or not any(settings.get(kind) for kind in ("joined", "rough", "protected")):
            return batches
        language, _ = self.languages
        words = self.conventions.source.words if self.conventions else []
        names = Names(Truecaser(words, language), language)
        return VariedBatches(batches, self.corpora.tokenizers, partial(shared_spans, names=names), **settings)

    def _normalised(self, pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Return the pairs in the characters that the model reads and writes."""
        conventions = self.conventions
        if conventions is None:
            return pairs
        source, target = Normaliser(conventions.source).normalised, Normaliser(conventions.target).normalised
        return ((source(typed), target(translation)) for typed, translation in pairs)

    @cached_property
    def dev_pairs(self) -> list[tuple[str, str]]:
        """The text of the dev set, without pairs that are empty on a side."""
        if not self.report.splits["dev"].pairs:
            return []
        return [pair for pair in read_split(self.run.data, "dev") if pair[0].strip() and pair[1].strip()]

    @property
    def languages(self) -> Languages:
        """Languages of the data; an unknown one is that of the model that the run starts from, if there is one."""
        stated = self.report.source_language, self.report.target_language
        both = zip(stated, self._languages_of_start, strict=True)
        return Languages(*(language if language != UNKNOWN_LANGUAGE else known for language, known in both))

    @property
    def _languages_of_start(self) -> Languages:
        return (self.start and self.start.languages) or Languages()

    @cached_property
    def _dev_batches(self) -> list[Any]:
        batches = self.batches_of(self.dev)
        return [batches.batch(indices).to(self.device) for indices in batches.epoch(0)]

    @cached_property
    def _translated_pairs(self) -> list[tuple[str, str]]:
        return evenly_spaced_from_first(self.dev_pairs, TRANSLATED)

    def measure(self, model: Any) -> Validated:
        loss, pairs = mean_loss(model, self._dev_batches), self._translated_pairs
        stored = StoredModel(model, model.config, self.model_files._replace(generation={}), Path("validation"))
        translator = Translator(stored, self.device, self.recipe.train.precision, progress=silent)
        options = check(BRIEF, "validation", SearchOptions).but(target_language=self.recipe.decode.target_language)
        translations = translator.translate([source for source, _ in pairs], options, silent)
        references = [[target] for _, target in pairs]
        scores = bleu_and_chrf([translation.text for translation in translations], references, self.languages.target)
        facts = {"dev_loss": loss, "dev_bleu": scores["bleu"], "dev_chrf": scores["chrf"], **_shares(translations)}
        return Validated(
            score=scores["chrf"],
            facts=facts,
            summary=f"loss {loss:.3f}, BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f} "
            f"(greedy, {len(pairs)} sentences)",
            brief=f"{loss:.2f} BLEU {scores['bleu']:.1f} chrF {scores['chrf']:.1f}",
            samples=_samples(pairs, translations),
            quality=_quality(facts),
            generation={} if (least := doubtful_below(translations)) is None else {"doubtful_below": least},
        )

    @property
    def model_files(self) -> ModelFiles:
        """Tokenizers, languages, search options and framing."""
        options = self.recipe.decode.model_dump(mode="json", exclude_none=True)
        tokenizers, conventions = self.corpora.tokenizers, self.conventions
        if conventions is not None and self.recipe.variation.protected and self.recipe.start is None:
            has_placeholders = all(tokenizer.placeholders for tokenizer in tokenizers)
            conventions = conventions.model_copy(update={"placeholders": has_placeholders})
        return ModelFiles(tokenizers, self.languages, options, framing=self.framing, conventions=conventions)

    def card(self, weights: int, training: str, quality: str) -> str:
        source, target = self.languages
        model, text = self.recipe.model, self.text_name(self.report.inputs["train"].name)
        layers = f"{model.encoder_layers} + {model.decoder_layers}"
        return (
            f"# Translation, {source} to {target}\n\n"
            f"{self.made_with('A Transformer', layers, weights)}\n\n"
            f"Trained on {self.report.splits['train'].pairs:,} pairs of {text}, {training}.\n\n"
            f"{quality}\n"
            f'    dragoman translate FOLDER "…"\n'
        )

    def score(self) -> tuple[Evaluation, ...]:
        tests = [path for path in sorted(self.run.data.glob("*.jsonl")) if path.stem not in ("train", "dev")]
        translator = Translator.load(self.run.best, self.device, progress=self.progress)
        evaluations = tuple(
            evaluate(translator, test, name=str(self.run.best), progress=self.progress)
            for test in tests
            if test.stat().st_size
        )
        write_scores(self.run.scores, evaluations)
        return evaluations

    def warning(self, metrics: Sequence[Mapping[str, Any]], best_step: int) -> str | None:
        best = [signs for line in metrics if line["step"] == best_step and (signs := signs_of_nothing(line))]
        if not best:
            return None
        minutes = sum(line.get("seconds") or 0 for line in metrics) / 60
        return f"the best model has learned next to nothing ({best[-1]}); {self._advice(minutes)}"

    def _advice(self, minutes: float) -> str:
        """Return advice for a model that learned next to nothing in this many minutes."""
        if self.recipe.start is not None:
            base = None if self.start is None else load_model(self.recipe.start.model).model
            if base and (signs := signs_of_nothing(self.measure(base.to(self.device)).facts)):
                return (
                    f"the model that it started from was as weak ({signs}); train that one longer, or take a better one"
                )
            return "check that the text is in the model's languages and direction, or lower train.learning_rate"
        pairs = self.report.splits["train"].pairs
        if pairs < FEW_PAIRS:
            advice = "give it more text, or fine-tune a finished model"
            return f"{pairs:,} pairs are too few for a model from scratch: {advice}"
        more = max(LEAST_MINUTES, math.ceil(MORE_TIMES * minutes))
        advice = f"it was trained too briefly; train it further: dragoman train {self.run} --more --minutes {more}"
        if self.recipe.model.size != "tiny":
            advice += ", or a smaller model in a new run: --fresh --set model.size=tiny"
        return advice


def learn_conventions(data: Path, report: DataReport) -> PairConventions:
    """Learn the conventions of the training text in a folder of prepared data."""

    def pairs() -> Iterator[tuple[str, str]]:
        return evenly_spaced(read_split(data, "train"), report.splits["train"].pairs, SAMPLED_PAIRS)

    return with_copies_counted(learn_pair_conventions(pairs()), pairs(), report.source_language)


def _old_pairs(data: Path, start: StartSettings) -> tuple[Iterator[tuple[str, str]], Pool | None]:
    """Return the old pairs that are mixed in, and the pool from which each epoch draws some of them.

    Old text makes up the share `mix_rate` of an epoch, in characters: by pairs, old sentences would weigh too little,
    because they are often shorter. With the same few pairs in every epoch, the model would memorise them and forget the
    rest (docs/tuning.md).
    """
    assert start.mix_data is not None, "old pairs are mixed in"
    _, new_characters = _pairs_and_characters(data)
    old_pairs, old_characters = _pairs_and_characters(start.mix_data)
    share = new_characters * start.mix_rate / (1 - start.mix_rate) / max(1, old_characters)
    drawn = min(old_pairs, round(share * old_pairs))
    rows = min(old_pairs, max(drawn, min(drawn * EPOCHS_OF_POOL, LARGEST_POOL)))
    pool = Pool(rows=rows, drawn=drawn) if 0 < drawn < rows else None
    return evenly_spaced(read_split(start.mix_data, "train"), old_pairs, rows), pool


def _pairs_and_characters(data: Path | str) -> tuple[int, int]:
    """Return the amount of training text in a folder of prepared data, on both sides together."""
    pairs = characters = 0
    for source, target in read_split(data, "train"):
        pairs += 1
        characters += len(source) + len(target)
    return pairs, characters


def signs_of_nothing(facts: Mapping[str, float | None]) -> str | None:
    """Return the signs in a line of the metrics that a model has learned next to nothing, in words; else None."""
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


def _samples(pairs: Sequence[tuple[str, str]], translations: Sequence[Translation]) -> str:
    both = list(zip(pairs, translations, strict=True))
    count = min(SHOWN, len(both))
    shown = [both[(2 * i + 1) * len(both) // (2 * count)] for i in range(count)]
    return "\n".join(
        f"  {source} → {translation.text} (reference: {reference})" for (source, reference), translation in shown
    )


def _quality(facts: Mapping[str, float]) -> str:
    quality = (
        f"On the dev set, greedy: BLEU {facts['dev_bleu']:.1f}, chrF {facts['dev_chrf']:.1f} (sacreBLEU), "
        f"{facts['dev_loss']:.3f} nats a token.\n"
    )
    signs = signs_of_nothing(facts)
    return quality + (f"**It has learned next to nothing**: {signs}.\n" if signs else "")


def _shares(translations: Sequence[Translation]) -> dict[str, float]:
    """Return the share of translations with each flag, and the share of the most frequent translation."""
    total = len(translations)
    flagged = {f"dev_{flag}": sum(flag in result.flags for result in translations) / total for flag in FLAGGED}
    ((_, count),) = Counter(result.text for result in translations).most_common(1)
    return {**flagged, "dev_same": count / total if count > 1 else 0.0}
