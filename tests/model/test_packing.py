"""Sentences laid end to end, and back into a padded batch."""

from typing import Any

import pytest
import torch
from closeness import assert_close
from hypothesis import given
from hypothesis import strategies as st
from small import PRESETS, random_batch, translator
from torch.nn.utils.rnn import pad_sequence

from dragoman.model import transformer
from dragoman.model.dropout import StepKey
from dragoman.model.packing import Packing, _Pad, _Unpad

lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5)


@given(lengths)
def test_padding_is_torchs_own_and_unpadding_takes_it_back(lengths: list[int]) -> None:
    packing = Packing.of(lengths)
    rows = torch.randn(sum(lengths), 3)
    padded = packing.pad(rows)
    torch.testing.assert_close(padded, pad_sequence(list(rows.split(lengths)), batch_first=True), rtol=0, atol=0)
    torch.testing.assert_close(packing.unpad(padded), rows, rtol=0, atol=0)
    assert packing.rows == sum(lengths)
    assert packing.position.tolist() == [place for length in lengths for place in range(length)]


@given(lengths)
def test_what_stands_in_the_padding_is_not_read(lengths: list[int]) -> None:
    packing = Packing.of(lengths)
    padded = torch.randn(len(lengths), packing.longest, 2)
    dirty = padded.masked_fill(~packing.pad(torch.ones(packing.rows, 1, dtype=torch.bool)), float("nan"))
    torch.testing.assert_close(packing.unpad(dirty), packing.unpad(padded), rtol=0, atol=0)


@given(lengths, st.integers(1, 9))
def test_rows_that_are_no_tokens_come_last_and_stay_zero(lengths: list[int], multiple: int) -> None:
    packing, exact = Packing.of(lengths, multiple=multiple), Packing.of(lengths)
    assert packing.rows % multiple == 0 and 0 <= packing.rows - exact.rows < multiple
    tokens = torch.randn(exact.rows, 3)
    rows = packing.fill(tokens)
    assert rows.shape == (packing.rows, 3) and rows[exact.rows :].count_nonzero() == 0
    torch.testing.assert_close(packing.pad(rows), exact.pad(tokens), rtol=0, atol=0)
    torch.testing.assert_close(packing.unpad(packing.pad(rows + 1)), packing.fill(tokens + 1), rtol=0, atol=0)
    assert packing.position.tolist() == [*exact.position.tolist(), *[0] * packing.filler]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "plain"])
@pytest.mark.parametrize("preset", PRESETS)
def test_rows_that_are_no_tokens_change_nothing(
    preset: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = translator(preset=preset, dtype=dtype, dropout=0.2, attention_dropout=0.2)
    batch = random_batch([3, 5, 2], [4, 1, 6])

    def result_and_gradients() -> dict[str, Any]:
        model.zero_grad()
        hidden = model(*batch.inputs, dropout_key=StepKey(1, 4))
        hidden.square().sum().backward()
        return {"": hidden.detach(), **{name: weight.grad for name, weight in model.named_parameters()}}

    filled = result_and_gradients()
    monkeypatch.setattr(transformer, "ROW_MULTIPLE", 1)
    exact = result_and_gradients()
    assert_close(filled, exact)


def test_ids_are_padded_like_anything_else() -> None:
    assert Packing.of(torch.tensor([1, 2])).pad(torch.tensor([7, 8, 9])).tolist() == [[7, 0], [8, 9]]


@pytest.mark.parametrize("way", ["pad", "unpad"])
def test_the_gradient_of_padding_is_the_slope(way: str) -> None:
    slot = torch.tensor([0, 1, 3])
    if way == "pad":
        rows = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: _Pad.apply(x, slot, 6), (rows,))
    else:
        padded = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: _Unpad.apply(x, slot), (padded,))


def test_no_sentences_are_no_rows() -> None:
    packing = Packing.of([])
    assert packing.rows == packing.longest == packing.sentences == 0
    assert packing.pad(torch.zeros(0, 4)).shape == (0, 0, 4)
