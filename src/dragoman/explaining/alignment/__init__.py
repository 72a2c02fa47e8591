"""Which word of a translation renders which word of its source: read from attention, and judged by hand-made links.

Start with `attention.choose_alignment`, which finds the heads of a model that align best. `links` compares links with
those of people, and `gold` reads them from a file.
"""
