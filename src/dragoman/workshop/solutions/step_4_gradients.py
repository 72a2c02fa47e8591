"""Page 4, gradients. Shapes: B rows, I inputs, H hidden features, O outputs, V tokens of the vocabulary."""

import torch
from torch.nn.functional import one_hot


def network_gradients(x, W1, W2, t):
    """Return dW1 (I, H) and dW2 (H, O), the gradients of L = sum((y - t)^2) / 2, where y = relu(x W1) W2.

    x is (B, I), W1 (I, H), W2 (H, O) and t (B, O). Use the chain rule, not `backward`.
    """
    z = x @ W1
    h = z.relu()
    dy = h @ W2 - t
    dz = dy @ W2.T * (z > 0)
    return x.T @ dz, h.T @ dy


def finite_differences(loss, weights, change=1e-4):
    """Return the gradient of loss(), in the shape of the weights, by moving each weight up and down by `change`.

    `loss` takes no argument, and reads the weights. In the end the weights are as they were.
    """
    slopes = torch.zeros_like(weights)
    for place in range(weights.numel()):
        weight = weights.view(-1)[place]
        kept = weight.item()
        weight.fill_(kept + change)
        above = loss()
        weight.fill_(kept - change)
        slopes.view(-1)[place] = (above - loss()) / (2 * change)
        weight.fill_(kept)
    return slopes


def logits_gradient(logits, labels, smoothing=0.0):
    """Return the gradient of the mean cross-entropy by the logits (B, V): p - q for each row, and the mean of B rows.

    q is 1 - smoothing for the label, and smoothing is spread equally over all V tokens, the label included.
    """
    p = logits.softmax(-1)
    q = (1 - smoothing) * one_hot(labels, logits.size(-1)) + smoothing / logits.size(-1)
    return (p - q) / len(logits)
