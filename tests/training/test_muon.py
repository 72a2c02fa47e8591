"""Muon: orthogonal updates, against the published iteration and against what it stands for."""

from typing import ClassVar

import pytest
import reference
import torch
from closeness import assert_close
from torch import Tensor, nn

from dragoman.model.projection import Role
from dragoman.training.optimiser import MasterWeights, Muon, orthogonalise

SHAPES = [(1, 5, 5), (3, 4, 9), (2, 9, 4), (1, 1, 6)]


def on_a_device_for(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the device had instructions for bf16, or had none."""
    monkeypatch.setattr("dragoman.training.optimiser.choose_precision", lambda *_: (precision, "as the test wants it"))


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonalising_is_the_published_iteration(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, dtype=torch.float64)
    expected = torch.stack([reference.newton_schulz(matrix) for matrix in matrices])
    assert_close(orthogonalise(matrices), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_is_multiplied_in_what_the_device_multiplies(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    matrices = torch.randn(shape, dtype=torch.float32)
    exact = orthogonalise(matrices.double())
    gaps: dict[str, float] = {}
    for precision in ("float32", "bf16"):
        on_a_device_for(precision, monkeypatch)
        made = orthogonalise(matrices)
        assert made.dtype == torch.float32
        gaps[precision] = float((made - exact).norm() / exact.norm())
    assert gaps["float32"] < 1e-4 < gaps["bf16"] < 0.1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_end_near_one_and_singular_vectors_stay(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    made = orthogonalise(torch.randn(shape, dtype=torch.float64).to(dtype)).double()
    assert made.dtype == torch.float64
    values = torch.linalg.svdvals(made)
    assert values.min() > 0.3 and values.max() < 1.3


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(torch.float64, 0.68, 1.21), (torch.float32, 0.67, 1.22)], ids=["float64", "bf16"]
)
def test_singular_values_end_where_the_docstring_says(
    dtype: torch.dtype, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All singular values from 0.00001 to 0.5 of the norm, in matrices whose norm is one."""
    on_a_device_for("bf16", monkeypatch)
    values = torch.logspace(-5, -0.31, 4_000, dtype=torch.float64)
    rest = (1 - values.square()).sqrt()
    made = orthogonalise(torch.diag_embed(torch.stack([values, rest], -1)).to(dtype)).double()
    found = made.diagonal(dim1=-2, dim2=-1)[:, 0]
    large = values >= 0.002
    assert low <= found[large].min() and found[large].max() <= high
    assert found[large].min() < 0.7, "the published coefficients do not keep values above 0.7"
    assert (found[~large] <= 1.05 * 3.4445**5 * values[~large]).all() and (found[~large] > 0).all()
    assert found[values < 0.001].max() < 0.5


def test_the_direction_is_the_nearest_orthogonal_matrix() -> None:
    matrices = torch.randn(2, 6, 8, dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    rotated = left.mT @ orthogonalise(matrices) @ right.mT
    off_diagonal = rotated - torch.diag_embed(rotated.diagonal(dim1=-2, dim2=-1))
    assert off_diagonal.abs().max() < 1e-9
    assert rotated.diagonal(dim1=-2, dim2=-1).min() > 0.5


def test_the_size_of_a_gradient_does_not_matter_and_no_gradient_moves_nothing() -> None:
    matrix = torch.randn(1, 5, 7)
    assert_close(orthogonalise(matrix * 1e-3), orthogonalise(matrix), share=2e-2)
    assert not orthogonalise(torch.zeros(1, 5, 7)).any()


def test_the_steps_are_the_published_algorithm() -> None:
    row = nn.Parameter(torch.randn(24, dtype=torch.float64))
    expected, mean = row.detach().view(4, 6).clone(), torch.zeros(4, 6, dtype=torch.float64)
    muon = Muon(row, [(4, 6)], weight_decay=0.1)
    for _ in range(4):
        row.grad = torch.randn_like(row)
        muon.param_groups[0]["lr"] = 0.02
        muon.step()
        mean = 0.95 * mean + 0.05 * row.grad.view(4, 6)
        direction = reference.newton_schulz(0.95 * mean + 0.05 * row.grad.view(4, 6))
        expected = expected * (1 - 0.02 * 0.1) - 0.02 * 0.2 * 6**0.5 * direction
        assert_close(row.detach().view(4, 6), expected)


def test_matrices_moved_together_move_as_each_would_alone() -> None:
    shapes = [(3, 5), (3, 5), (3, 5), (5, 3), (2, 2)]
    matrices = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    gradients = [torch.randn_like(matrix) for matrix in matrices]

    def moved(which: slice) -> Tensor:
        row = nn.Parameter(torch.cat([matrix.flatten() for matrix in matrices[which]]))
        row.grad = torch.cat([gradient.flatten() for gradient in gradients[which]])
        muon = Muon(row, shapes[which])
        muon.param_groups[0]["lr"] = 0.1
        muon.step()
        return row.detach()

    alone = [moved(slice(i, i + 1)) for i in range(len(shapes))]
    assert_close(moved(slice(None)), torch.cat(alone))


def test_a_scaled_gradient_is_taken_as_it_was_and_one_that_is_not_finite_not_at_all() -> None:
    plain, scaled = (Muon(nn.Parameter(torch.ones(12)), [(3, 4)], weight_decay=0.1) for _ in range(2))
    for muon, scale in ((plain, 1.0), (scaled, 8.0)):
        (row,) = muon.param_groups[0]["params"]
        muon.param_groups[0]["lr"], muon.grad_scale, muon.found_inf = 0.1, torch.tensor(scale), torch.tensor(0.0)
        row.grad = torch.arange(12.0) * scale
        muon.step()
    one, other = (muon.param_groups[0]["params"][0] for muon in (plain, scaled))
    assert torch.equal(one, other)
    before, mean = one.detach().clone(), plain.state[one]["momentum"].clone()
    plain.found_inf, one.grad = torch.tensor(1.0), torch.full((12,), torch.nan)
    plain.step()
    assert torch.equal(one, before) and torch.equal(plain.state[one]["momentum"], mean)


class Tables(nn.Module):
    """An embedding, an output, a bias and a matrix between them."""

    roles: ClassVar[dict[str, Role]] = {"embedding": "table", "output": "table"}

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.inner = nn.Parameter(torch.randn(5, 4)), nn.Linear(4, 4)
        self.output = nn.Parameter(torch.randn(5, 4))

    def loss(self) -> Tensor:
        return (self.inner(self.embedding).sin() @ self.output.T).square().sum()


def test_tables_and_vectors_are_left_to_adamw() -> None:
    model, plain = Tables(), Tables()
    plain.load_state_dict(model.state_dict())
    muon = MasterWeights(model, "float32", "muon", (0.9, 0.98), 1e-9, 0.1)
    adamw = MasterWeights(plain, "float32", "adamw", (0.9, 0.98), 1e-9, 0.1)
    for each, masters in ((model, muon), (plain, adamw)):
        masters.attach(each)
        each.loss().backward()
        masters.collect_gradients()
        masters.step(0.01)
    assert {name for name in muon.state() if name.startswith("momentum.")} == {"momentum.inner.weight"}
    for name, weight in muon.weights.items():
        assert torch.equal(weight, adamw.weights[name]) == (name != "inner.weight"), name
