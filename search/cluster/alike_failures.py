"""Trials that all fail alike, such as those of a command that can't start, end the search."""

from collections.abc import Iterable, Mapping, Set

from fathom.search.cluster.worker_failures import NUMBERS, TRIALS_ALIKE
from fathom.search.records import Outcome, Report, TrialRecord
from fathom.search.run_folder import RunFolder


class AllTrialsFailError(ValueError):
    """Every trial fails for the same reason, so that the search can't go on."""


class AlikeFailures:
    """Failures that are held back while no trial has reported a loss, and all may fail alike.

    Where they do, none of them is recorded: the trials run again once their reason is mended.
    """

    def __init__(self, folder: RunFolder, records: Iterable[TrialRecord]) -> None:
        """`records` are the trials of earlier runs."""
        self._folder = folder
        self._over = any(record.curve for record in records)
        self._reports: dict[str, Report] = {}

    @property
    def held(self) -> Set[str]:
        """The trials whose failures are held back."""
        return self._reports.keys()

    @property
    def many(self) -> bool:
        """True if no further trial should start before those that run have shown if they fail."""
        return len(self._reports) >= TRIALS_ALIKE

    def holds(self, trial: str, report: Report) -> bool:
        """True if a report is of a failure that may be that of every trial, and is held back."""
        failed = report.outcome is Outcome.FAILED
        reasons = {NUMBERS.sub("", held.reason) for held in (*self._reports.values(), report)}
        if report.points or (failed and len(reasons) > 1):
            self._over = True
        if self._over or not failed:
            return False
        self._reports[trial] = report
        return True

    def released(self) -> Mapping[str, Report]:
        """The failures that were held back, once they are known not to be those of every trial."""
        if not self._over:
            return {}
        released, self._reports = self._reports, {}
        return released

    def check(self, live: Iterable[str]) -> None:
        """Checks that not all trials under way have failed alike.

        Raises:
            AllTrialsFailError: when they have.
        """
        if not self._reports or set(live) - self.held:
            return
        for trial in self._reports:  # what is left of a failed start is no state to resume from
            self._folder.forget_checkpoint(trial)
        trial, report = next(iter(self._reports.items()))
        log = self._folder.checkpoint(trial).with_suffix(".log")
        where = f" ({log} has all it printed)" if log.exists() else ""
        raise AllTrialsFailError(
            f"some trial must train, but all {len(self._reports)} so far failed alike: "
            f"{report.reason}{where}; mend that, and the same command goes on: nothing is lost"
        )
