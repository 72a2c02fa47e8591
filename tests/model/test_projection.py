"""Projections: whatever takes the place of one takes part everywhere, and decoding prepares all of them once."""

import copy
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import END, PRESETS, START, language_model, random_batch, translator
from torch import Tensor, nn

from dragoman.model.dropout import StepKey
from dragoman.model.packing import Packing
from dragoman.model.projection import Affine, Dense, Projection, join, weight_roles
from dragoman.model.transformer import EncoderDecoder, prepare_for_decoding
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.optimiser import MasterWeights

SOURCE, TARGET = torch.tensor([START, 7, 9, 8, END]), torch.tensor([START, 5, 6, 11])


class LowRank(Projection):
    """An adapter (Hu et al. 2022): a frozen projection, and a matrix of low rank that learns beside it."""

    def __init__(self, frozen: Projection, rank: int = 2) -> None:
        super().__init__()
        weight = frozen.effective().weight
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, weight.size(1), dtype=weight.dtype))
        self.up = nn.Parameter(torch.randn(weight.size(0), rank, dtype=weight.dtype))

    def effective(self) -> Affine:
        weight, bias = self.frozen.effective()
        return Affine(weight + self.up @ self.down, bias)


def projections(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, Projection)]


def adapt(model: nn.Module, name: str) -> LowRank:
    projection = model.get_submodule(name)
    assert isinstance(projection, Projection)
    adapter = LowRank(projection)
    model.set_submodule(name, adapter)
    return adapter


@torch.inference_mode()
def decoded(model: EncoderDecoder) -> Tensor:
    """Decoder output token by token from a cache."""
    of_source = Packing.of([len(SOURCE)])
    cache = model.start(model.encode(SOURCE, of_source), of_source)
    return torch.cat([model.decode(token, Packing.of([1]), cache) for token in TARGET.split(1)])


PLACES = [(preset, name) for preset in PRESETS for name in projections(translator(preset=preset))]


@pytest.mark.parametrize(("preset", "place"), PLACES)
def test_an_adapter_takes_part_wherever_it_is_put_in_training_and_in_decoding(preset: str, place: str) -> None:
    plain, model, batch = translator(preset=preset), translator(preset=preset), random_batch([3, 5], [4, 2])
    before = decoded(plain)
    adapter = adapt(model, place)
    hidden = model(*batch.inputs, dropout_key=StepKey(1, 1))
    assert (hidden - plain(*batch.inputs, dropout_key=StepKey(1, 1))).abs().max() > 1e-3
    label_smoothed_loss(hidden, model.output, batch.labels).smoothed.backward()
    assert adapter.frozen.effective().weight.grad is None
    for weight in (adapter.up, adapter.down):
        assert weight.grad is not None and weight.grad.any()
    prepared = prepare_for_decoding(model, "cpu", torch.float64)
    assert (decoded(model) - before).abs().max() > 1e-3
    assert_close(decoded(prepared), decoded(model))


@pytest.mark.parametrize("kind", ["float32", "bf16"])
def test_an_adapter_is_all_that_training_moves(kind: Any) -> None:
    model, batch = translator(dtype=torch.float32), random_batch([3, 5], [4, 2])
    model.requires_grad_(False)
    names = ["encoder.blocks.0.self_attention.value", "decoder.blocks.1.feed_forward.outer"]
    adapters = [adapt(model, name) for name in names]
    masters = MasterWeights(model, kind, "muon", (0.9, 0.98), 1e-9, 0.0)
    masters.attach(model)
    before = {name: weight.clone() for name, weight in masters.weights.items()}
    hidden = model(*batch.inputs)
    (hidden.float().square().sum()).backward()
    masters.collect_gradients()
    masters.step(0.1)
    moved = {name for name, weight in masters.weights.items() if not torch.equal(weight, before[name])}
    assert moved == {f"{name}.{part}" for name in names for part in ("up", "down")}
    assert all(adapter.frozen.effective().weight.dtype == adapter.up.dtype for adapter in adapters)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_prepared_model_decodes_to_the_bit_as_the_model_would_and_leaves_it_alone(
    preset: str, dtype: torch.dtype
) -> None:
    model = translator(preset=preset, dtype=torch.float32, kv_heads=2)
    before = {name: (weight.data_ptr(), weight.clone()) for name, weight in model.named_parameters()}
    prepared = prepare_for_decoding(model, "cpu", dtype)
    assert torch.equal(decoded(prepared), decoded(copy.deepcopy(model).to(dtype)))
    for name, weight in model.named_parameters():
        assert weight.requires_grad and weight.data_ptr() == before[name][0], name
        assert torch.equal(weight, before[name][1]), name


@pytest.mark.parametrize("make", [translator, language_model])
def test_a_prepared_model_holds_every_weight_once_under_its_own_name(make: Any) -> None:
    model = make(dtype=torch.float32)
    prepared = prepare_for_decoding(model, "cpu", torch.bfloat16)
    weights = {name: weight.shape for name, weight in model.named_parameters()}
    assert {name: weight.shape for name, weight in prepared.named_parameters()} == weights
    storages = [weight.untyped_storage() for weight in prepared.parameters()]
    joined = [module.joined for module in prepared.modules() if getattr(module, "joined", None) is not None]
    storages += [part.untyped_storage() for affine in joined for part in affine if part is not None]
    held = {storage.data_ptr(): storage.nbytes() for storage in storages}
    assert len(joined) >= 2 and sum(held.values()) == 2 * sum(shape.numel() for shape in weights.values())


def test_a_prepared_model_joins_nothing_while_it_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare_for_decoding(translator(), "cpu", torch.float64)
    monkeypatch.setattr(Projection, "effective", lambda _: pytest.fail("a plain matrix was expected"))
    monkeypatch.setattr("dragoman.model.attention.join", lambda _: pytest.fail("joined in a step"))
    monkeypatch.setattr("dragoman.model.blocks.join", lambda _: pytest.fail("joined in a step"))
    assert decoded(prepared).isfinite().all()


def test_joined_projections_are_each_beside_the_others() -> None:
    x, parts = torch.randn(4, 6), [Dense(6, 3), Dense(6, 5), Dense(6, 2)]
    for part in parts:
        assert part.bias is not None
        nn.init.normal_(part.bias)
    assert_close(join(parts)(x), torch.cat([part(x) for part in parts], dim=1))


def test_projections_with_and_without_a_bias_are_not_joined() -> None:
    with pytest.raises(AssertionError, match="either all joined projections"):
        join([Dense(6, 3), Dense(6, 3, bias=False)])


def test_every_weight_has_the_role_of_its_kind() -> None:
    roles = weight_roles(translator(preset="paper", tied="none", positions="learned", max_positions=9))
    tables = {f"{side}_embedding.{name}" for side in ("source", "target") for name in ("weight", "positions.weight")}
    assert {name for name, role in roles.items() if role == "table"} == tables | {"output"}
    names = {name for name, role in roles.items() if role == "projection"}
    assert names == {f"{name}.weight" for name in projections(translator(preset="paper"))}
    assert all(name.endswith("bias") or "norm" in name for name, role in roles.items() if role == "vector")


class Quantised(Projection):
    """A weight of 8-bit integers with a scale for each row (Jacob et al. 2018), in training and in decoding alike."""

    def __init__(self, plain: Projection) -> None:
        super().__init__()
        weight, bias = plain.effective()
        self.scale = nn.Parameter(weight.detach().abs().amax(1, keepdim=True) / 127, requires_grad=False)
        self.register_buffer("integers", (weight.detach() / self.scale).round().to(torch.int8))
        self.bias = nn.Parameter(bias.detach(), requires_grad=False) if bias is not None else None

    def effective(self) -> Affine:
        return Affine(self.get_buffer("integers") * self.scale, self.bias)

    def prepared(self) -> Projection:
        return self


@pytest.mark.parametrize(("preset", "place"), PLACES)
def test_a_quantised_projection_decodes_as_it_is(preset: str, place: str) -> None:
    model = translator(preset=preset)
    projection = model.get_submodule(place)
    assert isinstance(projection, Projection)
    model.set_submodule(place, Quantised(projection))
    prepared = prepare_for_decoding(model, "cpu", torch.float64)
    kept = prepared.get_submodule(place)
    assert isinstance(kept, Quantised) and kept.get_buffer("integers").dtype == torch.int8
    assert_close(decoded(prepared), decoded(model))
    assert (decoded(model) - decoded(translator(preset=preset))).abs().max() > 1e-6
