"""Attention: the equation, its masks, its heads, and the ways it is computed."""

import inspect
import math
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
import reference
import torch
from closeness import assert_close
from compiler import needs_compiler
from small import PRESETS, random_batch, translator
from torch import Tensor, nn

from dragoman.compiled import kernels
from dragoman.data.batching import Batch
from dragoman.data.bins import BinShape, in_bins
from dragoman.errors import ConfigError
from dragoman.model.attention import Attention
from dragoman.model.attention_backends import (
    AttentionContext,
    Backend,
    attend,
    choose_backend,
    fused_runs,
    varlen_attention,
)
from dragoman.model.dropout import DropoutKey
from dragoman.model.packing import Packing
from dragoman.model.projection import join
from dragoman.model.transformer import EncoderDecoder


def random_heads(batch: int, heads: int, length: int, width: int) -> Tensor:
    return torch.randn(batch, heads, length, width, dtype=torch.float64)


def everything(batch: int, length: int, keys: int) -> Tensor:
    return torch.ones(batch, 1, length, keys, dtype=torch.bool)


def test_attention_is_the_equation_head_by_head_and_number_by_number() -> None:
    query, key, value = random_heads(2, 3, 4, 5), random_heads(2, 3, 6, 5), random_heads(2, 3, 6, 5)
    visible = torch.rand(2, 1, 4, 6) < 0.6
    visible[0, 0, 2] = False
    mixed, weights = attend(query, key, value, visible)
    for sentence in range(2):
        for head in range(3):
            parts = (query[sentence, head], key[sentence, head], value[sentence, head], visible[sentence, 0])
            expected_mix, expected_weights = reference.attention(*(part.tolist() for part in parts))
            assert_close(mixed[sentence, head], torch.tensor(expected_mix, dtype=torch.float64))
            assert_close(weights[sentence, head], torch.tensor(expected_weights, dtype=torch.float64))


def test_the_cat_sleeps() -> None:
    query = torch.eye(3)[None, None]
    key = torch.tensor([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]])[None, None]
    value = torch.tensor([[0.0, 1, 1], [1, 0, 1], [1, 1, 0]])[None, None]
    assert (query @ key.mT)[0, 0].tolist() == [[1, 0, 1], [1, 1, 0], [0, 1, 1]]
    mixed, weights = attend(query, key, value, everything(1, 3, 3))
    expected_weights = [[0.3904, 0.2192, 0.3904], [0.3904, 0.3904, 0.2192], [0.2192, 0.3904, 0.3904]]
    expected_mix = [[0.6096, 0.7808, 0.6096], [0.6096, 0.6096, 0.7808], [0.7808, 0.6096, 0.6096]]
    torch.testing.assert_close(weights[0, 0], torch.tensor(expected_weights), atol=5e-5, rtol=0)
    torch.testing.assert_close(mixed[0, 0], torch.tensor(expected_mix), atol=5e-5, rtol=0)


def test_softmax_over_the_wrong_axis_gives_columns_that_sum_to_one_and_rows_that_do_not() -> None:
    query, key = random_heads(1, 1, 4, 8), random_heads(1, 1, 4, 8)
    _, weights = attend(query, key, key, everything(1, 4, 4))
    wrong = (query @ key.mT / math.sqrt(8)).softmax(-2)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 4).double())
    torch.testing.assert_close(wrong.sum(-2), torch.ones(1, 1, 4).double())
    assert (wrong.sum(-1) - 1).abs().max() > 0.01


def test_a_mask_for_two_pads_hides_the_last_two_keys() -> None:
    visible = torch.tensor([1, 1, 1, 0, 0], dtype=torch.bool)[None, None, None]
    query, key, value = (random_heads(1, 2, 5, 4) for _ in range(3))
    mixed, weights = attend(query, key, value, visible)
    assert weights[..., 3:].count_nonzero() == 0
    shorter, _ = attend(query, key[:, :, :3], value[:, :, :3], everything(1, 5, 3))
    assert_close(mixed, shorter)


def test_a_query_that_may_look_nowhere_gets_zeros_and_sends_no_nan_back() -> None:
    query, key, value = (random_heads(1, 2, 3, 4).requires_grad_() for _ in range(3))
    visible = torch.tensor([[True, True, True], [False, False, False], [True, False, False]])[None, None]
    mixed, weights = attend(query, key, value, visible)
    assert mixed[0, :, 1].count_nonzero() == 0
    assert weights[0, :, 1].count_nonzero() == 0
    mixed.square().sum().backward()
    for part in (query, key, value):
        assert part.grad is not None and part.grad.isfinite().all()


def test_a_nan_stays_to_be_seen() -> None:
    query, key, value = (random_heads(1, 1, 3, 4) for _ in range(3))
    key[0, 0, 0, 0] = math.nan
    mixed, _ = attend(query, key, value, torch.ones(3, 3, dtype=torch.bool).tril()[None, None])
    assert mixed.isnan().all()


def test_fewer_key_heads_are_as_many_repeated() -> None:
    query, key, value = random_heads(2, 6, 4, 5), random_heads(2, 2, 3, 5), random_heads(2, 2, 3, 5)
    visible = everything(2, 4, 3)
    grouped, _ = attend(query, key, value, visible)
    repeated, _ = attend(query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1), visible)
    assert_close(grouped, repeated)


def test_the_heads_of_a_sentence_of_four_tokens() -> None:
    attention, packing = Attention(12, heads=3), Packing.of([4, 4])
    x = torch.randn(2, 4, 12)
    heads = packing.pad(attention.queries(packing.unpad(x))).transpose(1, 2)
    assert heads.shape == (2, 3, 4, 4)


@pytest.mark.parametrize("bias", [True, False])
def test_attention_is_torchs_multi_head_attention(bias: bool) -> None:
    ours = Attention(12, heads=3, bias=bias).double()
    theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=torch.float64)
    assert theirs.in_proj_weight is not None
    with torch.no_grad():
        joined, output = join([ours.query, ours.key, ours.value]), ours.output.effective()
        theirs.in_proj_weight.copy_(joined.weight)
        theirs.out_proj.weight.copy_(output.weight)
        if joined.bias is not None and output.bias is not None:
            theirs.in_proj_bias.copy_(joined.bias)
            theirs.out_proj.bias.copy_(output.bias)
    packing = Packing.of([4, 2])
    x = torch.randn(packing.rows, 12, dtype=torch.float64)
    mixed = ours.attend(ours.self_projections(x), None, packing)
    padded = packing.pad(x)
    expected, _ = theirs(
        padded, padded, padded, key_padding_mask=~packing.pad(torch.ones(packing.rows, dtype=torch.bool))
    )
    assert_close(mixed, packing.unpad(expected))


def result_and_gradients(model: EncoderDecoder, batch: Batch) -> dict[str, Any]:
    """What the model makes of a batch, and the gradient of every weight."""
    model.zero_grad()
    hidden = model(*batch.inputs)
    hidden.square().sum().backward()
    return {"": hidden.detach(), **{name: weight.grad for name, weight in model.named_parameters()}}


@pytest.fixture(params=product(PRESETS, [4, 2]), ids=lambda param: f"{param[0]}-{param[1]} key heads")
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    preset, kv_heads = request.param
    return translator(preset=preset, kv_heads=kv_heads)


def use(model: EncoderDecoder, backend: Backend | None) -> None:
    """Makes every attention of a model compute in one backend."""
    for module in model.modules():
        if isinstance(module, Attention):
            module.backend = backend


@pytest.mark.parametrize("lengths", [([3, 5, 2], [4, 1, 6]), ([4, 4], [1, 1])], ids=["ragged", "equal"])
def test_fused_attention_is_the_equation_forward_and_back(model: EncoderDecoder, lengths: tuple) -> None:
    batch = random_batch(*lengths)
    use(model, "equation")
    plain = result_and_gradients(model, batch)
    use(model, "fused")
    assert_close(result_and_gradients(model, batch), plain)


def varlen_by_the_equation(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_edges: Tensor,
    key_edges: Tensor,
    longest_query: int,
    longest_key: int,
    *,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
) -> Tensor:
    """Compute what torch's `varlen_attn` computes on a GPU, sentence by sentence."""
    assert query_edges.dtype == key_edges.dtype == torch.int32 and window_size in ((-1, -1), (-1, 0))
    assert enable_gqa == (query.size(1) != key.size(1))
    assert longest_query == query_edges.diff().max() and longest_key == key_edges.diff().max()
    found: list[Tensor] = []
    for (first, end), (first_key, end_key) in zip(
        pairwise(query_edges.tolist()), pairwise(key_edges.tolist()), strict=True
    ):
        queries, keys = end - first, end_key - first_key
        visible = torch.ones(queries, keys, dtype=torch.bool)
        if window_size == (-1, 0):
            visible = visible.tril(keys - queries)
        rows = query[first:end], key[first_key:end_key], value[first_key:end_key]
        a_query, a_key, a_value = (x.transpose(0, 1)[None] for x in rows)
        found.append(attend(a_query, a_key, a_value, visible[None, None])[0][0].transpose(0, 1))
    return torch.cat(found)


def without_groups(*tensors: Any, window_size: tuple[int, int] = (-1, -1)) -> Tensor:
    """Compute as torch 2.11 does: every query head has its own keys."""
    return varlen_by_the_equation(*tensors, window_size=window_size)


def without_windows(*tensors: Any, is_causal: bool = False) -> Tensor:
    """Compute as torch 2.10 does."""
    return varlen_by_the_equation(*tensors, window_size=(-1, 0 if is_causal else -1))


@pytest.mark.parametrize("varlen", [varlen_by_the_equation, without_groups, without_windows])
def test_flash_attention_as_a_gpu_is_asked_for_it_is_the_equation_forward_and_back(
    varlen: Callable[..., Tensor], model: EncoderDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = random_batch([3, 5, 2], [4, 1, 6])
    use(model, "equation")
    plain = result_and_gradients(model, batch)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen)
    use(model, "flash")
    assert_close(result_and_gradients(model, batch), plain)


def test_a_gpu_is_asked_as_torch_wants_it() -> None:
    flash = varlen_attention()
    assert flash is not None
    asked = list(inspect.signature(varlen_by_the_equation).parameters)
    known = inspect.signature(flash).parameters
    assert len(asked) == 9 and set(asked[-2:]) <= known.keys()
    assert [name for name, each in known.items() if each.kind is each.POSITIONAL_OR_KEYWORD][:7] == [
        *("query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k")
    ]


def test_sentences_in_bins_see_themselves_alone_by_every_backend(model: EncoderDecoder) -> None:
    batch = random_batch([3, 5, 2, 1], [4, 1, 6, 2])
    binned = in_bins(batch, BinShape(3, 11))
    assert binned is not None
    tokens = {name: (sentence >= 0).flatten() for name, sentence in vars(binned).items() if "sentence" in name}
    use(model, "equation")
    plain = model(*batch.inputs)
    for backend in ("equation", "fused"):
        use(model, backend)
        hidden = model(*binned.inputs)
        assert hidden.isfinite().all() and len(hidden) == 33
        assert_close(hidden[tokens["target_sentence"]], plain)


def backend_for(
    length: int, dtype: torch.dtype = torch.float32, causal: bool = False, dropout_key: DropoutKey | None = None
) -> Backend:
    packing = Packing.of([length, 3])
    return choose_backend(
        torch.zeros(packing.rows, 3, 8, dtype=dtype), None, AttentionContext(1, packing, causal, None, dropout_key)
    )


@needs_compiler
def test_the_fastest_backend_is_chosen_by_length_mask_and_dropout() -> None:
    dropout_key = DropoutKey(1, torch.arange(4_003))
    assert backend_for(2_047) == "compiled"
    assert backend_for(4_000) == "fused"
    assert backend_for(4_000, causal=True) == backend_for(4_000, dropout_key=dropout_key) == "compiled"
    with kernels.without("attention"):
        assert backend_for(127) == backend_for(4_000, dropout_key=dropout_key) == "equation"
        assert backend_for(128) == backend_for(128, causal=True) == "fused"


def test_only_the_equation_knows_float64() -> None:
    assert backend_for(10_000, torch.float64) == "equation"


def test_tensors_elsewhere_are_fused_where_nothing_is_dropped() -> None:
    packing = Packing.of([4, 3], "meta")
    rows, dropout_key = torch.zeros(7, 3, 8, device="meta"), DropoutKey(1, torch.arange(7))
    assert choose_backend(rows, None, AttentionContext(1, packing, causal=True)) == "fused"
    assert choose_backend(rows, None, AttentionContext(1, packing, causal=True, dropout_key=dropout_key)) == "equation"


def test_where_torchs_fused_attention_does_not_run_the_equation_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("pack_vnni2 is only supported when avx512 is supported")

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", refuse)
    fused_runs.cache_clear()
    with kernels.without("attention"):
        assert backend_for(1_024, torch.bfloat16) == "equation"
    fused_runs.cache_clear()


@pytest.mark.parametrize(
    ("heads", "kv_heads", "message"),
    [
        (5, None, "heads must divide d_model, but 5 does not divide 12"),
        (6, 4, "kv_heads must divide heads, but 4 does not divide 6"),
    ],
)
def test_heads_that_do_not_divide_are_refused(heads: int, kv_heads: int | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Attention(12, heads, kv_heads)
