"""Ids in, logits out: the Transformer of Vaswani et al. (2017) and its later forms, equation by equation.

Read in the order of the paper: `embedding`, `projection`, `attention_backends` (the equation) and `attention` (its
heads), `layers` (norms, feed-forward, residual), `blocks`, `transformer`. Knows nothing of text, losses, searches or
files. `config`, `shapes` and the builder in `transformer` alone know settings.
"""
