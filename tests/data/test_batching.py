"""Batches: every pair once, in an order that follows from seed and epoch, fetched as a plain loop would."""

import logging
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching import Batch, Batches, gather
from dragoman.data.corpus import EncodedCorpus, PackedIds, Pool
from dragoman.data.encoding import encode_corpus, encode_text
from dragoman.errors import DataError
from dragoman.tokenizing.special_tokens import END, START
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer, learn_tokenizers


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> EncodedCorpus:
    """Three hundred pairs of 1 to 41 words on either side; both sides tell the number of the pair."""
    lengths = [(n * 7 % 41, n * 11 % 37) for n in range(300)]
    pairs = [(" ".join(["a"] * s + [str(n)]), " ".join(["b"] * t + [str(n)])) for n, (s, t) in enumerate(lengths)]
    tokenizers = learn_tokenizers(lambda: pairs, TokenizerSettings(kind="word", minimum_frequency=1))
    return encode_corpus(pairs, tokenizers, tmp_path_factory.mktemp("batching") / "corpus")


def lengths_of(corpus: EncodedCorpus) -> tuple[np.ndarray, np.ndarray]:
    """Ids of each source and each target sentence."""
    source, target = zip(*(map(len, corpus.pair(number)) for number in range(len(corpus))), strict=True)
    return np.array(source), np.array(target)


def plain_batch(corpus: EncodedCorpus, pairs: np.ndarray) -> Batch:
    """What `Batches.batch` gives, with loops."""
    source, target, labels = [], [], []
    for pair in pairs:
        x, y = (ids.tolist() for ids in corpus.pair(pair))
        source += [START, *x, END]
        target += [START, *y]
        labels += [*y, END]
    return Batch(
        torch.tensor(source),
        torch.tensor([len(corpus.pair(pair)[0]) + 2 for pair in pairs]),
        torch.tensor(target),
        torch.tensor(labels),
        torch.tensor([len(corpus.pair(pair)[1]) + 1 for pair in pairs]),
        torch.tensor(pairs),
    )


def test_a_batch_is_what_plain_loops_give(corpus):
    for pairs in ([0], [299], [5, 3, 3, 299, 0], range(300)):
        pairs = np.array(pairs)
        batch, plain = Batches(corpus).batch(pairs), plain_batch(corpus, pairs)
        for name, tensor in vars(plain).items():
            assert batch.links is tensor is None if name == "links" else torch.equal(getattr(batch, name), tensor), name
        assert (len(batch), batch.size.target_tokens) == (len(pairs), plain.labels.numel())
        assert batch.size.tokens == sum(len(side) for pair in pairs for side in corpus.pair(pair)) + 3 * len(pairs)


def test_links_stand_where_the_decoder_reads_and_count_the_symbols_of_the_source(tmp_path):
    pairs = [("a b c", "A B C"), ("b", "B"), ("c a", "C A"), ("a", ""), ("c", "C x"), ("a", "A")] * 5
    tokenizers = learn_tokenizers(lambda: pairs, TokenizerSettings(kind="word", minimum_frequency=1))
    corpus = encode_corpus(pairs, tokenizers, tmp_path / "corpus", linked=True)
    assert corpus.links is not None
    batch = Batches(corpus).batch(np.array([2, 3, 4, 0]))
    expected = []
    for pair in (2, 3, 4, 0):
        expected += [-1, *(place or -1 for place in corpus.links.row(pair).tolist())]  # START stands before a source
    assert batch.links is not None and batch.links.tolist() == expected
    assert expected == [-1, 1, 2, -1, -1, 1, 1, -1, 1, 2, 3]
    assert len(batch.links) == len(batch.target)


@given(st.lists(st.lists(st.integers(4, 9), max_size=4), min_size=1).filter(any), st.data())
def test_gathering_rows_is_joining_lists(rows, data):
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    before, after = data.draw(st.sampled_from([([], []), ([2], []), ([], [3]), ([2], [3]), ([5, 2], [3, 1])]))
    offsets = np.cumsum([0, *map(len, rows)])
    ids, lengths = gather(
        PackedIds(np.array([*chain.from_iterable(rows)], np.uint16), offsets), np.array(indices), before, after
    )
    joined = [[*before, *rows[index], *after] for index in indices]
    assert ids.tolist() == [*chain.from_iterable(joined)]
    assert lengths.tolist() == list(map(len, joined))


@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize("batch_tokens", [1, 50, 400, 10**6])
def test_every_pair_is_in_an_epoch_once(corpus, seed, batch_tokens):
    epoch = Batches(corpus, batch_tokens, seed=seed).epoch(3)
    assert sorted(np.concatenate(epoch)) == list(range(len(corpus)))


@pytest.mark.parametrize("seed", [None, 7])
def test_neither_side_of_a_batch_exceeds_its_tokens(corpus, seed):
    batches = Batches(corpus, 100, seed=seed)
    for pairs in batches.epoch(0):
        batch = batches.batch(pairs)
        assert max(batch.size.source_tokens, batch.size.target_tokens) <= 100


def test_batches_are_full_but_for_the_last_of_a_length(corpus):
    batches = Batches(corpus, 400, seed=1)
    built = [batches.batch(pairs) for pairs in batches.epoch(0)]
    filled = [max(batch.size.source_tokens, batch.size.target_tokens) for batch in built]
    assert sum(count > 400 - 43 for count in filled) >= len(filled) - 1


def test_a_sentence_longer_than_a_batch_is_alone(corpus):
    assert all(len(pairs) == 1 for pairs in Batches(corpus, 1, seed=1).epoch(0))


def test_the_order_follows_from_seed_and_epoch_alone(corpus):
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [pairs.tolist() for pairs in Batches(corpus, 200, seed=seed).epoch(epoch)]

    batches = Batches(corpus, 200, seed=1)
    batches.epoch(5)
    assert [pairs.tolist() for pairs in batches.epoch(2)] == order(1, 2)
    assert len({str(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1, 2)}) == 6


def test_the_order_never_changes_between_versions(corpus):
    """Frozen: a run that is resumed after an upgrade sees the pairs in the order in which it began."""
    epoch = Batches(corpus, 200, seed=1).epoch(0)
    assert np.concatenate(epoch)[:10].tolist() == [79, 123, 12, 126, 224, 288, 202, 66, 113, 121]


def test_epochs_put_other_pairs_together(corpus):
    batches = Batches(corpus, 400, seed=1)
    one, two = ({frozenset(pairs.tolist()) for pairs in batches.epoch(epoch)} for epoch in (0, 1))
    assert not one & two


def test_pairs_of_a_batch_are_alike_in_length(corpus):
    batches = Batches(corpus, 300, seed=1)
    longer = np.maximum(*lengths_of(corpus))
    assert max(np.ptp(longer[pairs]) for pairs in batches.epoch(0)) <= 20
    assert np.median([np.ptp(longer[pairs]) for pairs in batches.epoch(0)]) <= 6


def test_without_a_seed_all_epochs_are_one_from_short_to_long(corpus):
    batches = Batches(corpus, 200)
    first, second = batches.epoch(0), batches.epoch(1)
    assert [pairs.tolist() for pairs in first] == [pairs.tolist() for pairs in second]
    source, target = lengths_of(corpus)
    longer = np.maximum(source + 2, target + 1)
    lengths = longer[np.concatenate(first)]
    assert lengths.tolist() == sorted(lengths)


# Corpora larger than a window


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of a fifth of the corpus, blocks of eight pairs."""
    monkeypatch.setattr("dragoman.data.batching._WINDOW", 64)
    monkeypatch.setattr("dragoman.data.batching._BLOCK", 8)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize("sentence_tokens", [256, 20])
def test_windows_cover_every_pair_once(corpus, seed, sentence_tokens):
    batches = Batches(corpus, 200, sentence_tokens, seed)
    kept = np.flatnonzero(np.maximum(*lengths_of(corpus)) <= sentence_tokens)
    for epoch in (0, 1):
        assert sorted(np.concatenate(batches.epoch(epoch))) == kept.tolist()
    assert (len(batches), batches.left_out) == (len(kept), len(corpus) - len(kept))


@pytest.mark.usefixtures("small_windows")
def test_a_batch_is_the_same_whichever_was_asked_for_before(corpus):
    batches = Batches(corpus, 200, seed=1)
    whole = [pairs.tolist() for pairs in batches.epoch(2)]
    for start in range(len(whole)):
        epoch = batches.epoch(2)
        assert epoch[start].tolist() == whole[start]
        assert epoch[0].tolist() == whole[0]
        assert [pairs.tolist() for pairs in islice(epoch, start, None)] == whole[start:]
    assert len(batches.epoch(2)) == len(whole)
    assert [pairs.tolist() for pairs in batches.epoch(2)[3:-1]] == whole[3:-1]
    assert batches.epoch(2)[-1].tolist() == whole[-1]
    with pytest.raises(IndexError, match=f"the epoch has {len(whole)} batches"):
        batches.epoch(2)[len(whole)]


@pytest.fixture
def windows_made(small_windows, monkeypatch) -> list[list[int]]:
    """The pairs of every window, as they are made."""
    made: list[list[int]] = []
    original = Batches._window

    def noted(self: Batches, *given: Any) -> list[np.ndarray]:
        batches = original(self, *given)
        made.append(sorted(np.concatenate(batches).tolist()))
        return batches

    monkeypatch.setattr(Batches, "_window", noted)
    return made


def test_only_the_windows_asked_for_are_made(corpus, windows_made):
    stream = iter(Batches(corpus, 200, seed=1).epoch(0))
    first = [next(stream) for _ in range(3)]
    assert len(windows_made) == 1
    assert len([*first, *stream]) == len(Batches(corpus, 200, seed=1).epoch(0))
    assert len(windows_made) == 5 + 5


def test_every_epoch_other_pairs_meet_in_a_window(corpus, windows_made):
    for epoch in (0, 1):
        len(Batches(corpus, 200, seed=1).epoch(epoch))
    one, two = set(map(tuple, windows_made[:5])), set(map(tuple, windows_made[5:]))
    assert len(one) == len(two) == 5
    assert not one & two
    assert all(np.ptp(window) > len(corpus) / 2 for window in one)  # from all over the corpus


@pytest.mark.usefixtures("small_windows")
def test_the_order_of_windows_never_changes_between_versions(corpus):
    """Frozen, as above."""
    epoch = Batches(corpus, 200, seed=1).epoch(0)
    assert np.concatenate(epoch)[:10].tolist() == [185, 115, 184, 26, 109, 238, 197, 265, 196, 106]


def test_longer_sentences_are_left_out_counted_and_reported(corpus, caplog):
    with caplog.at_level(logging.WARNING):
        batches = Batches(corpus, sentence_tokens=20, seed=1)
    too_long = np.maximum(*lengths_of(corpus)) > 20
    assert batches.left_out == too_long.sum() > 0
    assert len(batches) == len(corpus) - batches.left_out
    assert sorted(np.concatenate(batches.epoch(0))) == np.flatnonzero(~too_long).tolist()
    assert f"{batches.left_out} of 300 pairs" in caplog.text
    sizes = [batches.size_of(pairs) for pairs in batches.epoch(0)]
    assert batches.tokens == sum(size.tokens for size in sizes)


def test_a_corpus_of_too_long_sentences_alone_is_refused(corpus):
    with pytest.raises(DataError, match=r"all 300 pairs .* raise batches.sentence_tokens"):
        Batches(corpus, sentence_tokens=0)


def test_windows_of_running_text_have_no_source_and_no_special_symbols(tmp_path: Path):
    tokenizer = learn_tokenizer(["x"], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))
    batches = Batches(encode_text("hello world", tokenizer, tmp_path / "text", 5), batch_tokens=10, sentence_tokens=5)
    [pairs] = batches.epoch(0)
    batch = batches.batch(pairs)
    assert batch.source is None
    assert batch.size.source_tokens == 0
    assert tokenizer.decode(batch.target.tolist()) == "hello worl"
    assert tokenizer.decode(batch.labels.tolist()) == "ello world"
    assert batch.target_lengths.tolist() == [5, 5]


def sizes_match(batches: Batches, pairs: np.ndarray) -> None:
    size, batch = batches.size_of(pairs), batches.batch(pairs)
    for name in ("source_tokens", "target_tokens", "tokens", "longest"):
        assert getattr(size, name) == getattr(batch.size, name), name
    assert torch.equal(size.pairs, batch.pairs)


def test_the_size_of_a_batch_is_known_without_its_ids(corpus, tmp_path: Path):
    for pairs in ([0], [299], [5, 3, 299, 0], range(300)):
        sizes_match(Batches(corpus), np.array(pairs))
    tokenizer = learn_tokenizer(["x"], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))
    windows = Batches(encode_text("hello world", tokenizer, tmp_path / "text", 5), batch_tokens=10, sentence_tokens=5)
    sizes_match(windows, windows.epoch(0)[0])


def test_the_ids_of_a_batch_move_to_a_device_and_its_lengths_stay_with_the_host(corpus):
    batch = Batches(corpus).batch(np.array([1, 2]))
    moved = replace(batch, links=batch.target).to("meta")
    for name, tensor in vars(moved).items():
        assert tensor.device.type == ("meta" if name in ("source", "target", "labels", "links") else "cpu"), name
    assert moved.size.source_tokens == batch.size.source_tokens


@pytest.fixture(scope="module", params=[(60, 20), (64, 7), (1, 1)])
def pooled(request: pytest.FixtureRequest, corpus: EncodedCorpus) -> EncodedCorpus:
    """The same corpus, of whose last rows an epoch has some."""
    rows, drawn = request.param
    pool = Pool(rows=rows, drawn=drawn)
    return EncodedCorpus(corpus.folder, corpus.facts.model_copy(update={"pool": pool}))


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("seed", [None, 0, 7])
def test_an_epoch_has_other_rows_of_a_pool(
    pooled: EncodedCorpus, seed: int | None, windows: bool, request: pytest.FixtureRequest
) -> None:
    if windows:
        request.getfixturevalue("small_windows")
    pool, batches = pooled.facts.pool, Batches(pooled, 400, seed=seed)
    assert isinstance(pool, Pool)
    first, seen = len(pooled) - pool.rows, set[int]()
    for epoch in range(pool.rows):
        pairs = np.sort(np.concatenate(list(batches.epoch(epoch))))
        assert len(pairs) == len(set(pairs.tolist())) == len(batches) == first + pool.drawn
        assert np.array_equal(pairs[:first], np.arange(first)), "all others are in every epoch"
        drawn = set(pairs[first:].tolist())
        if epoch < pool.rows // pool.drawn:
            assert not drawn & seen, "no row comes again before the others had their turn"
        seen |= drawn
    assert seen == set(range(first, len(pooled)))
    sizes = [batches.size_of(each).tokens for each in batches.epoch(0)]
    assert sum(sizes) == batches.tokens


@pytest.mark.parametrize(("batch_tokens", "sizes"), [(14, [1] * 6), (15, [1] * 6), (16, [2] * 3), (24, [3, 3])])
def test_a_batch_that_is_just_full_takes_no_more_and_no_less(batch_tokens: int, sizes: list[int], tmp_path: Path):
    """Six pairs of six words and two symbols a source."""
    pairs = [("a b c d e f", "a b c")] * 6
    tokenizers = learn_tokenizer(["a b c d e f"] * 2, TokenizerSettings(kind="word", minimum_frequency=1))
    corpus = encode_corpus(pairs, Tokenizers(tokenizers, tokenizers), tmp_path / "corpus")
    assert [len(rows) for rows in Batches(corpus, batch_tokens).epoch(0)] == sizes
