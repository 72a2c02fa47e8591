"""What a run can be trained for, a file each: translation, and language models.

Start with `kinds`: what a run asks of a task. The loop asks what `training/task.py` says.
"""
