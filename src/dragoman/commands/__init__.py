"""The public functions behind the commands, a file each: `train`, `fine_tune`, `compare` and others."""
