"""Layers that the backward pass computes again have the same gradients, bit by bit; frozen weights are not copied."""

from collections import Counter
from typing import Any

import pytest
import torch
from small import PRESETS, Source, fresh_state, objective, random_batch, train_settings, translator

from dragoman.model.adapters import adapt
from dragoman.model.blocks import CrossBlock, SelfBlock
from dragoman.model.config import LoraSettings
from dragoman.model.dropout import StepKey
from dragoman.training.distributed import ALONE
from dragoman.training.loop import backward
from dragoman.training.objective import recompute_blocks
from dragoman.training.prefetching import fetch

DROPOUT = {"dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1}


def gradient(dtype: torch.dtype, recomputes: bool, lora: LoraSettings | None, **settings: Any) -> torch.Tensor:
    model = translator(dtype=dtype, **settings)
    if lora is not None:
        adapt(model, lora, seed=1)
        for name, weight in model.named_parameters():
            if name.endswith(".up"):
                weight.data.fill_(0.1)
    if recomputes:
        recompute_blocks(model)
    state, source = fresh_state(model, train_settings()), Source([random_batch([5, 3], [4, 6])])
    model.train()
    settings_ = train_settings(alignment_weight=0.5 if "alignment_head" in settings else 0.0)
    backward(model, objective(source, settings_), state.masters, fetch(source, [0], ALONE), StepKey(1, 1))
    return state.masters.gradient


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2, dropout=0.4, projections=("decoder", "cross_attention"))])
def test_gradients_are_equal_to_the_bit(preset: str, dtype: torch.dtype, lora: LoraSettings | None) -> None:
    settings = {"preset": preset, **DROPOUT}
    plain, again = (gradient(dtype, recomputes, lora, **settings) for recomputes in (False, True))
    assert plain.abs().max() > 0 and torch.equal(plain, again)


def test_every_layer_runs_once_more_in_the_backward_pass() -> None:
    model, passes = translator(), Counter[str]()
    for block in model.modules():
        if isinstance(block, SelfBlock | CrossBlock):
            block.feed_forward.register_forward_pre_hook(lambda *_, name=block.name: passes.update([name]))
    recompute_blocks(model)
    hidden = model(*random_batch([3], [4]).inputs)
    assert set(passes.values()) == {1}
    hidden.sum().backward()
    assert passes == dict.fromkeys(("encoder.0", "encoder.1", "decoder.0", "decoder.1"), 2)


def test_frozen_weights_are_neither_copied_nor_averaged() -> None:
    model = translator(dtype=torch.float32)
    adapt(model, LoraSettings(rank=2), seed=1)
    before = {name: weight.data_ptr() for name, weight in model.named_parameters() if not weight.requires_grad}
    state = fresh_state(model, train_settings(ema=0.1))
    state.step = 1
    state.average_in(0.1)
    assert before and all(state.masters.weights[name].data_ptr() == place for name, place in before.items())
    assert all(model.get_parameter(name).grad is None for name in before)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert state.masters.flat.numel() == state.masters.gradient.numel() == trained
    assert state.average is not None and state.average.numel() == trained
