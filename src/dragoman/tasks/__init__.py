"""The tasks that a run can be trained for: translation and language models, a file each.

Start with `kinds`, which says what a run asks of a task; `training/task.py` says what the loop asks.
"""
