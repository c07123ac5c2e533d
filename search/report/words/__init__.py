"""Sentences and cells of a report, for pages and terminals alike."""
