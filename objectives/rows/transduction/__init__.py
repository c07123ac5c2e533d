"""Sequence to sequence, measured by exact match."""
