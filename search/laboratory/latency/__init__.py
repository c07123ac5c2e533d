"""`fathom latency`: the time that each depth takes to answer, beside its loss."""
