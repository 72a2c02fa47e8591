"""Temperatures that make probabilities true, and the error that says how true they are."""

import numpy as np
import pytest
import torch

from dragoman.inference.labels import HIGHEST, LOWEST, expected_calibration_error, fit_temperature


def drawn(examples: int, labels: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits whose probabilities are true: gold labels are drawn from them."""
    logits = 2 * torch.randn(examples, labels, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(1), 1)[:, 0]


def loss(logits: torch.Tensor, gold: torch.Tensor, temperature: float) -> float:
    return float(torch.nn.functional.cross_entropy(logits.double() / temperature, gold))


def test_the_temperature_is_the_likeliest_of_a_fine_grid():
    logits, gold = drawn(300)
    best = fit_temperature(3 * logits, gold)
    grid = np.geomspace(LOWEST, HIGHEST, 4001)
    nearest = min(grid, key=lambda temperature: loss(3 * logits, gold, temperature))
    assert best == pytest.approx(nearest, rel=0.002)
    assert loss(3 * logits, gold, best) <= loss(3 * logits, gold, nearest)


@pytest.mark.parametrize("factor", [0.3, 1.0, 5.0])
def test_logits_that_are_too_sharp_or_too_flat_are_brought_back(factor):
    logits, gold = drawn(20_000)
    assert fit_temperature(factor * logits, gold) == pytest.approx(factor, rel=0.05)


def test_a_factor_of_the_logits_is_one_of_the_temperature():
    logits, gold = drawn(200)
    assert fit_temperature(2 * logits, gold) == pytest.approx(2 * fit_temperature(logits, gold), rel=1e-12)


def test_where_all_labels_are_right_nothing_is_calibrated():
    logits, _ = drawn(50)
    assert fit_temperature(logits, logits.argmax(1)) == 1.0


def test_a_temperature_stays_within_its_bounds():
    logits, gold = torch.tensor([[9.0, 0.0]] * 10), torch.tensor([1] * 10)
    assert fit_temperature(logits, gold) == pytest.approx(HIGHEST)
    almost = torch.tensor([[1e-4, 0.0]] * 99 + [[0.0, 1e-4]])
    assert fit_temperature(almost, torch.tensor([0] * 100)) == pytest.approx(LOWEST)


def plain_error(probabilities: list[list[float]], gold: list[int], bins: int) -> float:
    """Guo et al. 2017, eq. 3, as loops."""
    error = 0.0
    for number in range(bins):
        inside = [
            (max(row), row.index(max(row)) == label)
            for row, label in zip(probabilities, gold, strict=True)
            if number / bins < max(row) <= (number + 1) / bins
        ]
        if inside:
            confidence, accuracy = (sum(each) / len(inside) for each in zip(*inside, strict=True))
            error += len(inside) / len(gold) * abs(accuracy - confidence)
    return error


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_calibration_error_is_that_of_the_paper(bins):
    logits, gold = drawn(200)
    probabilities = (3 * logits).softmax(1)
    found = expected_calibration_error(probabilities, gold, bins)
    assert found == pytest.approx(plain_error(probabilities.tolist(), gold.tolist(), bins), abs=1e-12)


def test_the_fitted_temperature_lowers_the_calibration_error():
    logits, gold = drawn(5000)
    sharp = 4 * logits
    after = expected_calibration_error((sharp / fit_temperature(sharp, gold)).softmax(1), gold)
    assert after < 0.03 < expected_calibration_error(sharp.softmax(1), gold)


def test_sure_and_right_is_no_error_and_sure_and_wrong_is_one():
    sure = torch.eye(2)
    assert expected_calibration_error(sure, torch.tensor([0, 1])) == 0.0
    assert expected_calibration_error(sure, torch.tensor([1, 0])) == 1.0


def test_a_probability_on_the_edge_of_two_bins_belongs_to_the_lower_one() -> None:
    probabilities = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64)
    gold = torch.tensor([1 - int(probabilities[0].argmax()), 1])  # the first is wrong, the second right
    assert expected_calibration_error(probabilities, gold, bins=2) == pytest.approx((0.5 + 0.25) / 2)
    assert expected_calibration_error(probabilities, gold, bins=1) == pytest.approx((0.5 - 0.25) / 2)
