"""The state that an earlier run left in its folder: trials ended, trials under way, the journal.

A trial may have several attempts: one that paused and was resumed begins, and ends, once more. It
is under way if it has started more often than it has ended.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fathom.search.record_json import from_json, from_values, report_from_json
from fathom.search.records import TrialRecord, with_report
from fathom.search.run_folder import RunFolder, last_attempts, read_as, truncate_torn_line
from fathom.search.scheduling.confirmation import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The state from which a new run on the folder continues, by budget."""

    attempts: Mapping[int, list[TrialRecord]]
    """Every end of a trial, in order; a trial that was resumed has several."""
    ended: Mapping[int, list[TrialRecord]]
    """The last end of each trial that is not under way, in order."""
    under_way: Mapping[int, list[TrialRecord]]
    """Trials under way, as last reported."""
    confirmations: dict[int, tuple[Choice, ...]]
    """The last batch of confirming trials; empty if the budget was settled by it."""
    first_rungs: dict[int, int]
    """Tokens of the first rung that still stops trials, for the budgets that were extended."""


@dataclass(slots=True)
class _Journal:
    """The state after the lines read so far."""

    ends: Counter[str]
    """Trial -> number of its ends minus the number of its starts read so far."""
    under_way: dict[str, TrialRecord] = field(default_factory=dict)
    confirmations: dict[int, tuple[Choice, ...]] = field(default_factory=dict)
    first_rungs: dict[int, int] = field(default_factory=dict)

    def take(self, line: dict[str, Any]) -> None:
        """Updates the state with the next line of the journal."""
        match line["event"]:
            case "started" | "resumed":
                self._begin(line)
            case "report":
                self._report(line)
            case "confirmations":
                self.confirmations[line["budget"]] = tuple(map(_choice, line["choices"]))
            case "extend":
                self.first_rungs[line["budget"]] = _tokens(line["first_rung"])
                if not self.confirmations.get(
                    line["budget"]
                ):  # more trials will finish: look again
                    self.confirmations.pop(line["budget"], None)
            case event:
                raise ValueError(f"this version knows no event {str(event)[:40]!r}")

    def _begin(self, line: dict[str, Any]) -> None:
        if self.ends[line["trial"]]:
            self.ends[line["trial"]] -= 1
        else:
            self.under_way[line["trial"]] = from_json(line)

    def _report(self, line: dict[str, Any]) -> None:
        trial = line["trial"]
        if trial in self.under_way:
            self.under_way[trial] = with_report(self.under_way[trial], report_from_json(line))


def read_past(folder: RunFolder) -> Past:
    """Read the records and the journal, whose torn last lines are truncated first."""
    truncate_torn_line(folder.records)
    truncate_torn_line(folder.journal)
    attempts = list(read_as(folder.records, from_json))
    journal = _Journal(Counter(record.spec.trial for record in attempts))
    for _ in read_as(folder.journal, journal.take):
        pass
    ended = (r for r in last_attempts(attempts) if r.spec.trial not in journal.under_way)
    return Past(
        attempts=_by_budget(attempts),
        ended=_by_budget(ended),
        under_way=_by_budget(journal.under_way.values()),
        confirmations=journal.confirmations,
        first_rungs=journal.first_rungs,
    )


def read_first_rungs(folder: RunFolder) -> dict[int, int]:
    """The tokens of the first rung of each extended budget."""
    journal = _Journal(Counter())
    for _ in read_as(folder.journal, journal.take):
        pass
    return journal.first_rungs


def _by_budget(records: Iterable[TrialRecord]) -> Mapping[int, list[TrialRecord]]:
    groups: defaultdict[int, list[TrialRecord]] = defaultdict(list)
    for record in records:
        groups[record.spec.budget].append(record)
    return groups


def _choice(line: dict[str, Any]) -> Choice:
    return from_values(Choice, line)


def _tokens(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError("`first_rung` must be tokens")
    return value
