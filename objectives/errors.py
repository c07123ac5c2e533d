"""The error of settings and data that an objective cannot be prepared from, and its remedies."""

import difflib
from collections.abc import Iterable


class ObjectiveError(ValueError):
    """Settings or data that do not suit an objective; the message is one line."""


class UnseenDataError(ObjectiveError):
    """A machine does not see data as the driver does, so that its trials can't read them."""


def nearest(name: str, known: Iterable[str], *, otherwise: str = "check the path") -> str:
    """Remedy for an unknown name: the most similar known one, if there is any."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise
