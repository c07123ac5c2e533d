"""Measurements of how often the answer is right and how many tokens it takes."""
