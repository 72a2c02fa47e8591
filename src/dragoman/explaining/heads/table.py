"""A table of all heads of a model: what each looks at, and what its removal costs in probability and in BLEU.

    table = head_table(Translator.load("runs/en-it"), pairs)
    table.headings, table.rows(), table.notes, table.facts()

Heads are removed one at a time, without training after it (Michel et al. 2019, section 3.2), so heads that do the same
can all look dispensable.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import torch

from dragoman.errors import DataError, DecodeError
from dragoman.evaluating.metrics import Score, score
from dragoman.evaluating.significance import Comparison, compare_outputs
from dragoman.explaining.contributions.portions import portions
from dragoman.explaining.heads.head import Head, heads_of
from dragoman.explaining.heads.removal import MOST_TOKENS, log_probs_without_each, without
from dragoman.explaining.heads.roles import RoleJudge, Roles
from dragoman.explaining.heads.rows import Change, HeadRow, HeadTable, Served
from dragoman.explaining.heads.subjects import Tree
from dragoman.explaining.heads.texts import LinkedPair, ReadText, ReadTree
from dragoman.model import EncoderDecoder, LanguageModel, prepare_for_decoding
from dragoman.progress import Progress, silent
from dragoman.store import StoredModel
from dragoman.translating.translator import Translator

SENTENCES = 200
"""By default. With 72 heads they are translated 73 times, in a few minutes."""
TRIALS = 1_000
"""Of the randomisation test of each head's BLEU."""
T = TypeVar("T")


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
    evenly over the given ones. Of pairs with the same source only the first counts, because errors and p-values take
    sentences for independent.

    `trees` are sentences in the source language with their subjects (`read_trees`). `aligned` are other pairs, or the
    same, whose words are linked (`linked_pairs`); without them, no head is judged by alignment.

    Raises:
        DataError: no pair is left to judge by, or a link names a word that does not exist.
    """
    model, tokenizers, framing = translator.model, translator.tokenizers, translator.framing
    first: dict[str, str] = {}
    for source, target in pairs:
        first.setdefault(source, target)
    chosen = spread(list(first.items()), sentences)
    kept = _fitting({pair: ReadText.of_pair(tokenizers, framing, *pair) for pair in chosen}, model)
    positions = model.config.max_positions
    linked = [ReadText.of_pair(tokenizers, framing, *pair) for pair in aligned or ()]
    read = [ReadTree.of(tokenizers.source, framing, tree) for tree in trees or ()]
    fitting = [text for text in linked if text.fits(positions)], [tree for tree in read if tree.fits(positions)]
    roles = _roles(model, list(kept.values()), *fitting, progress)
    changes = _log_probs(model, list(kept.values()), progress)
    whole, compared = _bleu(translator, list(kept), progress)
    return replace(
        _table(roles, changes, len(chosen), whole, compared),
        aligned=_served(linked, fitting[0]),
        trees=_served(read, fitting[1]),
    )


def language_model_head_table(
    stored: StoredModel, texts: Sequence[str], *, sentences: int = SENTENCES, progress: Progress = silent
) -> HeadTable:
    """The heads of a language model, judged on different texts: at most `sentences` of them, spread evenly over the
    given ones.

    Raises:
        DataError: no text is left to judge by.
        DecodeError: it is no language model.
    """
    if not isinstance(stored.model, LanguageModel):
        raise DecodeError(f"{stored.folder} holds a {stored.config.family}, not a language model")
    model = prepare_for_decoding(stored.model, stored.model.output.device, torch.float32)
    chosen = spread(list(dict.fromkeys(texts)), sentences)
    kept = list(_fitting({text: ReadText.of_text(stored.tokenizers, text) for text in chosen}, model).values())
    return _table(_roles(model, kept, progress=progress), _log_probs(model, kept, progress), len(chosen))


def spread(texts: Sequence[T], most: int) -> list[T]:
    """At most this many of the texts, spread evenly over all of them.

    >>> spread("abcdefg", 4)
    ['a', 'b', 'd', 'f']
    """
    count = min(most, len(texts))
    return [texts[number * len(texts) // count] for number in range(count)]


def _fitting(texts: dict[T, ReadText], model: EncoderDecoder | LanguageModel) -> dict[T, ReadText]:
    """The texts that the model can be given; at least one."""
    kept = {name: text for name, text in texts.items() if text.fits(model.config.max_positions)}
    if not kept:
        raise DataError(f"none of {len(texts):,} sentences can be judged: all are blank or longer than the model takes")
    return kept


def _served(given: Sequence[ReadText] | Sequence[ReadTree], fitting: Sequence[object]) -> Served | None:
    return Served(len(fitting), len(given) - len(fitting)) if given else None


def _roles(
    model: EncoderDecoder | LanguageModel,
    texts: Sequence[ReadText],
    linked: Sequence[ReadText] = (),
    trees: Sequence[ReadTree] = (),
    progress: Progress = silent,
) -> Roles:
    """What the heads look at."""
    judge = RoleJudge(model)
    work = [
        *(partial(judge.add, text) for text in texts),
        *(partial(judge.add_links, text) for text in linked),
        *(partial(judge.add_tree, tree) for tree in trees),
    ]
    with progress.track("attention weights", len(work), "sentences") as advance:
        for count in work:
            count()
            advance()
    return judge.roles()


@dataclass
class _Changes:
    """Log-probabilities of the labels of some texts."""

    whole: list[float] = field(default_factory=list)
    """By the whole model: a sum for each text."""
    of_head: dict[Head, list[float]] = field(default_factory=dict)
    """What the removal of each head adds to it."""
    tokens: list[int] = field(default_factory=list)


def _log_probs(
    model: EncoderDecoder | LanguageModel, texts: Sequence[ReadText], progress: Progress = silent
) -> _Changes:
    found = _Changes(of_head={head: [] for head in heads_of(model)})
    with progress.track("probabilities without each head", len(texts), "sentences") as advance:
        shortest_first = sorted(
            (text.given for text in texts), key=lambda given: len((given.source or []) + given.target)
        )
        for some in portions(shortest_first, MOST_TOKENS // model.config.heads):
            removals = log_probs_without_each(model, some)
            found.whole += [float(each.double().sum()) for each in removals.whole]
            found.tokens += [len(each) for each in removals.whole]
            for head, changes in found.of_head.items():
                changes += [float(each.double().sum()) for each in removals.changes(head)]
            advance(len(some))
    return found


def _bleu(
    translator: Translator, pairs: Sequence[tuple[str, str]], progress: Progress
) -> tuple[Score, dict[Head, Comparison]]:
    """BLEU of greedy translations by the whole model, and how the model without each head compares."""
    sources, references = zip(*pairs, strict=True)
    translator, options = translator.in_torch(), translator.options.searching(beam_size=1, n_best=1)
    language, heads = translator.languages[1], heads_of(translator.model)

    def translated() -> list[str]:
        return [each.text for each in translator.translate(sources, options)]

    compared: dict[Head, Comparison] = {}
    with progress.track("translations without each head", len(heads), "heads") as advance:
        whole = translated()
        for head in heads:
            with without(translator.model, [head]):
                less = translated()
            measures = {"metrics": ["bleu"], "language": language}
            compared[head] = compare_outputs(less, whole, references, samples=TRIALS, **measures)["bleu"]
            advance()
    return score(whole, references, metrics=["bleu"], language=language, samples=0)["bleu"], compared


def _table(
    roles: Roles,
    changes: _Changes,
    chosen: int,
    whole: Score | None = None,
    compared: dict[Head, Comparison] | None = None,
) -> HeadTable:
    tokens, kept = sum(changes.tokens), len(changes.tokens)
    heads = tuple(
        HeadRow(head, roles.heads[head], Change.of(sums, changes.tokens), compared[head] if compared else None)
        for head, sums in changes.of_head.items()
    )
    log_prob = sum(changes.whole) / tokens
    return HeadTable(heads, roles.chance, roles.judged, kept, chosen - kept, tokens, log_prob, whole)
