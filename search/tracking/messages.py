"""What the search tells the process that writes to MLflow, and what that answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fathom.search.conclusion import Conclusion
from fathom.search.records import TrialRecord
from fathom.search.report.answer_log import Trail


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """What a study trains on, as MLflow describes data."""

    name: str
    digest: str
    """At most 36 characters; the same for the same tokens."""
    source_type: str
    source: str
    """JSON, as its type asks."""
    profile: str
    """JSON: how much there is."""


Item = TrialRecord | Trail | Conclusion | DataSet | str
"""A trial's latest snapshot, a budget's answers so far, the conclusion, the data, or the text of
the study file."""
CLOSE_SECONDS = 20.0
"""What the last writes may take; what is missing then is written by the next `fathom report`."""
CONFIG, CONCLUSION, DATA = "the study file", "the conclusion", "the data set"
"""Names of what is written beside the trials, which go by their own names."""


class Mirror(ABC):
    """Where a study is shown while it runs and afterwards."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the run folder."""
        self.folder = folder

    @abstractmethod
    def put(self, name: str, item: Item) -> None:
        """Take the latest state of something; returns at once, whatever the store does."""

    @abstractmethod
    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> int:
        """Write what waits, end every run, and return how many items could not be written."""

    def trial(self, record: TrialRecord) -> None:
        """Take a trial's latest snapshot."""
        self.put(record.spec.trial, record)

    def data(self, data: DataSet) -> None:
        """Take what the study trains on."""
        self.put(DATA, data)

    def trail(self, trail: Trail) -> None:
        """Take a budget's answers so far."""
        self.put(f"the answers of {trail.budget}", trail)

    def conclude(self, conclusion: Conclusion) -> None:
        """Take what the study has found so far; its files are taken from the run folder."""
        # Trials are sent one by one.
        self.put(CONCLUSION, replace(conclusion, records=()))


@dataclass(frozen=True, slots=True)
class Opening:
    """The first message: which study, and where its runs are to stand."""

    uri: str
    study: str
    folder: Path
    config_text: str
    watch: bool
    """Whether to note what this machine does meanwhile."""


@dataclass(frozen=True, slots=True)
class News:
    """The latest state of all that has changed, by name."""

    items: Mapping[str, Item]


@dataclass(frozen=True, slots=True)
class Close:
    """The last message: write what waits and end, within so many seconds."""

    seconds: float


Message = Opening | News | Close


@dataclass(frozen=True, slots=True)
class Checked:
    """The first answer: why the address can never work; empty when it can."""

    refusal: str


@dataclass(frozen=True, slots=True)
class Said:
    """A line for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The last answer: how many items could not be written."""

    missing: int


Answer = Checked | Said | Closed
