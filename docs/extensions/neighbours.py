"""Links that lead out of this folder, to the project's other documents: the site gets a copy of each."""

import os
import shutil
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

COPIES = "neighbours"
"""The folder of the site in which they lie, as in the repository."""


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", lead_to_copies)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


def lead_to_copies(app: Sphinx, doctree: nodes.document) -> None:
    """Replace every link to a document outside by a link to a copy, and write the copy."""
    root = Path(app.srcdir).parent
    for link in list(doctree.findall(addnodes.pending_xref)):
        document = Path(link.get("reftarget", "")).with_suffix(".md")
        if link.get("refdomain") != "doc" or not document.is_absolute() or document.is_relative_to(app.srcdir):
            continue
        place = Path(COPIES) / document.relative_to(root)
        copy = Path(app.outdir) / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(document, copy)
        page = Path(app.env.docname).parent
        reference = nodes.reference("", "", *link.children, refuri=Path(os.path.relpath(place, page)).as_posix())
        link.replace_self(reference)
