"""Errors of tables that can't be read, or that lack what a question needs."""


class TableError(ValueError):
    """Raised for a table that can't be read or used; one line with the rule, the value and the
    remedy."""


class NothingAsked(TableError):
    """Raised when a table, or a part of it, has no runs of the size or horizon that was asked
    for."""
