"""Log-probabilities in, hypotheses out; ids only.

Read `beam` for the search of one request in plain Python, `engine` for that of many, `steppers` for what it needs of a
model. Knows nothing of text or of training.
"""
