"""How do translation servers with the same weights serve many clients, and what does ours do when it is too many?

    python benchmarks/serving.py MODEL TEXT [--minutes 10] [--overload] [--mixed 10] [--document] [--out results.json]

All servers answer LibreTranslate's `POST /translate` on this machine with the model's own beam, on the same cores as
the clients, and stay up while they take turns. TEXT holds sentences, one a line, which are shuffled. Each load of a
round begins at a sentence of its own, the same for every server. Clients send their next request when the last is
answered.

LibreTranslate runs with its defaults (`peers/libretranslate_server.py` says what had to differ). The plain server
around CTranslate2 translates together what waits; it runs twice, with one worker of all threads and with a worker a
thread. The engine alone is `Translator.translate` in a process of its own, sentence by sentence, after the servers.

The other parts ask our server alone. `--overload`: clients that do not wait for each other send as many requests a
second as it answers to 64 clients, then four times as many for a minute. `--mixed`: sentences, lists, HTML,
alternatives, and clients that close their connection in the middle of a request. `--document`: a text file of 5,000
sentences goes to `/translate_file`, beside one client with sentences.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from command_line import command_line, figures_file, markdown
from peers.clients import LOST, Answer, Connection, closed_loop, open_loop, post, translation, vanishing
from peers.runtimes import Contender, Way
from peers.servers import Held, Server, ways

import dragoman
from dragoman.evaluating.speed import Latency, MedianRange
from dragoman.formats.lines import read_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.runtime import options_of
from dragoman.store.folder import load_model
from dragoman.system import describe, gemm_rate, machine

LIST = 50
LOADS = {"1 client": (1, 1), "8 clients": (8, 1), "64 clients": (64, 1), f"lists of {LIST}": (1, LIST)}
"""Clients, and texts in each request."""
WARM_UP_SECONDS = 1.0
OVERLOAD = 4
SAMPLE_SECONDS = 5.0
DOCUMENT_SENTENCES, DOCUMENT_SECONDS = 5_000, 600.0
ALONE = 300
"""Sentences that the engine translates alone."""
FREE_SECONDS = 20.0
"""Of one client's sentences before a document comes."""


class Turn(NamedTuple):
    """What one server did with one load in one round."""

    per_second: float
    """Requests."""
    seconds: list[float]
    statuses: dict[int, int]
    characters: float
    """Of a translation, in the mean."""


class Row(NamedTuple):
    """What one server did with one load."""

    load: str
    server: str
    per_second: MedianRange
    latency_ms: Latency
    statuses: dict[int, int]
    characters: float

    @classmethod
    def of(cls, load: str, server: str, turns: Sequence[Turn]) -> "Row":
        statuses: Counter[int] = Counter()
        for turn in turns:
            statuses.update(turn.statuses)
        return cls(
            load,
            server,
            MedianRange.from_values([turn.per_second for turn in turns]),
            Latency.from_seconds([seconds for turn in turns for seconds in turn.seconds]),
            dict(statuses),
            statistics.fmean(turn.characters for turn in turns),
        )


class Sentences:
    """The sentences of the clients, as requests."""

    def __init__(self, texts: Sequence[str], languages: Sequence[str]) -> None:
        self.texts, self.languages = texts, languages

    def requests(self, first: int = 0, size: int = 1, **others: object) -> Iterator[bytes]:
        """Endless requests from a sentence on, each for one text or for a list of so many."""
        texts = islice(cycle(self.texts), first % len(self.texts), None)
        while True:
            given = list(islice(texts, size))
            yield translation(given if size > 1 else given[0], *self.languages, **others)


def until(seconds: float) -> Callable[[], bool]:
    """Whether these seconds from now have not yet passed."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def take_turn(server: Server, requests: Iterator[bytes], clients: int, seconds: float) -> Turn:
    """Counts what is answered between the end of a warm-up and the end of the turn; if nothing is, all of it."""
    start = time.perf_counter()
    began, end = start + WARM_UP_SECONDS, start + WARM_UP_SECONDS + seconds
    answers = asyncio.run(closed_loop(server.port, requests, clients, until(WARM_UP_SECONDS + seconds)))
    counted = [each for each in answers if began <= each.began + each.seconds < end]
    if not counted:
        counted, seconds = answers, time.perf_counter() - start
    served = [each for each in counted if each.status == 200]
    if not served:
        raise SystemExit(f"error: {server.name} translated nothing:\n{counted[0].body[:1000]!r}")
    texts = [json.loads(each.body)["translatedText"] for each in served]
    lengths = [len(text) for each in texts for text in ([each] if isinstance(each, str) else each)]
    statuses = Counter(each.status for each in counted)
    return Turn(len(served) / seconds, [each.seconds for each in served], statuses, statistics.fmean(lengths))


def speed(servers: Sequence[Server], sentences: Sentences, minutes: float, rounds: int) -> list[Row]:
    """All servers under all loads, in turns, in about so many minutes."""
    seconds = max(1.0, 60 * minutes / (rounds * len(LOADS) * len(servers)) - WARM_UP_SECONDS)
    turns: dict[tuple[str, str], list[Turn]] = {(load, each.name): [] for load in LOADS for each in servers}
    first = 0
    for number in range(rounds):
        for load, (clients, size) in LOADS.items():
            tell(f"{load}: round {number + 1} of {rounds}, {seconds:.0f} s each")
            for server in servers[:: -1 if number % 2 else 1]:
                turn = take_turn(server, sentences.requests(first, size), clients, seconds)
                turns[load, server.name].append(turn)
            first += len(sentences.texts) // (rounds * len(LOADS))
    return [Row.of(load, name, found) for (load, name), found in turns.items()]


def alone(options: argparse.Namespace, beam_size: int, texts: Sequence[str]) -> Latency:
    """What a sentence takes the engine in a process of its own, without any server."""
    engine = Contender(Way("dragoman", options.precision, options.model, options.threads), options.model)
    engine.turn(texts[:16], beam_size, alone=True)
    turn = engine.turn(texts, beam_size, alone=True)
    engine.leave()
    return Latency.from_seconds(turn.seconds)


def overload(server: Server, sentences: Sentences, seconds: float, chance: random.Random) -> dict[str, Any]:
    """As much as it can do, then four times as much."""
    capacity = take_turn(server, sentences.requests(), 64, seconds / 4).per_second
    found: dict[str, Any] = {"closed_loop_per_second": capacity, "before": server.held()._asdict()}
    for times, lasting in ((1, seconds / 2), (OVERLOAD, seconds)):
        tell(f"overload: {times * capacity:,.0f} requests a second for {lasting:.0f} s")
        requests = sentences.requests(1000 * times)
        answers = asyncio.run(open_loop(server.port, requests, times * capacity, lasting, chance))
        found[f"{times}x"] = rush(answers, lasting) | {"held": server.held()._asdict()}
        time.sleep(1)
    found["goodput"] = found[f"{OVERLOAD}x"]["served_per_second"] / found["1x"]["served_per_second"]
    return found


def rush(answers: Sequence[Answer], seconds: float) -> dict[str, Any]:
    """What became of requests that did not wait for each other."""
    by_status = {status: [each.seconds for each in answers if each.status == status] for status in (200, 503)}
    statuses = Counter(each.status for each in answers)
    return {
        "sent": len(answers),
        "served_per_second": statuses[200] / seconds,
        "refused": statuses[503],
        "lost": statuses[LOST],
        "others": len(answers) - statuses[200] - statuses[503] - statuses[LOST],
        "served_ms": Latency.from_seconds(by_status[200])._asdict() if by_status[200] else None,
        "refused_ms": Latency.from_seconds(by_status[503])._asdict() if by_status[503] else None,
    }


async def mixed(server: Server, sentences: Sentences, minutes: float, chance: random.Random) -> dict[str, Any]:
    """All kinds of requests at once, and clients that leave in the middle of them."""
    going = until(60 * minutes)
    kinds = [
        (sentences.requests(0), 6),
        (sentences.requests(1000, format="html"), 2),
        (sentences.requests(2000, alternatives=3), 2),
        (sentences.requests(3000, LIST), 1),
    ]
    samples: list[Held] = []

    async def watch() -> None:
        while going():
            await asyncio.sleep(SAMPLE_SECONDS)
            samples.append(server.held())

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        loops = [group.create_task(closed_loop(server.port, each, clients, going)) for each, clients in kinds]
        gone = group.create_task(vanishing(server.port, sentences.requests(4000), 8, going, chance))
    await asyncio.sleep(SAMPLE_SECONDS)  # the last ones have left
    samples.append(server.held())
    statuses = Counter(answer.status for loop in loops for answer in loop.result())
    settled = samples[len(samples) // 5 :]
    return {
        "minutes": minutes,
        "statuses": dict(statuses),
        "vanished": gone.result(),
        "grown": {name: getattr(settled[-1], name) - getattr(settled[0], name) for name in Held._fields},
        "ranges": {name: [f(getattr(each, name) for each in settled) for f in (min, max)] for name in Held._fields},
        "samples": samples,
    }


async def document(server: Server, sentences: Sentences) -> dict[str, Any]:
    """The times of one client's sentences without and with a document under way."""
    free = await closed_loop(server.port, sentences.requests(), 1, until(FREE_SECONDS))
    text = "\n".join(islice(cycle(sentences.texts), DOCUMENT_SENTENCES))
    connection = await Connection.to(server.port)
    task = asyncio.create_task(connection.ask(upload(text, sentences.languages), patience=DOCUMENT_SECONDS))
    await asyncio.sleep(WARM_UP_SECONDS)
    beside = await closed_loop(server.port, sentences.requests(1000), 1, lambda: not task.done())
    answer = await task
    connection.leave()
    before, during = (
        Latency.from_seconds([each.seconds for each in found if each.status == 200]) for found in (free, beside)
    )
    return {
        "document": {"status": answer.status, "seconds": answer.seconds},
        "free_ms": before._asdict(),
        "beside_ms": during._asdict(),
        "requests": [len(free), len(beside)],
        "refused": sum(each.status != 200 for each in beside),
        "p95_ratio": during.p95 / before.p95,
    }


def upload(text: str, languages: Sequence[str]) -> bytes:
    """A text file for `/translate_file`, as a form sends it."""
    boundary = "serving-py-boundary"
    parts = [f'name="{name}"\r\n\r\n{value}' for name, value in zip(("source", "target"), languages, strict=True)]
    parts.append(f'name="file"; filename="book.txt"\r\nContent-Type: text/plain\r\n\r\n{text}')
    body = "".join(f"--{boundary}\r\nContent-Disposition: form-data; {part}\r\n" for part in parts)
    return post("/translate_file", f"{body}--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}")


def table(rows: Sequence[Row], peaks: dict[str, float]) -> str:
    """All rows; a ratio is ours over this server, in requests a second and in p95."""
    columns = [
        "load",
        "server",
        "requests/s",
        "p50, p95, p99 ms",
        "ours: times the requests/s, times the p95",
        "peak MB",
    ]
    cells = []
    for row in rows:
        own = next(each for each in rows if each.load == row.load and each.server == rows[-1].server)
        rate, wait = row.per_second, row.latency_ms
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


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--languages", nargs=2, default=["en", "it"])
    parser.add_argument("--precision", default="float32", choices=["float32", "int8"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10, help="of the speed table; 0 leaves it out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="+", default=[], metavar="SERVER", help="leave out servers of such a name")
    parser.add_argument("--overload", type=float, nargs="?", const=60, default=0, metavar="SECONDS")
    parser.add_argument("--mixed", type=float, default=0, metavar="MINUTES")
    parser.add_argument("--document", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=figures_file)
    return parser.parse_args()


def main() -> None:
    options = parse()
    chance = random.Random(options.seed)
    texts = list(dict.fromkeys(read_lines(options.text)))
    sentences = Sentences(chance.sample(texts, len(texts)), options.languages)
    beam_size = options_of(load_model(options.model), SearchOptions).beam_size
    found: dict[str, Any] = {"beam_size": beam_size, "precision": options.precision}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dragoman.export(options.model, "ctranslate2", folder / "exported")
        how = beam_size, options.precision, options.threads
        every = ways(options.model.absolute(), folder / "exported", options.languages, *how)
        servers = [Server(way, folder) for way in every if not any(word in way.name for word in options.without)]
        try:
            for server in servers:
                server.wait(next(sentences.requests()))
            if options.minutes:
                rows = speed(servers, sentences, options.minutes, options.rounds)
                peaks = {each.name: each.held().peak_megabytes for each in servers}
                print(f"{table(rows, peaks)}\n")
                found |= {"rows": [row._asdict() for row in rows], "peak_megabytes": peaks}
            *others, ours = servers
            for server in others:
                server.leave()
            if options.overload:
                found["overload"] = overload(ours, sentences, options.overload, chance)
            if options.document:
                found["document"] = asyncio.run(document(ours, sentences))
            if options.mixed:
                found["mixed"] = asyncio.run(mixed(ours, sentences, options.mixed, chance))
        finally:
            for server in servers:
                server.leave()
        found["exit_code"] = ours.leave()
    if options.minutes:
        found["engine_alone_ms"] = alone(options, beam_size, sentences.texts[:ALONE])._asdict()
    show(found)
    if options.out:
        facts = {"command": command_line(), "machine": machine(), **found}
        options.out.write_text(json.dumps(facts, indent=1) + "\n")


def show(found: dict[str, Any]) -> None:
    """What was found beside the table."""
    for name, each in found.items():
        if name not in ("rows", "peak_megabytes"):
            told = {key: value for key, value in each.items() if key != "samples"} if isinstance(each, dict) else each
            print(f"{name}: {json.dumps(told)}")
    print(f"\n{describe()}; {gemm_rate():,.0f} GFLOP/s in float32")


if __name__ == "__main__":
    main()
