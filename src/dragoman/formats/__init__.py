"""Formats of files: rows for training and evaluating, texts for translating, and the file again with translations.

Start with `reading` for documents and `rows` for tables. A `Document` gives the texts of a file, with inline markup as
short tags, and takes their translations.
"""
