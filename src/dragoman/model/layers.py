"""The other parts of a layer: norms, the position-wise feed-forward network, and the residual path."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dragoman.compiled import kernels
from dragoman.compiled.fusing import fusible
from dragoman.model.dropout import DropoutKey, drop
from dragoman.model.observer import RowObserver, ignore
from dragoman.model.projection import Dense, Projection
from dragoman.shapes import Float

NormPosition = Literal["pre", "post"]
"""Position of the norm: before a sublayer, or after it is added (the paper)."""
Activation = Literal["relu", "gelu", "silu", "swiglu", "geglu"]
"""The nonlinearity of the feed-forward network; swiglu and geglu are gated."""


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias, with the population variance (Ba et al. 2016)."""

    def __init__(self, d_model: int, epsilon: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich 2019)."""

    def __init__(self, d_model: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        if kernels.usable("rms_norm", x, self.weight):
            return _FusedRMSNorm.apply(x, self.weight, self.epsilon)
        return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


class _FusedRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, epsilon):
        x, width = x.contiguous(), x.size(-1)
        out, inverse = torch.empty_like(x), torch.empty(x.numel() // width, dtype=torch.float32)
        kernels.run("rms_norm", x, weight, out, inverse, inverse.numel(), width, epsilon)
        ctx.save_for_backward(x, weight, inverse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        x, weight, inverse = ctx.saved_tensors
        gradient, x_gradient = gradient.contiguous(), torch.empty_like(x)
        weight_gradient = torch.empty(weight.shape, dtype=torch.float32)
        kernels.run(
            "rms_norm_back", gradient, x, weight, inverse, x_gradient, weight_gradient, inverse.numel(), x.size(-1)
        )
        return x_gradient, weight_gradient.to(weight.dtype), None


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: F.relu(x, inplace=True),
    "gelu": F.gelu,
    "silu": F.silu,
}


@fusible
def _gated(gate: Tensor, inner: Tensor, activation: Activation) -> Tensor:
    return (F.silu(gate) if activation == "swiglu" else F.gelu(gate)) * inner


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 (Vaswani et al. 2017, eq. 2), with ReLU, GELU or SiLU; or a gated unit (Shazeer 2020).

    Gated: (f(x W_gate) * x W_inner) W_outer, with f = SiLU in `swiglu` and GELU in `geglu`. `name` is its site for
    dropout and observers.
    """

    gate: Projection | None
    inner: Projection
    outer: Projection

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Activation = "relu",
        bias: bool = True,
        dropout: float = 0.0,
        name: str = "feed_forward",
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.dropout, self.name = dropout, name
        self.gate = Dense(d_model, d_ff, bias) if activation in ("swiglu", "geglu") else None
        self.inner = Dense(d_model, d_ff, bias)
        self.outer = Dense(d_ff, d_model, bias)

    def forward(
        self, x: Float[Tensor, "N D"], dropout_key: DropoutKey | None = None, observe: RowObserver = ignore
    ) -> Float[Tensor, "N D"]:
        if self.gate is None:
            hidden = _ACTIVATIONS[self.activation](self.inner(x))
        else:
            hidden = _gated(self.gate(x), self.inner(x), self.activation)
        observe(f"{self.name}.input", x)
        observe(f"{self.name}.hidden", hidden)
        return self.outer(drop(hidden, self.dropout, self.name, dropout_key))


class Residual(nn.Module):
    """The residual path around a sublayer, with norm and dropout (sections 3.1 and 5.4).

    `post` is the paper's norm(x + sublayer(x)); `pre` is x + sublayer(norm(x)), which is less sensitive to the warm-up
    (Xiong et al. 2020). `name` is its site for dropout and observers.
    """

    def __init__(
        self, norm: LayerNorm | RMSNorm, norm_position: NormPosition, dropout: float = 0.0, name: str = "residual"
    ) -> None:
        super().__init__()
        self.norm, self.pre, self.dropout, self.name = norm, norm_position == "pre", dropout, name

    def forward(
        self,
        x: Float[Tensor, "N D"],
        sublayer: Callable[[Tensor], Tensor],
        dropout_key: DropoutKey | None = None,
        observe: RowObserver = ignore,
    ) -> Float[Tensor, "N D"]:
        if self.pre:
            x = drop(sublayer(self.norm(x)), self.dropout, self.name, dropout_key, onto=x)
        else:
            x = self.norm(drop(sublayer(x), self.dropout, self.name, dropout_key, onto=x))
        observe(self.name, x)
        return x


class PredictionHead(nn.Module):
    """norm(GELU(x W + b)), before the output matrix (Devlin et al. 2018, appendix A.1); `name` is its dropout site."""

    dense: Projection

    def __init__(self, d_model: int, norm: LayerNorm | RMSNorm, dropout: float = 0.0, name: str = "head") -> None:
        super().__init__()
        self.dense, self.norm, self.dropout, self.name = Dense(d_model, d_model), norm, dropout, name

    def forward(self, x: Float[Tensor, "M D"], dropout_key: DropoutKey | None = None) -> Float[Tensor, "M D"]:
        return drop(self.norm(F.gelu(self.dense(x))), self.dropout, self.name, dropout_key)
