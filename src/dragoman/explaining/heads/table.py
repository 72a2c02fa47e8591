"""A table of all heads of a model: what each looks at, and what its removal costs in probability and in BLEU.

    table = head_table(Translator.load("runs/en-it"), pairs)
    table.rows(), table.facts()

Roles are shares beside what chance would give. Changes of log-probability are of the references, in nats a token; BLEU
is that of greedy translations. Heads are removed one at a time, without training after it (Michel et al. 2019, section
3.2), so heads that do the same can all look dispensable.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from dragoman.errors import DataError, DecodeError
from dragoman.evaluating.metrics import Score, score
from dragoman.explaining.heads.head import Head, heads_of
from dragoman.explaining.heads.removal import MOST_TOKENS, log_probs_without_each, without
from dragoman.explaining.heads.roles import ROLES, Roles, Shares, Where, judge_roles
from dragoman.explaining.heads.subjects import Tree
from dragoman.explaining.heads.texts import LinkedPair, ReadText
from dragoman.model import EncoderDecoder, LanguageModel, prepare_for_decoding
from dragoman.progress import Progress, silent
from dragoman.store import StoredModel
from dragoman.translating.translator import Translator

SENTENCES = 200
"""By default. With 72 heads they are translated 73 times, in a few minutes."""


@dataclass(frozen=True)
class HeadRow:
    """What is known of one head."""

    head: Head
    roles: Shares
    log_prob_change: float
    """What its removal adds to the log-probability of the references, in nats a token: negative if the head helps."""
    bleu: float | None = None
    """Without it; None for a language model."""


@dataclass(frozen=True)
class HeadTable:
    """All heads of a model, in the order of its layers."""

    heads: tuple[HeadRow, ...]
    chance: dict[Where, Shares]
    """The share of each role that chance would give."""
    judged: dict[Where, dict[str, int]]
    """How many words each share is a mean over."""
    sentences: int
    """Of the test set, spread evenly over it."""
    left_out: int
    """Sentences that are blank, or longer than the model's positions."""
    tokens: int
    """That were to be written: the count behind `log_prob`."""
    log_prob: float
    """Of the references by the whole model, in nats a token."""
    bleu: Score | None = None
    """Of the whole model's greedy translations; None for a language model."""

    @property
    def headings(self) -> list[str]:
        """The columns of `rows`."""
        named = ["attention", "layer", "head", *(role.replace("_", " ") for role in self._roles), "log-probability"]
        return named + (["BLEU", "change"] if self.bleu else [])

    def rows(self) -> list[list[str]]:
        """The whole model, then for each kind of attention what chance gives, and its heads.

        The share is that of the largest weight for `subject` and `verb`, otherwise of all weight, in percent.
        """
        rows = [["whole model", "", "", *("" for _ in self._roles), f"{self.log_prob:.3f}"]]
        rows[0] += [f"{self.bleu.value:.1f}", ""] if self.bleu else []
        for where, chance in self.chance.items():
            rows.append([f"{_words(where)}, chance", "", "", *self._cells(chance), *[""] * (3 if self.bleu else 1)])
            rows += [self._row(row) for row in self.heads if (row.head.stack, row.head.kind) == where]
        return rows

    def facts(self) -> dict[str, Any]:
        """Everything, as plain values for JSON."""
        return {
            "sentences": self.sentences,
            "left_out": self.left_out,
            "tokens": self.tokens,
            "log_prob_per_token": self.log_prob,
            "bleu": self.bleu and {"value": self.bleu.value, "signature": self.bleu.signature, "search": "greedy"},
            "chance": {".".join(where): _plain(shares) for where, shares in self.chance.items()},
            "judged": {".".join(where): counts for where, counts in self.judged.items()},
            "heads": [self._facts(row) for row in self.heads],
        }

    def bleu_change(self, row: HeadRow) -> float | None:
        """BLEU without a head, less that of the whole model."""
        return None if row.bleu is None or self.bleu is None else row.bleu - self.bleu.value

    @property
    def _roles(self) -> list[str]:
        """The roles that some head was judged by."""
        return [role for role in ROLES if any(role in shares for shares in self.chance.values())]

    def _cells(self, shares: Shares) -> list[str]:
        found = [shares.get(role) for role in self._roles]
        chosen = [
            share and (share.largest if role in ("subject", "verb") else share.weight)
            for role, share in zip(self._roles, found, strict=True)
        ]
        return ["" if share is None else f"{share:.0%}" for share in chosen]

    def _row(self, row: HeadRow) -> list[str]:
        head, change = row.head, self.bleu_change(row)
        named = [_words((head.stack, head.kind)), str(head.layer), str(head.number)]
        bleu = [] if row.bleu is None or change is None else [f"{row.bleu:.1f}", f"{change:+.1f}"]
        return [*named, *self._cells(row.roles), f"{row.log_prob_change:+.3f}", *bleu]

    def _facts(self, row: HeadRow) -> dict[str, Any]:
        named = {"attention": row.head.site, "head": row.head.number}
        changes = {"log_prob_change_per_token": row.log_prob_change}
        bleu = {} if row.bleu is None else {"bleu": row.bleu, "bleu_change": self.bleu_change(row)}
        return {**named, "roles": _plain(row.roles), **changes, **bleu}


def head_table(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    *,
    sentences: int = SENTENCES,
    trees: Sequence[Tree] | None = None,
    aligned: Sequence[LinkedPair] | None = None,
    progress: Progress = silent,
) -> HeadTable:
    """The heads of a translation model, judged on pairs of source and reference: at most `sentences` of them, spread
    evenly over the given ones.

    `trees` are sentences in the source language with their subjects (`read_trees`). `aligned` are other pairs, or the
    same, whose words are linked; without them, no head is judged by alignment.

    Raises:
        DataError: no pair is left to judge by, or a link names a word that does not exist.
    """
    chosen = _spread(len(pairs), sentences)
    model, tokenizers, framing = translator.model, translator.tokenizers, translator.framing
    kept = _fitting({i: ReadText.of_pair(tokenizers, framing, *pairs[i]) for i in chosen}, model)
    linked = [ReadText.of_pair(tokenizers, framing, *pair) for pair in aligned or ()]
    texts = [*kept.values(), *(text for text in linked if text.fits(model.config.max_positions))]
    roles = judge_roles(model, texts, trees or (), (tokenizers.source, framing), progress)
    changes = _log_probs(model, list(kept.values()), progress)
    bleu = _bleu(translator, [pairs[i] for i in kept], progress)
    return _table(roles, changes, len(kept), len(chosen) - len(kept), bleu)


def language_model_head_table(
    stored: StoredModel, texts: Sequence[str], *, sentences: int = SENTENCES, progress: Progress = silent
) -> HeadTable:
    """The heads of a language model, judged on texts: at most `sentences` of them, spread evenly over the given ones.

    Raises:
        DataError: no text is left to judge by.
        DecodeError: it is no language model.
    """
    if not isinstance(stored.model, LanguageModel):
        raise DecodeError(f"{stored.folder} holds a {stored.config.family}, not a language model")
    model = prepare_for_decoding(stored.model, stored.model.output.device, torch.float32)
    chosen = _spread(len(texts), sentences)
    kept = _fitting({i: ReadText.of_text(stored.tokenizers.target, texts[i]) for i in chosen}, model)
    roles = judge_roles(model, list(kept.values()), progress=progress)
    changes = _log_probs(model, list(kept.values()), progress)
    return _table(roles, changes, len(kept), len(chosen) - len(kept))


class _Changes(NamedTuple):
    """Log-probabilities of all labels of the test set."""

    tokens: int
    log_prob: float
    """By the whole model, in nats a token."""
    of_head: dict[Head, float]
    """What the removal of each head adds, in nats a token."""


def _spread(count: int, most: int) -> list[int]:
    """Numbers below `count`, spread evenly: all, or `most` of them."""
    return [i * count // most for i in range(most)] if count > most else list(range(count))


def _fitting(texts: dict[int, ReadText], model: EncoderDecoder | LanguageModel) -> dict[int, ReadText]:
    """The texts that the model can be given; at least one."""
    kept = {i: text for i, text in texts.items() if text.fits(model.config.max_positions)}
    if not kept:
        raise DataError(f"none of {len(texts):,} sentences can be judged: all are blank or longer than the model takes")
    return kept


def _log_probs(
    model: EncoderDecoder | LanguageModel, texts: Sequence[ReadText], progress: Progress = silent
) -> _Changes:
    whole, changes = 0.0, dict.fromkeys(heads_of(model), 0.0)
    with progress.track("probabilities without each head", len(texts), "sentences") as advance:
        for some in _batches(texts, MOST_TOKENS // model.config.heads):
            found = log_probs_without_each(model, [text.given for text in some])
            whole += float(torch.cat(found.whole).double().sum())
            for head in changes:
                changes[head] += float(torch.cat(found.changes(head)).double().sum())
            advance(len(some))
    tokens = sum(len(text.given.labels) for text in texts)
    return _Changes(tokens, whole / tokens, {head: change / tokens for head, change in changes.items()})


def _batches(texts: Sequence[ReadText], most_tokens: int) -> Iterator[list[ReadText]]:
    """Texts of similar length, as many as fit."""
    some: list[ReadText] = []
    for text in sorted(texts, key=lambda text: text.tokens):
        if some and sum(each.tokens for each in some) + text.tokens > most_tokens:
            yield some
            some = []
        some.append(text)
    yield some


class _Bleu(NamedTuple):
    whole: Score
    without: dict[Head, float]


def _bleu(translator: Translator, pairs: Sequence[tuple[str, str]], progress: Progress) -> _Bleu:
    """BLEU of greedy translations by the whole model, and without each head."""
    sources, references = zip(*pairs, strict=True)
    options = translator.options.but(beam_size=1, n_best=1)

    def translated() -> Score:
        found = [each.text for each in translator.translate(sources, options)]
        return score(found, references, metrics=["bleu"], language=translator.languages[1], samples=0)["bleu"]

    without_each: dict[Head, float] = {}
    heads = heads_of(translator.model)
    with progress.track("translations without each head", len(heads), "heads") as advance:
        whole = translated()
        for head in heads:
            with without(translator.model, [head]):
                without_each[head] = translated().value
            advance()
    return _Bleu(whole, without_each)


def _table(roles: Roles, changes: _Changes, kept: int, left_out: int, bleu: _Bleu | None = None) -> HeadTable:
    heads = tuple(
        HeadRow(head, roles.heads[head], change, bleu and bleu.without[head])
        for head, change in changes.of_head.items()
    )
    return HeadTable(
        heads,
        roles.chance,
        roles.judged,
        kept,
        left_out,
        changes.tokens,
        changes.log_prob,
        bleu and bleu.whole,
    )


def _words(where: Where) -> str:
    """A kind of attention, in words.

    >>> _words(("decoder", "cross_attention"))
    'decoder cross'
    """
    stack, kind = where
    return f"{stack} {kind.removesuffix('_attention')}"


def _plain(shares: Shares) -> dict[str, dict[str, float]]:
    return {role: share._asdict() for role, share in shares.items()}
