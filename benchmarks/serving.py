"""Throughput and latency of translation servers with the same weights and many clients.

    python benchmarks/serving.py MODEL TEXT [--minutes 10] [--out results.json]

All servers answer LibreTranslate's `POST /translate` on this machine with the model's own beam, on the same cores as
the clients, and keep running while they take turns. TEXT holds sentences, one a line, which are shuffled. Each load of
a round begins at a sentence of its own, the same for every server. Clients send their next request when the last is
answered.

LibreTranslate runs with its defaults (`peers/libretranslate_server.py` says what had to differ). The plain server
around CTranslate2 batches waiting requests; it runs twice, with one worker of all threads and with a worker a thread.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from command_line import markdown, new_parser, report, write_figures
from peers.clients import closed_loop, translation
from peers.servers import Server, ways

import dragoman
from dragoman.evaluating.speed import Latency, MedianRange
from dragoman.formats.lines import read_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.runtime import options_of
from dragoman.store.folder import load_model
from dragoman.system import describe, gemm_rate

LIST = 50
LOADS = {"1 client": (1, 1), "8 clients": (8, 1), "64 clients": (64, 1), f"lists of {LIST}": (1, LIST)}
"""Clients, and texts in each request."""
WARM_UP_SECONDS = 1.0


class Turn(NamedTuple):
    """Answers of one server to one load in one round."""

    per_second: float
    """Requests."""
    seconds: list[float]


class Row(NamedTuple):
    """Figures of one server with one load."""

    load: str
    server: str
    per_second: MedianRange
    latency_ms: Latency

    @classmethod
    def from_turns(cls, load: str, server: str, turns: Sequence[Turn]) -> "Row":
        """Return the figures over all rounds."""
        latency = Latency.from_seconds([seconds for turn in turns for seconds in turn.seconds])
        return cls(load, server, MedianRange.from_values([turn.per_second for turn in turns]), latency)


class Sentences:
    """The sentences of the clients, as requests."""

    def __init__(self, texts: Sequence[str], languages: Sequence[str]) -> None:
        self.texts, self.languages = texts, languages

    def requests(self, first: int = 0, size: int = 1) -> Iterator[bytes]:
        """Yield endless requests from a sentence on, each for one text or for a list of this many."""
        texts = islice(cycle(self.texts), first % len(self.texts), None)
        while True:
            query = list(islice(texts, size))
            yield translation(query if size > 1 else query[0], *self.languages)


def until(seconds: float) -> Callable[[], bool]:
    """Return a function that returns True until these seconds have passed."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def take_turn(server: Server, requests: Iterator[bytes], clients: int, seconds: float) -> Turn:
    """Count the answers between the end of a warm-up and the end of the turn; if there are none, all answers."""
    start = time.perf_counter()
    began, end = start + WARM_UP_SECONDS, start + WARM_UP_SECONDS + seconds
    answers = asyncio.run(closed_loop(server.port, requests, clients, until(WARM_UP_SECONDS + seconds)))
    counted = [answer for answer in answers if began <= answer.began + answer.seconds < end]
    if not counted:
        counted, seconds = answers, time.perf_counter() - start
    served = [answer for answer in counted if answer.status == 200]
    if not served:
        raise SystemExit(f"error: {server.name} translated nothing:\n{counted[0].body[:1000]!r}")
    return Turn(len(served) / seconds, [answer.seconds for answer in served])


def speed(servers: Sequence[Server], sentences: Sentences, minutes: float, rounds: int) -> list[Row]:
    """Return the figures of all servers under all loads, interleaved, in about this many minutes."""
    seconds = max(1.0, 60 * minutes / (rounds * len(LOADS) * len(servers)) - WARM_UP_SECONDS)
    share = len(sentences.texts) // (rounds * len(LOADS))
    turns: dict[tuple[str, str], list[Turn]] = {(load, server.name): [] for load in LOADS for server in servers}
    for number in range(rounds):
        for place, (load, (clients, size)) in enumerate(LOADS.items(), number * len(LOADS)):
            report(f"{load}: round {number + 1} of {rounds}, {seconds:.0f} s each")
            for server in servers[:: -1 if number % 2 else 1]:
                requests = sentences.requests(place * share, size)
                turns[load, server.name].append(take_turn(server, requests, clients, seconds))
    return [Row.from_turns(load, name, own) for (load, name), own in turns.items()]


def table(rows: Sequence[Row], peaks: dict[str, float]) -> str:
    """Return all rows in Markdown; a ratio is ours over this server, in requests a second and in p95."""
    columns = ["load", "server", "requests/s", "p50, p95, p99 ms", "ours: ratio of requests/s, of p95", "peak MB"]
    ours = {row.load: row for row in rows if row.server == rows[-1].server}
    cells = []
    for row in rows:
        own, rate, wait = ours[row.load], row.per_second, row.latency_ms
        cells.append(
            [
                row.load,
                row.server,
                f"{rate.median:,.1f} ({rate.low:,.1f} to {rate.high:,.1f})",
                f"{wait.p50:,.1f}, {wait.p95:,.1f}, {wait.p99:,.1f}",
                f"{own.per_second.median / rate.median:.2f}, {own.latency_ms.p95 / wait.p95:.2f}",
                f"{peaks[row.server]:,.0f}",
            ]
        )
    return markdown(columns, cells)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--languages", nargs=2, default=["en", "it"])
    parser.add_argument("--precision", default="float32", choices=["float32", "int8"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="+", default=[], metavar="SERVER", help="leave out servers of such a name")
    options = parser.parse_args()
    texts = list(dict.fromkeys(read_lines(options.text)))
    sentences = Sentences(random.Random(1).sample(texts, len(texts)), options.languages)
    beam_size = options_of(load_model(options.model), SearchOptions).beam_size
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dragoman.export(options.model, "ctranslate2", folder / "exported")
        settings = beam_size, options.precision, options.threads
        all_ways = ways(options.model.absolute(), folder / "exported", options.languages, *settings)
        servers = [Server(way, folder) for way in all_ways if not any(word in way.name for word in options.without)]
        try:
            for server in servers:
                server.wait(next(sentences.requests()))
            rows = speed(servers, sentences, options.minutes, options.rounds)
            peaks = {server.name: server.peak_megabytes() for server in servers}
        finally:
            for server in servers:
                server.leave()
    print(f"{table(rows, peaks)}\n\n{describe()}; {gemm_rate():,.0f} GFLOP/s in float32")
    figures = {"rows": [row._asdict() for row in rows], "peak_megabytes": peaks}
    write_figures(options.out, beam_size=beam_size, precision=options.precision, **figures)


if __name__ == "__main__":
    main()
