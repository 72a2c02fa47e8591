"""How good, and how fast: scores with signatures, significance, speed. Start reading at `evaluation`."""
