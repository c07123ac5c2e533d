"""`fathom latency`: what each depth takes to answer, beside its loss."""
