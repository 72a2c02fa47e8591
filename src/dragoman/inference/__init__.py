"""Text in, text out: `Translator`, `Generator` and `Predictor`.

Start with `translator`. `segments` and `requests` lead from text to ids, `translation` leads back. `runtime` chooses
between the compiled decoder and PyTorch.
"""
