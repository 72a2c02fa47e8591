"""Translation of text: a model, its tokenizers and a search, loaded once and used for many calls.

    translator = Translator.load("runs/en-it")
    translator.translate(["Where is the station?"])[0].text

The texts of a call are translated together, and do not affect each other's translations.
"""

import copy
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.decoding.engine import Searcher
from dragoman.directions import SEVERAL, Directions, find
from dragoman.errors import ConfigError, DecodeError
from dragoman.inference.alignment import WordLinker
from dragoman.inference.forced_terms import TermWriter
from dragoman.inference.options import SearchOptions
from dragoman.inference.requests import RequestBuilder
from dragoman.inference.runtime import LONGEST_WHOLE, Runtime, options_of, refuse_other_family
from dragoman.inference.search import ModelSearch
from dragoman.inference.streaming import LineStream
from dragoman.inference.translation import ChosenHypotheses, Translation, Writer
from dragoman.languages import UNKNOWN_LANGUAGE
from dragoman.progress import Progress, as_progress
from dragoman.store.description import USES, Languages, ModelFiles, StoredModel
from dragoman.store.folder import load_model
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS
from dragoman.surface.language_tags import LanguageTags, tagged
from dragoman.surface.masking import mask
from dragoman.surface.pipeline import Surface, giant
from dragoman.surface.protected import spans_matching
from dragoman.surface.segment import Context, Segment
from dragoman.surface.tags import without_tags
from dragoman.surface.terms import compiled
from dragoman.system import choose_threads
from dragoman.tokenizing.tokenizer import only_unicode

if TYPE_CHECKING:
    from dragoman.model.transformer import EncoderDecoder


def translate(
    model: Path | str,
    texts: Sequence[str],
    options: SearchOptions | None = None,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
    adapter: Path | str | None = None,
    ensemble: Sequence[Path | str] = (),
    **settings: Any,
) -> list[Translation]:
    """Translate texts with a model folder, or with the best model of a run folder.

    `settings` are fields of `SearchOptions` that differ from the model's own options, as in `beam_size=8`. An `adapter`
    is merged into the model. The models of an `ensemble` translate together with it.

    Raises:
        CheckpointError: a model folder is missing, damaged or newer; or the adapter is, or belongs to another model.
        ConfigError: the device, precision or number of threads is not available, or a model does not fit the ensemble.
        DecodeError: no search can fulfil the request.
        OutOfMemory: the device is full.
    """
    translator = Translator.load(model, device, precision, progress, adapter, ensemble, threads)
    return translator.translate(texts, options, progress, **settings)


class Translator:
    """A translator with one model, or with an ensemble. Creating one compiles the decoder, if that was not done before.

    Attributes:
        options: the default options, at first those of the model folder.
        device, precision: the device of the model, and its numbers.
        languages: the source language and the target language; `mul` on a side with several.
        directions: the directions of a model with several; `directed` returns a translator for one of them.
        surface: the rewriting of text around the model.
        folders: the folder of the model, or of its adapter, and those of an ensemble.
        requests: the builder of requests to the search.
        search: the search with the model.
        writer: the writer of translations from the results of the search.
        is_fixed: True if no tag of a text changes the target language of a `directed` translator.
    """

    is_fixed = False

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        *,
        native: bool = True,
        progress: Progress | bool = True,
        threads: int | None = None,
        ensemble: Sequence[StoredModel] = (),
    ) -> None:
        """Prepare the models; without `native` always in PyTorch."""
        refuse_other_family(stored, "encoder_decoder")
        for member in ensemble:
            _refuse_misfit(stored, member)
        members = [Runtime["EncoderDecoder"](member, device, precision, native, progress) for member in ensemble]
        self.runtime = Runtime["EncoderDecoder"](stored, device, precision, native, progress, members)
        self.device, self.precision = self.runtime.device, self.runtime.precision
        self.tokenizers, self.languages = stored.tokenizers, stored.languages
        self.directions = stored.files.directions
        self.folders = tuple(model.folder for model in (stored, *ensemble))
        self.options = options_of(stored, SearchOptions)
        self.framing = stored.files.framing
        limits = [model.config.max_positions for model in (stored, *ensemble)]
        positions = min((limit for limit in limits if limit is not None), default=None)
        self.requests = RequestBuilder(self.tokenizers, self.framing, positions)
        self.search = ModelSearch(self.runtime, self.framing, choose_threads(threads))
        self._parts = lru_cache(maxsize=256)(partial(_parts, stored.files, self.requests))
        self._legs: tuple[Translator, Translator] | None = None
        self.surface, self.writer, self.requests = self._parts(self.languages, False)
        self._link = WordLinker(self.search, self.tokenizers)

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: str = "auto",
        precision: str = "auto",
        progress: Progress | bool = True,
        adapter: Path | str | None = None,
        ensemble: Sequence[Path | str] = (),
        threads: int | None = None,
    ) -> "Translator":
        """Load a model folder, or the best model of a run folder, with an optional `adapter`. The folder of an adapter
        loads its base too. The models of an `ensemble` translate together: the probability of a token is the mean of
        theirs.
        """
        threads = choose_threads(threads)
        stored, *others = [load_model(path, adapter=adapter), *map(load_model, ensemble)]
        return cls(stored, device, precision, progress=progress, threads=threads, ensemble=others)

    @property
    def model(self) -> "EncoderDecoder":
        """The model in PyTorch."""
        return self.runtime.model

    @property
    def threads(self) -> int:
        """The number of computing threads."""
        return self.search.threads

    @property
    def tags(self) -> LanguageTags:
        """The tags of languages that a text may begin with, if the model has several."""
        return self.surface.tags

    def sharing(self, search: Searcher) -> "Translator":
        """Return a translator with the same model whose requests run in a search that several clients share."""
        translator = copy.copy(self)
        translator.search = replace(self.search, shared=search)
        if self._legs is not None:
            first, second = self._legs
            translator._legs = first.sharing(search), second.sharing(search)
        return translator

    def with_options(self, **settings: Any) -> "Translator":
        """Return a translator with the same model and other default options."""
        translator = copy.copy(self)
        translator.options = self.options.but(**settings)
        return translator

    def directed(self, options: SearchOptions | None = None, text: str = "") -> "Translator":
        """Return this translator in the direction of these options, by default its own; the tag of a `text` precedes.

        Raises:
            DecodeError: the model lacks a language, does not know which to take, or was not trained in the direction
                and the options give no pivot.
        """
        options = options or self.options
        asked = options.source_language, self.tags.of(text) or options.target_language
        if self.directions is None and asked == (None, None):
            return self
        directions = self.directions or Directions.model_construct(  # with the names of its tags as they are
            source=(self.languages.source,), target=tuple(self.tags.ids) or (self.languages.target,), trained=None
        )
        bound = (None if language in (SEVERAL, UNKNOWN_LANGUAGE) else language for language in self.languages)
        source, target = directions.choose(*(wanted or known for wanted, known in zip(asked, bound, strict=True)))
        if directions.has(source, target) or options.pivot == "none":
            return self._toward(source, target, options.pivot)
        if options.pivot is None:
            through = [via for via in directions.target if directions.has(source, via) and directions.has(via, target)]
            advice = f"--pivot {through[0]} translates through it, and " if through else ""
            raise DecodeError(
                f"the model was not trained to translate {source} to {target}; {advice}--pivot none tries directly"
            )
        pivot = find(options.pivot, directions.target, "pivot")
        legs = [
            self.directed(options.but(source_language=first, target_language=last, pivot=None))
            for first, last in ((source, pivot), (pivot, target))
        ]
        return self._toward(source, target, pivot, (legs[0], legs[1]))

    def bound(
        self, options: SearchOptions, languages: tuple[str, str] = (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)
    ) -> "Translator":
        """Return `directed(options)`, or this translator if the target language is left to the tags of texts. The
        `languages` of a text, if known, are used where the options of a model with several name none.
        """
        if self.directions is not None:
            source, target = (None if language == UNKNOWN_LANGUAGE else language for language in languages)
            source, target = options.source_language or source, options.target_language or target
            options = options.but(source_language=source, target_language=target)
        is_left = options.target_language is None and self.languages.target == SEVERAL
        return self if is_left else self.directed(options)

    def _toward(
        self, source: str, target: str, pivot: str | None, legs: "tuple[Translator, Translator] | None" = None
    ) -> "Translator":
        """Return a translator for one direction, or through the `legs` of a pivot."""
        translator = copy.copy(self)
        chosen = {"source_language": source, "target_language": target, "pivot": pivot}
        translator.options = self.options.model_copy(update=chosen)
        translator.languages, translator._legs = Languages(source, target), legs
        translator.surface, translator.writer, translator.requests = self._parts(translator.languages, self.is_fixed)
        return translator

    def translate(
        self,
        texts: Iterable[str],
        options: SearchOptions | None = None,
        progress: Progress | bool = True,
        **settings: Any,
    ) -> list[Translation]:
        """Return the translations of texts in order. The translation of a blank text is empty, and no text is shortened
        without an error or a flag. `settings` are fields of `SearchOptions`.

        Raises:
            DecodeError: no search can fulfil the request: a text is too long and may not be split, or the vocabulary
                cannot write the prefix.
            OutOfMemory: the device is full.
        """
        options, texts = (options or self.options).but(**settings), self._checked(texts)
        return self._in_directions(lambda via, some: via._translate(some, options, progress), options, texts)

    def _in_directions(
        self,
        work: Callable[..., list[Translation]],
        options: SearchOptions,
        texts: Sequence[str],
        *others: Sequence[str],
    ) -> list[Translation]:
        """Return the results of `work` with a translator, and the texts and `others` of each direction that options
        and tags name. A blank text has the direction of the first text.
        """
        tags = [self.tags.of(text) for text in texts]
        first = next((number for number, text in enumerate(texts) if text.strip()), None)
        if first is None or self.directions is None:
            return work(self if first is None else self.directed(options), texts, *others)
        tags = [tag if text.strip() else tags[first] for tag, text in zip(tags, texts, strict=True)]
        translators = {tag: self.directed(options, f">>{tag}<<" if tag else "") for tag in dict.fromkeys(tags)}
        done: dict[int, Translation] = {}
        for languages in dict.fromkeys(translator.languages for translator in translators.values()):
            numbers = [number for number, tag in enumerate(tags) if translators[tag].languages == languages]
            some = ([side[number] for number in numbers] for side in (texts, *others))
            done.update(zip(numbers, work(translators[tags[numbers[0]]], *some), strict=True))
        return [done[number] for number in range(len(texts))]

    def _translate(self, texts: Sequence[str], options: SearchOptions, progress: Progress | bool) -> list[Translation]:
        """Translate texts in the direction of this translator."""
        if self._legs is not None:
            return self._translate_through(self._legs, texts, options, progress)
        lines = self.read(texts, options)
        requests = self.requests.of(lines, options)
        unlinked: dict[int, ChosenHypotheses] = {}
        translations: dict[int, Translation] = {}
        with (
            as_progress(progress).track("translate", sum(map(len, requests)), "sentences") as advance,
            self.search.computing(options),
            closing(self.search.run(requests, options, advance)) as searched,
        ):
            for number, hypotheses in searched:
                chosen = ChosenHypotheses(lines[number], self.writer.choose(hypotheses, options))
                if self.writer.needs_links(chosen, options):
                    unlinked[number] = chosen
                else:  # while other lines are still being searched
                    translations[number] = self.writer.translation(*chosen, options)
        numbers = sorted(unlinked)
        linked = self._translations([unlinked[number] for number in numbers], options)
        translations.update(zip(numbers, linked, strict=True))
        return [translations[number] for number in range(len(lines))]

    def _translate_through(
        self,
        legs: "tuple[Translator, Translator]",
        texts: Sequence[str],
        options: SearchOptions,
        progress: Progress | bool,
    ) -> list[Translation]:
        """Translate texts into the pivot language, and that into the target language."""
        if options.align or options.terms or options.prefix:
            raise DecodeError("through a pivot there are no aligned words, terms or prefix; leave them out")
        plain = [self.tags.named(text, None)[0] for text in texts]
        middle = legs[0]._translate(plain, options.but(n_best=1), progress)
        last = legs[1]._translate([translation.text for translation in middle], options, progress)
        return [
            replace(
                end,
                source=text,
                flags=tuple(dict.fromkeys((*start.flags, *end.flags))),
                unknown_words=start.unknown_words,
                lost=(*start.lost, *end.lost),
            )
            for text, start, end in zip(texts, middle, last, strict=True)
        ]

    def stream(
        self, text: str, options: SearchOptions | None = None, **settings: Any
    ) -> Generator[str, None, Translation]:
        """Yield the translation of one text in pieces that no longer change; return the whole. Joined, the pieces are
        the text that `translate` returns.

        A word is yielded when it is complete and in every hypothesis that can still win. A sentence with names,
        numbers or code is yielded as a whole, as is any sentence with `risk_samples`, and a text with markup or terms.
        """
        options = (options or self.options).but(**settings)
        (text,) = self._checked([text])
        return (yield from self.directed(options, text)._stream(text, options))

    def _stream(self, text: str, options: SearchOptions) -> Generator[str, None, Translation]:
        """Yield the translation of a text in the direction of this translator."""
        (line,) = self.read([text], options)
        terms = compiled(options.terms)
        if self._legs or line.pairs or any(terms.found(part.text) for part in line.translated):
            (translation,) = self._translate([text], options, progress=False)
            yield translation.text
            return translation
        (requests,) = self.requests.of([line], options)
        stream = LineStream(line, iter(requests), options, self.search, self.writer, self._link)
        yield from stream.pieces()
        chosen = ChosenHypotheses(line, self.writer.choose(stream.hypotheses, options))
        return self._translations([chosen], options)[0]

    def continued(self, line: Segment, beginning: Sequence[int], options: SearchOptions) -> Translation:
        """Return the translation of a one-segment line that begins with these tokens, which no term may change."""
        (segment,) = line.translated
        hypotheses = self.search.hypotheses(self.requests.continued([(segment, beginning, None)], options), options)
        chosen = ChosenHypotheses(line, self.writer.choose(hypotheses, options))
        if options.terms:
            ((_, alternatives),) = self._with_terms([chosen], options)
            kept = [parts for parts in alternatives if parts[0].tokens[: len(beginning)] == tuple(beginning)]
            chosen = ChosenHypotheses(line, kept) if kept else chosen
        return self._linked([chosen], options)[0]

    def _translations(self, chosen: Sequence[ChosenHypotheses], options: SearchOptions) -> list[Translation]:
        """Return the translations of lines, with links and terms where needed."""
        return self._linked(self._with_terms(chosen, options) if options.terms else chosen, options)

    def _with_terms(self, chosen: Sequence[ChosenHypotheses], options: SearchOptions) -> list[ChosenHypotheses]:
        """Write missing terms into all alternatives of each line, and sort these by score again."""
        writer = TermWriter(self.requests, self.languages.target, self.search, self._link)
        hypotheses = iter(writer.with_terms([pair for line in chosen for pair in line.pairs], options))
        exponent = options.length_penalty
        results = []
        for line, alternatives in chosen:
            different = dict.fromkeys(tuple(next(hypotheses) for _ in parts) for parts in alternatives)
            ranked = sorted(different, key=lambda parts: -sum(part.score(exponent) for part in parts))
            results.append(ChosenHypotheses(line, ranked))
        return results

    def _linked(self, chosen: Sequence[ChosenHypotheses], options: SearchOptions) -> list[Translation]:
        """Return the translations of lines, with links between words where needed."""
        needs_links = [self.writer.needs_links(line, options) for line in chosen]
        pairs = [pair for line in compress(chosen, needs_links) for pair in line.pairs]
        links = self._link(pairs, options) if pairs else {}
        return [
            self.writer.translation(*line, options, links if is_linked else None)
            for line, is_linked in zip(chosen, needs_links, strict=True)
        ]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions | None = None
    ) -> list[Translation]:
        """Score given translations: return what `translate` would report if it had chosen them.

        Raises:
            DecodeError: sources and targets differ in number, or a text is blank or longer than the model's positions.
            OutOfMemory: the device is full.
        """
        if len(sources) != len(targets):
            raise DecodeError(
                f"score takes one target for each source, but was given {len(sources)} and {len(targets)}"
            )
        options = options or self.options
        return self._in_directions(lambda via, *some: via._score(*some, options), options, sources, targets)

    def _score(self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions) -> list[Translation]:
        """Score translations in the direction of this translator."""
        if self._legs is not None:
            raise DecodeError("through a pivot nothing is scored; --pivot none scores directly")
        read, written = self.plain_pairs(sources, targets, options)
        rows = [self.framing.source(ids) for ids in self._encode_whole("source", read)]
        labels = [self.framing.labels(ids) for ids in self._encode_whole("target", written)]
        symbols = len(self.requests.before)
        log_probs = [[*[0.0] * symbols, *row[symbols:]] for row in self.search.score(rows, labels, options)]
        return [
            self.writer.scored(*pair, options.length_penalty)
            for pair in zip(sources, targets, labels, log_probs, strict=True)
        ]

    def plain_pairs(
        self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions
    ) -> tuple[list[str], list[str]]:
        """Return sources as the model reads them, and translations as it would write them, with language tags."""
        if options.raw:
            tagged_sources = self.tags.tagged(sources, None)
            return tagged_sources, [self.tags.tagged_target(target) for target in targets]
        context = replace(self._context(options), prefix="")
        read, written = [], []
        for source, target in zip(sources, targets, strict=True):
            line = self.surface.line(source, context)
            text, translation = line.typed, without_tags(target, spans_matching(options.protect, target)).plain
            part = self.surface.rewritten(Segment.from_typed(text.strip()), context)
            if part.is_rewritten:
                hidden = Segment.from_typed(mask(translation.strip(), part.kept))
                text, translation = part.text, self.surface.opposite.rewritten(hidden, Context(context.longest)).text
            read.append(tagged(text, line.language and (self.tags.source or line.language)))
            written.append(self.tags.tagged_target(translation))
        return read, written

    def _encode_whole(self, side: str, texts: Sequence[str]) -> list[list[int]]:
        """Encode the texts of a side, "source" or "target", without splitting them."""
        tokenizer = getattr(self.tokenizers, side)
        symbols = self.framing.target_symbols if side == "target" else self.framing.source_symbols
        positions = self.requests.positions
        longest = min(LONGEST_WHOLE, positions - symbols if positions else LONGEST_WHOLE)
        for number, text in enumerate(texts, 1):
            if giant(text, longest):
                raise DecodeError(f"{side} {number} has {len(text):,} characters, too many for {longest:,} tokens")
        rows = tokenizer.encode_batch(list(texts))
        for number, row in enumerate(rows, 1):
            if not row:
                raise DecodeError(f"{side} {number} is blank; there is nothing to score")
            if len(row) > longest:
                raise DecodeError(
                    f"{side} {number} has {len(row):,} tokens, but the model has positions for {longest:,}"
                )
        return rows

    def read(self, texts: Iterable[str], options: SearchOptions) -> list[Segment]:
        """Return texts as lines with the parts that are translated separately; raise `DecodeError` for a long one."""
        return self.surface.read(self._checked(texts), self._context(options))

    def _checked(self, texts: Iterable[str]) -> list[str]:
        """Return texts that are strings of Unicode."""
        if isinstance(texts, str):
            raise DecodeError("translate takes several texts, but was given one; put it in a list")
        lines = list(texts)
        for number, text in enumerate(lines, 1):
            if not isinstance(text, str):
                raise DecodeError(f"text {number} should be a string, but is {text!r}")
        with only_unicode(lines):
            "".join(lines).encode()
        return lines

    def _context(self, options: SearchOptions) -> Context:
        """Return the options of a request that surface rewriting needs."""
        return Context(
            longest=self.requests.longest_source(options) - bool(self.tags.ids),
            split=options.split,
            abbreviations=options.abbreviations,
            protect=options.protect,
            terms=compiled(options.terms) if options.terms else None,
            prefix=options.prefix,
            is_raw=options.raw,
        )


def _parts(
    files: ModelFiles, requests: RequestBuilder, languages: Languages, is_fixed: bool
) -> tuple[Surface, Writer, RequestBuilder]:
    """Return the parts of a translator that depend on its direction."""
    assert files.tokenizers is not None, "a model that translates has tokenizers"
    source, target = files.tokenizers
    conventions = (files.conventions or UNKNOWN_CONVENTIONS).of(*languages)
    known = source.placeholders.keys() & target.placeholders.keys()
    placeholders = "".join(character for character in conventions.learned_placeholders if character in known)
    named = [language if language in source.languages else None for language in languages]
    tags = LanguageTags(source.languages, named[0] if files.framing.target_prefix else None, named[1], is_fixed)
    surface = Surface(
        conventions, languages, source.encode_batch, placeholders, writable=target.placeholders, tags=tags
    )
    return surface, Writer(files.tokenizers, surface), requests.beginning_with(tags.before_target)


def _refuse_misfit(first: StoredModel, member: StoredModel) -> None:
    """Raise `ConfigError` if a model cannot join the ensemble of the first one."""
    refused = f"{member.folder} can't join the ensemble"
    if member.config.family != first.config.family:
        raise ConfigError(f"{refused}: it {USES[member.config.family]}")
    pairs = zip(first.tokenizers._fields, first.tokenizers, member.tokenizers, strict=True)
    if different := [side for side, ours, theirs in pairs if ours.identity != theirs.identity]:
        raise ConfigError(
            f"{refused}: its {' and '.join(different)} vocabulary is not that of {first.folder}; train both on one "
            "tokenizer"
        )
    if member.files.framing != first.files.framing:
        raise ConfigError(f"{refused}: it puts other symbols around sentences")
    if member.languages != first.languages:
        ours, theirs = (" to ".join(stored.languages) for stored in (first, member))
        raise ConfigError(f"{refused}: it translates {theirs}, not {ours}")
