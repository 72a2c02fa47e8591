"""Page 9, the trainer, and greedy search of page 11. Shapes: B sentences, S and T tokens, M rows, V words."""

import torch

PAD, START, END = range(3)


def smoothed_loss(logits, labels, smoothing=0.1):
    """Return the mean cross-entropy with label smoothing of logits (M, V); rows with the label PAD do not count."""
    log_probs = logits.log_softmax(-1)
    plain = -log_probs.gather(-1, labels[:, None])[:, 0]
    uniform = -log_probs.mean(-1)
    loss = (1 - smoothing) * plain + smoothing * uniform
    return loss[labels != PAD].mean()


def loss_of(model, source, target):
    """Return the smoothed loss: model(source, read) gives logits (B, T - 1, V), where `target` (B, T) is shifted."""
    read, labels = target[:, :-1], target[:, 1:]
    logits = model(source, read)
    return smoothed_loss(logits.flatten(0, 1), labels.flatten())


def learning_rate(step, d_model, warmup_steps):
    """Return the paper's rate, section 5.3. Steps count from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def adam(weight, gradients, rate=0.01, beta_1=0.9, beta_2=0.98, eps=1e-9):
    """Return the weight after a step of Adam for each of the gradients."""
    m, v = torch.zeros_like(weight), torch.zeros_like(weight)
    for t, g in enumerate(gradients, 1):
        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g**2
        mean, mean_square = m / (1 - beta_1**t), v / (1 - beta_2**t)
        weight = weight - rate * mean / (mean_square.sqrt() + eps)
    return weight


def train_step(model, optimiser, source, target, rate):
    """Set the optimiser's learning rate, move the weights by one step, and return the loss as a float."""
    optimiser.param_groups[0]["lr"] = rate
    loss = loss_of(model, source, target)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item()


@torch.no_grad()
def greedy(model, source, longest=60):
    """Return target ids (B, T) for source ids (B, S): START, then always the most probable token.

    Use model.encode once and model.decode for each token. Stop when each row has END, or T is `longest`.
    """
    memory, visible = model.encode(source)
    target = torch.full((len(source), 1), START, device=source.device)
    while not (target == END).any(1).all() and target.size(1) < longest:
        following = model.decode(target, memory, visible)[:, -1].argmax(-1, keepdim=True)
        target = torch.cat([target, following], 1)
    return target
