"""What each head looks at, as shares: neighbouring words, symbols, aligned words, the subject of a verb.

Positions and syntax are the roles of Voita et al. (2019, section 5); symbols and punctuation those of Clark et al.
(2019, section 3). Pieces count as their words.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dragoman.aligning.passes import Seen, run_given
from dragoman.explaining.heads.head import Head, Kind, Stack, heads_of
from dragoman.explaining.heads.shares import Looked, Share, Side, Span, Tally
from dragoman.explaining.heads.texts import ReadText, ReadTree
from dragoman.model import EncoderDecoder, LanguageModel, Packing

ROLES = {
    "previous": "previous word",
    "next": "next word",
    "same": "same word",
    "start": "start of sentence",
    "end": "end of sentence",
    "punctuation": "punctuation",
    "aligned": "aligned word",
    "aligned_read": "word aligned with the last one read",
    "subject": "subject of the verb",
    "verb": "verb of the subject",
}
"""Roles in words. Symbols around the text are its start and end. Punctuation is every other word without a letter or a
digit. Cross-attention looks at source words aligned with the word that is written, or with the one that was read last.
"""
SYNTAX = ("subject", "verb")
"""Judged by the largest weight, the others by the mean."""
ABOVE_CHANCE = 0.1
"""A head plays a role if its share is at least this much above chance, as Voita et al. ask of syntactic heads."""

Where = tuple[Stack, Kind]
"""All attentions of one kind: `("decoder", "cross_attention")`."""
Shares = dict[str, Share]
"""By role."""


class Roles(NamedTuple):
    """What each head looks at. A role is missing where it means nothing, or nothing was given to judge it by."""

    heads: dict[Head, Shares]
    chance: dict[Where, Shares]
    """Without regard to layer and head."""
    judged: dict[Where, dict[str, int]]
    """How many words each share is a mean over; for `subject` and `verb`, how many verbs with a subject."""


class Played(NamedTuple):
    """A role that a head plays, with its share and what chance would give."""

    role: str
    share: float
    chance: float


def played(shares: Shares, chance: Shares) -> list[Played]:
    """The roles of one head whose share is well above chance, the farthest above it first.

    >>> head = {"previous": Share(0.9, 0.95), "same": Share(0.1, 0.0), "end": Share(0.02, 0.0)}
    >>> played(head, dict.fromkeys(head, Share(0.15, 0.15)))
    [Played(role='previous', share=0.9, chance=0.15)]
    """
    found = [
        Played(role, *(getattr(each[role], "largest" if role in SYNTAX else "weight") for each in (shares, chance)))
        for role in shares
    ]
    above = [each for each in found if each.share - each.chance >= ABOVE_CHANCE]
    return sorted(above, key=lambda each: each.chance - each.share)


class RoleJudge:
    """Counts where the heads of a model look, text by text."""

    def __init__(self, model: EncoderDecoder | LanguageModel) -> None:
        self.model = model
        self._tallies: defaultdict[str, Tally] = defaultdict(Tally)
        """By site of the attention."""

    def add(self, text: ReadText) -> None:
        """Judges positions, symbols and punctuation on one text."""
        self._count(text, _positions(text))

    def add_links(self, text: ReadText) -> None:
        """Judges cross-attention by the links of one text."""
        self._count(text, _aligned(text))

    @torch.inference_mode()
    def add_tree(self, tree: ReadTree) -> None:
        """Judges the encoder's self-attention by the subjects of one sentence."""
        model, seen, device = self.model, Seen(), self.model.output.device
        assert isinstance(model, EncoderDecoder), "only an encoder sees words on both sides"
        model.encode(torch.tensor(tree.source, device=device), Packing.of([len(tree.source)], device), observer=seen)
        for site, weights in _weights(seen, "encoder", "self_attention"):
            looked = Looked.of(weights, False, tree.side.word_spans, tree.side.units)
            self._tallies[site].add_subjects(looked, tree.side, tree.subjects)

    def roles(self) -> Roles:
        """The shares of everything that was judged."""
        heads, chance, judged = {}, {}, {}
        for head in heads_of(self.model):
            tally = self._tallies[head.site]
            heads[head] = tally.shares(head.number)
            chance.setdefault((head.stack, head.kind), tally.shares(-1))
            judged.setdefault((head.stack, head.kind), {role: count for role, count in tally.count.items() if count})
        return Roles(heads, chance, judged)

    @torch.inference_mode()
    def _count(self, text: ReadText, expectations: Iterator["_Expected"]) -> None:
        seen = Seen()
        run_given(self.model, [text.given], seen)
        for stack, kind, keys, queries, roles in expectations:
            for site, weights in _weights(seen, stack, kind):
                looked = Looked.of(weights, kind == "self_attention" and stack == "decoder", queries, keys.units)
                self._tallies[site].add(looked, roles)


def _weights(seen: Seen, stack: Stack, kind: Kind) -> Iterator[tuple[str, Float[Tensor, "H T S"]]]:
    """The weights of each layer in a pass over one text, and the site of its attention."""
    for site, value in seen.items():
        if site.startswith(f"{stack}.") and site.endswith(f".{kind}.weights"):
            yield site.removesuffix(".weights"), value[0]


class _Expected(NamedTuple):
    """Who looks at whom, and the units that each query is expected to look at in each role."""

    stack: Stack
    kind: Kind
    keys: Side
    queries: Sequence[Span]
    roles: dict[str, Bool[Tensor, "Q U"]]


def _positions(text: ReadText) -> Iterator[_Expected]:
    target, source = text.target, text.source
    yield _Expected("decoder", "self_attention", target, target.word_spans, _neighbours(target))
    if source is not None:
        yield _Expected("encoder", "self_attention", source, source.word_spans, _neighbours(source))
        yield _Expected("decoder", "cross_attention", source, text.written, _symbols(source, len(text.written)))


def _aligned(text: ReadText) -> Iterator[_Expected]:
    source, read = text.source, text.target.word_spans
    assert source is not None, "only pairs have links"
    linked: list[list[int]] = [[] for _ in text.written]
    for of_source, of_target in text.links:
        linked[of_target].append(source.words[of_source])
    mask = _mask(source, linked)
    yield _Expected("decoder", "cross_attention", source, text.written, {"aligned": mask})
    yield _Expected("decoder", "cross_attention", source, read, {"aligned_read": mask[: len(read)]})


def _neighbours(side: Side) -> dict[str, Bool[Tensor, "Q U"]]:
    """What words of a side expect of others of the same side."""
    words = side.words
    return {
        "previous": _mask(side, [[], *([word] for word in words[:-1])] if words else []),
        "next": _mask(side, [*([word] for word in words[1:]), []] if words else []),
        "same": (same := _mask(side, [[word] for word in words])),
        **{role: mask & ~same for role, mask in _symbols(side, len(words)).items()},
    }


def _symbols(side: Side, queries: int) -> dict[str, Bool[Tensor, "Q U"]]:
    wanted = {"start": side.start, "end": side.end, "punctuation": side.marks}
    return {role: _mask(side, [units] * queries) for role, units in wanted.items()}


def _mask(side: Side, wanted: Sequence[Collection[int]]) -> Bool[Tensor, "Q U"]:
    """For each query, True at the units that it is expected to look at."""
    mask = torch.zeros(len(wanted), len(side.units), dtype=torch.bool)
    for query, units in enumerate(wanted):
        mask[query, list(units)] = True
    return mask
