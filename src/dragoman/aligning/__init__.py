"""Which word of a translation renders which word of its source, read from cross-attention.

Start with `attention`. `passes` runs a model over given texts, watched from inside; `words` goes from pieces to words.
"""
