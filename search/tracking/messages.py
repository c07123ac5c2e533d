"""Messages from a search to the process that mirrors it into MLflow, beside the run folder."""

from dataclasses import dataclass
from pathlib import Path

CLOSE_SECONDS = 20.0
"""Longest time of the last writes; what is missing then is written by the next `fathom report`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedStudy:
    """A study and the MLflow store that its runs go to: the first message."""

    uri: str
    study: str
    folder: Path
    """The run folder."""
    config_text: str
    """The study file, without credentials."""
    searching: bool = False
    """True while trials run: system metrics of this machine are then written as well."""


@dataclass(frozen=True, slots=True)
class Close:
    """The last message: write what waits and end within that many seconds."""

    seconds: float
