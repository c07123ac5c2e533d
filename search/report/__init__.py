"""The report of a run: an HTML page, figures as PNG and SVG, and tables as CSV."""
