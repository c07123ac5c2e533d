"""Checks that nobody unknowingly trains on held-out data: names of splits, and content that splits
share."""

CONTAINED = 0.95
"""Smallest share of a split that counts as all of it, since some is lost at the ends of blocks and
files."""
TOLD = 0.01
"""Smallest shared part that is worth a line: smaller ones are licences and other phrases."""
