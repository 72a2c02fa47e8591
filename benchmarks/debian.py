"""Real text from Debian's packages, for the benchmarks that need it: packages, and paragraphs of a page."""

import html.parser
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

CACHE = Path.home() / ".cache/dragoman-debian-texts"


def fetch(cache: Path, packages: Iterable[str]) -> None:
    """Download and unpack the packages that the cache lacks, each into a folder of its name."""
    cache.mkdir(parents=True, exist_ok=True)
    for package in sorted({*packages}):
        if not (cache / package).is_dir():
            subprocess.run(["apt-get", "download", package], cwd=cache, check=True)
            [archive] = cache.glob(f"{package}_*.deb")
            subprocess.run(["dpkg-deb", "-x", archive, cache / package], check=True)


class Page(html.parser.HTMLParser):
    """A parser that collects the paragraphs of an HTML page without other blocks in them, each with its `id`."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[tuple[str | None, str]] = []
        self._id: str | None = None
        self._open: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p":
            self._id, self._open = dict(attrs).get("id"), []
        elif tag in ("div", "pre", "table", "ul", "ol", "br"):
            self._open = None

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" and self._open is not None:
            self.paragraphs.append((self._id, re.sub(r"[ \t\r\n]+", " ", "".join(self._open)).strip()))
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open.append(data)


def read_page(path: Path) -> list[tuple[str | None, str]]:
    """Return the paragraphs of an HTML page with their ids."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8", errors="replace"))
    return page.paragraphs
