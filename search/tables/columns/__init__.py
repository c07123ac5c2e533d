"""Meaning of columns, values of their cells, and the rows that count."""
