"""Reversible rewriting of text around the model: tags, sentences, placeholders, letter case, punctuation and words."""
