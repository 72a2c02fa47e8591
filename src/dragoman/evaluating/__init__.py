"""How good models are, and how fast: scores with signatures, significance, speed. Start with `evaluation`."""
