"""Why this word: how much each word of the source, and each word written before, counts for a word of a translation.

Two ways that share no assumption: `gradients` asks how the score would move if a token's vector moved, `erasure` how
far it falls without the word. `contrast` asks either why one word stands there rather than another, which is what
people want to know. `agreement` says how far the two ways agree. Start with `scores`, which gives everything for one
translation.
"""
