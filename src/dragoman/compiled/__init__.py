"""C++ and what calls it: kernels for training, and the functions of the decoder.

Every kernel has a plain twin in PyTorch beside its call, which is its definition. `libraries` compiles and keeps. This
room knows nothing of models or of searches.
"""
