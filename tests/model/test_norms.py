"""Norms and the residual path around a sublayer."""

import pytest
import reference
import torch
from closeness import assert_close
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.layers import LayerNorm, Residual, RMSNorm


def test_layer_norm_of_one_two_three_uses_the_population_deviation() -> None:
    x = torch.tensor([[1.0, 2, 3], [2.0, 0.5, 1.5]])
    expected = torch.tensor([[-1.2247, 0, 1.2247], [1.0690, -1.3363, 0.2673]])
    torch.testing.assert_close(LayerNorm(3)(x), expected, atol=5e-5, rtol=0)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-5, 0.1])
def test_norms_are_their_equations(epsilon: float) -> None:
    x = torch.randn(5, 7, dtype=torch.float64) * 3 + 1
    layer, rms = LayerNorm(7, epsilon).double(), RMSNorm(7, epsilon).double()
    rows = x.tolist()
    layer_rows = torch.tensor([reference.layer_norm(row, epsilon) for row in rows], dtype=torch.float64)
    rms_rows = torch.tensor([reference.rms_norm(row, epsilon) for row in rows], dtype=torch.float64)
    assert_close(layer(x), layer_rows)
    assert_close(rms(x), rms_rows)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_norms_are_torchs_own_forward_and_back(dtype: torch.dtype) -> None:
    x, weight = torch.randn(6, 10, dtype=dtype), torch.randn(10, dtype=dtype)
    for norm, theirs in (
        (RMSNorm(10, 1e-4), lambda y, w: F.rms_norm(y, (10,), w, 1e-4)),
        (LayerNorm(10, 1e-4), lambda y, w: F.layer_norm(y, (10,), w, None, 1e-4)),
    ):
        norm.to(dtype).weight.data.copy_(weight)
        ours, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
        of_weight = weight.clone().requires_grad_()
        (norm(ours).pow(3).sum()).backward()
        (theirs(expected, of_weight).pow(3).sum()).backward()
        assert_close(norm(x), theirs(x, weight))
        assert_close(ours.grad, expected.grad)
        assert_close(norm.weight.grad, of_weight.grad)


def test_post_norm_normalises_the_sum_and_pre_norm_the_input() -> None:
    x, norm = torch.randn(4, 6), LayerNorm(6)

    def sublayer(h: Tensor) -> Tensor:
        return h.sin()

    torch.testing.assert_close(Residual(norm, "post")(x, sublayer), norm(x + x.sin()))
    torch.testing.assert_close(Residual(norm, "pre")(x, sublayer), x + norm(x).sin())
