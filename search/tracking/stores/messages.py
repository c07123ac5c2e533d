"""Messages from a search to the process that mirrors it into MLflow: a study, its data, its end."""

from dataclasses import dataclass
from pathlib import Path

CLOSE_SECONDS = 20.0
"""Seconds without a write after which writing stops at the end; the next `fathom report` writes the
rest."""
GOES_ON = ""
"""Message of the process that, at the end, it is still writing."""


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
    """True if artifacts may go wherever the store says, since the user has named or trusted the
    store."""
    began: float | None = None
    """Unix time at which the first trial of an earlier start began; None if there was none."""


@dataclass(frozen=True, slots=True)
class Close:
    """The last message: write what is left, and end within this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The data set that a study trains on, as MLflow describes one."""

    name: str
    digest: str
    """Digest of settings, sizes and all data, of at most 36 characters."""
    source_type: str
    source: str
    """JSON of the data's source, in the form that MLflow reads for the type of source."""
    profile: str
    """JSON of the vocabulary size and the number of tokens."""
