"""C++ code: kernels for training, called by `kernels`, and the decoder, called by `decoding/compiled_stepper.py`.

The caller of a kernel also contains its definition in PyTorch. `libraries` compiles and caches. The Python code of this
room is independent of models and search.
"""
