"""Texts with a label each, or with a label for each word: read, checked, split. Start with `prepare`."""
