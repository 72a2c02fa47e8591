"""Search and sampling over ids, from log-probabilities to hypotheses.

Read `beam` for the search of one request in plain Python, `engine` for that of many, `steppers` for the interface to
models. This room is independent of text and training.
"""
