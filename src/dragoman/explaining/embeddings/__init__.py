"""What a model's embedding table has learned: neighbours, analogies, a map. Start with `space`."""
