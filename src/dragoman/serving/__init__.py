"""A server over HTTP: one search that all clients share, limits before any work, and wire formats clients speak."""
