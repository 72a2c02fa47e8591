"""Bins: every pair of a batch is in one bin, in order, and nothing else is."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import Source, random_batch

from dragoman.data import bins
from dragoman.data.batching import cut
from dragoman.data.bins import BinnedBatches, BinShape, choose_shape, in_bins
from dragoman.model.packing import NO_TOKEN, Bins

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@given(PAIRS, st.integers(1, 40))
def test_runs_of_pairs_are_as_long_as_the_limit_allows(pairs: list[tuple[int, int]], limit: int) -> None:
    sides = np.array(pairs).T
    cuts = cut(sides[0], sides[1], limit)
    assert cuts[0] == 0 and cuts[-1] == len(pairs) and cuts == sorted(set(cuts))
    for first, last in pairwise(cuts):
        assert last == first + 1 or sides[:, first:last].sum(1).max() <= limit
        assert last == len(pairs) or sides[:, first : last + 1].sum(1).max() > limit


@given(PAIRS, st.integers(11, 40))
def test_the_bins_hold_the_batch(pairs: list[tuple[int, int]], length: int) -> None:
    batch = random_batch([source for source, _ in pairs], [target for _, target in pairs])
    binned = in_bins(batch, BinShape(len(pairs), length))
    assert binned is not None and batch.source is not None and batch.source_lengths is not None
    for name, lengths in (("source", batch.source_lengths), ("target", batch.target_lengths)):
        sentences, rows = getattr(binned, f"{name}_sentence"), getattr(binned, name)
        tokens = sentences.flatten() >= 0
        assert torch.equal(rows[tokens], getattr(batch, name)) and not rows[~tokens].any()
        packing = Bins(sentences)
        assert packing.token is not None
        assert torch.equal(packing.token[tokens], torch.arange(len(rows[tokens])))
        assert packing.position[tokens].tolist() == [place for length in lengths.tolist() for place in range(length)]
        assert not packing.position[~tokens].any()
    assert torch.equal(binned.labels[binned.labels != NO_TOKEN], batch.labels)
    in_bin = ([{*row.tolist()} - {-1} for row in sides] for sides in (binned.source_sentence, binned.target_sentence))
    assert next(in_bin) == next(in_bin), "both sides of a pair are in the same bin"


def test_a_link_names_a_place_of_the_bin() -> None:
    batch = random_batch([2, 3], [1, 2])
    links = torch.tensor([-1, 1, -1, 0, 4])
    binned = in_bins(type(batch)(**{**vars(batch), "links": links}), BinShape(1, 12))
    assert binned is not None and binned.links.tolist() == [-1, 1, -1, 4, 8, *[-1] * 7]


@pytest.mark.parametrize("shape", [BinShape(1, 12), BinShape(9, 7)])
def test_a_batch_that_does_not_fit_has_no_bins(shape: BinShape) -> None:
    assert in_bins(random_batch([6, 6], [6, 6]), shape) is None
    assert in_bins(random_batch([6, 6], [6, 6]), BinShape(2, 8)) is not None


def test_the_shape_is_the_smallest_that_most_batches_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bins, "_SHORTEST", 16)
    monkeypatch.setattr(bins, "_MULTIPLE", 4)
    batches = [random_batch([5] * count, [6] * count) for count in range(1, 21)]
    batches.append(random_batch([90], [90]))
    shape = choose_shape(Source(batches))
    assert shape == BinShape(10, 16)  # of twenty pairs, two in a bin
    packed = BinnedBatches(Source(batches), shape)
    assert [type(packed.batch(number)).__name__ for number in range(21)] == ["BinnedBatch"] * 20 + ["Batch"]
    assert packed.size_of(20).tokens == batches[20].size.tokens and packed.epoch(3) == packed.batches.epoch(3)
