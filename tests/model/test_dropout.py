"""Dropout: the right rate, no patterns, and the same mask however a step is cut.

Rates are checked to five standard deviations: each fails by chance once in 1.7 million seeds, and the seeds are fixed.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import batch_of, language_model, sentences, translator
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model.dropout import DropoutKey, StepKey, _Drop, drop, drop_weights
from dragoman.training.loss import label_smoothed_loss

CPU = torch.device("cpu")


def kept(
    dropout_key: StepKey, site: str = "encoder.0.self_attention", rows: int = 400, width: int = 512, rate: float = 0.5
) -> Tensor:
    return drop(torch.ones(rows, width), rate, site, dropout_key.target(rows, CPU)) > 0


def assert_rate(found: Tensor, rate: float) -> None:
    count = found.numel()
    assert abs(found.double().mean().item() - rate) < 5 * math.sqrt(rate * (1 - rate) / count)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_the_rate_is_right_and_the_expectation_is_kept(rate: float) -> None:
    x = drop(torch.ones(2000, 512), rate, "a", StepKey(1, 1).source(2000, CPU))
    assert_rate(x == 0, rate)
    torch.testing.assert_close(x[x > 0], torch.full_like(x[x > 0], 1 / (1 - rate)))


def test_the_rate_is_right_for_every_token_and_every_feature() -> None:
    mask = kept(StepKey(5, 2), rows=1024, width=1024).double()
    for axis in (0, 1):  # 2048 rates at six standard deviations: by chance once in 200,000 seeds
        assert (mask.mean(axis) - 0.5).abs().max() < 6 * math.sqrt(0.25 / 1024)


def rows_over(axis: str, count: int) -> Tensor:
    """Masks of 512 features each, over neighbouring tokens, steps, layers' sites or seeds."""
    if axis == "tokens":
        return kept(StepKey(5, 2), rows=count, rate=0.1)
    keys = {
        "steps": lambda i: (StepKey(5, i), "a"),
        "sites": lambda i: (StepKey(5, 2), f"encoder.{i}.feed_forward"),
        "seeds": lambda i: (StepKey(i, 2), "a"),
    }
    return torch.cat([kept(dropout_key, site, rows=1, rate=0.1) for dropout_key, site in map(keys[axis], range(count))])


@pytest.mark.parametrize("axis", ["tokens", "steps", "sites", "seeds"])
def test_a_mask_shows_no_pattern(axis: str) -> None:
    """Whatever repeats is a line in the spectrum. Of independent masks its 131,072 powers are exponential with mean
    one, and the strongest is over 25 by chance once in 500,000 seeds.
    """
    mask = rows_over(axis, 512).double()
    power = torch.fft.rfft2((mask - mask.mean()) / mask.std()).abs().square() / mask.numel()
    assert power.max() < 25
    assert abs(power.mean() - 1) < 0.02
    striped = mask.clone()
    striped[:, ::16] *= (
        torch.rand(512, 1, generator=torch.Generator().manual_seed(1)).round().double()
    )  # it would be seen
    power = torch.fft.rfft2((striped - striped.mean()) / striped.std()).abs().square() / striped.numel()
    assert power.max() > 25


@pytest.mark.parametrize(
    "other",
    [
        kept(StepKey(7, 3), site="encoder.1.self_attention"),
        kept(StepKey(7, 4)),
        kept(StepKey(8, 3)),
        kept(StepKey(7, 3, target_first=1)),
        kept(StepKey(7, 3)).roll(1, 1),
        kept(StepKey(7, 3)).roll(16, 1),
        kept(StepKey(7, 3), site="decoder.0.self_attention"),
    ],
    ids=["site", "step", "seed", "token", "feature", "far feature", "stack"],
)
def test_masks_of_different_places_are_independent(other: Tensor) -> None:
    mask = kept(StepKey(7, 3))
    for one in (True, False):
        for two in (True, False):
            assert_rate((mask == one) & (other == two), 0.25)


def test_attention_weights_have_their_own_mask_for_every_head_query_and_key() -> None:
    dropout_key = StepKey(1, 1).target(60, CPU)
    weights = torch.ones(2, 8, 30, 64)
    dropped = drop_weights(weights, 0.3, "a", dropout_key, dropout_key.tokens.unflatten(0, (2, 30)))
    assert_rate(dropped == 0, 0.3)
    for axis in range(4):
        both = (dropped == 0) & (dropped == 0).roll(1, axis)
        assert_rate(both, 0.09)


def test_a_weights_mask_does_not_depend_on_the_padded_length() -> None:
    dropout_key = StepKey(1, 1).target(10, CPU)
    tokens = dropout_key.tokens.unflatten(0, (2, 5))
    long = drop_weights(torch.ones(2, 3, 5, 9), 0.5, "a", dropout_key, tokens)
    short = drop_weights(torch.ones(2, 3, 5, 6), 0.5, "a", dropout_key, tokens)
    torch.testing.assert_close(long[..., :6], short, rtol=0, atol=0)


def test_nothing_is_dropped_without_a_key_or_at_rate_zero() -> None:
    x = torch.randn(3, 4)
    assert drop(x, 0.5, "a", None) is x
    assert drop(x, 0.0, "a", StepKey(1, 1).source(3, CPU)) is x


def test_evaluation_knows_no_dropout() -> None:
    batch = batch_of(sentences([4, 2]), sentences([3, 5]))
    model = translator(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    plain = translator(dropout=0.0)
    torch.testing.assert_close(model(*batch.inputs), plain(*batch.inputs), rtol=0, atol=0)
    assert not torch.equal(model(*batch.inputs, dropout_key=StepKey(1, 1)), plain(*batch.inputs))


def test_the_gradient_of_dropout_is_the_slope() -> None:
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    keep = torch.rand(4, 5) < 0.5
    assert torch.autograd.gradcheck(lambda y: _Drop.apply(y, keep, 0.3), (x,))


def gradients(model: Any, batches: list[Batch]) -> list[Tensor]:
    """Of the summed loss over micro-batches of one step."""
    dropout_key = StepKey(4, 9)
    for batch in batches:
        hidden = model(*batch.inputs, dropout_key=dropout_key)
        label_smoothed_loss(hidden, model.output, batch.labels, 0.1).smoothed.backward()
        dropout_key = replace(
            dropout_key,
            source_first=dropout_key.source_first + batch.size.source_tokens,
            target_first=dropout_key.target_first + batch.size.target_tokens,
        )
    return [weight.grad for weight in model.parameters() if weight.grad is not None]


ALL_RATES: dict[str, Any] = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.2}


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_a_step_cut_into_micro_batches_drops_the_same(preset: str) -> None:
    sources, targets = sentences([3, 7, 2, 4]), sentences([5, 1, 6, 2], seed=1)
    whole = gradients(translator(preset=preset, **ALL_RATES), [batch_of(sources, targets)])
    parts = [
        batch_of(sources[:1], targets[:1]),
        batch_of(sources[1:3], targets[1:3]),
        batch_of(sources[3:], targets[3:]),
    ]
    cut = gradients(translator(preset=preset, **ALL_RATES), parts)
    assert_close(cut, whole)


def test_a_language_models_step_cut_into_micro_batches_drops_the_same() -> None:
    targets = sentences([5, 1, 6, 2])
    whole = gradients(language_model(**ALL_RATES), [batch_of(None, targets)])
    cut = gradients(language_model(**ALL_RATES), [batch_of(None, targets[:3]), batch_of(None, targets[3:])])
    assert_close(cut, whole)


def test_a_token_keeps_its_mask_wherever_it_stands_in_a_batch() -> None:
    tokens = torch.tensor([4, 1, 9])
    x = torch.ones(3, 32)
    alone = torch.cat([drop(x[:1], 0.5, "a", DropoutKey(77, token[None])) for token in tokens])
    torch.testing.assert_close(drop(x, 0.5, "a", DropoutKey(77, tokens)), alone, rtol=0, atol=0)
