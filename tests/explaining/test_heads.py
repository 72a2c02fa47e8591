"""Heads: removal beside zero columns of W^O, shares beside numbers worked out by hand, subjects, and the table."""

import importlib
import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from closeness import assert_close
from given_texts import log_probs_of
from small import END, START, Counting, language_model, sentences, translator
from small_records import PAIRS, learn, store_language_model, store_translator
from torch import Tensor

from dragoman.aligning.passes import Given, Seen, run_given
from dragoman.aligning.words import Word
from dragoman.errors import DataError, DecodeError
from dragoman.evaluating.metrics import score
from dragoman.explaining.alignment.links import AlignedPair
from dragoman.explaining.heads.head import Head, attention_of, heads_of
from dragoman.explaining.heads.one_text import heads_of_text
from dragoman.explaining.heads.removal import log_probs_without_each, without, without_in_turn
from dragoman.explaining.heads.roles import ROLES, RoleJudge, Shares, played
from dragoman.explaining.heads.rows import LEVEL, Change
from dragoman.explaining.heads.shares import Looked, Share, Side, Span, Tally, between_words
from dragoman.explaining.heads.subjects import Subject, Tree, read_trees, word_pairs
from dragoman.explaining.heads.table import head_table, language_model_head_table, spread
from dragoman.explaining.heads.texts import ReadText, ReadTree, linked_pairs
from dragoman.model import EncoderDecoder, LanguageModel
from dragoman.store import load_model
from dragoman.tokenizing.framing import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.specials import PADDING
from dragoman.translating import Translator

Model = EncoderDecoder | LanguageModel
MODELS: dict[str, Callable[[], Model]] = {
    "modern": lambda: translator(preset="modern"),
    "paper, grouped keys, learned positions": lambda: translator(
        preset="paper", kv_heads=2, positions="learned", max_positions=20
    ),
    "three layers and two": lambda: translator(preset="modern", encoder_layers=3, decoder_layers=2),
    "language model": lambda: language_model(preset="modern"),
}


def texts_for(model: Model, lengths: Sequence[tuple[int, int]] = ((4, 6), (1, 2), (7, 3))) -> list[Given]:
    sources, targets = (sentences([each[side] for each in lengths], seed=side) for side in (0, 1))
    return [
        Given.of(DEFAULT_FRAMING, source.tolist(), target.tolist())._replace(
            **({} if isinstance(model, EncoderDecoder) else {"source": None})
        )
        for source, target in zip(sources, targets, strict=True)
    ]


def with_zero_columns(model: Model, heads: Sequence[Head]) -> Model:
    """A copy of a model whose W^O takes nothing from these heads."""
    changed = deepcopy(model)
    for head in heads:
        attention = attention_of(changed, head)
        first = head.number * attention.d_head
        weight = attention.output.weight
        assert isinstance(weight, Tensor)
        weight.data[:, first : first + attention.d_head] = 0
    return changed


# Removal


def test_heads_are_listed_layer_by_layer() -> None:
    heads = heads_of(translator())
    assert [str(head) for head in heads[::4]] == [
        "encoder.0.self_attention, head 0",
        "encoder.1.self_attention, head 0",
        "decoder.0.self_attention, head 0",
        "decoder.0.cross_attention, head 0",
        "decoder.1.self_attention, head 0",
        "decoder.1.cross_attention, head 0",
    ]
    assert {head.stack for head in heads_of(language_model())} == {"decoder"}


@pytest.mark.slow
@torch.inference_mode()
@pytest.mark.parametrize("name", MODELS)
def test_each_removal_equals_a_model_with_zero_columns(name: str) -> None:
    model = MODELS[name]()
    given = texts_for(model)
    removals = log_probs_without_each(model, given)
    assert list(removals.without) == heads_of(model)
    for whole, reference in zip(removals.whole, log_probs_of(model, given), strict=True):
        assert_close(whole, reference.float())
    for head in heads_of(model):
        expected = log_probs_of(with_zero_columns(model, [head]), given)
        for found, reference, change, whole in zip(
            removals.without[head], expected, removals.changes(head), removals.whole, strict=True
        ):
            assert_close(found, reference.float())
            assert_close(change, found - whole)
            assert change.abs().max() > 1e-6, "the removal of a head changes something"


@torch.inference_mode()
def test_one_head_at_a_time_gives_the_same() -> None:
    model = translator(preset="modern")
    together, alone = (log_probs_without_each(model, texts_for(model), most_tokens=most) for most in (10_000, 1))
    for head in heads_of(model):
        assert_close(torch.cat(together.without[head]), torch.cat(alone.without[head]))


@torch.inference_mode()
def test_each_block_of_rows_loses_its_own_head() -> None:
    model = translator(preset="modern")
    given, heads = texts_for(model), heads_of(model)[1::5]
    with without_in_turn(model, heads):
        blocks = run_given(model, [*given] * len(heads), Seen())[0].chunk(len(heads))  # watched, it encodes each
    for head, block in zip(heads, blocks, strict=True):
        with without(model, [head]):
            alone, _ = run_given(model, given)
        assert_close(block, alone)


@torch.inference_mode()
def test_several_heads_can_be_removed_together() -> None:
    model = translator()
    given, heads = texts_for(model), [heads_of(model)[number] for number in (0, 1, 9, 12)]
    with without(model, heads):
        found, _ = run_given(model, given)
    assert_close(found, run_given(with_zero_columns(model, heads), given)[0])


@torch.inference_mode()
def test_heads_come_back_even_after_an_error() -> None:
    model = translator()
    given = texts_for(model)
    before, _ = run_given(model, given)
    with pytest.raises(RuntimeError, match="stop"), without(model, heads_of(model)):
        raise RuntimeError("stop")
    assert torch.equal(run_given(model, given)[0], before)


@torch.inference_mode()
def test_a_head_that_no_output_takes_can_go_without_change() -> None:
    model = translator()
    head = heads_of(model)[6]
    silent = with_zero_columns(model, [head])
    assert torch.cat(log_probs_without_each(silent, texts_for(model)).changes(head)).abs().max() == 0


# Shares


def test_weights_between_words_are_means_from_pieces_and_sums_to_pieces() -> None:
    pieces = torch.tensor([[[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.1, 0.1, 0.8]]])
    words = [(0, 2), (2, 3)]
    assert_close(between_words(pieces, words, words).float(), torch.tensor([[[0.6, 0.4], [0.2, 0.8]]]))


def test_units_are_symbols_words_and_marks() -> None:
    words = [Word("The", 1, 2), Word("dog", 2, 4), Word(".", 5, 6)]
    side = Side.of(words, 7, 1, 1)
    assert side.units == ((0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 7))
    assert (side.words, side.marks, side.start, side.end) == ((1, 2, 4), (4,), (0,), (5,))
    assert side.word_spans == [(1, 2), (2, 4), (5, 6)]


def test_shares_and_chance_are_those_worked_out_by_hand() -> None:
    """Three words between two symbols, seen from everywhere; a head with weights of its own and one with equal ones."""
    own = [[0.1, 0.2, 0.3, 0.4, 0.0], [0.0, 0.7, 0.1, 0.1, 0.1], [0.3, 0.1, 0.5, 0.1, 0.0]]
    weights = torch.tensor([[[0.2] * 5, *own, [0.2] * 5], [[0.2] * 5] * 5], dtype=torch.float64)
    shares = tallied(weights, causal=False)
    assert_shares(shares[0], {"previous": ((0.7 + 0.5) / 2, 1.0), "next": ((0.3 + 0.1) / 2, 0.0)})
    assert_shares(shares[0], {"same": (0.4 / 3, 0.0), "end": (0.1 / 3, 0.0)})
    assert_shares(shares[0], {"start": (0.4 / 3, 0.0)})
    assert_shares(shares[-1], dict.fromkeys(("previous", "next", "same", "start", "end"), (0.2, 0.2)))
    assert {role: share.weight for role, share in shares[1].items()} == pytest.approx(dict.fromkeys(shares[1], 0.2))


def test_chance_of_causal_attention_counts_what_is_visible() -> None:
    """The three words see 2, 3 and 4 of the five tokens."""
    causal = torch.ones(1, 5, 5, dtype=torch.float64).tril()
    shares = tallied(causal / causal.sum(-1, keepdim=True), causal=True)
    assert_shares(shares[-1], {"previous": (7 / 24, 7 / 24), "same": (13 / 36, 13 / 36)})
    assert "next" not in shares[-1] and "end" not in shares[-1], "nobody sees what comes later"
    assert shares[0]["same"].weight == pytest.approx(shares[-1]["same"].weight)


def tallied(weights: Tensor, causal: bool) -> dict[int, Shares]:
    """Shares of three words between two symbols: by head, and -1 for chance."""
    side = Side.of([Word("w", place, place + 1) for place in (1, 2, 3)], 5, 1, 1)
    expected = {
        role: torch.zeros(3, 5, dtype=torch.bool).index_put((torch.arange(3), torch.tensor(units)), torch.tensor(True))
        for role, units in {"same": [1, 2, 3], "start": [0] * 3, "end": [4] * 3}.items()
    }
    for role, step in (("previous", -1), ("next", 1)):
        wanted = torch.zeros(3, 5, dtype=torch.bool)
        for query in range(3):
            wanted[query, query + 1 + step] = 0 <= query + step < 3
        expected[role] = wanted
    tally = Tally()
    tally.add(Looked.of(weights, causal, side.word_spans, side.units), expected)
    return {head: tally.shares(head) for head in (*range(len(weights)), -1)}


def assert_shares(found: Shares, expected: dict[str, tuple[float, float]]) -> None:
    assert {role: tuple(found[role]) for role in expected} == {
        role: pytest.approx(share) for role, share in expected.items()
    }


def test_subjects_count_the_largest_weight_on_another_word() -> None:
    """Of two verbs, the first looks at its subject when its own weight and the symbols' are left out."""
    side = Side.of([Word("w", place, place + 1) for place in (1, 2, 3, 4)], 6, 1, 1)
    weights = torch.full((1, 6, 6), 0.1)
    weights[0, 2] = torch.tensor([0.3, 0.2, 0.4, 0.1, 0.0, 0.0])  # the second word, a verb
    weights[0, 4] = torch.tensor([0.0, 0.5, 0.1, 0.2, 0.2, 0.0])  # the fourth word, a verb
    tally = Tally()
    tally.add_subjects(Looked.of(weights, False, side.word_spans, side.units), side, [(1, 0), (3, 2)])
    assert_shares(tally.shares(0), {"subject": (0.2, 0.5)})
    assert_shares(tally.shares(-1), {"subject": (1 / 6, 1.0), "verb": (1 / 6, 1.0)})
    tally.add_subjects(Looked.of(weights, False, side.word_spans, side.units), side, [(3, 1)])
    assert tally.shares(-1)["subject"].largest == pytest.approx(2 / 3), "two of three subjects stand right before"
    tally.add_subjects(Looked.of(weights, False, side.word_spans, side.units), side, [])
    assert tally.count["subject"] == 3


# Roles


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["word", "bpe"])
@pytest.mark.parametrize("framing", [DEFAULT_FRAMING, Framing(source_before=(), target_start=PADDING)])
def test_roles_are_those_of_a_plain_reference(kind: str, framing: Framing) -> None:
    """Loops over words instead of products of matrices, for every head and role."""
    tokenizers = learn(kind)
    model = translator(source_vocabulary=tokenizers.source.size, target_vocabulary=tokenizers.target.size)
    linked = [(*PAIRS[0], [(0, 0), (2, 1), (1, 2), (2, 2), (7, 7)]), (*PAIRS[1], [(3, 2)])]
    judge, reference = RoleJudge(model), PlainRoles(model)
    for pair in linked:
        text = ReadText.of_pair(tokenizers, framing, *pair)
        judge.add(text)
        judge.add_links(text)
        reference.add(text, framing)
    roles = judge.roles()
    for head in heads_of(model):
        assert {role: share.weight for role, share in roles.heads[head].items()} == pytest.approx(reference.of(head))


class PlainRoles:
    """The mean weight on the word in question, from loops."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model = model
        self.found: dict[tuple[Head, str], list[float]] = {}

    def add(self, text: ReadText, framing: Framing) -> None:
        seen = Seen()
        run_given(self.model, [text.given], seen)
        assert text.source is not None
        for head in heads_of(self.model):
            weights = seen[f"{head.site}.weights"][0, head.number]
            if head.kind == "self_attention":
                side = text.source if head.stack == "encoder" else text.target
                self._neighbours(head, weights, side.word_spans, head.stack == "decoder")
                self._symbols(head, weights, side.word_spans, side, framing, head.stack)
            else:
                self._symbols(head, weights, text.written, text.source, framing, "encoder")
                self._aligned(head, weights, text)

    def of(self, head: Head) -> dict[str, float]:
        return {role: sum(found) / len(found) for (of, role), found in self.found.items() if of == head}

    def _neighbours(self, head: Head, weights: Tensor, spans: Sequence[Span], causal: bool) -> None:
        for number, span in enumerate(spans):
            if number:
                self._note(head, "previous", weights, span, [spans[number - 1]])
            if number + 1 < len(spans) and not causal:
                self._note(head, "next", weights, span, [spans[number + 1]])
            self._note(head, "same", weights, span, [span])

    def _symbols(
        self, head: Head, weights: Tensor, spans: Sequence[Span], side: Side, framing: Framing, stack: str
    ) -> None:
        length = weights.size(1)
        before, after = (len(framing.source_before), 1) if stack == "encoder" else (1, 0)
        marks = [side.units[unit] for unit in side.marks]
        crosses, causal = head.kind == "cross_attention", (head.stack, head.kind) == ("decoder", "self_attention")
        for span in spans:
            if before:
                self._note(head, "start", weights, span, [(0, before)])
            if after:
                self._note(head, "end", weights, span, [(length - after, length)])
            others = [mark for mark in marks if crosses or mark != span]
            if [mark for mark in others if not causal or mark[0] < span[1]]:
                self._note(head, "punctuation", weights, span, others)

    def _aligned(self, head: Head, weights: Tensor, text: ReadText) -> None:
        assert text.source is not None
        for role, spans in (("aligned", text.written), ("aligned_read", text.target.word_spans)):
            for number, span in enumerate(spans):
                if linked := [text.source.word_spans[of] for of, to in text.links if to == number]:
                    self._note(head, role, weights, span, linked)

    def _note(self, head: Head, role: str, weights: Tensor, query: Span, keys: Sequence[Span]) -> None:
        rows = [sum(float(weights[row, key]) for span in keys for key in range(*span)) for row in range(*query)]
        self.found.setdefault((head, role), []).append(sum(rows) / len(rows))


@torch.inference_mode()
@pytest.mark.parametrize("name", ["paper, grouped keys, learned positions", "language model"])
def test_heads_without_preferences_look_as_by_chance(name: str) -> None:
    model = MODELS[name]()
    for head in heads_of(model):
        for part in attention_of(model, head).query.parameters():
            part.data.zero_()
    judge = RoleJudge(model)
    words = [Word("." if place == 3 else "w", place, place + 1 + (place == 5)) for place in (1, 2, 3, 4, 5)]
    for given in texts_for(model, [(6, 6)]):
        source = Side.of(words, 8, 1, 1) if given.source is not None else None
        written = tuple((word.first - 1, word.last - 1) for word in words)
        judge.add(ReadText(given, source, Side.of(words, 7, 1, 0), written))
    roles = judge.roles()
    for head, shares in roles.heads.items():
        chance = roles.chance[head.stack, head.kind]
        assert shares and {role: share.weight for role, share in shares.items()} == pytest.approx(
            {role: share.weight for role, share in chance.items()}
        )
        assert played(shares, chance) == []


PLACES = 8


def planted(step: int = -1) -> EncoderDecoder:
    """A model whose second head of the first encoder layer looks at the previous token (`step` away), and whose other
    heads there look everywhere: positions are one-hot vectors, keys copy them, and queries are those of the neighbour.
    """
    sizes = {"d_model": 16, "heads": 2, "encoder_layers": 2, "positions": "learned", "max_positions": PLACES}
    model = translator(preset="paper", **sizes)
    weights = dict(model.named_parameters())
    weights["source_embedding.weight"].data.zero_()
    weights["source_embedding.positions.weight"].data.copy_(torch.eye(PLACES, 16))
    attention = attention_of(model, Head("encoder", 0, "self_attention", 1))
    for part in (*attention.query.parameters(), *attention.key.parameters()):
        part.data.zero_()
    query, key = attention.query.weight, attention.key.weight
    assert isinstance(query, Tensor) and isinstance(key, Tensor)
    second = slice(attention.d_head, 2 * attention.d_head)
    key.data[second, :PLACES] = torch.eye(PLACES, dtype=key.dtype)
    query.data[second, :PLACES] = 100 * torch.eye(PLACES, dtype=key.dtype).roll(step, 0)
    return model


@pytest.mark.parametrize(("step", "role", "other"), [(-1, "previous", "next"), (1, "next", "previous")])
def test_a_planted_head_is_found(step: int, role: str, other: str) -> None:
    model, judge, side = planted(step), RoleJudge(planted(step)), side_of_words(5)
    head = Head("encoder", 0, "self_attention", 1)
    judge.add(ReadText(texts_for(model, [(5, 2)])[0], side, Side.of([], 3, 1, 0), ()))
    judge.add_tree(ReadTree([START, *[7] * 5, END], side, ((1, 0), (3, 2), (4, 2))))
    roles = judge.roles()
    shares, chance = roles.heads[head], roles.chance["encoder", "self_attention"]
    assert shares[role].weight > 0.999 and shares[role].largest == 1 and shares[other].weight < 0.001
    assert played(shares, chance)[0].role == role
    assert chance[role] == pytest.approx((1 / 7, 1 / 7))
    assert (
        roles.judged["encoder", "self_attention"] | {"subject": 3, role: 4} == roles.judged["encoder", "self_attention"]
    )
    if role == "previous":
        assert shares["subject"].largest == pytest.approx(2 / 3) == chance["subject"].largest
        assert "subject" not in {each.role for each in played(shares, chance)}, "a fixed distance finds as many"


def side_of_words(count: int) -> Side:
    return Side.of([Word("w", place, place + 1) for place in range(1, count + 1)], count + 2, 1, 1)


def test_roles_far_above_chance_come_first() -> None:
    chance = {role: Share(0.1, 0.4) for role in ROLES}
    shares = chance | {"end": Share(0.25, 0), "aligned": Share(0.6, 0), "subject": Share(0.9, 0.45)}
    assert [each.role for each in played(shares, chance)] == ["aligned", "end"]
    assert played(shares | {"verb": Share(0.0, 0.97)}, chance)[0] == ("verb", 0.97, 0.4)


# Subjects


TREES = """\
# text = I'm sure the man who didn't call was seen.
1-2	I'm	_	_	_	_	_	_	_	_
1	I	I	PRON	PRP	_	3	nsubj	_	_
2	'm	be	AUX	VBP	_	3	cop	_	_
3	sure	sure	ADJ	JJ	_	0	root	_	_
4	the	the	DET	DT	_	5	det	_	_
5	man	man	NOUN	NN	_	11	nsubj:pass	_	_
6	who	who	PRON	WP	_	9	nsubj	_	_
7-8	didn't	_	_	_	_	_	_	_	_
7	did	do	AUX	VBD	_	9	aux	_	_
8	n't	not	PART	RB	_	9	advmod	_	_
9	call	call	VERB	VB	_	5	acl:relcl	_	_
9.1	back	back	ADV	RB	_	_	_	9:advmod	_
10	was	be	AUX	VBD	_	11	aux:pass	_	_
11	seen	see	VERB	VBN	_	3	ccomp	_	SpaceAfter=No
12	.	.	PUNCT	.	_	3	punct	_	_

1	Birds	bird	NOUN	NNS	_	2	nsubj	_	_
2	sing	sing	VERB	VBP	_	0	root	_	_
"""


def test_subjects_of_verbs_are_read_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "trees.conllu").write_text(TREES, encoding="utf-8")
    first, second = read_trees(tmp_path / "trees.conllu")
    assert first.text == "I'm sure the man who didn't call was seen."
    assert [(first.text[slice(*verb)], first.text[slice(*subject)]) for verb, subject in first.subjects] == [
        ("seen", "man"),  # a subject of a passive
        ("call", "who"),
    ]  # and `sure` is no verb
    assert second == Tree("Birds sing", (Subject((6, 10), (0, 5)),))


def test_trees_become_words_of_the_model() -> None:
    words = [(0, 3), (4, 7), (7, 9), (10, 14)]
    tree = Tree("The sinner swam", (Subject((10, 14), (4, 10)), Subject((0, 2), (2, 3)), Subject((90, 95), (0, 3))))
    assert word_pairs(tree, words) == [(3, 1)], "one word here, or none, is no pair"
    tokenizers = learn("bpe")
    read = ReadTree.of(tokenizers.source, DEFAULT_FRAMING, Tree("the cat sees", (Subject((8, 12), (4, 7)),)))
    assert read.subjects == ((2, 1),) and len(read.side.words) == 3
    assert read.fits(None) and read.fits(len(read.source)) and not read.fits(len(read.source) - 1)
    assert not ReadTree.of(tokenizers.source, DEFAULT_FRAMING, Tree("the cat", ())).fits(None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 Birds bird", "has 1 columns separated by tabs, but CoNLL-U has 10"),
        ("one	Birds	_	NOUN	_	_	2	nsubj	_	_", "the ID 'one' is not a number"),
        ("1	Birds	_	NOUN	_	_	_	nsubj	_	_", "the HEAD of word 1 is '_'"),
        ("2	Birds	_	NOUN	_	_	1	nsubj	_	_", "word 2 stands where word 1 should"),
        ("1	Birds	_	NOUN	_	_	9	nsubj	_	_", "word 1 has head 9, in a sentence of 1 words"),
        ("1	Birds	_	NOUN	_	_	1	nsubj	_	_", "word 1 has head 1"),
        (
            "1-2	Birds	_	_	_	_	_	_	_	_\n1	Bird	_	NOUN	_	_	0	root	_	_",
            "1-2 is no range",
        ),
        ("1	Birds	_	NOUN	_	_	0	root	_	_", "holds 1 sentences, but no nsubj of a verb"),
    ],
)
def test_a_wrong_treebank_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.conllu"
    path.write_text(f"# a comment\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        read_trees(path)
    assert str(error.value).startswith(f"{path}")


# Texts


def test_links_to_missing_words_are_refused() -> None:
    with pytest.raises(DataError, match="no link 8-0 between 8 source and 8 target words"):
        ReadText.of_pair(learn("bpe"), DEFAULT_FRAMING, *PAIRS[0], [(0, 0), (8, 0)])


def test_an_unknown_word_is_no_symbol() -> None:
    text = ReadText.of_pair(learn("word"), DEFAULT_FRAMING, "zebra the station", "stazione la")
    assert text.source is not None
    assert (text.source.start, text.source.words, text.source.end) == ((0,), (1, 2, 3), (4,))


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_unknown_words_keep_their_links(kind: str) -> None:
    pair = AlignedPair("the zebra!", "  la zebra !", frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 1)}))
    assert linked_pairs(learn(kind), [pair]) == [(pair.source, pair.target, pair.sure)]


def test_links_are_drawn_between_the_words_of_the_tokenizers() -> None:
    """To the word tokenizer `bus-stop` is one word and `dov'è` are two, most of whose characters are in `dov'`."""
    pair = AlignedPair("where is the bus-stop", "dov'è l'autobus", frozenset({(0, 0), (1, 0), (2, 1), (3, 2), (5, 2)}))
    ((*_, links),) = linked_pairs(learn("word"), [pair])
    assert links == {(0, 0), (1, 0), (2, 2), (3, 3)}


# One text


@torch.inference_mode()
@pytest.mark.parametrize("ended", [True, False])
def test_a_record_of_one_text_sums_the_changes_of_its_tokens(ended: bool) -> None:
    tokenizers = learn("bpe")
    model = translator(source_vocabulary=tokenizers.source.size, target_vocabulary=tokenizers.target.size)
    given = Given.of(DEFAULT_FRAMING, *(tokenizers[side].encode(PAIRS[0][side]) for side in (0, 1)))
    if not ended:
        given = Given(given.source, given.target[:-2], given.labels[:-2])
    found = heads_of_text(model, ReadText.of(tokenizers, given))
    removals = log_probs_without_each(model, [given])
    for head in heads_of(model):
        expected = float(removals.changes(head)[0].sum())
        assert found.removed[head.site][head.number] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    around = {"start of sentence", "end of sentence", "punctuation"}
    beside = {"previous word", "same word", "next word"}
    assert found.roles["encoder.0.self_attention"].keys() == around | beside
    assert found.roles["decoder.1.cross_attention"].keys() == around
    assert found.roles["decoder.1.self_attention"].keys() >= {"previous word", "same word", "start of sentence"}
    for arrays in (found.removed, *found.roles.values()):
        assert {(array.shape, array.dtype.name) for array in arrays.values()} == {((4,), "float32")}


def test_a_record_of_a_language_model_has_no_encoder() -> None:
    tokenizers = learn("bpe", joint=True)
    model = language_model(target_vocabulary=tokenizers.target.size)
    found = heads_of_text(model, ReadText.of_text(tokenizers, "the red cat ."))
    assert set(found.removed) == set(found.roles) == {"decoder.0.self_attention", "decoder.1.self_attention"}
    assert found.roles["decoder.0.self_attention"].keys() >= {"previous word", "same word"}
    nothing = heads_of_text(model, ReadText.of_text(tokenizers, ""))
    assert (nothing.removed, nothing.roles) == ({}, {})


# The table


FEW: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "heads": 2}


@pytest.mark.slow
def test_the_table_of_a_translator_holds_what_its_parts_measure(tmp_path: Path) -> None:
    system = Translator.load(store_translator(tmp_path / "model", preset="modern", **FEW), "cpu", "float32")
    pairs = own_translations(system, [source for source, _ in PAIRS])
    tree, link = Tree("the cat sees the dog", (Subject((8, 12), (4, 7)),)), (*PAIRS[0], [(0, 0)])
    progress = Counting()
    trees, links = [tree, Tree("the cat", ()), Tree("", ())], [link, ("", "cane", [])]
    table = head_table(
        system, [*pairs, (pairs[1][0], "gatto"), (" ", "x")], trees=trees, aligned=links, progress=progress
    )
    assert (table.sentences, table.left_out) == (5, 1) and len(table.heads) == len(heads_of(system.model))
    assert table.bleu is not None and table.bleu.value == pytest.approx(100)
    assert (
        progress.totals
        == dict(progress.done)
        == {
            "attention weights": 7,
            "probabilities without each head": 5,
            "translations without each head": len(table.heads),
        }
    )
    given = [ReadText.of_pair(system.tokenizers, system.framing, *pair).given for pair in pairs]
    removals = log_probs_without_each(system.model, given)
    assert table.tokens == sum(map(len, removals.whole))
    assert table.log_prob == pytest.approx(float(torch.cat(removals.whole).mean()), rel=1e-5)
    for row in table.heads:
        changes = removals.changes(row.head)
        assert row.log_prob_change.value == pytest.approx(float(torch.cat(changes).mean()), rel=1e-3, abs=1e-6)
        assert row.bleu is not None
        assert row.bleu.values[0] == pytest.approx(bleu_by_hand(system, row.head, pairs)), row.head
        assert row.bleu.values[1] == table.bleu.value
    judged = table.judged
    assert judged["encoder", "self_attention"]["subject"] == judged["decoder", "cross_attention"]["aligned"] == 1
    check_printed(table.headings, table.rows(), table.notes)
    notes = " ".join(table.notes)
    assert "judged on 1 aligned pairs; 1 too" in notes and "judged on 1 sentences with trees; 2 without" in notes
    facts = json.loads(json.dumps(table.facts()))
    assert facts["aligned_pairs"] == {"texts": 1, "left_out": 1} and facts["trees"] == {"texts": 1, "left_out": 2}
    assert facts["heads"][0]["bleu"]["change"] == pytest.approx(table.heads[0].bleu.delta)  # pyright: ignore[reportOptionalMemberAccess]
    assert facts["bleu"]["search"] == "greedy" and facts["bleu"]["signature"] == table.bleu.signature


def own_translations(system: Translator, sources: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs that a model gets full marks for."""
    greedy = system.options.but(beam_size=1, n_best=1)
    return [(source, found.text) for source, found in zip(sources, system.translate(sources, greedy), strict=True)]


def bleu_by_hand(system: Translator, head: Head, pairs: Sequence[tuple[str, str]]) -> float:
    """The score of a translator whose weights are changed."""
    changed = system.in_torch()
    without_head = with_zero_columns(system.model, [head])
    assert isinstance(without_head, EncoderDecoder)
    changed.runtime.model = without_head
    sources, references = zip(*pairs, strict=True)
    hypotheses = [target for _, target in own_translations(changed, sources)]
    return score(hypotheses, references, metrics=["bleu"], language="it", samples=0)["bleu"].value


def check_printed(headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    assert {len(row) for row in rows} == {len(headings)}
    assert rows[0][0] == "whole model" and rows[1][0].endswith("self_attention.0")
    assert all(note.endswith(".") for note in notes)


def test_the_table_of_a_language_model_has_no_bleu(tmp_path: Path) -> None:
    stored = load_model(store_language_model(tmp_path / "model", kind="bpe"))
    table = language_model_head_table(stored, [*(source for source, _ in PAIRS), ""], sentences=6)
    assert table.bleu is None and table.left_out == 1 and len(table.heads) == 8
    assert not re.search("aligned|trees|BLEU", " ".join(table.notes))
    assert set(table.chance) == {("decoder", "self_attention")}
    check_printed(table.headings, table.rows(), table.notes)
    assert json.loads(json.dumps(table.facts()))["bleu"] is None
    with pytest.raises(DataError, match="none of 2 sentences can be judged: all are blank or longer"):
        language_model_head_table(stored, ["", " "])
    with pytest.raises(DecodeError, match="holds a encoder_decoder, not a language model"):
        language_model_head_table(load_model(store_translator(tmp_path / "other")), ["the cat"])


@pytest.mark.parametrize("name", ["heads", "alignment"])
def test_benchmarks_refuse_files_of_different_length_in_one_line(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "test.en", tmp_path / "test.it"
    source.write_text("the cat\nthe dog\n", encoding="utf-8")
    target.write_text("il gatto\n", encoding="utf-8")
    arguments = [store_translator(tmp_path / "model"), source, target]
    with pytest.raises(SystemExit, match=r"^error: .* has . lines but .*; .* must be aligned"):
        importlib.import_module(name).main(list(map(str, arguments)))


def test_texts_are_spread_over_all_of_them() -> None:
    chosen = spread(range(399), 200)
    assert len(set(chosen)) == 200 and chosen[0] == 0 and chosen[-1] == 397
    assert spread("ab", 3) == ["a", "b"] and spread("", 3) == []


def test_sentences_are_spread_evenly_and_long_ones_left_out(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"positions": "learned", "max_positions": 6}
    stored = load_model(store_language_model(tmp_path / "model", preset="paper", **limits))
    table = language_model_head_table(
        stored, ["the red cat", "the " * 20, "the old dog", "the", "the dog sees ."], sentences=3
    )
    assert (table.sentences, table.left_out) == (1, 2), "the first, second and fourth, of which one fits"


def test_errors_of_changes_are_those_of_the_textbook() -> None:
    """Of sentences of one length, the standard error of their mean; of others, that of a bootstrap."""
    sums = [-1.0, -3.0, -2.5, -0.5]
    assert Change.of(sums, [5] * 4)[:2] == pytest.approx((np.mean(sums) / 5, np.std(sums, ddof=1) / 2 / 5))
    random = np.random.default_rng(1)
    tokens = random.integers(3, 20, 400)
    sums = -0.1 * tokens + random.normal(size=400)
    drawn = random.integers(400, size=(2_000, 400))
    samples = sums[drawn].sum(1) / tokens[drawn].sum(1)
    found = Change.of(sums.tolist(), tokens.tolist())
    assert found[:2] == pytest.approx((sums.sum() / tokens.sum(), samples.std()), rel=0.05)
    assert Change.of([-1.0], [5]) == (-0.2, 0.0, 1.0), "one sentence has no spread"
    assert Change.of([0.0, 0.0], [5, 5]) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize(("count", "quantile"), [(2, 63.657), (3, 9.925), (10, 3.250), (200, 2.601)])
def test_p_values_of_changes_are_those_of_students_t(count: int, quantile: float) -> None:
    """The quantile that tables give for p = 0.01 and so many sentences."""
    sums = np.tile([-1.0, 1.0], count)[:count]
    sums += quantile * sums.std(ddof=1) / np.sqrt(count) - sums.mean()
    assert Change.of(sums.tolist(), [5] * count).p_value == pytest.approx(0.01, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 5])
def test_few_sentences_star_no_more_heads_without_an_effect_than_is_said(count: int) -> None:
    drawn = np.random.default_rng(1).normal(size=(1_000, count))
    assert sum(Change.of(sums, [5] * count).p_value < LEVEL for sums in drawn.tolist()) < 25
