"""The box in which the shipped model translates: `:::{live} VIEW` embeds the page of `dragoman export`, with that view
open. All boxes share one file of the site, which is written after each build.
"""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import dragoman

MODEL = Path(dragoman.__file__).parent / "inference" / "phrasebook"
BOX = "_static/live.html"


class Live(SphinxDirective):
    """A frame with the page of the shipped model; its argument is the name of a view."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        address = "../" * self.env.docname.count("/") + f"{BOX}?{self.arguments[0]}"
        title = f"A translator in this page; its view {self.arguments[0]} is open"
        return [
            nodes.raw(
                "", f'<iframe class="live" src="{address}" title="{title}" loading="lazy"></iframe>', format="html"
            )
        ]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("live", Live)
    app.connect("build-finished", write_box, priority=400)  # before the links are looked at
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_box(app: Sphinx, error: Exception | None) -> None:
    """Write the page of the shipped model into the site."""
    if error is None and app.builder.format == "html":
        from dragoman.exporting.export import own_texts
        from dragoman.exporting.web.page import render_page
        from dragoman.store.folder import load_model

        page = render_page(load_model(MODEL), own_texts(MODEL))
        (Path(app.outdir) / BOX).write_text(page, encoding="utf-8")
