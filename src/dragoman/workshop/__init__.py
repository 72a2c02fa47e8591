"""The workshop of the guide: a reader writes the Transformer in a folder, and each part is checked against ours.

`solutions/` holds our files, `exercises.py` makes the reader's folder of them, and `checks.py` runs it in another
process (`worker.py`). There, `judging.py` compares a part with ours on the inputs of `cases.py`; where they differ, it
looks in `mistakes.toml` for the usual mistake that gives the reader's numbers.
"""
