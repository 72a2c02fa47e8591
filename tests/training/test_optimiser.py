"""The masters and the optimiser that moves them."""

import copy

import pytest
import reference
import torch
from closeness import assert_close
from torch import Tensor, nn

from dragoman.training.optimiser import MasterWeights, Optimiser, Precision


class Names(nn.Module):
    """Weights whose names end alike, matrices and vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Parameter(torch.randn(3, 2))
        self.bias = nn.Parameter(torch.randn(3))
        self.inner = nn.ModuleDict({"output": nn.Linear(2, 3), "bias": nn.Linear(3, 2)})

    def loss(self, x: Tensor) -> Tensor:
        hidden = self.inner["output"](x) + x @ self.output.T + self.bias
        return self.inner["bias"](hidden.sin()).square().sum()


def masters_of(
    model: nn.Module, precision: Precision = "float32", kind: Optimiser = "adamw", decay: float = 0.1
) -> MasterWeights:
    """The masters of a model that is attached to them."""
    masters = MasterWeights(model, precision, kind, (0.9, 0.98), 1e-9, decay)
    masters.attach(model)
    return masters


def one_step(model: Names, masters: MasterWeights, seed: int, rate: float = 0.05) -> None:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 2, generator=random).to(model.output.dtype)
    model.loss(x).backward()
    masters.collect_gradients()
    masters.step(rate)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_masters_leave_the_model_alone_until_it_is_attached(precision: Precision) -> None:
    model = Names()
    before = {name: (weight.data_ptr(), weight.dtype, weight.clone()) for name, weight in model.named_parameters()}
    masters = MasterWeights(model, precision, "adamw", (0.9, 0.98), 1e-9, 0.1)
    masters.flat.zero_()
    for name, weight in model.named_parameters():
        address, dtype, values = before[name]
        assert (weight.data_ptr(), weight.dtype) == (address, dtype) and torch.equal(weight, values), name
    masters.attach(model)
    masters.sync()
    assert not any(weight.any() for weight in model.parameters())


@pytest.mark.parametrize("kind", ["adamw", "adam"])
def test_in_float32_the_steps_are_torchs_own(kind: Optimiser) -> None:
    ours, theirs = Names(), Names()
    theirs.load_state_dict(ours.state_dict())
    masters = masters_of(ours, kind=kind)
    groups = [
        {"params": [p for p in theirs.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in theirs.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimiser = (torch.optim.AdamW if kind == "adamw" else torch.optim.Adam)(
        groups, lr=0.05, betas=(0.9, 0.98), eps=1e-9
    )
    for seed in range(5):
        one_step(ours, masters, seed)
        optimiser.zero_grad()
        theirs.loss(torch.randn(4, 2, generator=torch.Generator().manual_seed(seed))).backward()
        optimiser.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_the_steps_are_the_published_algorithm() -> None:
    model = nn.Linear(2, 3, bias=False)
    masters, weight = masters_of(model), model.weight.detach().clone()
    first, second = torch.zeros(3, 2), torch.zeros(3, 2)
    for step in range(1, 5):
        gradient = torch.randn(3, 2)
        masters.gradient.copy_(gradient.flatten())
        weight, first, second = reference.adamw_step(weight, gradient, first, second, step, 0.02, 0.1)
        masters.step(0.02)
        assert_close(model.weight.detach(), weight)


def test_adams_decay_is_a_part_of_the_gradient_and_adamws_is_not() -> None:
    """L2 in the loss is what `adam` decays by; `adamw` shrinks the weights after a step that knows nothing of it."""
    decay, rate = 0.3, 0.05
    coupled, in_the_loss, decoupled, plain = (Names() for _ in range(4))
    for other in (in_the_loss, decoupled, plain):
        other.load_state_dict(coupled.state_dict())
    before = coupled.output.detach().clone()
    one_step(coupled, masters_of(coupled, kind="adam", decay=decay), 1, rate)
    one_step(decoupled, masters_of(decoupled, kind="adamw", decay=decay), 1, rate)
    one_step(plain, masters_of(plain, kind="adam", decay=0.0), 1, rate)
    masters = masters_of(in_the_loss, kind="adam", decay=0.0)
    sum(decay / 2 * weight.square().sum() for weight in in_the_loss.parameters() if weight.dim() > 1).backward()  # pyright: ignore
    one_step(in_the_loss, masters, 1, rate)
    torch.testing.assert_close(coupled.output, in_the_loss.output, atol=1e-6, rtol=0)
    torch.testing.assert_close(decoupled.output, plain.output - rate * decay * before, atol=1e-6, rtol=0)
    assert not torch.allclose(coupled.output, decoupled.output, atol=1e-3)


def test_matrices_decay_and_vectors_do_not() -> None:
    model = Names()
    before = copy.deepcopy(model)
    masters = masters_of(model, decay=0.5)
    masters.step(0.1)
    for (name, weight), old in zip(model.named_parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(weight.detach(), old.detach() * (0.95 if weight.dim() > 1 else 1.0), msg=name)


def test_bf16_weights_follow_float32_masters() -> None:
    model = Names()
    exact = copy.deepcopy(model)
    masters, expected = masters_of(model, "bf16"), masters_of(exact)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    for seed in range(20):
        one_step(model, masters, seed, rate=0.01)
        one_step(exact, expected, seed, rate=0.01)
    for name, weight in model.named_parameters():
        master = masters.weights[name]
        assert master.dtype == torch.float32
        assert torch.equal(weight, master.bfloat16()), name
        assert_close(master, expected.weights[name], share=0.1)


def test_steps_too_small_for_bf16_add_up_in_the_masters() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    masters = masters_of(model, "bf16", decay=0.0)
    for _ in range(100):
        model.weight.sum().backward()
        masters.collect_gradients()
        masters.step(1e-4)
    assert masters.weights["weight"].item() == pytest.approx(0.99, abs=1e-4)
    assert model.weight.item() == pytest.approx(0.99, abs=0.004)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_backward_pass_writes_all_gradients_into_one_row(precision: Precision) -> None:
    model = Names()
    masters = masters_of(model, precision)
    model.loss(torch.randn(4, 2).to(model.output.dtype)).backward()
    gradients = [gradient for name in masters.trained if (gradient := model.get_parameter(name).grad) is not None]
    assert len({gradient.untyped_storage().data_ptr() for gradient in gradients}) == 1
    expected = torch.cat([gradient.float().flatten() for gradient in gradients])
    masters.collect_gradients()
    assert expected.any() and torch.equal(masters.gradient, expected)


def test_gradients_of_micro_batches_add_up_in_float32() -> None:
    model = nn.Linear(1, 1, bias=False)
    masters = masters_of(model, "bf16")
    for gradient in (256.0, 1.0):  # in bf16, 256 + 1 is 256
        (gradient * model.weight).sum().backward()
        masters.collect_gradients()
    assert masters.gradient.item() == 257


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_what_was_saved_goes_on_with_the_same_steps_to_the_bit(precision: Precision) -> None:
    model = Names()
    masters = masters_of(model, precision)
    for seed in range(3):
        one_step(model, masters, seed)
    weights = {name: weight.detach().clone() for name, weight in masters.weights.items()}
    state = {name: value.clone() for name, value in masters.state().items()}
    again = Names()
    restored = masters_of(again, precision)
    restored.restore(weights, state)
    assert sorted(restored.state()) == sorted(state)
    for seed in range(3, 6):
        one_step(model, masters, seed)
        one_step(again, restored, seed)
    for name, weight in masters.weights.items():
        assert torch.equal(weight, restored.weights[name]), name
        assert torch.equal(model.get_parameter(name), again.get_parameter(name)), name


def test_each_moment_is_named_for_its_weight() -> None:
    model = Names()
    masters = masters_of(model)
    assert masters.state() == {}
    one_step(model, masters, 0)
    kinds = ("exp_avg", "exp_avg_sq", "step")
    assert sorted(masters.state()) == sorted(f"{kind}.{name}" for kind in kinds for name, _ in model.named_parameters())


@pytest.mark.parametrize("longest", [0.5, 1e9])
def test_clipping_shortens_all_gradients_together_and_tells_the_length_before(longest: float) -> None:
    ours, theirs = Names(), Names()
    theirs.load_state_dict(ours.state_dict())
    masters, plain = masters_of(ours), masters_of(theirs)
    x = torch.randn(4, 2)
    for model in (ours, theirs):
        model.loss(x).backward()
    length = plain.gradient.norm()
    plain.gradient.mul_(min(1.0, longest / length.item()))
    assert_close(masters.step(0.05, longest), length)
    plain.step(0.05)
    assert_close(masters.flat, plain.flat)
    torch.testing.assert_close(masters.state(), plain.state())


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_gradient_that_is_not_finite_moves_nothing(precision: Precision, broken: float) -> None:
    model = Names()
    masters = masters_of(model, precision)
    one_step(model, masters, 0)
    before, state = masters.flat.clone(), {name: value.clone() for name, value in masters.state().items()}
    (broken * model.bias).sum().backward()
    masters.collect_gradients()
    assert not masters.step(0.05, 1.0).isfinite()
    assert torch.equal(masters.flat, before)
    torch.testing.assert_close(masters.state(), state, rtol=0, atol=0)
    one_step(model, masters, 1)  # and what was not finite is forgotten, also by weights that get no gradient next time
    assert masters.flat.isfinite().all() and not torch.equal(masters.flat, before)


def test_a_weight_without_a_gradient_has_none_left_from_the_step_before() -> None:
    model = Names()
    masters = masters_of(model)
    one_step(model, masters, 0)
    model.bias.sum().backward()
    assert masters.gradient.sum() == model.bias.numel()


def test_frozen_weights_stay_and_leave_no_moments() -> None:
    model = Names()
    model.output.requires_grad_(False)
    masters, before = masters_of(model), model.output.clone()
    one_step(model, masters, 0)
    assert torch.equal(model.output, before)
    assert not any(name.endswith(".output") for name in masters.state())


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_what_was_saved_returns_to_the_models_device(kind: Optimiser) -> None:
    model = Names()
    masters = masters_of(model, kind=kind)
    one_step(model, masters, seed=1)
    elsewhere = masters_of(copy.deepcopy(model).to("meta"), kind=kind)
    elsewhere.restore(masters.weights, masters.state())
    found = {name: tensor.device.type for name, tensor in elsewhere.state().items()}
    assert found == dict.fromkeys(masters.state(), "meta")
