"""Columns of a table: what each one means, its values, and the rows that are used."""
