"""Text to text: a model, its tokenizers and a search, as one object that is loaded once and asked often.

    translator = Translator.load("runs/en-it")
    translator.translate(["Where is the station?"])[0].text

Texts that are given together are translated side by side, and none affects another's translation.
"""

import copy
import itertools
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from dragoman.decoding.engine import Engine, Inbox, Result, Searcher, WorkerPool
from dragoman.decoding.hypothesis import Hypothesis, SearchObserver
from dragoman.decoding.request import Request
from dragoman.decoding.scoring import score
from dragoman.errors import ConfigError, DecodeError
from dragoman.inference.alignment import TOKENS_AT_ONCE, SegmentLinks, align
from dragoman.inference.forced_terms import TermWriter
from dragoman.inference.options import SearchOptions
from dragoman.inference.requests import RequestBuilder
from dragoman.inference.runtime import LONGEST_WHOLE, Runtime, computing, options_of, refuse_other_family
from dragoman.inference.translation import Translation, Ways, Writer
from dragoman.progress import Progress, as_progress
from dragoman.store.description import USES, StoredModel
from dragoman.store.folder import load_model
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS
from dragoman.surface.masking import mask
from dragoman.surface.pipeline import Surface, giant
from dragoman.surface.protected import spans_matching
from dragoman.surface.segment import Context, Segment
from dragoman.surface.sentences import one_line, separator, spaces_around
from dragoman.surface.tags import without_tags
from dragoman.surface.target_language import TargetLanguages, tagged
from dragoman.surface.terms import compiled
from dragoman.system import choose_threads
from dragoman.text import detection
from dragoman.tokenizing.tokenizer import only_unicode

if TYPE_CHECKING:
    from dragoman.model.transformer import EncoderDecoder

_REQUESTS_A_WORKER, _TOKENS_A_WORKER = 2, 1_024
"""Another worker pays off if each gets at least so many requests and tokens; with fewer rows, its matrix products are
inefficient."""


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
    """Translates texts with a model folder, or the best model of a run folder; one translation for each, in order.

    `settings` are those of `SearchOptions` that differ from the model's own, as in `beam_size=8`. An `adapter` is
    merged into the model when it is loaded. The models of an `ensemble` translate with it as one.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer; the adapter is, or has another base.
        ConfigError: a device, precision or number of threads that cannot be had, or a model of the ensemble that does
            not fit.
        DecodeError: a request that no search can answer.
        OutOfMemory: the device is full.
    """
    translator = Translator.load(model, device, precision, progress, adapter, ensemble, threads)
    return translator.translate(texts, options, progress, **settings)


class Translator:
    """Translates with one model. Loading one prepares the kernels, and changes nothing else in the process.

    Attributes:
        options: how it searches when it is not told otherwise; the model folder's own.
        device, precision: where and in which numbers the model runs.
        threads: how many compute.
        surface: the rewriting of text around the model.
        requests, writer: from segments of text to requests of the search, and from what it found to translations.
        languages: of the sources and of the translations.
        folders: the model's folder, or that of its adapter, and those of an ensemble.
        search: what answers its requests beside those of others; None: it searches by itself.
    """

    search: Searcher | None = None

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        *,
        native: bool = True,
        progress: Progress | bool = True,
        threads: int | None = None,
    ) -> None:
        """Without `native`, the model runs in PyTorch also where it could run compiled."""
        refuse_other_family(stored, "encoder_decoder")
        self.runtime: Runtime["EncoderDecoder"] = Runtime(stored, device, precision, native, progress)
        self.device, self.precision = self.runtime.device, self.runtime.precision
        self.threads = choose_threads(threads)
        self.folders = (stored.folder,)
        self.tokenizers, self.languages = stored.tokenizers, stored.languages
        self.options = options_of(stored, SearchOptions)
        self.framing = stored.files.framing
        self.requests = RequestBuilder(self.tokenizers, self.framing, stored.config.max_positions)
        conventions = stored.files.conventions or UNKNOWN_CONVENTIONS
        known = self.tokenizers.source.placeholders.keys() & self.tokenizers.target.placeholders.keys()
        placeholders = "".join(character for character in conventions.learned_placeholders if character in known)
        encode, target_ids = self.tokenizers.source.encode_batch, self.tokenizers.source.target_languages
        writable = self.tokenizers.target.placeholders
        self.surface = Surface(conventions, self.languages, encode, placeholders, writable, target_ids)
        self.writer = Writer(self.tokenizers, self.surface)
        self._torch_lock = RLock()  # passes of several threads at once would share torch's threads

    @property
    def model(self) -> "EncoderDecoder":
        """The model in PyTorch."""
        return self.runtime.model

    @property
    def target_languages(self) -> TargetLanguages:
        """The languages that a text may ask for, if there are several."""
        return self.surface.target_languages

    def sharing(self, search: Searcher) -> "Translator":
        """The same translator, whose requests this search answers beside those of others."""
        other = copy.copy(self)
        other.search = search
        return other

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
        """The translator of a model folder, or of the best model of a run folder, with an `adapter` of it if one is
        given. The folder of an adapter finds its base by itself. The models of an `ensemble` translate with it as one:
        what is written next has the mean of the probabilities that they give it.
        """
        threads = choose_threads(threads)
        detection.prepare()
        first = load_model(path, adapter=adapter)
        translator = cls(first, device, precision, progress=progress, threads=threads)
        others = [load_model(member) for member in ensemble]
        for other in others:
            _refuse_misfit(first, other)
        translator.folders = tuple(stored.folder for stored in (first, *others))
        translator.runtime.others = [Runtime(other, device, precision, progress=progress) for other in others]
        limits = [stored.config.max_positions for stored in (first, *others)]
        positions = min((limit for limit in limits if limit is not None), default=None)
        translator.requests = RequestBuilder(translator.tokenizers, translator.framing, positions)
        return translator

    def translate(
        self,
        texts: Iterable[str],
        options: SearchOptions | None = None,
        progress: Progress | bool = True,
        **settings: Any,
    ) -> list[Translation]:
        """One translation for each text, in order. A blank text gives an empty one, and no text is cut silently.
        `settings` are as those of the function `translate`.

        Raises:
            DecodeError: a request that no search can answer: a text that is too long and may not be split, a prefix
                that the vocabulary does not hold.
            OutOfMemory: the device is full.
        """
        options = (options or self.options).but(**settings)
        lines = self.read(texts, options)
        requests = self.requests.of(lines, options)
        chosen: dict[int, Ways] = {}
        written: dict[int, Translation] = {}
        with (
            as_progress(progress).track("translate", len(lines), "lines") as advance,
            self._computing(options),
            closing(self._search(requests, options)) as searched,
        ):
            for number, hypotheses in searched:
                ways = Ways(lines[number], self.writer.choose(hypotheses, options))
                if self.writer.needs_links(ways, options):
                    chosen[number] = ways
                else:  # while others are under way
                    written[number] = self.writer.translation(*ways, options)
                advance(1)
        rest = sorted(chosen)
        written.update(zip(rest, self._aligned([chosen[number] for number in rest], options), strict=True))
        return [written[number] for number in range(len(lines))]

    def _search(
        self, lines: Sequence[Sequence[Request]], options: SearchOptions
    ) -> Generator[tuple[int, list[list[Hypothesis]]]]:
        """Each line as soon as all of its requests have ended: its number, and what was found for each of them."""
        samples = [[request.samples(options.samples) for request in line] for line in lines]
        requests = [sample for line in samples for drawn in line for sample in drawn]
        places = itertools.count()  # in `requests`, where a ticket is a place
        tickets = [[[next(places) for _ in drawn] for drawn in line] for line in samples]
        line_of = {ticket: number for number, line in enumerate(tickets) for drawn in line for ticket in drawn}
        left = Counter(line_of.values())
        ended: dict[int, list[Hypothesis]] = {}
        for number, line in enumerate(lines):
            if not line:
                yield number, []
        with closing(self._searching(options, len(requests)).run(requests)) as results:
            for result in results:  # closed also where a request failed
                ended[result.ticket] = result.hypotheses
                number = line_of[result.ticket]
                left[number] -= 1
                if not left[number]:
                    yield number, [_joined(ended.pop(ticket) for ticket in drawn) for drawn in tickets[number]]

    def _searching(self, options: SearchOptions, requests: int) -> Searcher:
        """The search that is shared with others, or one of its own for so many requests."""
        if self.search is not None:
            return self.search
        workers = self.workers(options, requests)
        return WorkerPool(workers, lambda inbox: self.engine(options, None, workers, inbox))

    def workers(self, options: SearchOptions | None = None, requests: int | None = None) -> int:
        """How many engines share so many requests, or any number: one for each thread that has enough to do, if the
        threads can be used. One alone uses every thread that makes its steps faster.
        """
        if self._runs_in_torch:
            return 1
        most = min(self.threads, (options or self.options).batch_tokens // _TOKENS_A_WORKER)
        return max(1, most if requests is None else min(most, requests // _REQUESTS_A_WORKER))

    def stream(
        self, text: str, options: SearchOptions | None = None, **settings: Any
    ) -> Generator[str, None, Translation]:
        """Yields the translation of one text as it is made, in pieces that no longer change; returns the whole.

        A word comes when it is finished and every hypothesis that can still win agrees on it. A sentence with names,
        numbers or code comes as a whole, and so does any with `risk_samples`, and a text with markup or terms. Joined,
        the pieces are the text that `translate` gives.
        """
        options = (options or self.options).but(**settings)
        (line,) = self.read([text], options)
        terms = compiled(options.terms)
        if line.pairs or any(terms.found(part.text) for part in line.translated):
            (translation,) = self.translate([text], options, progress=False)
            yield translation.text
            return translation
        requests = iter(self.requests.of([line], options)[0])
        hypotheses: list[list[Hypothesis]] = []  # of each part that is translated
        before, (space, *spaces) = line.prefix, spaces_around(line)
        if before:
            yield space + before
            space = ""
        for part, space_after in zip(line.parts, spaces, strict=True):
            if part.is_copied:
                growing: Iterable[str] = [one_line(part.typed)[0]]
            else:
                growing = self._grow(next(requests), options, hypotheses, part)
            written, yielded = "", 0
            for written in growing:
                piece = separator(before, written, space) + written
                if len(piece) > yielded:
                    yield piece[yielded:]
                    yielded = len(piece)
            before, space = written or before, space_after
        if before and space:
            yield space
        return self._aligned([Ways(line, self.writer.choose(hypotheses, options))], options)[0]

    def _grow(
        self, request: Request, options: SearchOptions, hypotheses: list[list[Hypothesis]], segment: Segment
    ) -> Iterator[str]:
        """Yields the final part of one segment's text as it grows; its own are added to `hypotheses` at the end."""
        samples = request.samples(options.samples)
        is_final = options.risk_samples is None and not segment.kept
        ended: dict[int, list[Hypothesis]] = {}
        search = self._searching(options, 1)
        with closing(search.watch(samples) if is_final else search.run(samples)) as events:
            while True:
                with self._computing(options):
                    event = next(events, None)
                if event is None:
                    break
                if isinstance(event, Result):
                    ended[event.ticket] = event.hypotheses
                else:
                    settled = self.writer.settled_text(event.tokens)
                    yield self.surface.restore_part(segment, settled, is_whole=False).text
        hypotheses.append(_joined(ended[place] for place in range(len(samples))))
        ((best,), *_) = self.writer.choose(hypotheses[-1:], options)
        links = self._links([(segment, best)], options) if self.writer.left_out(segment, best) else None
        yield self.writer.piece(segment, best, links).restored.text

    def score(
        self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions | None = None
    ) -> list[Translation]:
        """Scores given translations: what `translate` would report, had it chosen them.

        Raises:
            DecodeError: not one target for each source, or a text that is blank or longer than the model's positions.
            OutOfMemory: the device is full.
        """
        if len(sources) != len(targets):
            raise DecodeError(
                f"score takes one target for each source, but was given {len(sources)} and {len(targets)}"
            )
        options = options or self.options
        read, translated = self.plain_pairs(sources, targets, options)
        rows = [self.framing.source(ids) for ids in self._whole(read)]
        labels = [self.framing.labels(ids) for ids in self._whole(translated, target=True)]
        with self._computing(options):
            workers = 1 if self._runs_in_torch else self.threads
            stepper = partial(self.runtime.stepper, self.threads // workers)
            batch_tokens = self._batch_tokens(options, self._runs_in_torch) // workers
            log_probs = score(stepper, rows, labels, self.framing.target_start, batch_tokens, workers)
        return [
            self.writer.scored(*pair, options.length_penalty)
            for pair in zip(sources, targets, labels, log_probs, strict=True)
        ]

    def read(self, texts: Iterable[str], options: SearchOptions) -> list[Segment]:
        """Return each text as a line with the parts that are translated one by one.

        Raises:
            DecodeError: a text is no string, or longer than the model takes and may not be split.
            TokenizerError: a text is not Unicode.
        """
        if isinstance(texts, str):
            raise DecodeError("translate takes several texts, but was given one; put it in a list")
        lines = list(texts)
        for number, text in enumerate(lines, 1):
            if not isinstance(text, str):
                raise DecodeError(f"text {number} should be a string, but is {text!r}")
        with only_unicode(lines):
            "".join(lines).encode()
        return self.surface.read(lines, self._context(options))

    def _context(self, options: SearchOptions) -> Context:
        """Return the options of a request that surface rewriting needs."""
        return Context(
            longest=self.requests.longest_source(options) - bool(self.target_languages.ids),
            split=options.split,
            abbreviations=options.abbreviations,
            protect=options.protect,
            terms=compiled(options.terms) if options.terms else None,
            target_language=options.target_language,
            prefix=options.prefix,
            is_raw=options.raw,
        )

    def engine(
        self,
        options: SearchOptions,
        observer: SearchObserver | None = None,
        workers: int = 1,
        inbox: Inbox | None = None,
    ) -> Engine:
        """A fresh search over this model, one of so many. An observer is shown what the model computes, in PyTorch, and
        every candidate of the search; it changes nothing.
        """
        in_torch = self._runs_in_torch or observer is not None
        return Engine(
            self.runtime.stepper(self.threads, observer, workers),
            start=self.framing.target_start,
            end=self.framing.target_end,
            batch_tokens=max(1, self._batch_tokens(options, in_torch) // workers),
            observer=observer,
            inbox=inbox,
        )

    def _aligned(self, chosen: Sequence[Ways], options: SearchOptions) -> list[Translation]:
        """The translation of each line, with its terms."""
        return self._written(self._with_terms(chosen, options) if options.terms else chosen, options)

    def _written(self, chosen: Sequence[Ways], options: SearchOptions) -> list[Translation]:
        """The same without terms; with the words linked to those of the source if that is needed."""
        linked = [self.writer.needs_links(ways, options) for ways in chosen]
        pairs = [pair for ways in itertools.compress(chosen, linked) for pair in ways.pairs]
        links = self._links(pairs, options) if pairs else {}
        return [
            self.writer.translation(*ways, options, links if is_linked else None)
            for ways, is_linked in zip(chosen, linked, strict=True)
        ]

    def _with_terms(self, chosen: Sequence[Ways], options: SearchOptions) -> list[Ways]:
        """The ways to translate each line with the terms that they lack; the best first again."""
        search, link = partial(self.found, options=options), partial(self._links, options=options)
        writer = TermWriter(self.requests, self.languages.target, search, link)
        written = iter(writer.with_terms([pair for each in chosen for pair in each.pairs], options))
        different = [{tuple(next(written) for _ in way): None for way in each.ways} for each in chosen]
        return [
            Ways(each.line, sorted(ways, key=lambda way: -sum(part.score(options.length_penalty) for part in way)))
            for each, ways in zip(chosen, different, strict=True)
        ]

    def continued(self, line: Segment, beginning: Sequence[int], options: SearchOptions) -> Translation:
        """The translation of a line of one segment that begins with these tokens. A term that would change them is not
        written.
        """
        (segment,) = line.translated
        found = self.found(self.requests.continued([(segment, beginning, None)], options), options)
        chosen = Ways(line, self.writer.choose(found, options))
        if options.terms:
            ways = self._with_terms([chosen], options)[0].ways
            kept = [way for way in ways if way[0].tokens[: len(beginning)] == tuple(beginning)]
            chosen = Ways(line, kept) if kept else chosen
        return self._written([chosen], options)[0]

    def found(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """What is found for each of these requests."""
        with self._computing(options), closing(self._search([[one] for one in requests], options)) as searched:
            found = dict(searched)
        return [hypotheses for number in range(len(requests)) for hypotheses in found[number]]

    def _links(self, pairs: Sequence[tuple[Segment, Hypothesis]], options: SearchOptions) -> SegmentLinks:
        tokens_at_once = 1 if options.batch_invariant else min(options.batch_tokens, TOKENS_AT_ONCE)
        with self._torch_lock, self._computing(options, in_torch=True):
            return align(self.model, self.tokenizers, self.framing, pairs, tokens_at_once)

    @property
    def _runs_in_torch(self) -> bool:
        return self.runtime.native is None

    def _batch_tokens(self, options: SearchOptions, in_torch: bool) -> int:
        """Most tokens under way; with `batch_invariant` in PyTorch, one sentence at a time."""
        return 1 if options.batch_invariant and in_torch else options.batch_tokens

    def _computing(self, options: SearchOptions, in_torch: bool = False) -> AbstractContextManager[None]:
        """With `batch_invariant`, PyTorch computes on one thread, because its sums depend on their number."""
        threads = 1 if options.batch_invariant else self.threads
        return computing(
            threads if in_torch or self._runs_in_torch else None,
            f"the device is out of memory; lower decode.batch_tokens (now {options.batch_tokens:,}) "
            f"or decode.beam_size (now {options.beam_size})",
        )

    def plain_pairs(
        self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions
    ) -> tuple[list[str], list[str]]:
        """Return sources as the model reads them, with language tags, and translations as it would write them."""
        if options.raw:
            return self.target_languages.tagged(sources, options.target_language), list(targets)
        context = replace(self._context(options), prefix="")
        read, written = [], []
        for source, target in zip(sources, targets, strict=True):
            line = self.surface.line(source, context)
            text, translation = line.typed, without_tags(target, spans_matching(options.protect, target)).plain
            part = self.surface.rewritten(Segment.from_typed(text.strip()), context)
            if part.is_rewritten:
                hidden = Segment.from_typed(mask(translation.strip(), part.kept))
                text, translation = part.text, self.surface.opposite.rewritten(hidden, Context(context.longest)).text
            read.append(tagged(text, line.language))
            written.append(translation)
        return read, written

    def _whole(self, texts: Sequence[str], target: bool = False) -> list[list[int]]:
        """Ids of texts that are not split."""
        tokenizer, side = (self.tokenizers.target, "target") if target else (self.tokenizers.source, "source")
        symbols = self.framing.target_symbols if target else self.framing.source_symbols
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


def _joined(samples: Iterable[Sequence[Hypothesis]]) -> list[Hypothesis]:
    return [hypothesis for hypotheses in samples for hypothesis in hypotheses]


def _refuse_misfit(first: StoredModel, other: StoredModel) -> None:
    if other.config.family != first.config.family:
        raise ConfigError(f"{other.folder} can't join the ensemble: it {USES[other.config.family]}")
    pairs = zip(first.tokenizers._fields, first.tokenizers, other.tokenizers, strict=True)
    if others := [side for side, ours, theirs in pairs if ours.identity != theirs.identity]:
        raise ConfigError(
            f"{other.folder} can't join the ensemble: its {' and '.join(others)} vocabulary is not that of "
            f"{first.folder}; train both on one tokenizer"
        )
    if other.files.framing != first.files.framing:
        raise ConfigError(f"{other.folder} can't join the ensemble: its sentences stand between other symbols")
    if other.languages != first.languages:
        ours, theirs = (" to ".join(stored.languages) for stored in (first, other))
        raise ConfigError(f"{other.folder} can't join the ensemble: it translates {theirs}, not {ours}")
