"""From batches to trained weights: the one loop and its parts. Start with `loop.py`, which takes one sitting to read.

This room knows nothing of text or decoding: a task passes in its validation.
"""
