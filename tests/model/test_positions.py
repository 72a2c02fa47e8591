"""Positions: sinusoids, learned vectors and rotation."""

import pytest
import reference
import torch
from closeness import assert_close
from torch import nn

from dragoman.errors import ConfigError
from dragoman.model.embedding import Embedding, Learned, Rotary, Sinusoidal, rotate, sinusoids

TABLE = [
    [0.0, 1.0, 0.0, 1.0],
    [0.8415, 0.5403, 0.0100, 0.99995],
    [0.9093, -0.4161, 0.0200, 0.9998],
    [0.1411, -0.9900, 0.0300, 0.99955],
    [-0.7568, -0.6536, 0.0400, 0.9992],
]


def test_the_table_of_five_positions_four_wide() -> None:
    torch.testing.assert_close(sinusoids(torch.arange(5), 4), torch.tensor(TABLE), atol=5e-5, rtol=0)


def test_positions_are_added_to_what_they_are_given() -> None:
    x = torch.arange(1, 21).float().div(10).unflatten(0, (5, 4))
    expected = [
        [0.1, 1.2, 0.3, 1.4],
        [1.3415, 1.1403, 0.71, 1.79995],
        [1.8093, 0.5839, 1.12, 2.1998],
        [1.4411, 0.41, 1.53, 2.59955],
        [0.9432, 1.1464, 1.94, 2.9992],
    ]
    embedding = Embedding(nn.Parameter(x), Sinusoidal(4), scaled=False)
    added = embedding(torch.arange(5), torch.arange(5))
    torch.testing.assert_close(added, torch.tensor(expected), atol=6e-5, rtol=0)


@pytest.mark.parametrize("base", [10_000.0, 100.0])
def test_sinusoids_are_their_equation_also_far_out(base: float) -> None:
    positions = [0, 1, 7, 512, 100_000]
    rows = torch.tensor([reference.sinusoids(position, 10, base) for position in positions])
    # A float32 angle of 100,000 is known to within 0.004.
    torch.testing.assert_close(sinusoids(torch.tensor(positions), 10, base)[:4], rows[:4], atol=4e-5, rtol=0)
    torch.testing.assert_close(sinusoids(torch.tensor(positions), 10, base)[4], rows[4], atol=0.01, rtol=0)


def test_rotation_is_a_product_of_complex_numbers() -> None:
    x, positions = torch.randn(4, 2, 6), [0, 1, 5, 300]
    rope = Rotary(6).rope(torch.tensor(positions), x.dtype)
    expected = torch.tensor(
        [
            [reference.rotated(head, position, 10_000.0) for head in row]
            for row, position in zip(x.tolist(), positions, strict=True)
        ]
    )
    torch.testing.assert_close(rotate(x, rope), expected, atol=5e-5, rtol=0)


def test_scores_of_rotated_rows_depend_on_distances_alone() -> None:
    query, key = torch.randn(1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 8, dtype=torch.float64)

    def score(at: int, other: int) -> torch.Tensor:
        turned, over = (
            rotate(x, Rotary(8).rope(torch.tensor([place]), x.dtype)) for x, place in ((query, at), (key, other))
        )
        return (turned * over).sum()

    assert_close(score(3, 1), score(40, 38), share=1e-5)
    assert (score(3, 1) - score(3, 2)).abs() > 1e-3


def test_rotation_keeps_lengths() -> None:
    x = torch.randn(9, 3, 4)
    turned = rotate(x, Rotary(4).rope(torch.arange(9), x.dtype))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


def test_rotation_needs_pairs() -> None:
    with pytest.raises(ConfigError, match="rotary positions need an even d_model / heads, but it is 5"):
        Rotary(5)


def test_learned_positions_add_the_vector_of_the_place() -> None:
    learned, table = Learned(6, 4), torch.randn(3, 4)
    torch.nn.init.normal_(learned.weight)
    embedding = Embedding(nn.Parameter(table), learned, scaled=False)
    added = embedding(torch.tensor([0, 1, 2]), torch.tensor([5, 0, 5]))
    torch.testing.assert_close(added, table + learned.weight[[5, 0, 5]])
