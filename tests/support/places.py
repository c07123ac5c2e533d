"""Folders that tests read: the checkout and, where it is there, the real data beside it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""
SHARED_DATA = ROOT.parent / "shared" / "data"
"""Real data sets, laid out as `download` has them; absent on most machines."""
