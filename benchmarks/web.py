"""Speed of a page that translates in a browser, compared with `dragoman translate` on the same machine.

    python benchmarks/web.py [--model MODEL] [--sentences 40] [--rounds 5] [--out FILE]

The first answer: from the start of a process, or from opening the page, until one sentence is translated. One piece:
the time of a translation divided by the pieces that the best hypothesis has, with everything warm, sentence by sentence
on one thread, beam 4. Rounds are interleaved. Node and Chromium (with Playwright) are left out where they are missing.
"""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from command_line import interleaved, markdown, new_parser, report, write_figures

import dragoman
from dragoman.errors import Error
from dragoman.exporting.web.node import NodeModel
from dragoman.exporting.web.page import render_page
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.system import describe
from dragoman.text.phrasebook import read_phrasebook

MODEL = Path(dragoman.__file__).parent / "inference" / "phrasebook"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TRANSLATE = """(text) => {
  const { seconds, hypotheses } = translator.translate(text);
  return [seconds, hypotheses[0].tokens.length];
}"""


class Contender(NamedTuple):
    """A way to translate: seconds until the first answer, and seconds and pieces of a sentence when all is warm."""

    first: Callable[[str], float]
    again: Callable[[str], tuple[float, int]]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sentences = [pair.source for pair in read_phrasebook().test]
    texts = sentences[:: len(sentences) // options.sentences][: options.sentences]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        stored, page = load_model(options.model), Path(folder) / "index.html"
        page.write_text(render_page(stored, texts[:1]), "utf-8")
        contenders = {name: stack.enter_context(way) for name, way in ways(options.model, stored, page).items()}
        first: dict[str, list[float]] = {name: [] for name in contenders}
        pieces: dict[str, list[float]] = {name: [] for name in contenders}
        for number, name in interleaved([*contenders], options.rounds):
            report(f"round {number + 1}: {name}")
            first[name].append(contenders[name].first(texts[0]))
            seconds, counts = zip(*map(contenders[name].again, texts), strict=True)
            pieces[name].append(sum(seconds) / sum(counts))
    rows = [[name, spread(first[name], 1), spread(pieces[name], 1000)] for name in contenders]
    print(markdown(["with", "first answer, s", "one piece, ms"], rows), f"\n{page_size(stored)}\n{describe()}")
    write_figures(options.out, first_seconds=first, piece_seconds=pieces)


def spread(seconds: Sequence[float], factor: float) -> str:
    """Return the median with the smallest and the largest value."""
    return f"{factor * statistics.median(seconds):.3g} ({factor * min(seconds):.3g} to {factor * max(seconds):.3g})"


def page_size(stored: StoredModel) -> str:
    return f"the page has {len(render_page(stored).encode()) / 1e6:.1f} MB"


def ways(model: Path, stored: StoredModel, page: Path) -> Mapping[str, AbstractContextManager[Contender]]:
    """Return the contenders that this machine has."""
    contenders = {f"dragoman translate, {precision}": ours(model, precision) for precision in ("float32", "int8")}
    if shutil.which("node"):
        contenders["the page in Node"] = node(stored, page)
    try:
        import playwright.sync_api  # noqa: F401 (installed by make browser only)

        contenders["the page in Chromium"] = chromium(page)
    except ImportError:
        report("Chromium is left out: Playwright is missing")
    return contenders


@contextmanager
def ours(model: Path, precision: str) -> Iterator[Contender]:
    """Yield the command in a new process, and the translator that stays, on one thread."""
    try:
        translator = dragoman.Translator.load(model, "cpu", precision, progress=False, threads=1)
    except Error as error:
        sys.exit(str(error))

    def first(text: str) -> float:
        start = time.perf_counter()
        command = [sys.executable, "-m", "dragoman", "translate", model, text, "--quiet", "--precision", precision]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    def again(text: str) -> tuple[float, int]:
        start = time.perf_counter()
        (translation,) = translator.translate([text])
        return time.perf_counter() - start, len(translation.tokens)

    yield Contender(first, again)


@contextmanager
def node(stored: StoredModel, page: Path) -> Iterator[Contender]:
    """Yield Node with the page, new and warm."""

    def first(text: str) -> float:
        start = time.perf_counter()
        with NodeModel.open(page, stored) as model:
            model.ask("translate", {"text": text})
            return time.perf_counter() - start

    with NodeModel.open(page, stored) as warm:

        def again(text: str) -> tuple[float, int]:
            answer = warm.ask("translate", {"text": text})
            return answer["seconds"], len(answer["hypotheses"][0]["tokens"])

        yield Contender(first, again)


@contextmanager
def chromium(page: Path) -> Iterator[Contender]:
    """Yield Chromium with the page, newly opened and warm; the browser itself is running already."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        path = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        warm = browser.new_page()
        warm.goto(page.as_uri())

        def first(_: str) -> float:
            opened = browser.new_page()
            opened.goto(page.as_uri())
            said = re.search(r"shown after (\d+) ms", opened.text_content("#size-note") or "")
            opened.close()
            assert said, "the page says how long it took"
            return int(said[1]) / 1000

        def again(text: str) -> tuple[float, int]:
            seconds, pieces = warm.evaluate(TRANSLATE, text)
            return seconds, pieces

        yield Contender(first, again)
        browser.close()


if __name__ == "__main__":
    main()
