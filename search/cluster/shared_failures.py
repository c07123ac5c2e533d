"""Ends the search where every trial fails for one reason, such as a command that can't start."""

from collections.abc import Iterable, Mapping, Set

from fathom.search.cluster.worker_failures import NUMBERS, TRIALS_IN_A_ROW
from fathom.search.records import Outcome, Report, TrialRecord
from fathom.search.run_folder import RunFolder


class AllTrialsFailError(ValueError):
    """Every trial fails for the same reason, so that the search can't go on."""


class SharedFailures:
    """Failures that are not recorded yet, since every trial so far may have failed for one reason.

    Once a trial reports a loss or fails for another reason, they are released to be recorded. If
    all failed for one reason, none is recorded: the trials run again once the reason is mended.
    """

    def __init__(self, folder: RunFolder, records: Iterable[TrialRecord]) -> None:
        """`records` are the trials of earlier runs."""
        self._folder = folder
        self._over = any(record.curve for record in records)
        self._reports: dict[str, Report] = {}

    @property
    def held(self) -> Set[str]:
        """Names of the trials whose failures are not recorded yet."""
        return self._reports.keys()

    @property
    def many(self) -> bool:
        """True if no further trial should start before the running ones show whether they fail
        too."""
        return len(self._reports) >= TRIALS_IN_A_ROW

    def holds(self, trial: str, report: Report) -> bool:
        """Returns True if the report is of a failure that every trial may share; it is kept
        unrecorded."""
        failed = report.outcome is Outcome.FAILED
        reasons = {NUMBERS.sub("", held.reason) for held in (*self._reports.values(), report)}
        if report.points or (failed and len(reasons) > 1):
            self._over = True
        if self._over or not failed:
            return False
        self._reports[trial] = report
        return True

    def released(self) -> Mapping[str, Report]:
        """Returns the kept failures by trial once another trial has shown that they are not
        everyone's."""
        if not self._over:
            return {}
        released, self._reports = self._reports, {}
        return released

    def check(self, live: Iterable[str]) -> None:
        """Checks that not all trials under way have failed for one reason.

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
            f"some trial must train, but all {len(self._reports)} so far failed for one reason: "
            f"{report.reason}{where}; mend that, and the same command goes on: nothing is lost"
        )
