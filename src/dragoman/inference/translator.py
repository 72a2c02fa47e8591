"""Which models translate as one; `decoding/ensemble.py` steps them.

Text to text: a model, its tokenizers and a search, as one object that is loaded once and asked often.

    translator = Translator.load("runs/en-it")
    translator.translate(["Where is the station?"])[0].text

Texts that are given together are translated side by side, and none affects another's translation.
"""

import copy
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.config import check
from dragoman.decoding.engine import Engine, Inbox, WorkerPool
from dragoman.decoding.hypothesis import Hypothesis, SearchObserver
from dragoman.decoding.request import Request
from dragoman.decoding.scoring import score
from dragoman.errors import CheckpointError, ConfigError, DecodeError
from dragoman.inference.alignment import TOKENS_AT_ONCE, align
from dragoman.inference.options import SearchOptions
from dragoman.inference.requests import Asked, Requests
from dragoman.inference.runtime import Runtime
from dragoman.inference.segments import Segments, read_segments
from dragoman.inference.sentences import separator
from dragoman.inference.translation import Translation
from dragoman.inference.writing import Writer, one_line
from dragoman.memory import out_of_memory_as
from dragoman.progress import Progress, silent
from dragoman.store.description import GENERATION, USES, StoredModel
from dragoman.store.folder import load_model
from dragoman.system import choose_threads, torch_threads


def refuse_misfit(first: StoredModel, other: StoredModel) -> None:
    """Refuses a model that can't translate with the first one as one.

    Raises:
        ConfigError: it is of another family, or has other vocabularies, symbols or languages.
    """
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
        ours, theirs = (" to ".join(each.languages) for each in (first, other))
        raise ConfigError(f"{other.folder} can't join the ensemble: it translates {theirs}, not {ours}")


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
    progress: Progress = silent,
    adapter: Path | str | None = None,
    ensemble: Sequence[Path | str] = (),
) -> list[Translation]:
    """Translates texts with a model folder, or the best model of a run folder; one translation for each, in order.

    An `adapter` is merged into the model when it is loaded. The models of
    an `ensemble` translate with it as one.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer.
        ConfigError: a device, precision or number of threads that cannot be had.
        DecodeError: a request that no search can answer.
        OutOfMemory: the device is full.
    """
    translator = Translator.load(model, device, precision, progress, adapter, ensemble, threads)
    return translator.translate(texts, options, progress)


class Translator:
    """Translates with one model. Loading one prepares the kernels, and changes nothing else in the process.

    Attributes:
        options: how it searches when it is not told otherwise; the model folder's own.
        device, precision: where and in which numbers the model runs.
        threads: how many compute.
        requests, writer: from segments of text to requests of the search, and from what it found to translations.
        languages: of the sources and of the translations.
    """

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        *,
        native: bool = True,
        progress: Progress = silent,
        threads: int | None = None,
    ) -> None:
        """Without `native`, the model runs in PyTorch also where it could run compiled."""
        if stored.config.family != "encoder_decoder":
            raise DecodeError(f"{stored.folder} holds a model that {USES[stored.config.family]}")
        self.runtime: Runtime["EncoderDecoder"] = Runtime(stored, device, precision, native, progress)
        self.device, self.precision = self.runtime.device, self.runtime.precision
        self.threads = choose_threads(threads)
        self.tokenizers, self.languages = stored.tokenizers, stored.languages
        try:
            self.options = check(stored.files.generation, str(stored.folder / GENERATION), SearchOptions)
        except ConfigError as error:
            raise CheckpointError(str(error)) from None
        self.framing = stored.files.framing
        self.limit_positions(stored.config.max_positions)
        self.writer = Writer(self.tokenizers)

    @property
    def model(self) -> "EncoderDecoder":
        """The model in PyTorch."""
        return self.runtime.model

    def limit_positions(self, positions: int | None) -> None:
        """Sources and translations have so many tokens at most; None: as many as memory holds."""
        self._positions = positions
        self.requests = Requests(self.tokenizers, self.framing, positions)

    def in_torch(self) -> "Translator":
        """The same translator with its model run in PyTorch: what is changed in `model` then changes translations."""
        other = copy.copy(self)
        other.runtime = self.runtime.in_torch()
        return other

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: str = "auto",
        precision: str = "auto",
        progress: Progress = silent,
        adapter: Path | str | None = None,
        ensemble: Sequence[Path | str] = (),
        threads: int | None = None,
    ) -> "Translator":
        """The translator of a model folder, or of the best model of a run folder, with an `adapter` of it if one is
        given. The folder of an adapter finds its base by itself. The models of an `ensemble` translate with it as one:
        what is written next has the mean of the probabilities that they give it.

        Raises:
            CheckpointError: the model folder is missing, damaged or newer; the adapter is, or has another base.
            ConfigError: a device, precision or number of threads that cannot be had, or a model of the ensemble that
                does not fit.
        """
        threads = choose_threads(threads)
        first = load_model(path, adapter=adapter)
        translator = cls(first, device, precision, progress=progress, threads=threads)
        others = [load_model(each) for each in ensemble]
        for other in others:
            refuse_misfit(first, other)
        runtimes = [Runtime["EncoderDecoder"](each, device, precision, progress=progress) for each in others]
        translator.runtime.others = runtimes
        limits = [each.config.max_positions for each in (first, *others) if each.config.max_positions is not None]
        translator.limit_positions(min(limits, default=None))
        return translator

    def translate(
        self,
        texts: Iterable[str],
        options: SearchOptions | None = None,
        progress: Progress = silent,
        observer: SearchObserver | None = None,
    ) -> list[Translation]:
        """One translation for each text, in order. A blank text gives an empty one, and no text is cut silently.

        The observer is shown what the model computes and every candidate of the search; it changes nothing.

        Raises:
            DecodeError: a request that no search can answer: a text that is too long and may not be split, a prefix
                that the vocabulary does not hold.
            OutOfMemory: the device is full.
        """
        options = options or self.options
        lines = self.read(texts, options)
        asked = Asked(self.requests.of(lines, options), options.samples)
        chosen: dict[int, list[tuple[Hypothesis, ...]]] = {}
        written: dict[int, Translation] = {}
        with (
            progress.track("translate", len(lines), "lines") as advance,
            self._computing(options, self._in_torch(observer)),
        ):
            pool = self._pool(len(asked.requests), options, observer)
            with closing(pool.run(asked.requests)) as ends:  # it stops also where a request failed
                for number, found in asked.complete(ends):
                    chosen[number] = self.writer.choose(found, options)
                    if not options.align:  # while others are under way
                        written[number] = self.writer.translation(lines[number], chosen[number], options)
                    advance(1)
        numbers = range(len(lines))
        if options.align:
            return self._written(lines, [chosen[number] for number in numbers], options)
        return [written[number] for number in numbers]

    def workers(
        self,
        options: SearchOptions | None = None,
        requests: int | None = None,
        observer: SearchObserver | None = None,
    ) -> int:
        """How many engines share so many requests, or any number: one for each thread that has enough to do, if the
        threads can be used. One alone uses every thread that makes its steps faster.
        """
        if self._in_torch(observer):
            return 1
        most = min(self.threads, (options or self.options).batch_tokens // _TOKENS_A_WORKER)
        return max(1, most if requests is None else min(most, requests // _REQUESTS_A_WORKER))

    def stream(self, text: str, options: SearchOptions | None = None) -> Generator[str, None, Translation]:
        """Yields the translation of one text as it is made, in pieces that no longer change; returns the whole.

        A word comes when it is finished and every hypothesis that can still win agrees on it; with `risk_samples`, a
        sentence comes as a whole. Joined, the pieces are the text that `translate` gives.
        """
        options = options or self.options
        (segments,) = self.read([text], options)
        requests = iter(self.requests.of([segments], options)[0])
        found: list[list[Hypothesis]] = []
        before = ""
        if segments.begins_with_copy and options.prefix:
            before = options.prefix.strip()
            yield before
        for segment in segments.all:
            said = written = ""
            copied = iter([one_line(segment.text)[0]])
            for written in copied if segment.copied else self._grow(next(requests), options, found):
                now = separator(before, written) + written
                if len(now) > len(said):
                    yield now[len(said) :]
                    said = now
            before = written or before
        return self._written([segments], [self.writer.choose(found, options)], options)[0]

    def _grow(self, request: Request, options: SearchOptions, found: list[list[Hypothesis]]) -> Iterator[str]:
        """Yields the final part of one segment's text as it grows; its hypotheses go to `found` at the end."""
        engine = self.engine(options)
        tickets = [engine.admit(each) for each in request.samples(options.samples)]
        ended: dict[int, list[Hypothesis]] = {}
        while engine.busy:
            with self._computing(options, self._in_torch()):
                ended |= {each.ticket: each.hypotheses for each in engine.step()}
            if options.risk_samples is None and tickets[0] not in ended:
                yield self.writer.settled_text(engine.agreed(tickets[0]))
        found.append([each for ticket in tickets for each in ended[ticket]])
        ((best,), *_) = self.writer.choose(found[-1:], options)
        yield self.writer.text(best.tokens)

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
        rows = [self.framing.source(ids) for ids in self._whole(sources)]
        labels = [self.framing.labels(ids) for ids in self._whole(targets, target=True)]
        with self._computing(options, self._in_torch()):
            workers = 1 if self._in_torch() else self.threads
            stepper = partial(self.runtime.stepper, self.threads // workers)
            room = self._batch_tokens(options) // workers
            found = score(stepper, rows, labels, self.framing.target_start, room, workers)
        return [
            self.writer.scored(*each, options.length_penalty)
            for each in zip(sources, targets, labels, found, strict=True)
        ]

    def read(self, texts: Iterable[str], options: SearchOptions) -> list[Segments]:
        """Each text in the segments that are translated one by one."""
        if isinstance(texts, str):
            raise DecodeError("translate takes several texts, but was given one; put it in a list")
        longest = self.requests.longest_source(options)
        return read_segments(list(texts), self.tokenizers.source, longest, options.split)

    def engine(
        self,
        options: SearchOptions,
        observer: SearchObserver | None = None,
        workers: int = 1,
        inbox: Inbox | None = None,
    ) -> Engine:
        """A fresh search over this model, one of so many; the observer is shown both."""
        return Engine(
            self.runtime.stepper(max(1, self.threads // workers), observer),
            start=self.framing.target_start,
            end=self.framing.target_end,
            batch_tokens=max(1, self._batch_tokens(options, observer) // workers),
            observer=observer,
            inbox=inbox,
        )

    def _written(
        self, lines: Sequence[Segments], chosen: Sequence[Sequence[tuple[Hypothesis, ...]]], options: SearchOptions
    ) -> list[Translation]:
        """The translation of each line, from what was chosen for its segments; aligned, if that was asked for."""
        each = list(zip(lines, chosen, strict=True))
        links = None
        if options.align:
            pairs = [pair for line, best in each for parts in best for pair in zip(line.translated, parts, strict=True)]
            at_once = 1 if options.batch_invariant else min(options.batch_tokens, TOKENS_AT_ONCE)
            with self._computing(options, in_torch=True):
                links = align(self.model, self.tokenizers, self.framing, self.writer.text, pairs, at_once)
        return [self.writer.translation(line, best, options, links) for line, best in each]

    def _pool(self, requests: int, options: SearchOptions, observer: SearchObserver | None) -> WorkerPool:
        workers = self.workers(options, requests, observer)
        return WorkerPool(workers, lambda inbox: self.engine(options, observer, workers, inbox))

    def _in_torch(self, observer: SearchObserver | None = None) -> bool:
        return self.runtime.native is None or observer is not None

    def _batch_tokens(self, options: SearchOptions, observer: SearchObserver | None = None) -> int:
        """Most tokens under way; with `batch_invariant` in PyTorch, one sentence at a time."""
        return 1 if options.batch_invariant and self._in_torch(observer) else options.batch_tokens

    @contextmanager
    def _computing(self, options: SearchOptions, in_torch: bool) -> Generator[None]:
        """Turns a full memory into advice, and sets PyTorch's threads: one with `batch_invariant`, because its sums
        depend on their number.
        """
        threads = torch_threads(1 if options.batch_invariant else self.threads) if in_torch else nullcontext()
        with threads, out_of_memory_as(_lower(options)):
            yield

    def _whole(self, texts: Sequence[str], target: bool = False) -> list[list[int]]:
        """Ids of texts that are not split."""
        tokenizer, side = (self.tokenizers.target, "target") if target else (self.tokenizers.source, "source")
        symbols = self.framing.target_symbols if target else self.framing.source_symbols
        rows = tokenizer.encode_batch(list(texts))
        for number, row in enumerate(rows, 1):
            if not row:
                raise DecodeError(f"{side} {number} is blank; there is nothing to score")
            if self._positions and len(row) > self._positions - symbols:
                raise DecodeError(
                    f"{side} {number} has {len(row):,} tokens, but the model has positions for "
                    f"{self._positions - symbols:,}"
                )
        return rows


def _lower(options: SearchOptions) -> str:
    """What to do about a full memory."""
    return (
        f"the device is out of memory; lower decode.batch_tokens (now {options.batch_tokens:,}) "
        f"or decode.beam_size (now {options.beam_size})"
    )
