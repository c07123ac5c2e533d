"""Held-out data that nobody trains on unknowingly: names of splits, and content they share."""

CONTAINED = 0.95
"""Smallest share of a split that counts as all of it; ends of blocks and files cost some."""
TOLD = 0.01
"""Smallest share that is worth a line: less are licences and other phrases."""
