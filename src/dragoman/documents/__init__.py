"""Whole documents in and out: HTML, Markdown, subtitles, catalogues, Word and others, with only their text translated.

Start with `translating`. A `Document` gives the texts of a file, with inline markup as short tags, and takes their
translations. `formats` knows a reader for each format.
"""
