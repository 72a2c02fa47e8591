"""Linear layers: x W^T + b, and the ReLU that may follow, in one product of matrices and one pass over its result."""

from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dragoman.model import kernels


class Linear(nn.Linear):
    """x W^T + b, with the weights (F, D) and the bias (F), if any, of `nn.Linear`."""

    def forward(self, x: Float[Tensor, "N D"], relu: bool = False) -> Float[Tensor, "N F"]:
        return _linear(x, self.weight, self.bias, relu)


def joined_linear(x: Float[Tensor, "N D"], layers: Sequence[Linear]) -> Float[Tensor, "N F"]:
    """Several linear layers of one input as a single matrix product: one large is faster than many small."""
    weight = torch.cat([layer.weight for layer in layers])
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    return _linear(x, weight, torch.cat(biases) if biases else None)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Tensor:
    """With `relu` max(0, x W^T + b)."""
    if bias is not None and kernels.usable("linear", x, weight, bias) and _joins_bias(x.dtype):
        return _FusedLinear.apply(x, weight, bias, relu)
    result = F.linear(x, weight, bias)
    return F.relu(result, inplace=True) if relu else result


@cache
def _joins_bias(dtype: torch.dtype) -> bool:
    """Whether oneDNN is there, with instructions for this type."""
    library = torch.ops.mkldnn
    return hasattr(library, "_linear_pointwise") and (
        dtype == torch.float32 or bool(library._is_mkldnn_bf16_supported())
    )


class _FusedLinear(torch.autograd.Function):
    """The bias is added as the product is written, and summed on the way back as the ReLU's gradient is taken; torch
    goes over the result once more for each. (oneDNN could join the ReLU too, but its ReLU of NaN is zero.)
    """

    @staticmethod
    def forward(ctx, x, weight, bias, relu):
        result = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        ctx.save_for_backward(x, weight, result.relu_() if relu else None)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        x, weight, result = ctx.saved_tensors
        gradient, of_bias = gradient.contiguous(), torch.empty(weight.size(0), dtype=torch.float32)
        of_product = gradient if result is None else torch.empty_like(gradient)
        kernels.run("linear_back", gradient, result, of_product, of_bias, *gradient.shape)
        of_x = of_product @ weight if ctx.needs_input_grad[0] else None
        of_weight = of_product.t() @ x if ctx.needs_input_grad[1] else None
        return of_x, of_weight, of_bias.to(weight.dtype), None
