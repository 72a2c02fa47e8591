"""Growth of a server's memory, open files and threads under an hour of mixed load.

    python benchmarks/load.py MODEL TEXT --minutes 60 --picture load.svg [--out FILE]

Starts a server, and clients that send texts, lists, pages of HTML, glossaries, documents, streams and explanations, ask
for what is refused, and disconnect in the middle of a request or of its response. TEXT holds sentences, one a line. The
table compares the first quarter of the time, after a tenth to warm up, with the last one.
"""

import asyncio
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from command_line import figures_file, markdown, new_parser, report, write_figures
from peers.clients import translation
from peers.servers import Server, Way

from dragoman.formats.lines import read_lines
from dragoman.system import describe

SECONDS_A_SAMPLE = 2.0
PATIENCE_SECONDS = 120.0
Answer = tuple[float, str, str]
"""Minutes since the beginning, kind of a request, and its status."""


class Sample(NamedTuple):
    """State of the server's process at a time."""

    minute: float
    resident_megabytes: float
    open_files: int
    threads: int


def sample(process: int, minute: float) -> Sample:
    """Return the resident memory, open files and threads of a process now."""
    facts = Path(f"/proc/{process}/status").read_text()
    kilobytes, threads = (int(re.findall(rf"^{name}:\s+(\d+)", facts, re.M)[0]) for name in ("VmRSS", "Threads"))
    return Sample(minute, kilobytes * 1024 / 1e6, len(os.listdir(f"/proc/{process}/fd")), threads)


def post(path: str, body: bytes, kind: str = "application/json", host: str = "127.0.0.1") -> bytes:
    """Return a request after whose response the connection ends."""
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


class Client:
    """A client that sends one random request after another, each over a new connection."""

    def __init__(self, port: int, texts: Sequence[str], languages: tuple[str, str], seed: int) -> None:
        self._port, self._languages = port, dict(zip(("source", "target"), languages, strict=True))
        self._random = random.Random(seed)
        self._some = partial(self._random.choices, texts)

    def _native(self, path: str, **fields: object) -> bytes:
        return post(path, json.dumps({**self._languages, **fields}).encode())

    def _document(self, suffix: str, content: str) -> bytes:
        parts = {
            **{f'"{name}"': value for name, value in self._languages.items()},
            f'"file"; filename="a{suffix}"': content,
        }
        form = "".join(f"--x\r\nContent-Disposition: form-data; name={name}\r\n\r\n{parts[name]}\r\n" for name in parts)
        return post("/translate_file", f"{form}--x--\r\n".encode(), "multipart/form-data; boundary=x")

    def request(self) -> tuple[str, bytes]:
        """Return the kind of a random request, and the request."""
        text, *others = self._some(k=6)
        page, native = "".join(map("<p>{}</p>".format, others)), partial(self._native, "/v1/translate")
        kinds: dict[str, tuple[int, Callable[[], bytes]]] = {  # each with its weight
            "text": (40, lambda: native(text=text)),
            "list": (5, lambda: native(text=self._some(k=20))),
            "page": (5, lambda: native(text=page, format="html")),
            "details": (5, lambda: native(text=text, alternatives=3, align=True)),
            "terms": (2, lambda: native(text=text, terms={text.split()[0]: ["termine"]})),
            "stream": (10, lambda: native(text=text, stream=True)),
            "explanation": (1, lambda: self._native("/v1/explain", text=text)),
            "document": (1, lambda: self._document(".txt", "\n\n".join(self._some(k=100)))),
            "page document": (1, lambda: self._document(".html", page * 10)),
            "damaged document": (2, lambda: self._document(".docx", page)),
            "too long": (2, lambda: native(text="a" * 6_000)),
            "not JSON": (4, lambda: post("/translate", b"{")),
            "other host": (4, lambda: post("/translate", b"{}", host="example.org")),
        }
        (kind,) = self._random.choices([*kinds], [weight for weight, _ in kinds.values()])
        return kind, kinds[kind][1]()

    async def ask(self) -> tuple[str, str]:
        """Send a request; return its kind and status. One in ten clients disconnects before the end."""
        kind, request = self.request()
        leaves = self._random.random() < 0.1
        cut = self._random.randrange(len(request)) if leaves and self._random.random() < 0.5 else len(request)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.timeout(self._random.uniform(0, 1) if leaves else PATIENCE_SECONDS):
                writer.write(request[:cut])
                response = await reader.read()
                status = response[9:12].decode() or "closed"
                if status == "200" and (address := re.search(rb"/download_file/[^\"]+", response)):
                    writer.close()
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                    writer.write(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % address[0])
                    status = (await reader.read())[9:12].decode()
            return kind, status
        except (OSError, TimeoutError) as error:
            return kind, "left" if leaves else type(error).__name__
        finally:
            writer.transport.abort()


async def load(server: Server, clients: Sequence[Client], minutes: float) -> tuple[list[Sample], list[Answer]]:
    """Return the samples and answers of these minutes."""
    began, samples, answers = time.monotonic(), list[Sample](), list[Answer]()

    def minute() -> float:
        return (time.monotonic() - began) / 60

    async def run(client: Client) -> None:
        while minute() < minutes:
            answers.append((minute(), *await client.ask()))

    async def watch() -> None:
        while minute() < minutes:
            samples.append(sample(server.pid, minute()))
            await asyncio.sleep(SECONDS_A_SAMPLE)

    await asyncio.gather(watch(), *map(run, clients))
    return samples, answers


def draw(samples: Sequence[Sample], answers: Sequence[Answer], path: Path) -> None:
    """Draw memory, open files, threads, and answers a minute over time."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(4, sharex=True, figsize=(8, 9), layout="constrained")
    for axis, name in zip(axes, Sample._fields[1:], strict=False):
        axis.plot([state.minute for state in samples], [getattr(state, name) for state in samples])
        axis.set(ylabel=name.replace("_", " "), ylim=(0, None))
    bins = range(int(samples[-1].minute) + 1)
    for status in sorted({status for _, _, status in answers}):
        counts = Counter(int(minute) for minute, _, own in answers if own == status)
        axes[3].plot(bins, [counts[bin] for bin in bins], marker=".", label=status)
    axes[3].set(xlabel="minutes", ylabel="answers a minute", yscale="symlog", ylim=(0, None))
    axes[3].legend(ncols=4, fontsize="small")
    figure.savefig(path)
    pyplot.close(figure)


def table(samples: Sequence[Sample], minutes: float) -> str:
    """Return the medians of the first and the last quarter after the warm-up, in Markdown."""
    rows = list[list[str]]()
    for name in Sample._fields[1:]:
        values = [getattr(state, name) for state in samples if state.minute > minutes / 10]
        first, last = statistics.median(values[: len(values) // 4 + 1]), statistics.median(values[-len(values) // 4 :])
        rows.append([name, *(f"{value:,.0f}" for value in (first, last, last - first, max(values)))])
    return markdown(["of the server", "first quarter", "last quarter", "growth", "peak"], rows)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, help="sentences in the source language")
    parser.add_argument("--languages", nargs=2, default=["en", "it"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--picture", type=figures_file, help="draw the figures over time into this file (SVG, PNG)")
    options = parser.parse_args()
    texts = [text for text in read_lines(options.text) if text.strip()]
    command = ["-m", "dragoman", "serve", str(options.model.absolute()), "--port", "PORT"]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Way("Dragoman", command, {}), Path(folder))
        try:
            server.wait(translation(texts[0], *options.languages))
            report(f"{options.clients} clients for {options.minutes:g} minutes")
            clients = [Client(server.port, texts, options.languages, seed) for seed in range(options.clients)]
            samples, answers = asyncio.run(load(server, clients, options.minutes))
        finally:
            code = server.leave()
    rows = list[list[str]]()
    for kind, count in Counter(kind for _, kind, _ in answers).most_common():
        statuses = Counter(status for _, own, status in answers if own == kind).most_common()
        rows.append([kind, f"{count:,}", ", ".join(f"{status}: {n:,}" for status, n in statuses)])
    print(markdown(["request", "count", "statuses"], rows), table(samples, options.minutes), sep="\n\n")
    print(f"\nexit code {code}; {describe()}")
    if options.picture:
        draw(samples, answers, options.picture)
    write_figures(options.out, samples=samples, statuses=Counter(status for _, _, status in answers))


if __name__ == "__main__":
    main()
