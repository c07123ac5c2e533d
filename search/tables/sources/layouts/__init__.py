"""Layouts that a table may have besides a row of names and rows of values: Markdown, JSON."""
