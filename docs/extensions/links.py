"""After a build: every link inside the site leads to a file and a place that exist, also a link that a cell wrote."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.errors import SphinxError


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", refuse_dead_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def refuse_dead_links(app: Sphinx, error: Exception | None) -> None:
    """Raise an error that lists the dead links of the site, if there are any."""
    if error is None and app.builder.format == "html" and (dead := list(dead_links(Path(app.outdir)))):
        raise SphinxError("links that lead nowhere:\n" + "\n".join(dead))


def dead_links(site: Path) -> Iterator[str]:
    """Yield a line for each link of the site that leads nowhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            split = urlsplit(link)
            if split.scheme or split.netloc:
                continue
            target = (path.parent / unquote(split.path)).resolve() if split.path else path.resolve()
            known = (
                pages.get(site / target.relative_to(site.resolve())) if target.is_relative_to(site.resolve()) else None
            )
            if not target.exists() or (known and split.fragment and unquote(split.fragment) not in known.places):
                yield f"{path.relative_to(site)}: {link}"


class Page(HTMLParser):
    """The links of a page and the places that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.places.add(value or "")
            elif name in ("href", "src") and value and value != "#":
                self.links.append(value)
