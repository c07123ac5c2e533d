"""What an earlier run on a folder left: the trials that ended, those under way, and the journal.

A trial may have several lives: one that was stopped and taken up again has begun, and ends, once
more. It is under way when it has begun more often than it has ended.
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
    """All that a new run on the folder goes on from, by budget."""

    lives: Mapping[int, list[TrialRecord]]
    """Every end of a trial, in their order; a trial that was taken up again has several."""
    ended: Mapping[int, list[TrialRecord]]
    """The last end of each that is not under way, in the order in which they ended."""
    under_way: Mapping[int, list[TrialRecord]]
    """As last reported."""
    waves: dict[int, tuple[Choice, ...]]
    """The last wave of confirming trials; empty when the budget was settled by it."""
    first_rungs: dict[int, int]
    """Tokens of the first rung that still stops trials, for the budgets that were extended."""


@dataclass(slots=True)
class _Journal:
    """What the lines read so far come to."""

    ends: Counter[str]
    """How often each trial has ended: as many of its lives are of no more interest."""
    under_way: dict[str, TrialRecord] = field(default_factory=dict)
    waves: dict[int, tuple[Choice, ...]] = field(default_factory=dict)
    first_rungs: dict[int, int] = field(default_factory=dict)

    def take(self, line: dict[str, Any]) -> None:
        """One line further."""
        match line["event"]:
            case "started" | "revived":
                self._begin(line)
            case "report":
                self._report(line)
            case "wave":
                self.waves[line["budget"]] = tuple(map(_choice, line["choices"]))
            case "extend":
                self.first_rungs[line["budget"]] = _tokens(line["first_rung"])
                if not self.waves.get(line["budget"]):  # more trials will finish: look again
                    self.waves.pop(line["budget"], None)
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
    """Read both files, after cutting off what a crash left half written."""
    truncate_torn_line(folder.records)
    truncate_torn_line(folder.journal)
    lives = list(read_as(folder.records, from_json))
    journal = _Journal(Counter(record.spec.trial for record in lives))
    for _ in read_as(folder.journal, journal.take):
        pass
    ended = (r for r in last_attempts(lives) if r.spec.trial not in journal.under_way)
    return Past(
        lives=_by_budget(lives),
        ended=_by_budget(ended),
        under_way=_by_budget(journal.under_way.values()),
        waves=journal.waves,
        first_rungs=journal.first_rungs,
    )


def read_first_rungs(folder: RunFolder) -> dict[int, int]:
    """Where each extended budget's first rung was moved to, tokens."""
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
