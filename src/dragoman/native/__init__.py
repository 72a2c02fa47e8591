"""A finished model in one compiled library, without torch: it computes what `dragoman.model` defines.

Read `model`, which hands the weights over, then `decoder`, which steps. The C++ begins with `model.cpp`; `arithmetic.h`
is what stands between two products, `products.h` the products, and `team.h` the threads. Tests hold the two together.
"""
