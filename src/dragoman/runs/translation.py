"""Translation as a task: sentence pairs, each next target token predicted, BLEU and chrF on the dev set."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain, dropwhile, islice, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from dragoman.config import check
from dragoman.data.corpus import EncodedCorpus, Pool
from dragoman.data.encoding import encode_corpus
from dragoman.data.variation import VariedBatches
from dragoman.directions import SEVERAL, named
from dragoman.errors import ConfigError
from dragoman.evaluating.evaluation import Evaluation, evaluate
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.evaluating.scores import write_scores
from dragoman.files import REPORT
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation, doubtful_below
from dragoman.inference.translator import Translator
from dragoman.progress import silent
from dragoman.runs.choices import FEW_PAIRS, TextFacts
from dragoman.runs.directed import DirectedText, RunText, Stretch, shares, test_set
from dragoman.runs.task import Task, Validated
from dragoman.store.description import Languages, ModelFiles, StoredModel, languages_of, read_conventions
from dragoman.store.folder import find_model, load_model
from dragoman.surface.conventions import LanguageConventions, PairConventions, load_conventions
from dragoman.surface.language_tags import LanguageTags, tagged
from dragoman.surface.learning import (
    learn_language_conventions,
    learn_pair_conventions,
    with_copies_counted,
    with_languages,
)
from dragoman.surface.letters import Normaliser, Truecaser
from dragoman.surface.protected import Names, shared_spans
from dragoman.surface.sentences import split_sentences
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import evenly_spaced, evenly_spaced_from_first
from dragoman.text.report import DataReport, direction_folders, read_report
from dragoman.tokenizing.growing import grow, spelled
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizers
from dragoman.training.objective import mean_loss

log = logging.getLogger(__name__)

ADAPT = "fine-tune a finished model: dragoman fine-tune MODEL FILE"
"""Advice to those who have few pairs."""
SAMPLED_LINES = 2_000
"""Number of training lines that are checked for several sentences."""
SAMPLED_PAIRS = 300_000
"""Number of training pairs from which conventions of the text are learned, spread over all of them."""
TRANSLATED, LEAST_TRANSLATED = 400, 100
"""Number of dev sentences that each validation translates, evenly spread; the least of them in each direction."""
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
        folder, *others = direction_folders(path).values()
        report = read_report(folder)
        rules = {
            key.removeprefix("checks."): value for key, value in report.settings.items() if key.startswith("checks.")
        }
        languages = {f"data.{side}_language": getattr(report, f"{side}_language") for side in ("source", "target")}
        return {"data.checks": rules} if others else {**languages, "data.checks": rules}

    def prepare(self) -> None:
        prepare_data(self.recipe.data, self.run.data, self.progress)
        if self.recipe.synthetic is not None:
            prepare_data(self.recipe.synthetic.path, self.run.synthetic, self.progress, dev_size=0, test_size=0)

    @cached_property
    def text(self) -> RunText:
        """The text of the run in each direction."""
        mix_data = self.recipe.start and self.recipe.start.mix_data
        synthetic = None if self.recipe.synthetic is None else self.run.synthetic
        return RunText(self.run.data, Path(mix_data) if mix_data else None, synthetic, self.start)

    @property
    def report(self) -> list[DataReport]:
        """Reports on the text of each direction."""
        return [text.report for text in self.text.new]

    def notes(self) -> Iterator[str]:
        return chain.from_iterable(report.notes() for report in self.report)

    def text_facts(self) -> TextFacts:
        """Return the number of pairs and the share of the first lines with several sentences. Warn of few pairs."""
        pairs, first = self.text.count, SAMPLED_LINES // len(self.text.new)
        if 0 < pairs < FEW_PAIRS and self.recipe.start is None:
            log.warning(
                "only %s pairs to train on: a model from scratch needs at least ten thousand; %s", f"{pairs:,}", ADAPT
            )
        lines = [source for text in self.text.new for source, _ in islice(text.read("train"), first)]
        return TextFacts(pairs, sum(len(split_sentences(line)) > 1 for line in lines) / max(1, len(lines)))

    def encode(self) -> Self:
        _ = self.conventions  # written by the first process, read by the others
        task = super().encode()
        train = task.corpora.train
        synthetic = sum(stretch.rows for stretch in self.stretches if stretch.text in self.text.synthetic)
        ends = (self.text.count, len(train) - synthetic, len(train))
        for kind, (first, last) in zip(("old", "synthetic"), pairwise(ends), strict=True):
            pools = [pool for at, pool in train.facts.pools.items() if first <= at < last]
            drawn, rows = last - first + sum(pool.drawn - pool.rows for pool in pools), last - first
            is_part = any(pool.drawn < pool.rows for pool in pools)
            which = f"different ones in each epoch, out of {rows:,}" if is_part else "the same ones in each epoch"
            if drawn:
                log.info("mixing in %s %s pairs, %s", f"{drawn:,}", kind, which)
        for line in task.coverage:
            log.info("%s", line)
        return task

    def encode_split(self, name: str, tokenizers: Tokenizers, folder: Path) -> EncodedCorpus:
        marked = range(0)
        if name == "dev":
            parts, pools = ((text, iter(text.dev)) for text in self.text.new), []
        else:
            ends = [*accumulate((rows for _, rows, _ in self.stretches), initial=0)]
            count = sum(stretch.text in self.text.synthetic for stretch in self.stretches)  # they are the last
            marked = range(ends[-1 - count], ends[-1])
            parts = ((text, evenly_spaced(text.read(name), text.count, rows)) for text, rows, _ in self.stretches)
            drawn = dropwhile(lambda stretch: stretch.rows == stretch.drawn, self.stretches)
            pools = [Pool(rows=stretch.rows, drawn=stretch.drawn) for stretch in drawn]
        pairs = chain.from_iterable(self._as_read(text, pairs, tokenizers) for text, pairs in parts)
        return encode_corpus(pairs, tokenizers, folder, self.progress, pools, self._is_linked(name), marked)

    def _as_read(
        self, text: DirectedText, pairs: Iterator[tuple[str, str]], tokenizers: Tokenizers
    ) -> Iterator[tuple[str, str]]:
        """Return pairs as the model reads and writes them, with the tags of their languages if it has several."""
        pairs = self._normalised(text, pairs)
        if self.text.directions is not None:  # what looks like a tag in a text of a known direction is text
            source, target = text.languages
            before = (source, target) if self.framing.target_prefix else (target, None)
            return ((tagged(text, before[0]), tagged(translation, before[1])) for text, translation in pairs)
        languages, wanted = LanguageTags(tokenizers.source.languages), self.recipe.decode.target_language
        languages.warn_of_missing_tags([source for source, _ in text.dev], wanted)
        return ((languages.tagged([source], wanted)[0], target) for source, target in pairs)

    @cached_property
    def stretches(self) -> list[Stretch]:
        """The rows of the training corpus: new text of each direction, then old text of each, and synthetic text.

        Old text makes up the share `mix_rate` of an epoch, in characters: by pairs, old sentences would weigh too
        little, because they are often shorter. With the same few pairs in every epoch, the model would memorise them
        and forget the rest (docs/tuning.md).
        """
        start, new, old, temperature = self.recipe.start, self.text.new, self.text.old, self.recipe.data.temperature
        drawn, counts = shares(new, self.text.count, temperature), [text.count for text in new]
        stretches = list(map(Stretch, new, counts, drawn))
        if old and start is not None:
            counts, share = [text.count for text in old], _characters(new) / max(1, _characters(old))
            share *= start.mix_rate / (1 - start.mix_rate)
            stretches += _drawn_anew(old, round(share * sum(counts)), temperature)
        if self.recipe.synthetic is not None:
            share = self.recipe.synthetic.share
            real = sum(stretch.drawn for stretch in stretches)
            stretches += _drawn_anew(self.text.synthetic, round(real * share / (1 - share)), 1)
        return [stretch for stretch in stretches if stretch.drawn]

    def is_fit(self, name: str, corpus: EncodedCorpus) -> bool:
        return (corpus.links is not None) == self._is_linked(name)

    def _is_linked(self, name: str) -> bool:
        """Return True if the tokens of a split's pairs are aligned, so that a head learns from it."""
        return name == "train" and bool(self.recipe.train.alignment_weight)

    @property
    def has_dev(self) -> bool:
        return any(text.dev for text in self.text.new)

    def learn_tokenizers(self) -> Tokenizers:
        """Learn tokenizers from training pairs, from a sample of them if there are many; of each direction, its share
        of an epoch.
        """
        texts = self.text.new
        wanted = shares(texts, min(SAMPLE, self.text.count), self.recipe.data.temperature)

        def pairs() -> Iterator[tuple[str, str]]:
            parts = (self._normalised(text, text.spread(some)) for text, some in zip(texts, wanted, strict=True))
            return chain.from_iterable(parts)

        source, target = (None if language == SEVERAL else language for language in self.languages)
        return learn_tokenizers(pairs, self.recipe.tokenizer, self.progress, (source, target), self.text.symbols)

    def grown(self, tokenizers: Tokenizers) -> Tokenizers:
        """Return the tokenizers with symbols of all languages, and with pieces for the text of new ones."""
        if not self.text.adds_directions:
            return tokenizers
        if self.recipe.lora is not None:
            raise ConfigError("tuning.lora leaves the vocabulary as it is, so no direction can be added; leave it out")
        known = [{*side} for side in zip(*self.text.known, strict=True)]

        def grown(side: int) -> Tokenizer:
            sides = (0, 1) if tokenizers.joint else (side,)
            read = set().union(*(known[at] for at in sides))
            new = [(text, at) for text in self.text.new for at in sides if text.languages[at] not in read]
            lines = (pair[at] for text, at in new for pair in text.spread(min(text.count, SAMPLE // len(new))))
            share = len({text.languages[at] for text, at in new}) / len(read)
            return grow(tokenizers[side], self.text.symbols, lines if new else None, share)

        source = grown(0)
        return Tokenizers(source, source if tokenizers.source is tokenizers.target else grown(1))

    @cached_property
    def coverage(self) -> list[str]:
        """Sentences on how the vocabularies spell each language of several, judged by some lines."""
        lines: dict[str, tuple[int, Sequence[str]]] = {}
        for text in self.text.new if self.text.directions else ():
            sides = zip(*islice(text.read("train"), SAMPLED_LINES), strict=True)
            lines |= {
                language: (side, some) for side, (language, some) in enumerate(zip(text.languages, sides, strict=True))
            }
        tokenizers = self.corpora.tokenizers
        return [f"{language}: {spelled(tokenizers[side], some)}" for language, (side, some) in lines.items()]

    @cached_property
    def conventions(self) -> PairConventions | LanguageConventions | None:
        """Conventions of the training text, or of the model that the run starts from; stored in the run's folder."""
        if (kept := load_conventions(self.run.path)) is not None:
            return kept
        conventions = None
        if self.recipe.start is None:
            conventions = learn_conventions(self.text.new)
        elif self.start is not None:
            conventions = read_conventions(find_model(self.recipe.start.model))
            if conventions is not None and self.text.adds_directions:
                learned = learn_language_conventions(_readers(self.text.new))
                conventions = with_languages(conventions, self.text.known[0], learned)
        if conventions is not None:
            conventions.save(self.run.path)
        return conventions

    def batches_of(self, corpus: EncodedCorpus, seed: int | None = None) -> Any:
        """Return the batches of a corpus. Those with a seed, which are trained on, are varied."""
        batches, settings = super().batches_of(corpus, seed), self.recipe.variation.model_dump(exclude_none=True)
        if seed is None or not any(settings.get(kind) for kind in ("joined", "rough", "protected")):
            return batches
        texts = {0: self.text.new[0]}
        if self.text.directions is not None or self.text.synthetic:
            begins = accumulate((stretch.rows for stretch in self.stretches), initial=0)
            texts = dict(zip(begins, (stretch.text for stretch in self.stretches), strict=False))
        copies = {begin: partial(shared_spans, names=self._names(*text.languages)) for begin, text in texts.items()}
        return VariedBatches(batches, self.corpora.tokenizers, copies, **settings)

    def _names(self, source: str, target: str) -> Names:
        """Return the recogniser of names in the sources of a direction."""
        words = self.conventions.of(source, target).source.words if self.conventions else []
        return Names(Truecaser(words, source), source)

    def _normalised(self, text: DirectedText, pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Return the pairs in the characters that the model reads and writes."""
        if self.conventions is None:
            return pairs
        conventions = self.conventions.of(*text.languages)
        source, target = Normaliser(conventions.source).normalised, Normaliser(conventions.target).normalised
        return ((source(typed), target(translation)) for typed, translation in pairs)

    @property
    def identity(self) -> dict[str, str]:
        directions = self.text.directions
        return super().identity | ({} if directions is None else {"directions": named(directions.pairs())})

    @property
    def languages(self) -> Languages:
        """Languages of the data; an unknown one is that of the model that the run starts from, if there is one."""
        return languages_of(self.text.directions) if self.text.directions else self.text.new[0].languages

    @cached_property
    def _dev_batches(self) -> list[list[Any]]:
        """The batches of the dev set, by direction."""
        batches, ends = self.batches_of(self.dev), [*accumulate((len(text.dev) for text in self.text.new), initial=0)]
        whole = list(batches.epoch(0))
        parts = (
            [indices[(first <= indices) & (indices < last)] for indices in whole] for first, last in pairwise(ends)
        )
        return [[batches.batch(indices).to(self.device) for indices in part if len(indices)] for part in parts]

    def measure(self, model: Any) -> Validated:
        stored = StoredModel(model, model.config, self.model_files._replace(generation={}), Path("validation"))
        translator = Translator(stored, self.device, self.recipe.train.precision, progress=silent)
        measured, samples, translations = dict[str, dict[str, float]](), list[str](), list[Translation]()
        for text, batches in zip(self.text.new, self._dev_batches, strict=True):
            if not text.dev:
                continue
            pairs = evenly_spaced_from_first(text.dev, max(LEAST_TRANSLATED, TRANSLATED // len(self.text.new)))
            options = check(BRIEF, "validation", SearchOptions).but(**self._search(text))
            written = translator.translate([source for source, _ in pairs], options, silent)
            references = [[target] for _, target in pairs]
            scores = bleu_and_chrf([translation.text for translation in written], references, text.languages.target)
            facts = {"dev_loss": mean_loss(model, batches), "dev_bleu": scores["bleu"], "dev_chrf": scores["chrf"]}
            measured[text.name] = {**facts, **_shares(written)}
            samples.append(_samples(pairs, written))
            translations += written
        facts = {name: fmean(values[name] for values in measured.values()) for name in next(iter(measured.values()))}
        loss, bleu, chrf = (facts[f"dev_{name}"] for name in ("loss", "bleu", "chrf"))
        means, worst = "", min(measured, key=lambda name: measured[name]["dev_chrf"])
        by_direction = {
            f"{metric}_{name}": values[metric]
            for name, values in measured.items()
            for metric in ("dev_loss", "dev_bleu", "dev_chrf")
        }
        if len(measured) > 1:
            means = f"; means of {len(measured)} directions, worst {worst}: chrF {measured[worst]['dev_chrf']:.1f}"
        return Validated(
            score=chrf,
            facts=facts | (by_direction if means else {}),
            summary=f"loss {loss:.3f}, BLEU {bleu:.1f}, chrF {chrf:.1f} (greedy, {len(translations)} sentences{means})",
            brief=f"{loss:.2f} BLEU {bleu:.1f} chrF {chrf:.1f}",
            samples="\n".join(samples),
            quality=_quality(facts, measured),
            generation={} if (least := doubtful_below(translations)) is None else {"doubtful_below": least},
        )

    def _search(self, text: DirectedText) -> dict[str, str | None]:
        """Return the search options by which the model translates in the direction of a text."""
        if self.text.directions is None:
            return {"target_language": self.recipe.decode.target_language}
        return {"source_language": text.languages.source, "target_language": text.languages.target}

    @property
    def model_files(self) -> ModelFiles:
        """Tokenizers, languages, search options and framing."""
        options = self.recipe.decode.model_dump(mode="json", exclude_none=True)
        tokenizers, conventions = self.corpora.tokenizers, self.conventions
        if conventions is not None and self.recipe.variation.protected and self.recipe.start is None:
            has_placeholders = all(tokenizer.placeholders for tokenizer in tokenizers)
            conventions = conventions.model_copy(update={"placeholders": has_placeholders})
        files = ModelFiles(tokenizers, self.languages, options, framing=self.framing, conventions=conventions)
        return files._replace(directions=self.text.directions)

    def card(self, weights: int, training: str, quality: str) -> str:
        model, texts = self.recipe.model, self.text.new
        names, example = ", ".join(" to ".join(text.languages) for text in texts), "FOLDER"
        amounts = [f"{text.count:,} pairs of {self.text_name(text.report.inputs['train'].name)}" for text in texts]
        if len(texts) > 1:
            amounts = [f"{amount} ({text.name})" for amount, text in zip(amounts, texts, strict=True)]
        if self.text.synthetic:
            count = sum(text.count for text in self.text.synthetic)
            amounts.append(f"{count:,} pairs whose sources a model wrote")
        if self.text.directions is not None:
            example += " --source-language {} --target-language {}".format(*texts[0].languages)
            quality = "\n".join([quality, *(f"- {line}" for line in self.coverage), ""])
        layers = f"{model.encoder_layers} + {model.decoder_layers}"
        return (
            f"# Translation, {names}\n\n"
            f"{self.made_with('A Transformer', layers, weights)}\n\n"
            f"Trained on {', '.join(amounts)}, {training}.\n\n"
            f"{quality}\n"
            f'    dragoman translate {example} "…"\n'
        )

    def score(self) -> tuple[Evaluation, ...]:
        translator = Translator.load(self.run.best, self.device, progress=self.progress)
        evaluations = tuple(
            evaluate(directed, test_set(directed, test), name=str(self.run.best), progress=self.progress)
            for text in self.text.new
            for directed in [translator.with_options(**self._search(text)).directed()]
            for test in sorted(text.folder.glob("*.jsonl"))
            if test.stem not in ("train", "dev") and test.stat().st_size
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
            base = (
                None if self.start is None or self.text.adds_directions else load_model(self.recipe.start.model).model
            )
            if base and (signs := signs_of_nothing(self.measure(base.to(self.device)).facts)):
                return (
                    f"the model that it started from was as weak ({signs}); train that one longer, or take a better one"
                )
            return "check that the text is in the model's languages and direction, or lower train.learning_rate"
        pairs = self.text.count
        if pairs < FEW_PAIRS:
            return f"{pairs:,} pairs are too few for a model from scratch: give it more text, or {ADAPT}"
        more = max(LEAST_MINUTES, math.ceil(MORE_TIMES * minutes))
        advice = f"it was trained too briefly; train it further: dragoman train {self.run} --more --minutes {more}"
        if self.recipe.model.size != "tiny":
            advice += ", or a smaller model in a new run: --fresh --set model.size=tiny"
        return advice


def _drawn_anew(texts: Sequence[DirectedText], wanted: int, temperature: float) -> list[Stretch]:
    """Return stretches of which each epoch draws `wanted` pairs, or all if there are fewer."""
    counts = [text.count for text in texts]
    drawn = shares(texts, min(sum(counts), wanted), temperature)
    rows = (max(some, min(some * EPOCHS_OF_POOL, LARGEST_POOL)) for some in drawn)
    return list(map(Stretch, texts, map(min, counts, rows), drawn))


def learn_conventions(texts: Sequence[DirectedText]) -> PairConventions | LanguageConventions:
    """Learn the conventions of the training text."""
    readers = _readers(texts)
    if len(readers) > 1:
        return learn_language_conventions(readers)
    (((source, _), pairs),) = readers.items()
    return with_copies_counted(learn_pair_conventions(pairs()), pairs(), source)


def _readers(texts: Sequence[DirectedText]) -> dict[tuple[str, str], Callable[[], Iterator[tuple[str, str]]]]:
    """Return functions that read the pairs of each direction from which conventions are learned."""
    most = SAMPLED_PAIRS // len(texts)
    return {text.languages: partial(text.spread, min(text.count, most)) for text in texts}


def _characters(texts: Sequence[DirectedText]) -> int:
    """Return the amount of training text, on both sides together."""
    return sum(len(source) + len(target) for text in texts for source, target in text.read("train"))


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


def _quality(facts: Mapping[str, float], measured: Mapping[str, Mapping[str, float]]) -> str:
    quality = (
        f"On the dev set, greedy: BLEU {facts['dev_bleu']:.1f}, chrF {facts['dev_chrf']:.1f} (sacreBLEU), "
        f"{facts['dev_loss']:.3f} nats a token.\n"
    )
    if len(measured) > 1:
        scores = (f"{name} {values['dev_bleu']:.1f} and {values['dev_chrf']:.1f}" for name, values in measured.items())
        quality += f"These are means; BLEU and chrF of each direction: {', '.join(scores)}.\n"
    signs = signs_of_nothing(facts)
    return quality + (f"**It has learned next to nothing**: {signs}.\n" if signs else "")


def _shares(translations: Sequence[Translation]) -> dict[str, float]:
    """Return the share of translations with each flag, and the share of the most frequent translation."""
    total = len(translations)
    flagged = {f"dev_{flag}": sum(flag in result.flags for result in translations) / total for flag in FLAGGED}
    ((_, count),) = Counter(result.text for result in translations).most_common(1)
    return {**flagged, "dev_same": count / total if count > 1 else 0.0}
