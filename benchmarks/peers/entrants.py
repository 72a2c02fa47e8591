"""Toolkits that take part, their ways to compute, and how each is built. Only the process that runs one imports it."""

import importlib
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.data.batching import Batch
from dragoman.training.optimiser import Precision
from peers.contest import Contender, Shape, Way

OURS = "Dragoman"


class Toolkit(NamedTuple):
    module: str
    """The file in this folder that holds `build(batches, shape, way, variant)`."""
    requires: str | None = None
    """The package it needs, unless Dragoman's own environment has it."""
    variants: tuple[str, ...] = ("",)


TOOLKITS = {
    OURS: Toolkit("own", variants=("paper", "modern")),
    "nn.Transformer": Toolkit("torch_transformer"),
    "x-transformers": Toolkit("xtransformers", "x_transformers", ("explicit", "fused")),
    "OpenNMT-py": Toolkit("opennmt", "onmt"),
    "Eole": Toolkit("eole_toolkit", "eole"),
    "Hugging Face Marian": Toolkit("marian", "transformers", ("eager", "sdpa")),
}


class Entrant(NamedTuple):
    """A toolkit in one of its ways to compute."""

    toolkit: str
    way: Way
    variant: str = ""

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.toolkit, self.variant, self.way)))

    @property
    def is_peer(self) -> bool:
        """Return True for a toolkit other than Dragoman."""
        return self.toolkit != OURS


def entrants(toolkit: str, precision: Precision) -> list[Entrant]:
    """Return all ways of a toolkit in this precision. Others have two in bf16, because the faster one is not known."""
    ways: tuple[Way, ...] = ("bf16 weights", "autocast")
    if precision == "float32":
        ways = ("float32",)
    elif toolkit == OURS:
        ways = ("bf16 weights",)
    return [Entrant(toolkit, way, variant) for way in ways for variant in TOOLKITS[toolkit].variants]


def build(entrant: Entrant, batches: Sequence[Batch], shape: Shape) -> Contender:
    """Import a toolkit and build its model and step."""
    module = importlib.import_module(f"peers.{TOOLKITS[entrant.toolkit].module}")
    return module.build(batches, shape, entrant.way, entrant.variant)
