"""Other toolkits, each building the model that Dragoman builds, so that their training steps can be compared with ours.

`contest.py` holds the shape, padded batches and the step that all share. Each toolkit has one file with its model,
which says where it differs. `entrants.py` lists the toolkits, and `worker.py` gives each a process of its own. `make
bench-training` installs `requirements.txt` into a separate environment; nothing here is part of the package.
"""
