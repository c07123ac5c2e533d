"""`fathom latency`: the inference time of each depth, compared with its loss."""
