"""From batches to trained weights: the one loop and its parts.

Start with `loop.py`, which reads in one sitting. This room knows nothing of text or decoding: a task passes in how to
validate.
"""
