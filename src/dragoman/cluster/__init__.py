"""Work on many machines with Ray: preparing a corpus, translating and scoring text, shard by shard."""
