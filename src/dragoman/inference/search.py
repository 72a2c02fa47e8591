"""Searches with one model, from requests to hypotheses."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dragoman.decoding.engine import Engine, Inbox, Result, Searcher, WorkerPool
from dragoman.decoding.hypothesis import Hypothesis, SearchObserver
from dragoman.decoding.request import Request
from dragoman.decoding.scoring import score
from dragoman.inference.options import SearchOptions
from dragoman.inference.runtime import Runtime, computing
from dragoman.tokenizing.special_tokens import Framing

if TYPE_CHECKING:
    from dragoman.model.transformer import EncoderDecoder

_MIN_REQUESTS, _MIN_TOKENS = 2, 1_024
"""Minimum requests and capacity of a worker if there are several; with fewer rows, matrix products are inefficient."""
_MOST_KEY_BYTES = 2**27
"""Most memory for the keys and values of a batch that is decoded in C++: a large model takes smaller batches."""
_GPU_SHARE, _GPU_LOGITS = 32, 2**28
"""On a GPU, how many times as large a batch is, and the most logits of a step, which limit its memory."""


@dataclass(frozen=True)
class ModelSearch:
    """A search with one model, which starts engines for every call or uses a search that several clients share.

    Attributes:
        runtime: the model.
        framing: the special symbols that the model expects.
        threads: number of computing threads.
        shared: the search that several clients share; None: every call starts its own engines.
    """

    runtime: Runtime["EncoderDecoder"]
    framing: Framing
    threads: int
    shared: Searcher | None = None

    def run(
        self, lines: Sequence[Sequence[Request]], options: SearchOptions, advance: Callable[[], object] = lambda: None
    ) -> Generator[tuple[int, list[list[Hypothesis]]]]:
        """Yield the number of each line when its last request finishes, with the hypotheses of each of its requests.
        Call `advance` when the last sample of a request finishes.
        """
        samples = [[request.samples(options.samples) for request in line] for line in lines]
        requests = [sample for line in samples for drawn in line for sample in drawn]
        ticket = itertools.count()  # an index in `requests`
        tickets = [[[next(ticket) for _ in drawn] for drawn in line] for line in samples]
        line_of = [number for number, line in enumerate(samples) for drawn in line for _ in drawn]
        last_samples = {drawn[-1] for line in tickets for drawn in line}
        for number, line in enumerate(lines):
            if not line:
                yield number, []
        unfinished = Counter(line_of)
        finished: dict[int, list[Hypothesis]] = {}
        with closing(self._searcher(options, len(requests)).run(requests)) as results:
            for result in results:
                finished[result.ticket] = result.hypotheses
                if result.ticket in last_samples:
                    advance()
                number = line_of[result.ticket]
                unfinished[number] -= 1
                if not unfinished[number]:
                    yield number, [_joined(finished, drawn) for drawn in tickets[number]]

    def hypotheses(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request."""
        with self.computing(options), closing(self.run([requests], options)) as lines:
            ((_, hypotheses),) = lines
        return hypotheses

    def watch(
        self, request: Request, options: SearchOptions, show: Callable[[Sequence[int]], str]
    ) -> Generator[str, None, list[Hypothesis]]:
        """Yield what `show` returns for the tokens that are final after each step; return the hypotheses."""
        samples = request.samples(options.samples)
        finished: dict[int, list[Hypothesis]] = {}
        with closing(self._searcher(options, 1).watch(samples)) as events:
            while True:
                with self.computing(options):  # not while the caller uses the text
                    event = next(events, None)
                if event is None:
                    return _joined(finished, range(len(samples)))
                if isinstance(event, Result):
                    finished[event.ticket] = event.hypotheses
                else:
                    yield show(event.tokens)

    def score(
        self, sources: Sequence[Sequence[int]], labels: Sequence[Sequence[int]], options: SearchOptions
    ) -> list[list[float]]:
        """Return the log-probability of every token of given outputs."""
        workers = 1 if self.runs_in_torch else self.threads
        stepper = partial(self.runtime.stepper, self.threads // workers)
        batch_tokens = self._batch_tokens(options, self.runs_in_torch) // workers
        with self.computing(options):
            return score(stepper, sources, labels, self.framing.target_start, batch_tokens, workers)

    def workers(self, options: SearchOptions, requests: int | None = None) -> int:
        """Return the number of engines for these requests, or for any: one per busy thread, or one for all threads."""
        if self.runs_in_torch:
            return 1
        workers = min(self.threads, options.batch_tokens // _MIN_TOKENS)
        return max(1, workers if requests is None else min(workers, requests // _MIN_REQUESTS))

    def engine(
        self,
        options: SearchOptions,
        observer: SearchObserver | None = None,
        workers: int = 1,
        inbox: Inbox | None = None,
    ) -> Engine:
        """Return one of several engines. An observer sees what the model computes, in PyTorch, and all candidates."""
        in_torch = self.runs_in_torch or observer is not None
        batch_tokens = max(1, self._batch_tokens(options, in_torch) // workers)
        logits = batch_tokens * self.runtime.model.output.size(0) if self.runtime.device == "cuda" else 0
        return Engine(
            self.runtime.stepper(self.threads, observer, workers),
            start=self.framing.target_start,
            end=self.framing.target_end,
            batch_tokens=batch_tokens,
            row_tokens=math.ceil(logits / _GPU_LOGITS),
            observer=observer,
            inbox=inbox,
        )

    def computing(self, options: SearchOptions, in_torch: bool = False) -> AbstractContextManager[None]:
        """Set PyTorch's threads for a block that computes, if the model or the block runs `in_torch`. With
        `batch_invariant` there is one, because PyTorch's sums depend on the number of threads.
        """
        threads = 1 if options.batch_invariant else self.threads
        return computing(
            threads if in_torch or self.runs_in_torch else None,
            f"the device is out of memory; lower decode.batch_tokens (now {options.batch_tokens:,}) "
            f"or decode.beam_size (now {options.beam_size})",
        )

    @property
    def runs_in_torch(self) -> bool:
        """True if PyTorch runs the model, False if it is compiled."""
        return self.runtime.native is None

    def _searcher(self, options: SearchOptions, requests: int) -> Searcher:
        """Return the shared search, or new engines for this number of requests."""
        if self.shared is not None:
            return self.shared
        workers = self.workers(options, requests)
        return WorkerPool(workers, lambda inbox: self.engine(options, None, workers, inbox))

    def _batch_tokens(self, options: SearchOptions, in_torch: bool) -> int:
        """Return the capacity of a batch in tokens: 1, a single sentence, with `batch_invariant` in PyTorch."""
        if options.batch_invariant and in_torch:
            return 1
        if self.runtime.native is not None and not in_torch:
            config = self.runtime.native.config
            key_bytes = 8 * config.decoder_layers * config.d_model * (config.kv_heads or config.heads) // config.heads
            return min(options.batch_tokens, max(_MIN_TOKENS, _MOST_KEY_BYTES // key_bytes))
        return options.batch_tokens * (_GPU_SHARE if self.runtime.device == "cuda" else 1)


def _joined(finished: dict[int, list[Hypothesis]], tickets: Iterable[int]) -> list[Hypothesis]:
    """Remove the hypotheses of these tickets from `finished`; return them in order."""
    return [hypothesis for ticket in tickets for hypothesis in finished.pop(ticket)]
