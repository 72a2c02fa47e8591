"""Ids in, logits out: the Transformer of Vaswani et al. (2017) and its later forms, equation by equation.

Read in the order of the paper: `positions`, `projection`, `attention` (a floor of its own), `layers` (norms,
feed-forward, residual), `blocks`, `encoder` and `decoder`, `families`. Knows nothing of text, losses, searches or
files. `config` and `build` alone know settings.
"""
