"""Why this word: how much each word of the source, and each word written before, counts for a word of a translation.

Two ways that share no assumption: `gradients` asks how the score would move if a token's vector moved, `erasure` how
far it falls without the word. Either can ask in contrast why one word stands there rather than another, which is what
people want to know. Start with `scores`, which gives everything for one text, or with `question`, which answers for two
words that a person names.
"""
