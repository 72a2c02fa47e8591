"""Which toolkits take part, in which ways, and how each is built. Only the process that runs a toolkit imports it."""

import importlib
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.data.batching import Batch
from dragoman.training.optimiser import Precision
from peers.contest import Contender, Shape, Way

OURS = "Dragoman"
AS_WRITTEN = "the tutorial's way"
"""Batches of eight sentences, all padded to 350; always float32, because the tutorial is."""


class Toolkit(NamedTuple):
    module: str
    """The file in this folder that holds `build(batches, shape, way, variant)`."""
    requires: str | None = None
    """The package it needs, unless Dragoman's own environment has it."""
    variants: tuple[str, ...] = ("",)
    function: str = "build"


TOOLKITS = {
    OURS: Toolkit("own", variants=("paper", "modern")),
    "nn.Transformer": Toolkit("torch_transformer"),
    "x-transformers": Toolkit("xtransformers", "x_transformers", ("explicit", "fused")),
    "OpenNMT-py": Toolkit("opennmt", "onmt"),
    "Eole": Toolkit("eole_toolkit", "eole"),
    "Hugging Face Marian": Toolkit("marian", "transformers", ("eager", "sdpa")),
    "the tutorial's model": Toolkit("tutorial"),
    AS_WRITTEN: Toolkit("tutorial", function="build_as_written"),
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
        """Whether it is a toolkit that we compare with: not Dragoman, and not the tutorial."""
        return self.toolkit != OURS and "tutorial" not in self.toolkit


def entrants(toolkit: str, precision: Precision) -> list[Entrant]:
    """All ways of a toolkit in this precision. Others have two in bf16, because the faster one is not known."""
    ways: tuple[Way, ...] = ("bf16 weights", "autocast")
    if precision == "float32" or toolkit == AS_WRITTEN:
        ways = ("float32",)
    elif toolkit == OURS:
        ways = ("bf16 weights",)
    return [Entrant(toolkit, way, variant) for way in ways for variant in TOOLKITS[toolkit].variants]


def build(entrant: Entrant, batches: Sequence[Batch], shape: Shape) -> Contender:
    toolkit = TOOLKITS[entrant.toolkit]
    module = importlib.import_module(f"peers.{toolkit.module}")
    return getattr(module, toolkit.function)(batches, shape, entrant.way, entrant.variant)
