"""Converts tables from other layouts, such as Markdown or nested JSON, to names and rows."""
