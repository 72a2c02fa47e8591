"""Raw text in, checked and split pairs out. Loads no torch. Start with `prepare`."""
