"""C++: kernels for training, which `kernels` calls, and the decoder, which `decoding/compiled_stepper.py` calls.

Every kernel has a plain twin in PyTorch beside its call, which is its definition. `libraries` compiles and keeps. The
Python of this room knows nothing of models or of searches.
"""
