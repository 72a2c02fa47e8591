"""Who takes part, in which ways, and how each is built. A toolkit is imported only in the process that runs it."""

import importlib
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.data.batch import Batch
from dragoman.training.optimiser import Precision
from peers.contest import Contender, Shape, Way

OURS = "Dragoman"
AS_WRITTEN = "the tutorial's way"
"""Fed by eight sentences, all padded to 350; float32 whatever the others do, for so it is written."""


class Toolkit(NamedTuple):
    module: str
    """Of this folder: its `build(batches, shape, way, variant)`."""
    requires: str | None = None
    """What it imports, where that is not part of Dragoman's own environment."""
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
    """A toolkit in one of its ways."""

    toolkit: str
    way: Way
    variant: str = ""

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.toolkit, self.variant, self.way)))

    @property
    def is_peer(self) -> bool:
        """Whether it is one of those that we are to be faster than: not ourselves, and no tutorial."""
        return self.toolkit != OURS and "tutorial" not in self.toolkit


def entrants(toolkit: str, precision: Precision) -> list[Entrant]:
    """All ways of a toolkit in this precision; peers in bf16 have two, of which nobody knows the better beforehand."""
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
