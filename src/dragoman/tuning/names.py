"""Readable names of weights and modules: `encoder`, `decoder.0`, `cross_attention`, `norms`, or a shell pattern."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

READABLE = (
    *("encoder", "decoder", "embeddings", "output", "head", "norms", "attention", "self_attention", "cross_attention"),
    *("query", "key", "value", "feed_forward"),
)
"""Offered where a name fits nothing, as far as the model has them."""


def is_named(name: str, asked: str) -> bool:
    """Whether what was asked for names this weight or module: its name, a pattern, or words that it all has.

    >>> is_named("decoder.blocks.0.cross_attention.query.weight", "decoder.0.attention")
    True
    """
    if any(sign in asked for sign in "*?["):
        return fnmatchcase(name, asked)
    return name == asked or set(asked.split(".")) <= words(name)


def words(name: str) -> set[str]:
    """The parts of a name, and the kinds that they belong to."""
    parts = set(name.split("."))
    kinds = {"embeddings": "_embedding", "attention": "_attention", "norms": "norm"}
    return parts | {kind for kind, ending in kinds.items() if any(part.endswith(ending) for part in parts)}


def offered(names: Iterable[str]) -> str:
    """The readable names that fit something among these names, for a message."""
    names = list(names)
    found = [word for word in READABLE if any(is_named(name, word) for name in names)]
    layers = {name.partition(".blocks.")[0] for name in names if ".blocks." in name}
    return ", ".join([*found, *(f"{stack}.0 …" for stack in sorted(layers))])
