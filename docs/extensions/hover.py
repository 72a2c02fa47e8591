"""Every link to the glossary carries the word's meaning, which appears on hover and on focus."""

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

MEANINGS = "glossary_meanings"
"""Where the environment keeps them: from the anchor of a word to its meaning."""


def setup(app: Sphinx) -> dict[str, bool | str]:
    app.connect("doctree-read", collect)
    app.connect("doctree-resolved", attach)
    return {"parallel_read_safe": False, "parallel_write_safe": True, "env_version": "1"}


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Collect the meanings of words from a glossary."""
    for item in doctree.findall(nodes.definition_list_item):
        meaning = next((child.astext() for child in item.children if isinstance(child, nodes.definition)), "")
        for term in item.findall(nodes.term):
            meanings(app).update({anchor: " ".join(meaning.split()) for anchor in term["ids"]})


def attach(app: Sphinx, doctree: nodes.document, name: str) -> None:
    """Attach its meaning to every link to a word of the glossary."""
    for link in doctree.findall(nodes.reference):
        anchor = link.get("refid") or link.get("refuri", "").partition("#")[2]
        if anchor in meanings(app) and link.next_node(addnodes.pending_xref) is None:
            link["reftitle"] = meanings(app)[anchor]
            link["classes"].append("term")


def meanings(app: Sphinx) -> dict[str, str]:
    if not hasattr(app.env, MEANINGS):
        setattr(app.env, MEANINGS, {})
    return getattr(app.env, MEANINGS)
