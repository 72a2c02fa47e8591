"""Freezing by readable names: what is frozen takes no gradient, no state and no activations, and nothing else does."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from small import Source, few_batches, language_model, objective, random_batch, train_settings, translator
from torch import nn

import dragoman
from dragoman.cli.main import main
from dragoman.config import as_overrides, check, override
from dragoman.errors import ConfigError
from dragoman.model.adapters import is_named
from dragoman.model.dropout import StepKey
from dragoman.model.packing import Packing
from dragoman.runs.recipe import Recipe
from dragoman.training.distributed import ALONE
from dragoman.training.freezing import count_trained, freeze, tune
from dragoman.training.loop import backward
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.optimiser import MasterWeights
from dragoman.training.prefetching import fetch
from dragoman.training.settings import TuningSettings


def frozen(*asked: str, **settings: Any) -> set[str]:
    """The names of the weights that are frozen."""
    model = translator(**settings)
    freeze(model, asked)
    return {name for name, weight in model.named_parameters() if not weight.requires_grad}


def every(**settings: Any) -> set[str]:
    return {name for name, _ in translator(**settings).named_parameters()}


@pytest.mark.parametrize(
    ("asked", "beginnings"),
    [
        ("encoder", ("encoder.",)),
        ("encoder.1", ("encoder.blocks.1.",)),
        ("embeddings", ("source_embedding.", "target_embedding.")),
        ("output", ("output",)),
        ("encoder.blocks.[01].*", ("encoder.blocks.0.", "encoder.blocks.1.")),
        ("decoder.0.cross_attention", ("decoder.blocks.0.cross_attention.",)),
        ("source_embedding.weight", ("source_embedding.weight",)),
    ],
)
def test_a_part_is_frozen_by_its_name(asked: str, beginnings: tuple[str, ...]) -> None:
    assert frozen(asked, tied="none") == {name for name in every(tied="none") if name.startswith(beginnings)}


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("self_attention", "self_attention."), ("cross_attention", "cross_attention."), ("attention", "_attention."),
        ("feed_forward", "feed_forward."), ("norms", "norm."), ("*.bias", ".bias"),
    ],
)  # fmt: skip
def test_a_kind_is_frozen_wherever_it_stands(asked: str, part: str) -> None:
    assert frozen(asked, preset="paper") == {name for name in every(preset="paper") if part in name}


def test_all_but_some_parts_is_what_remains() -> None:
    kept = every() - frozen("all but cross_attention, norms")
    assert kept == {name for name in every() if "cross_attention." in name or "norm" in name}


def test_several_names_freeze_all_that_any_of_them_names() -> None:
    assert frozen("encoder", "norms") == frozen("encoder") | frozen("norms")


def test_a_tied_matrix_is_frozen_by_any_of_its_names_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "dragoman"):
        assert frozen("embeddings", tied="all") == {"output"}
    assert "output and source_embedding.weight and target_embedding.weight are one matrix, so all of it is frozen" in (
        caplog.text
    )
    caplog.clear()
    with caplog.at_level("INFO", "dragoman"):
        assert "source_embedding.weight" in frozen("all but output", tied="target")
    assert "output and target_embedding.weight are one matrix, so all of it trains" in caplog.text


def test_a_name_that_fits_nothing_is_refused_with_the_names_that_do() -> None:
    with pytest.raises(ConfigError, match="no weight of this model is called 'encodr'; it has encoder, decoder, emb.*"):
        frozen("encodr")
    with pytest.raises(ConfigError, match=r"called 'encoder.7'"):
        frozen("encoder.7")
    with pytest.raises(ConfigError, match="called 'cross'"):
        frozen("all but cross")
    model = language_model()
    with pytest.raises(ConfigError, match="called 'encoder'; it has decoder, embeddings, output, norms") as caught:
        freeze(model, ["encoder"])
    assert "cross_attention" not in str(caught.value)


def test_something_is_left_to_train() -> None:
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        frozen("encoder", "decoder", "embeddings", "output")


def test_tuning_needs_a_model_to_start_from_and_takes_one_way() -> None:
    with pytest.raises(ConfigError, match=r"none to start from; use dragoman fine-tune"):
        check({"tuning": {"freeze": ["encoder"]}}, "recipe", Recipe)
    with pytest.raises(ConfigError, match=r"leave tuning.freeze out"):
        check({"freeze": ["encoder"], "lora": {"rank": 2}}, "tuning", TuningSettings)


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_a_frozen_beginning_records_nothing(preset: str) -> None:
    model = translator(preset=preset, dtype=torch.float32, dropout=0.1, attention_dropout=0.1, tied="all")
    freeze(model, ["encoder", "embeddings"])
    batch, dropout_key = random_batch([3, 5], [4, 2]), StepKey(1, 1)
    assert batch.source is not None and batch.source_lengths is not None
    packing = Packing.of(batch.source_lengths)
    memory = model.encode(batch.source, packing, dropout_key)
    assert memory.grad_fn is None and not memory.requires_grad
    assert model.cross_keys(memory, packing).layer(0).key.requires_grad


def saved_bytes(model: nn.Module) -> int:
    """What one pass keeps for the way back, weights aside."""
    kept: dict[int, int] = {}
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = random_batch([9] * 8, [7] * 8)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = model(*batch.inputs, dropout_key=StepKey(1, 1))
        loss = label_smoothed_loss(hidden, model.get_parameter("output"), batch.labels)
    assert loss.smoothed.requires_grad
    return sum(kept.values())


def test_the_lower_a_model_is_frozen_the_less_a_pass_keeps() -> None:
    sizes = []
    for asked in ([], ["embeddings", "encoder"], ["all but decoder.1"]):
        model = translator(dtype=torch.float32, tied="all", dropout=0.1)
        freeze(model, asked)
        sizes.append(saved_bytes(model))
    whole, no_encoder, last_layer = sizes
    assert whole > 1.5 * no_encoder and no_encoder > 1.25 * last_layer


@pytest.mark.parametrize("asked", ["encoder", "embeddings", "all but cross_attention", "output"])
def test_the_gradient_of_what_trains_is_that_of_the_whole_model(asked: str) -> None:
    batch, found = random_batch([3, 5], [4, 2]), []
    for names in ([], [asked]):
        model = translator(tied="none")
        freeze(model, names)
        label_smoothed_loss(model(*batch.inputs), model.output, batch.labels, 0.1).smoothed.backward()
        found.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    whole, part = found
    assert part.keys() == whole.keys() - frozen(asked, tied="none")
    for name, gradient in part.items():
        assert torch.equal(gradient, whole[name]), name


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_frozen_weights_have_no_state_and_do_not_move(precision: Any) -> None:
    model = translator(dtype=torch.float32)
    tune(model, TuningSettings(freeze=("encoder", "embeddings")))
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    settings = train_settings()
    masters = MasterWeights(model, precision, settings.optimiser, settings.betas, settings.epsilon, 0.1)
    masters.attach(model)
    source = Source(few_batches())
    backward(model, objective(source, settings), masters, fetch(source, [0, 1], ALONE), StepKey(1, 1))
    masters.step(0.01)
    trains = {name for name in before if name.startswith("decoder.")}
    assert {name.partition(".")[2] for name in masters.state()} == trains
    moved = {name for name, weight in masters.weights.items() if not torch.equal(weight, before[name])}
    assert moved == trains
    assert count_trained(model).trained == masters.flat.numel() == masters.gradient.numel()


def test_words_of_a_name_are_joined_by_dots() -> None:
    name = "decoder.blocks.0.cross_attention.query.weight"
    assert all(is_named(name, asked) for asked in ("decoder", "decoder.0", "attention.query", "decoder.*.weight", name))
    assert not any(is_named(name, asked) for asked in ("encoder", "decoder.1", "self_attention", "query.*", ""))


def test_the_command_line_says_what_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def fine_tune(
        *_: Any, overrides: Sequence[str] = (), freeze: list[str] | None = None, lora: int | None = None, **__: Any
    ) -> None:
        given[:] = as_overrides({"tuning.freeze": freeze, "tuning.lora.rank": lora}, overrides)
        raise ConfigError("this is only a test")

    def asked(*options: str) -> Any:
        assert main(["fine-tune", "model", "data", *options]) == ConfigError.exit_code
        return override({}, given).get("tuning")

    monkeypatch.setattr(dragoman, "fine_tune", fine_tune, raising=False)
    parts = ["encoder", "all but norms"]
    assert asked(*(f"--freeze={part}" for part in parts)) == {"freeze": parts}
    assert asked("--lora", "4", "--set", "tuning.lora.alpha=8") == {"lora": {"rank": 4, "alpha": 8}}
    assert asked() is None
