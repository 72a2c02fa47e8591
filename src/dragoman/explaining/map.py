"""A map of the most frequent words: two dimensions of an embedding space as one HTML page that needs no network.

`map.html`, `map.css` and `map.js` are the page; this module computes what they show. Two dimensions hold little of a
space of hundreds, so the page says how much, and its lists of neighbours come from the whole space.
"""

import html
import re
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.errors import DataError
from dragoman.explaining.page.page import as_json
from dragoman.explaining.space import EmbeddingSpace
from dragoman.files import check_output, write_file

MOST_WORDS = 4_000
NEIGHBOURS = 10
_LEAST_WORDS = 3
_SPAN = 10_000
"""Coordinates are whole numbers up to this."""


class WordMap(NamedTuple):
    """What the page shows of P words, the most frequent first, each with its K nearest."""

    name: str
    """Of the model."""
    table: str
    """Which of its tables."""
    words: list[str]
    points: Float[Tensor, "P 2"]
    """Where the words lie, in units of the space."""
    explained: tuple[float, float]
    """The share of the variance of these words that each axis holds."""
    neighbours: Int[Tensor, "P K"]
    """Places of the nearest words in `words`, nearest first, by the cosine in the whole space."""
    similarity: Float[Tensor, "P K"]
    """Their cosines."""


def draw_map(space: EmbeddingSpace, name: str, most: int = MOST_WORDS) -> WordMap:
    """The map of the first `most` words of a vocabulary.

    Vocabularies list words roughly by frequency: in the order in which the tokenizer learned them.

    Raises:
        DataError: the vocabulary has no three words.
    """
    ids = space.words[:most]
    if len(ids) < _LEAST_WORDS:
        raise DataError(f"the vocabulary ({space.title}) has {len(ids)} entries that are words; a map needs more")
    unit = space.unit[ids]
    points, explained = principal_axes(unit)
    cosine = (unit @ unit.T).fill_diagonal_(-torch.inf)
    nearest = cosine.sort(descending=True, stable=True)
    count = min(NEIGHBOURS, len(ids) - 1)
    words = [space.shown[id_].removeprefix("▁") for id_ in ids]
    return WordMap(name, space.title, words, points, explained, nearest.indices[:, :count], nearest.values[:, :count])


def principal_axes(vectors: Float[Tensor, "P D"]) -> tuple[Float[Tensor, "P 2"], tuple[float, float]]:
    """Vectors on the two axes of their largest variance (PCA), and the share of the variance that each axis holds.

    The largest number of each axis is positive, because an axis has no sign of its own.
    """
    centred = vectors.double() - vectors.double().mean(0)
    _, lengths, axes = torch.linalg.svd(centred, full_matrices=False)
    axes = axes[:2]
    axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()
    shares = lengths**2 / (lengths**2).sum().clamp(min=torch.finfo(torch.float64).tiny)
    return (centred @ axes.T).float(), (shares[0].item(), shares[1].item())


def write_map(drawn: WordMap, path: Path | str) -> None:
    """Writes the page, whole or not at all.

    Raises:
        DataError: no file can be written to `path`.
        DiskFull: nothing was written.
    """
    check_output(path)
    write_file(path, page(drawn))


def page(drawn: WordMap) -> str:
    """The HTML of a map, with its style, its script and its numbers inside."""
    parts = {
        "NAME": html.escape(drawn.name),
        "STYLE": _part("map.css"),
        "SCRIPT": _part("map.js"),
        "DATA": as_json(_facts(drawn)),
    }
    return re.sub(r"@@(\w+)@@", lambda found: parts[found[1]], _part("map.html"))


def _facts(drawn: WordMap) -> dict[str, object]:
    """The numbers of the page, rounded: coordinates to a ten-thousandth of the largest, cosines to a hundredth."""
    largest = drawn.points.abs().max().clamp(min=1e-12)
    return {
        "table": drawn.table,
        "words": drawn.words,
        "points": (drawn.points / largest * _SPAN).round().int().tolist(),
        "span": _SPAN,
        "explained": drawn.explained,
        "neighbours": drawn.neighbours.tolist(),
        "hundredths": (drawn.similarity * 100).round().int().tolist(),
    }


def _part(name: str) -> str:
    return (files("dragoman.explaining") / name).read_text(encoding="utf-8")
