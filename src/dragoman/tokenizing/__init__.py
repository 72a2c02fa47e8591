"""Text to ids and back: tokenizers, their training, vocabularies and special symbols. Start with `tokenizer`."""
