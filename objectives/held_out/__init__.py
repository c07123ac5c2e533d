"""Held-out data that nobody trains on unknowingly: names of splits, and content they share."""
