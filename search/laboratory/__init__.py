"""Commands that answer questions by measurements outside a search: check, ask, latency."""
