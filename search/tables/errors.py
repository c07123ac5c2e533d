"""Errors of tables that can't be read, or lack what is asked."""


class TableError(ValueError):
    """A table that can't be read: one line with the rule, the value and the remedy."""


class NothingAsked(TableError):
    """A table, or a part of it, has nothing of what was asked."""
