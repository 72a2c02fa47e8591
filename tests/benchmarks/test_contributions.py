"""Gradients beside finite differences, and Kendall's tau beside a count of pairs."""

from itertools import combinations

import numpy as np
import pytest
import torch
from contributions import gradients, kendall
from small import translator
from torch import Tensor, nn

from dragoman.inference.teacher_forcing import ForcedText, teacher_force
from dragoman.model.transformer import EncoderDecoder
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING

GIVEN = ForcedText.of(DEFAULT_FRAMING, [5, 9, 7, 12], [8, 4, 21])


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_gradients_are_those_of_finite_differences(preset: str) -> None:
    model = translator(preset=preset).requires_grad_(False)
    found = gradients(model, GIVEN, lambda logits: logits.log_softmax(-1)[9])
    assert found.norm.shape == found.product.shape == (len(GIVEN.source or []),)
    by = torch.cat([torch.eye(16), -torch.eye(16)]).double() * 1e-6
    for token in range(len(found.norm)):
        log_probs, vector = moved(model, token, by)
        slope = (log_probs[:16] - log_probs[16:]) / 2e-6
        torch.testing.assert_close(found.norm[token].double(), slope.norm(), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(found.product[token].double(), slope @ vector, rtol=1e-4, atol=1e-6)


def moved(model: EncoderDecoder, token: int, by: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of token 9 after the text, for each way in which a source token's vector moves (B, D), and
    that vector.
    """
    vectors: list[Tensor] = []

    def move(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        copies = output.unflatten(0, (len(by), -1)).clone()
        vectors.append(copies[0, token].clone())
        copies[:, token] += by
        return copies.flatten(0, 1)

    hook = model.source_embedding.register_forward_hook(move)
    hidden, _ = teacher_force(model, [GIVEN] * len(by))
    hook.remove()
    last = hidden.unflatten(0, (len(by), -1))[:, -1]
    return model.project(last).log_softmax(-1)[:, 9], vectors[0]


def plain_tau(first: list[int], second: list[int]) -> float | None:
    """Pairs in the same order minus pairs in opposite order, over the root of the pairs that each does not tie."""
    pairs = list(combinations(range(len(first)), 2))
    one = [np.sign(first[a] - first[b]) for a, b in pairs]
    two = [np.sign(second[a] - second[b]) for a, b in pairs]
    untied = sum(map(abs, one)) * sum(map(abs, two))
    return sum(a * b for a, b in zip(one, two, strict=True)) / untied**0.5 if untied else None


def test_kendall_counts_pairs() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        first, second = random.integers(4, size=(2, int(random.integers(1, 7)))).tolist()
        assert kendall(first, second) == (
            expected if (expected := plain_tau(first, second)) is None else pytest.approx(expected)
        )
