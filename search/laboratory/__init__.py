"""The commands `fathom check`, `fathom ask` and `fathom latency`."""
