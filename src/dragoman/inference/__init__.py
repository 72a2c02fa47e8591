"""Text in, text out: `Translator`, `Generator` and `Predictor`.

Start with `translator`. `requests` turns text into requests, `search` runs these, and `translation` turns hypotheses
into text. `runtime` chooses between the compiled decoder and PyTorch.
"""
