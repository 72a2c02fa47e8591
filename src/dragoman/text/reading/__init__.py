"""Files in, pairs of texts out, with the columns and languages that were chosen and why. Start with `readers`."""
