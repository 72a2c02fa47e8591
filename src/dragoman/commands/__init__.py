"""The public functions that are commands, a file each: `train`, `fine_tune`, `reproduce` and others."""
