"""Which cross-attention of a model aligns words best, judged by links that people drew.

Start with `choosing.choose_alignment`, which finds the heads that align best. `links` compares links with those of
people, and `gold` reads them from a file.
"""
