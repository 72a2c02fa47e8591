"""Attention: each token takes from others what it needs (Vaswani et al. 2017, section 3.2).

Start with `equation`, then `multi_head`, the projections around it. `ways` chooses how it is computed: padded
(`padded`), or on rows as they lie (`compiled` on a processor, `flash` on a GPU). `cache` is what decoding keeps.
"""
