"""Files in, pairs of texts out: which columns, which languages, and what stood broken. Start with `readers`."""
