"""Text to ids and back. Start with `tokenizer`."""
