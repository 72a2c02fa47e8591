"""What a model's embedding table has learned: neighbours, analogies, directions, a map. Start with `space`."""
