"""The split cannot leak, depends on the seed and the sentences alone, and deals out what was asked for."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import thorough

from dragoman.text import split
from dragoman.text.prepare_pairs import HELD_OUT
from dragoman.text.split import (
    DEV,
    TEST,
    TRAIN,
    assign,
    components,
    first_occurrences,
    held_out_sizes,
    sentence_key,
    shared_sentences,
)


@pytest.fixture(params=["whole", "parts"], autouse=True, scope="module")
def parts(request):
    """Everything once as a small corpus and once as a large one, whose keys are looked at a few at a time."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "parts":
            patch.setattr(split, "_PART", 7)
        yield


links = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60)


def keys(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    spread = np.array(pairs, np.uint64).reshape(-1, 2) * np.uint64(0x9E3779B97F4A7C15)  # over all values, as hashes are
    sources, targets = spread.T
    return np.ascontiguousarray(sources), np.ascontiguousarray(targets)


def plain_components(pairs: list[tuple[int, int]]) -> list[set[int]]:
    """Merges the groups that a pair links, one pair at a time."""
    groups: list[tuple[set[int], set[int], set[int]]] = []
    for number, (source, target) in enumerate(pairs):
        linked = [group for group in groups if source in group[1] or target in group[2]]
        groups = [group for group in groups if group not in linked]
        numbers, sources, targets = {number}, {source}, {target}
        groups.append(
            (
                numbers.union(*(group[0] for group in linked)),
                sources.union(*(group[1] for group in linked)),
                targets.union(*(group[2] for group in linked)),
            )
        )
    return sorted((group[0] for group in groups), key=min)


@given(links)
def test_components_equal_merging_pair_by_pair(pairs):
    label = components(*keys(pairs)).tolist()
    groups = [{number for number, mine in enumerate(label) if mine == each} for each in set(label)]
    assert sorted(groups, key=min) == plain_components(pairs)


@pytest.mark.parametrize("shuffled", [*thorough(False), True])
def test_a_long_chain_is_one_component(shuffled):
    numbers = np.arange(200_000, dtype=np.uint64)
    order = np.random.default_rng(0).permutation(len(numbers)) if shuffled else np.arange(len(numbers))
    names = np.random.default_rng(1).permutation(len(numbers) + 2).astype(np.uint64)
    sources, targets = names[numbers[order] // 2], names[(numbers[order] + 1) // 2]
    assert not components(sources, targets).any()


@given(links, st.integers(0, 20), st.integers(0, 20), st.integers(0, 3))
def test_no_sentence_stands_on_two_sides(pairs, dev, test, seed):
    sources, targets = keys(pairs)
    side = assign(sources, targets, dev, test, seed)
    for one, other in ((TRAIN, DEV), (TRAIN, TEST), (DEV, TEST)):
        assert not set(sources[side == one]) & set(sources[side == other])
        assert not set(targets[side == one]) & set(targets[side == other])
    assert (side == DEV).sum() <= dev
    assert (side == TEST).sum() <= test


@given(links, links, st.integers(0, 20), st.integers(0, 3))
def test_what_is_split_off_shares_no_sentence_with_a_given_set(pairs, given_pairs, dev, seed):
    sources, targets = keys(pairs)
    other = keys(given_pairs)
    side = assign(sources, targets, dev, 0, seed, [other])
    for mine, theirs in zip((sources, targets), other, strict=True):
        assert not set(mine[side == DEV]) & set(theirs)
    if not given_pairs:
        assert side.tolist() == assign(sources, targets, dev, 0, seed).tolist()


@given(links, st.integers(0, 3), st.randoms())
def test_the_order_of_the_pairs_does_not_matter(pairs, seed, draw):
    order = list(range(len(pairs)))
    draw.shuffle(order)
    side = assign(*keys(pairs), 5, 5, seed)
    assert assign(*keys([pairs[number] for number in order]), 5, 5, seed).tolist() == side[order].tolist()


def test_sets_have_the_size_that_was_asked_for():
    sources, targets = np.random.default_rng(0).integers(0, 20_000, (2, 10_000)).astype(np.uint64)
    side = assign(sources, targets, 300, 500, seed=1)
    assert np.bincount(side).tolist() == [9200, 300, 500]


def test_another_seed_holds_out_other_pairs():
    numbers = np.arange(10_000, dtype=np.uint64)
    one, other = (assign(numbers, numbers, 0, 1000, seed) == TEST for seed in (1, 2))
    assert 50 < (one & other).sum() < 150


def test_a_giant_component_stays_in_training():
    sources = np.concatenate([np.zeros(5000), np.arange(1, 1001)]).astype(np.uint64)
    targets = np.arange(6000, dtype=np.uint64)
    side = assign(sources, targets, 100, 100, seed=1)
    assert (side[:5000] == TRAIN).all()
    assert np.bincount(side[5000:]).tolist() == [800, 100, 100]


def test_the_same_split_comes_out_of_every_process():
    code = (
        "import numpy as np; from dragoman.text.split import assign, sentence_key as key\n"
        "one = np.array([key(f'Sentence {n}.') for n in range(500)], np.uint64)\n"
        "print(assign(one, one, 50, 50, 1).tolist())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(printed) == 1


def test_light_differences_do_not_make_another_sentence():
    same = ["Come in!", "come in", " COME  IN. ", "Come in…"]
    assert len({sentence_key(text) for text in same}) == 1
    assert len({sentence_key(text) for text in ("Perch\u00e9", "perche\u0301", "\uff30erch\u00e9!")}) == 1
    others = ["Come on!", "Come, in!", "?", "!", "", "Straße", "Strass"]
    assert len({sentence_key(text) for text in [*same, *others]}) == 1 + len(others)


def test_leaks_are_found_on_each_side():
    train, held_out = keys([(1, 1), (2, 2), (3, 3)]), keys([(9, 9), (1, 1), (2, 8), (7, 3), (7, 3)])
    source, target = shared_sentences(train, held_out)
    assert np.flatnonzero(source).tolist() == [1, 2]
    assert np.flatnonzero(target).tolist() == [1, 3, 4]
    assert not any(map(np.any, shared_sentences(train, keys([(8, 8)]))))


def test_repeated_keys_are_found_after_their_first():
    assert first_occurrences(np.array([5, 3, 5, 5, 3, 1], np.uint64)).tolist() == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(("pairs", "size"), [(3, 1), (100, 5), (3741, 187), (40_000, 2000), (10_000_000, 2000)])
def test_sizes_follow_from_the_corpus(pairs, size):
    assert held_out_sizes({"dev": None, "test": 7}, pairs, HELD_OUT, "pairs")[0] == {"dev": size, "test": 7}


def test_larger_components_are_held_out_where_small_ones_do_not_fill():
    sources = np.arange(400, dtype=np.uint64) // 4
    side = assign(sources, np.arange(400, dtype=np.uint64), 20, 20, seed=1)
    assert np.bincount(side).tolist() == [360, 20, 20]


def test_keys_are_numbered_in_their_order_without_a_gap_however_many_parts_there_are(monkeypatch):
    keys = np.random.default_rng(1).integers(2**64, size=40, dtype=np.uint64).repeat(2)
    monkeypatch.setattr(split, "_PART", 7)
    numbers, count = split._numbered(keys)
    assert count == 40 and numbers.tolist() == np.unique(keys, return_inverse=True)[1].tolist()
