"""What each head looks at, as shares: neighbouring words, symbols, aligned words, the subject of a verb.

    previous, next, same    the word before, the word after, the word itself
    start, end              the symbols around the text
    punctuation             other words that hold no letter or digit
    aligned                 cross-attention: source words aligned with the word that is written
    aligned_read            and with the word that was read last
    subject, verb           the encoder: from a verb to its subject, and back

Positions and syntax are the roles of Voita et al. (2019, section 5); symbols and punctuation those of Clark et al.
(2019, section 3). Pieces count as their words.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from dragoman.explaining.heads.head import Head, Kind, Stack, heads_of
from dragoman.explaining.heads.shares import Looked, Share, Side, Span, Tally
from dragoman.explaining.heads.subjects import Tree, word_pairs
from dragoman.explaining.heads.texts import ReadText, source_side
from dragoman.explaining.passes import Seen, run_given
from dragoman.explaining.words import words_of
from dragoman.model import EncoderDecoder, LanguageModel, Packing
from dragoman.progress import Progress, silent
from dragoman.tokenizing.framing import Framing
from dragoman.tokenizing.tokenizer import Tokenizer

ROLES = ("previous", "next", "same", "start", "end", "punctuation", "aligned", "aligned_read", "subject", "verb")

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


class RoleJudge:
    """Counts where the heads of a model look, text by text."""

    def __init__(self, model: EncoderDecoder | LanguageModel) -> None:
        self.model = model
        self._tallies: defaultdict[str, Tally] = defaultdict(Tally)
        """By site of the attention."""

    @torch.inference_mode()
    def add(self, text: ReadText) -> None:
        """Judges every role but `subject` and `verb` on one text."""
        seen = _Weights()
        run_given(self.model, [text.given], seen)
        for stack, kind, keys, queries, roles in _expectations(text):
            for site, weights in seen.of(stack, kind):
                looked = Looked.of(weights, kind == "self_attention" and stack == "decoder", queries, keys.units)
                self._tallies[site].add(looked, {role: mask.to(weights.device) for role, mask in roles.items()})

    @torch.inference_mode()
    def add_tree(self, tree: Tree, tokenizer: Tokenizer, framing: Framing) -> None:
        """Judges `subject` and `verb` in the encoder's self-attention on one sentence of its language."""
        model, ids = self.model, tokenizer.encode(tree.text)
        assert isinstance(model, EncoderDecoder), "only an encoder sees words on both sides"
        places, words = tokenizer.offsets(tree.text), words_of(tokenizer, ids)
        pairs = word_pairs(tree, [(places[word.first][0], places[word.last - 1][1]) for word in words])
        source, positions = framing.source(ids), model.config.max_positions
        if not pairs or (positions is not None and len(source) > positions):
            return
        seen, side = _Weights(), source_side(tokenizer, framing, ids)
        device = model.output.device
        model.encode(torch.tensor(source, device=device), Packing.of([len(source)], device), observer=seen)
        for site, weights in seen.of("encoder", "self_attention"):
            looked = Looked.of(weights, False, side.word_spans, side.units)
            self._tallies[site].add_subjects(looked, side, pairs)

    def roles(self) -> Roles:
        """The shares of everything that was judged."""
        heads, chance, judged = {}, {}, {}
        for head in heads_of(self.model):
            tally = self._tallies[head.site]
            heads[head] = tally.shares(head.number)
            chance.setdefault((head.stack, head.kind), tally.shares(-1))
            judged.setdefault((head.stack, head.kind), {role: count for role, count in tally.count.items() if count})
        return Roles(heads, chance, judged)


def judge_roles(
    model: EncoderDecoder | LanguageModel,
    texts: Sequence[ReadText],
    trees: Sequence[Tree] = (),
    source: tuple[Tokenizer, Framing] | None = None,
    progress: Progress = silent,
) -> Roles:
    """What each head looks at in these texts, and in these trees of the source language, which need the tokenizer and
    the framing of the `source`.
    """
    judge = RoleJudge(model)
    with progress.track("attention weights", len(texts) + len(trees), "sentences") as advance:
        for text in texts:
            judge.add(text)
            advance()
        for tree in trees:
            assert source is not None, "trees are read by the encoder"
            judge.add_tree(tree, *source)
            advance()
    return judge.roles()


class _Weights(Seen):
    """Keeps the attention weights (1, H, T, S) of a pass over one text."""

    def tensor(self, site: str, value: Tensor) -> None:
        if site.endswith(".weights"):
            self[site.removesuffix(".weights")] = value

    def of(self, stack: Stack, kind: Kind) -> Iterator[tuple[str, Tensor]]:
        """The weights (H, T, S) of each layer, in float32 or finer, and the site of its attention."""
        for site, weights in self.items():
            if site.startswith(f"{stack}.") and site.endswith(f".{kind}"):
                yield site, weights[0] if weights.dtype == torch.float64 else weights[0].float()


class _Expected(NamedTuple):
    """Who looks at whom, and the units that each query is expected to look at in each role."""

    stack: Stack
    kind: Kind
    keys: Side
    queries: Sequence[Span]
    roles: dict[str, Bool[Tensor, "Q U"]]


def _expectations(text: ReadText) -> Iterator[_Expected]:
    target, source = text.target, text.source
    if source is not None and text.links:
        aligned = _mask(source, _linked(text, source))
        yield _Expected("decoder", "cross_attention", source, text.written, {"aligned": aligned})
        yield _Expected("decoder", "cross_attention", source, target.word_spans, {"aligned_read": aligned})
        return
    yield _Expected("decoder", "self_attention", target, target.word_spans, _neighbours(target))
    if source is not None:
        yield _Expected("encoder", "self_attention", source, source.word_spans, _neighbours(source))
        yield _Expected("decoder", "cross_attention", source, text.written, _symbols(source, len(text.written)))


def _linked(text: ReadText, source: Side) -> list[list[int]]:
    """The source units that each target word is linked to."""
    linked: list[list[int]] = [[] for _ in text.written]
    for of_source, of_target in text.links:
        linked[of_target].append(source.words[of_source])
    return linked


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
