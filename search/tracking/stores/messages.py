"""Messages from a search to the process that mirrors it into MLflow: a study, its data, its end."""

from dataclasses import dataclass
from pathlib import Path

CLOSE_SECONDS = 20.0
"""Longest time without a write at the end; the next `fathom report` writes what is missing then."""
GOES_ON = ""
"""What the process says at the end while it still writes."""


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
    trusted: bool = False
    """True if artifacts may go wherever the store says: the user named the store, or said so."""
    began: float | None = None
    """Unix time at which the first trial of an earlier start began; None if there was none."""


@dataclass(frozen=True, slots=True)
class Close:
    """The last message: write what waits and end within that many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The data set that a study trains on, as MLflow describes one."""

    name: str
    digest: str
    """Digest of settings, sizes and all data, of at most 36 characters."""
    source_type: str
    source: str
    """JSON, in the form that MLflow reads for the source type."""
    profile: str
    """JSON: vocabulary size and number of tokens."""
