"""Other toolkits, each building the model that Dragoman builds, so that their training steps can be timed beside ours.

`contest.py` holds what all share: the shape, padded batches, the step. Each toolkit has one file with its model, which
says where it differs. `entrants.py` lists them, and `worker.py` gives each a process of its own. `make bench-training`
installs `requirements.txt` into an environment of its own; nothing here is part of the package.
"""
