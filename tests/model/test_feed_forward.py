"""The position-wise feed-forward network."""

import pytest
import torch
from closeness import assert_close
from torch.nn import functional as F

from dragoman.model.layers import Activation, FeedForward


def test_two_sentences_of_three_tokens_go_from_four_features_to_eight_and_back() -> None:
    network, x = FeedForward(4, 8), torch.randn(2, 3, 4)
    rows = x.flatten(0, 1)
    assert network.inner(rows).unflatten(0, (2, 3)).shape == (2, 3, 8)
    assert network(rows).unflatten(0, (2, 3)).shape == (2, 3, 4)


@pytest.mark.parametrize("bias", [True, False])
def test_each_activation_is_its_equation(bias: bool) -> None:
    x = torch.randn(5, 4)
    kinds: tuple[Activation, ...] = ("relu", "gelu", "silu", "swiglu", "geglu")
    for kind in kinds:
        network = FeedForward(4, 6, kind, bias)
        inner = network.inner(x)
        gate = network.gate(x) if network.gate is not None else x
        expected = {
            "relu": lambda: inner.clamp(min=0),  # noqa: B023
            "gelu": lambda: inner * (1 + torch.erf(inner / 2**0.5)) / 2,  # noqa: B023
            "silu": lambda: inner * torch.sigmoid(inner),  # noqa: B023
            "swiglu": lambda: gate * torch.sigmoid(gate) * inner,  # noqa: B023
            "geglu": lambda: F.gelu(gate) * inner,  # noqa: B023
        }[kind]()
        assert_close(network(x), network.outer(expected))
        assert (network.gate is not None) == (kind in ("swiglu", "geglu"))


def test_every_row_is_worked_on_alone() -> None:
    network, x = FeedForward(4, 8, "swiglu").double(), torch.randn(6, 4, dtype=torch.float64)
    alone = torch.cat([network(row[None]) for row in x])
    assert_close(network(x), alone)
