"""An observer sees every named site, in training and at every step of decoding, and changes no byte."""

import math
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import PRESETS, START, language_model, random_batch, sentences, translator
from torch import Tensor

from dragoman.model.dropout import StepKey
from dragoman.model.observer import Observer
from dragoman.model.packing import Packing

SEEN = ("query", "key", "value", "products", "scores", "weights")


class Notes:
    """Everything that was shown, in order."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, Tensor]] = []

    def tensor(self, site: str, value: Tensor) -> None:
        assert not value.requires_grad
        self.shown.append((site, value))

    def __getitem__(self, site: str) -> Tensor:
        """The only tensor of that site."""
        (found,) = self.all(site)
        return found

    def all(self, site: str) -> list[Tensor]:
        return [value for name, value in self.shown if name == site]


def sites(stack: str, preset: str, *attentions: str) -> list[str]:
    """The sites of a stack of two layers, in the order in which they are shown."""
    embedding = "source_embedding" if stack == "encoder" else "target_embedding"
    named = [f"{embedding}.tokens", *([f"{embedding}.positions"] if preset == "paper" else [])]
    named.append(f"{stack}.embedding")
    for layer in range(2):
        for attention in attentions:
            named += [f"{stack}.{layer}.{attention}_attention.{name}" for name in ("input", *SEEN, "mixed", "output")]
            named.append(f"{stack}.{layer}.{attention}_residual")
        named += [f"{stack}.{layer}.{name}" for name in ("feed_forward.input", "feed_forward.hidden", "feed_residual")]
    return [*named, f"{stack}.output"]


def encoder_and_decoder(preset: str) -> tuple[list[str], list[str]]:
    return sites("encoder", preset, "self"), sites("decoder", preset, "self", "cross")


def test_notes_are_an_observer() -> None:
    assert isinstance(Notes(), Observer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_site_of_a_training_pass_is_seen_and_no_byte_changes(preset: str, dtype: torch.dtype) -> None:
    rates: dict[str, Any] = {"dropout": 0.1, "attention_dropout": 0.1}
    model, batch, notes = translator(preset=preset, dtype=dtype, **rates), random_batch([3, 6], [5, 2]), Notes()

    def passed(observer: Notes | None) -> list[Tensor]:
        model.zero_grad()
        hidden = model(*batch.inputs, dropout_key=StepKey(1, 1), observer=observer)
        hidden.float().square().sum().backward()
        return [hidden.detach(), *(weight.grad for weight in model.parameters() if weight.grad is not None)]

    for unseen, seen in zip(passed(None), passed(notes), strict=True):
        assert torch.equal(unseen, seen)
    encoder, decoder = encoder_and_decoder(preset)
    assert [site for site, _ in notes.shown] == encoder + decoder


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_seen_is_the_equation(preset: str, kv_heads: int) -> None:
    model, batch, notes = translator(preset=preset, kv_heads=kv_heads), random_batch([3, 6], [5, 2]), Notes()
    model(*batch.inputs, observer=notes)
    for kind, queries, keys in (
        ("encoder.1.self_attention", 8, 8),
        ("decoder.0.self_attention", 6, 6),
        ("decoder.1.cross_attention", 6, 8),
    ):
        query, key, value, unmasked, scores, weights = (notes[f"{kind}.{name}"] for name in SEEN)
        assert query.shape == (2, 4, queries, 4) and key.shape == value.shape == (2, kv_heads, keys, 4)
        assert scores.shape == weights.shape == (2, 4, queries, keys)
        visible = scores.isfinite()
        products = query @ key.repeat_interleave(4 // kv_heads, 1).mT / math.sqrt(4)
        assert_close(unmasked, products)
        assert torch.equal(scores[visible], unmasked[visible])
        assert_close(weights, scores.softmax(-1))
        assert weights[~visible].count_nonzero() == 0
        mixed = weights @ value.repeat_interleave(4 // kv_heads, 1)
        real = torch.tensor([5, 8] if kind.startswith("encoder") else [6, 3])[:, None] > torch.arange(queries)
        assert_close(notes[f"{kind}.mixed"][real], mixed.transpose(1, 2)[real])
    assert notes["encoder.0.feed_residual"].shape == (2, 8, 16)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_residual_path_is_the_sum_of_what_is_shown(preset: str) -> None:
    model, batch, notes = translator(preset=preset), random_batch([3, 3], [5, 5]), Notes()
    model(*batch.inputs, observer=notes)
    layer, path = model.decoder.blocks[1], notes["decoder.0.feed_residual"]
    for attention in ("self", "cross"):
        added = path + notes[f"decoder.1.{attention}_attention.output"]
        norm = layer.get_submodule(f"{attention}_residual.norm")
        path = notes[f"decoder.1.{attention}_residual"]
        assert_close(path, added if preset == "modern" else norm(added.flatten(0, 1)).view_as(added))
    outer = layer.get_submodule("feed_forward.outer")
    added = path + outer(notes["decoder.1.feed_forward.hidden"].flatten(0, 1)).view_as(path)
    norm = layer.get_submodule("feed_residual.norm")
    assert_close(
        notes["decoder.1.feed_residual"], added if preset == "modern" else norm(added.flatten(0, 1)).view_as(added)
    )


def test_embedding_and_positions_are_shown_apart() -> None:
    model, batch, notes = translator(preset="paper"), random_batch([3, 3], [5, 5]), Notes()
    model(*batch.inputs, observer=notes)
    for embedding, stack in (("source_embedding", "encoder"), ("target_embedding", "decoder")):
        total = notes[f"{embedding}.tokens"] + notes[f"{embedding}.positions"]
        assert_close(notes[f"{stack}.embedding"], total)


@torch.inference_mode()
@pytest.mark.parametrize("preset", PRESETS)
def test_every_step_from_a_cache_shows_what_the_whole_pass_shows(preset: str) -> None:
    model, whole, stepwise = translator(preset=preset), Notes(), Notes()
    of_source, of_target, source = Packing.of([6]), Packing.of([4]), sentences([6])[0]
    target = torch.cat([torch.tensor([START]), *sentences([3], seed=1)])
    memory = model.encode(source, of_source)
    model.decode(target, of_target, model.cross_keys(memory, of_source), observer=whole)
    cache = model.start(memory, of_source)
    for token in target.split(1):
        model.decode(token, Packing.of([1]), cache, observer=stepwise)
    _, decoder = encoder_and_decoder(preset)
    assert [site for site, _ in stepwise.shown] == 4 * decoder
    for site in decoder:
        if not site.endswith((".key", ".value", ".products")):  # of which every step sees all that were written before
            steps = [step[..., : whole[site].size(-1)] for step in stepwise.all(site)]
            expected = whole[site].split(1, dim=1 if site.endswith("mixed") else -2)
            for step, row in zip(steps, expected, strict=True):
                assert_close(step.nan_to_num(neginf=0.0), row[..., : step.size(-1)].nan_to_num(neginf=0.0))


def test_a_language_model_shows_its_only_stack() -> None:
    model, batch, notes = language_model(), random_batch([1, 1], [5, 2]), Notes()
    target = batch.target, batch.target_lengths
    assert torch.equal(model(*target, observer=notes), model(*target))
    assert [site for site, _ in notes.shown] == sites("decoder", "modern", "self")
