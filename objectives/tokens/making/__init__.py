"""Text to shards of tokens, streamed: what `fathom tokenize` does."""
