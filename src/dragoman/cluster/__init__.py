"""Many machines, through Ray: a corpus prepared, or much text translated and scored, shard by shard."""
