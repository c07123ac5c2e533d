"""Equal failures in a row, after trials have reported losses: a sign that no trial would finish."""

from collections.abc import Callable, Set
from dataclasses import dataclass

from fathom.models.shape import Shape
from fathom.search.cluster.worker_failures import NUMBERS, TRIALS_IN_A_ROW, AllTrialsFailError
from fathom.search.records import Outcome, Report


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed trial, as far as equal failures are compared."""

    reason: str
    shape: Shape
    host: str
    """Address of the machine that trained the trial."""


class EqualFailures:
    """The failures since a trial last finished, as long as their reasons differ only in numbers.

    If all failures are of one shape, or of one host among several, that shape or host may be the
    cause, and the search goes on.
    """

    def __init__(self, hosts: Callable[[], Set[str]]) -> None:
        """`hosts` returns the addresses of the machines that can run a trial."""
        self._hosts = hosts
        self._failures: list[_Failure] = []

    def heard(self, report: Report, shape: Shape, host: str) -> None:
        """Takes note of the last report of a trial, of its shape and of its host."""
        if report.outcome is Outcome.FINISHED:
            self._failures.clear()
        if report.outcome is not Outcome.FAILED:
            return
        failure = _Failure(report.reason, shape, host)
        if self._failures and _kind(self._failures[-1].reason) != _kind(failure.reason):
            self._failures.clear()
        self._failures.append(failure)

    @property
    def many(self) -> bool:
        """True if no trial should start before the running ones show whether they fail too."""
        if len(self._failures) < TRIALS_IN_A_ROW:
            return False
        shapes = {failure.shape for failure in self._failures}
        hosts = {failure.host for failure in self._failures}
        return len(shapes) > 1 and (len(hosts) > 1 or len(self._hosts()) < 2)

    def check(self) -> None:
        """Raises `AllTrialsFailError` if there are `many` failures and no trial runs any more."""
        if not self.many:
            return
        raise AllTrialsFailError(
            f"a trial must finish, but the last {len(self._failures)} failed for one reason, and "
            f"none finished between them: {self._failures[-1].reason}; fix that, and run the same "
            "command again, which trains the remaining ones"
        )


def _kind(reason: str) -> str:
    """The reason of a failure without the numbers in it."""
    return NUMBERS.sub("", reason)
