"""Findings from the trials of a study or a table, and the conclusion of a study."""
