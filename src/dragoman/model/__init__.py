"""The Transformer of Vaswani et al. (2017) and its later variants, from token ids to logits, equation by equation.

Read in the order of the paper: `embedding`, `projection`, `attention_backends` (the equation), `attention` (its heads),
`layers` (norms, feed-forward, residual), `blocks`, `transformer`. This room is independent of text, losses, search and
files. Only `config`, `shapes` and the builder in `transformer` use settings.
"""
