"""Other toolkits, each building the model that Dragoman builds, so that a step of training can be timed beside ours.

`contest.py` is what all share: the shape, padded batches, the step. One file a toolkit then holds its model alone and
says where it differs. `entrants.py` names them, `worker.py` gives each a process of its own. `requirements.txt` is what
`make bench-training` installs for them into an environment of their own; nothing here is part of the package.
"""
