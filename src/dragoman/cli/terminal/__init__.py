"""What a person types and sees: options, results, notes, bars, and the streams that carry them."""
