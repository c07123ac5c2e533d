"""The error of settings and data that an objective cannot be prepared from."""


class ObjectiveError(ValueError):
    """Settings or data that do not suit an objective; the message is one line."""
