"""Raw text in, checked and split pairs out, without torch. Start with `prepare`."""
