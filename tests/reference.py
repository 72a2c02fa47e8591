"""What the model and the training compute, once more: loops over plain numbers and no cleverness.

Slow on purpose. A test that compares with these compares with the equation.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Vector = list[float]
Matrix = list[Vector]


def softmax(scores: Sequence[float]) -> Vector:
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    return [power / sum(powers) for power in powers]


def attention(
    queries: Matrix, keys: Matrix, values: Matrix, visible: Sequence[Sequence[bool]]
) -> tuple[Matrix, Matrix]:
    """Mixed values and weights of one head of one sentence."""
    mixed, weights = [], []
    for query, row in zip(queries, visible, strict=True):
        seen = [place for place, allowed in enumerate(row) if allowed]
        scores = [sum(q * k for q, k in zip(query, keys[s], strict=True)) / math.sqrt(len(query)) for s in seen]
        shares = dict(zip(seen, softmax(scores), strict=True)) if seen else {}
        weights.append([shares.get(s, 0.0) for s in range(len(keys))])
        mixed.append([sum(shares[s] * values[s][i] for s in seen) for i in range(len(values[0]))])
    return mixed, weights


def layer_norm(x: Vector, epsilon: float) -> Vector:
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return [(value - mean) / math.sqrt(variance + epsilon) for value in x]


def rms_norm(x: Vector, epsilon: float) -> Vector:
    return [value / math.sqrt(sum(other**2 for other in x) / len(x) + epsilon) for value in x]


def sinusoids(position: int, d_model: int, base: float) -> Vector:
    row = []
    for i in range(d_model // 2):
        angle = position / base ** (2 * i / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return row


def rotated(x: Vector, position: int, base: float) -> Vector:
    """Pairs (i, i + half) as complex numbers, multiplied by e^(i * angle)."""
    half = len(x) // 2
    turned = []
    for i in range(half):
        angle = position / base ** (2 * i / len(x))
        turned.append(complex(x[i], x[i + half]) * complex(math.cos(angle), math.sin(angle)))
    return [number.real for number in turned] + [number.imag for number in turned]


def smoothed_cross_entropy(logits: Matrix, labels: Sequence[int], smoothing: float) -> float:
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        for token, probability in enumerate(softmax(row)):
            wanted = smoothing / len(row) + (1 - smoothing if token == label else 0.0)
            total -= wanted * math.log(probability)
    return total


def noam_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Equation 3 of the paper, letter by letter."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def adamw_step(
    weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, rate: float, decay: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Algorithm 2 of Loshchilov and Hutter (2019), betas 0.9 and 0.98, epsilon 1e-9; new weight and both moments."""
    first = 0.9 * first + 0.1 * gradient
    second = 0.98 * second + 0.02 * gradient**2
    unbiased, spread = first / (1 - 0.9**step), second / (1 - 0.98**step)
    return weight - rate * (unbiased / (torch.sqrt(spread) + 1e-9) + decay * weight), first, second


def newton_schulz(matrix: Tensor) -> Tensor:
    """Muon's iteration as Jordan et al. (2024) print it."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix / (matrix.norm() + 1e-7)
    if matrix.size(0) > matrix.size(1):
        x = x.T
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.size(0) > matrix.size(1) else x
