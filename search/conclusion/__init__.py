"""Findings from any trials that were trained, and the conclusion of a study."""
