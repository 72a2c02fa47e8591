"""From settings to modules: every combination builds and learns, the same seed gives the same weights."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from small import VOCABULARY, language_model, random_batch, small_config, translator

from dragoman.errors import ConfigError
from dragoman.model.config import ModelConfig
from dragoman.model.dropout import site_number
from dragoman.model.shapes import count_weights, weight_shapes
from dragoman.model.transformer import build_model
from dragoman.training.loss import label_smoothed_loss

POSITIONS, NORMS = ("sinusoidal", "learned", "rotary"), ("layer", "rms")
PLACES, ACTIVATIONS, TIES = ("pre", "post"), ("relu", "gelu", "swiglu", "geglu"), ("none", "target", "all")


def every_weight_learns(model: Any) -> None:
    batch = random_batch([3, 1], [2, 4])
    rows = batch.inputs if hasattr(model, "encoder") else batch.inputs[2:]
    loss = label_smoothed_loss(model(*rows), model.output, batch.labels, 0.1, bias=model.output_bias).smoothed
    loss.backward()
    assert loss.isfinite()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name
        # A softmax does not change when every score of a query moves alike, as a key bias makes them.
        assert weight.grad.abs().max() > (0 if "key.bias" not in name else -1), name


@pytest.mark.parametrize(("positions", "norm"), [*product(POSITIONS, NORMS)])
def test_every_combination_builds_runs_and_learns(positions: str, norm: str) -> None:
    given = {"positions": positions, "norm": norm, "encoder_layers": 1, "decoder_layers": 1}
    for place, activation, tied, bias, kv_heads in product(PLACES, ACTIVATIONS, TIES, (True, False), (None, 2)):
        if (kv_heads is None) == (tied == "target"):  # half of the grid, each pair of values still met
            continue
        choice = {"norm_position": place, "activation": activation, "tied": tied, "bias": bias, "kv_heads": kv_heads}
        every_weight_learns(translator(final_norm=place == "pre", **given, **choice))


@pytest.mark.parametrize("make", [translator, language_model])
def test_a_bias_of_the_output_learns_and_is_added_to_the_logits(make: Callable[..., Any]) -> None:
    model, plain = make(output_bias=True, activation="silu"), make(activation="silu")
    every_weight_learns(model)
    assert plain.output_bias is None and not model.output_bias.any()
    hidden, bias = (torch.randn(*size).to(model.output) for size in ((3, model.config.d_model), (VOCABULARY,)))
    without = model.project(hidden)
    model.output_bias.data.copy_(bias)
    torch.testing.assert_close(model.project(hidden), without + bias)


@pytest.mark.parametrize("tied", ["none", "target"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_language_models_build_run_and_learn(positions: str, tied: str) -> None:
    every_weight_learns(language_model(positions=positions, tied=tied))


@pytest.mark.parametrize(("tied", "matrices"), [("none", 3), ("target", 2), ("all", 1)])
def test_tied_matrices_are_one(tied: str, matrices: int) -> None:
    model = translator(tied=tied)
    found = {id(model.source_embedding.weight), id(model.target_embedding.weight), id(model.output)}
    assert len(found) == matrices
    assert sum(weight.size(0) == VOCABULARY for weight in model.parameters()) == matrices


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    one, same, other = translator(seed=5), translator(seed=5), translator(seed=6)
    torch.manual_seed(99)
    for name, weight in one.named_parameters():
        assert torch.equal(weight, same.get_parameter(name)), name
        assert weight.dim() < 2 or not torch.equal(weight, other.get_parameter(name)), name


def test_weights_do_not_depend_on_random_numbers_drawn_elsewhere() -> None:
    before = torch.get_rng_state()
    translator(seed=5)
    torch.manual_seed(7)
    again = translator(seed=5)
    torch.set_rng_state(before)
    torch.testing.assert_close(list(again.parameters()), list(translator(seed=5).parameters()), rtol=0, atol=0)


def test_first_weights_have_the_spread_of_their_kind() -> None:
    model = translator(preset="paper", d_model=64, d_ff=256, tied="none", source_vocabulary=500, target_vocabulary=500)
    for weight in (model.source_embedding.weight, model.target_embedding.weight, model.output):
        assert math.isclose(weight.std().item(), 64**-0.5, rel_tol=0.02)
    blocks: Any = model.encoder.blocks
    for block in blocks:
        for linear in (block.self_attention.query, block.feed_forward.inner, block.feed_forward.outer):
            bound = math.sqrt(6 / sum(linear.weight.shape))
            assert bound * 0.99 < linear.weight.abs().max() <= bound
            assert linear.bias.count_nonzero() == 0
        assert (block.self_residual.norm.weight == 1).all()
        assert block.self_residual.norm.bias.count_nonzero() == 0


def test_the_papers_base_is_the_paper() -> None:
    sizes = {"source_vocabulary": 100, "target_vocabulary": 100}
    config = ModelConfig.model_validate({"preset": "paper", "size": "base", **sizes, "tied": "all"})
    assert (config.d_model, config.heads, config.d_ff) == (512, 8, 2048)
    assert (config.encoder_layers, config.decoder_layers, config.dropout) == (6, 6, 0.1)
    with torch.device("meta"):
        model = build_model(config, seed=None)
    attention, feed_forward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 512 + 2048, 2 * 512
    layers = 6 * (attention + feed_forward + 2 * norm) + 6 * (2 * attention + feed_forward + 3 * norm)
    assert sum(weight.numel() for weight in model.parameters()) == layers + 100 * 512


WEIGHTS: list[dict[str, Any]] = [
    *({"tied": each} for each in TIES),
    *({"norm": norm, "bias": bias} for norm in NORMS for bias in (True, False)),
    *({"positions": each, "embedding_norm": True} for each in POSITIONS),
    *({"activation": each, "bias": True} for each in ACTIVATIONS),
    *({"norm_position": "post", "final_norm": each} for each in (True, False)),
    {"heads": 4, "kv_heads": 2},
    {"output_bias": True},
]
"""Settings that each change which weights there are."""


@pytest.mark.parametrize("preset", ["paper", "modern"])
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        *(("encoder_decoder", each) for each in WEIGHTS),
        *(("language_model", each) for each in WEIGHTS),
        *(("encoder", each) for each in [*WEIGHTS, {"labels": 5}] if each.get("tied") != "target"),
    ],
    ids=str,
)
def test_the_weights_of_a_model_are_known_before_it_is_built(family: str, preset: str, settings: dict) -> None:
    sizes = {"encoder_layers": 3, "decoder_layers": 12, "target_vocabulary": 19, "source_vocabulary": 19}
    config = small_config(family=family, preset=preset, **sizes, **settings)
    with torch.device("meta"):
        model = build_model(config, seed=None)
    assert weight_shapes(config) == {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert count_weights(config) == sum(weight.numel() for weight in model.parameters())


def test_both_presets_of_a_size_have_about_as_many_weights() -> None:
    def count(preset: str) -> int:
        config = small_config(preset=preset, d_model=256, heads=4, d_ff=1024 if preset == "paper" else 672)
        return sum(weight.numel() for weight in build_model(config).parameters())

    assert math.isclose(count("paper"), count("modern"), rel_tol=0.02)


def sites(**settings: Any) -> list[str]:
    return [module.name for module in translator(**settings).modules() if hasattr(module, "dropout")]  # pyright: ignore[reportReturnType]


def test_every_dropout_has_a_site_of_its_own() -> None:
    names = sites(encoder_layers=30, decoder_layers=30)
    assert len(names) == len({site_number(name) for name in names}) == 2 + 30 * 4 + 30 * 6


def test_one_more_layer_moves_no_other_site() -> None:
    assert set(sites()) < set(sites(encoder_layers=3)) and set(sites()) < set(sites(decoder_layers=3))


def test_the_number_of_a_site_never_changes() -> None:
    """Otherwise the masks of a run would change under it."""
    assert site_number("encoder.0.self_attention") == 2_558_900_874
    assert site_number("target_embedding") == 2_096_048_002


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, "model.heads must divide model.d_model, but 5 does not divide 16"),
        ({"kv_heads": 3}, "model.kv_heads must divide model.heads, but 3 does not divide 4"),
        (
            {"heads": 16, "positions": "rotary"},
            "rotary positions need an even model.d_model / model.heads, but it is 1",
        ),
        ({"d_model": 15, "heads": 5, "positions": "sinusoidal"}, "sinusoidal positions need an even model.d_model"),
        ({"max_positions": 20, "positions": "rotary"}, "model.max_positions goes with model.positions = 'learned'"),
        ({"norm_position": "pre", "final_norm": False}, "'pre' needs model.final_norm = true"),
        ({"tied": "all", "source_vocabulary": 9}, "tied = 'all' needs one joint vocabulary"),
    ],
)
def test_contradictions_are_refused_with_both_numbers(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_config(**settings)


def test_a_model_without_a_vocabulary_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="the vocabulary sizes are not set; train or load a tokenizer first"):
        build_model(small_config(source_vocabulary=None))
