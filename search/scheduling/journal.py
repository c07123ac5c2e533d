"""The state that an earlier run left in its folder: ended trials, trials under way, and the
journal."""

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fathom.search.json_lines import damaged_line, read_as, truncate_torn_line
from fathom.search.record_json import (
    EVENT,
    from_json,
    from_values,
    report_from_json,
    to_values,
)
from fathom.search.records import TrialRecord, with_report
from fathom.search.run_folder import RunFolder, RunFolderError, last_attempts, read_attempts
from fathom.search.scheduling.trained_depths import Choice
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.own_records import Check, check_of
from fathom.search.study.planning.virtual_time import Closing, VirtualJob


@dataclass(frozen=True, slots=True)
class Assigned:
    """The decision that a virtual worker starts a job."""

    job: VirtualJob
    choice: Choice | None = None
    """The choice that a new trial trains; None if the trial exists already."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The decision that a trial's result is used from now on."""

    trial: str


@dataclass(frozen=True, slots=True)
class ConfirmingBatch:
    """The decision on the trials to confirm next; with none, the budget is settled."""

    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class LaterFirstRung:
    """The decision that from now on no trial pauses before a number of tokens."""

    first_rung: int


Decided = Assigned | Taken | Closing | ConfirmingBatch | LaterFirstRung
EVENTS: dict[str, type[Decided]] = {
    "assigned": Assigned,
    "taken": Taken,
    "closed": Closing,
    "confirmations": ConfirmingBatch,
    "extend": LaterFirstRung,
}
"""Event named in a line of the journal -> class of the decision."""


def decided_line(budget: int, decided: Decided) -> dict[str, Any]:
    """The line of the journal that records a decision."""
    event = next(name for name, kind in EVENTS.items() if isinstance(decided, kind))
    return {EVENT: event, "budget": budget, **to_values(decided)}


class RunningTrials:
    """The trials under way, as last reported in the lines of a run folder.

    A trial may have several attempts: each time it is resumed, it starts once more, and ends once
    more. A trial is under way if it has started more often than it has ended.
    """

    def __init__(self) -> None:
        self.records: dict[str, TrialRecord] = {}
        self._attempts: Counter[str] = Counter()  # starts minus ends

    def end(self, trial: str) -> bool:
        """Counts an end of a trial; returns True if the trial is no longer under way."""
        self._attempts[trial] -= 1
        if self._attempts[trial] > 0:
            return False
        self.records.pop(trial, None)
        return True

    def take(self, line: dict[str, Any]) -> TrialRecord | None:
        """The record of a trial after a line of the journal that starts it, resumes it or reports
        on it; None if the trial is not under way."""
        trial = line["trial"]
        if line["event"] != "report":
            self._attempts[trial] += 1
            if self._attempts[trial] > 0:
                self.records[trial] = from_json(line)
        elif trial in self.records:
            self.records[trial] = with_report(self.records[trial], report_from_json(line))
        return self.records.get(trial)

    def starts_less_ends(self, trial: str) -> int:
        """Number of starts of a trial in the lines so far, minus the number of its ends."""
        return self._attempts[trial]


@dataclass(slots=True)
class Past:
    """The state from which a new run on the folder continues."""

    attempts: list[TrialRecord]
    """Every end of a trial, in order; a trial that was resumed has several ends."""
    check: Check
    running: RunningTrials = field(default_factory=RunningTrials)
    confirmations: dict[int, tuple[Choice, ...]] = field(default_factory=dict)
    """Budget -> last batch of confirming trials; empty if the budget is settled."""
    first_rungs: dict[int, int] = field(default_factory=dict)
    """Budget -> tokens of the first rung that still stops trials, for budgets that were
    extended."""
    decisions: dict[int, list[Decided]] = field(default_factory=dict)
    """Budget -> the decisions about it, in order."""
    has_journal: bool = False
    at_rest: bool = False
    """True if no search writes while the records and the journal are read; the two must then
    agree."""
    _ended: dict[str, TrialRecord] = field(init=False)
    """The last end of each trial, by name."""

    def __post_init__(self) -> None:
        self._ended = {record.spec.trial: record for record in self.attempts}

    @property
    def began(self) -> float | None:
        """Unix time at which the first trial started; None if no trial has ended."""
        return min((record.started for record in self.attempts), default=None)

    @property
    def latest(self) -> list[TrialRecord]:
        """The last end of each trial, in order; some of these trials may be under way again."""
        return last_attempts(self.attempts)

    @property
    def ended(self) -> list[TrialRecord]:
        """The last end of each trial that is not under way, in order."""
        return [record for record in self.latest if record.spec.trial not in self.running.records]

    def unfinished(self, budgets: Iterable[int]) -> frozenset[int]:
        """Returns the budgets whose search has not ended; none if there are records but no journal,
        which means a complete search."""
        if self.attempts and not self.has_journal:
            return frozenset()
        live = {record.spec.budget for record in self.running.records.values()}
        settled = {budget for budget, asked in self.confirmations.items() if not asked}
        return frozenset(budgets) - (settled - live)

    def take(self, line: dict[str, Any]) -> None:
        """Updates the state with the next line of the journal.

        Raises:
            ValueError: when the line is damaged, or follows an end that the records lack.
        """
        if self.at_rest:
            self._check_ends(line)
        match line["event"]:
            case "started" | "resumed" | "report":
                if record := self.running.take(line):
                    self.check(record)
            case _:
                self._decide(line)

    def _decide(self, line: dict[str, Any]) -> None:
        """Adds a decision about a budget."""
        event, budget = line.pop(EVENT), line.pop("budget")
        if event not in EVENTS:
            raise ValueError(f"event {str(event)[:40]!r} is unknown to this version")
        decided = from_values(EVENTS[event], line)
        self.decisions.setdefault(budget, []).append(decided)
        match decided:
            case ConfirmingBatch(choices):
                self.confirmations[budget] = choices
            case LaterFirstRung(first_rung):
                if first_rung < 1:
                    raise ValueError(f"`first_rung` must be at least 1 token, got {first_rung}")
                self.first_rungs[budget] = first_rung
                self.confirmations.pop(budget, None)  # as more trials will finish

    def _check_ends(self, line: dict[str, Any]) -> None:
        """Raises if the records lack ends of trials that were written before a line of the
        journal."""
        match line:
            case {"event": "started" | "resumed", "trial": trial}:
                lacking = [trial] if trial in self.running.records else []
            case {"event": "confirmations", "budget": budget}:
                running = self.running.records.items()
                lacking = [trial for trial, record in running if record.spec.budget == budget]
            case {"event": "taken", "trial": trial, "budget": budget}:
                lacking = [] if self._has_come(budget, trial) else [trial]
            case {"event": "bought"}:
                lacking = list(self.running.records)
            case _:
                return
        if lacking:
            raise ValueError(
                f"trial {lacking[0]} has ended before, but `records.jsonl` lacks its record"
            )

    def _has_come(self, budget: int, trial: str) -> bool:
        """True if the result of the trial's last job was reported."""
        assigned = (d for d in reversed(self.decisions.get(budget, ())) if isinstance(d, Assigned))
        job = next(assigned.job for assigned in assigned if assigned.job.trial == trial)
        known = (self.running.records.get(trial), self._ended.get(trial))
        return any(record is not None and record.has_come_to(job.to) for record in known)


def read_past(folder: RunFolder, check: Check = lambda record: record) -> Past:
    """Reads the records and the journal; a torn last line of either file is cut off first.

    Each line was on the disk before the next was written to either file. So if a file has lost more
    than a kill or a power cut can take, the other file shows that.

    Raises:
        DamagedFileError: at a line that can't be read, that `check` refuses, or that was written
            only after lines which the other file lacks.
        RunFolderError: if trials were scheduled by an earlier version.
    """
    truncate_torn_line(folder.records)
    truncate_torn_line(folder.journal)
    past = _past_of(folder, check, at_rest=True)
    if past.has_journal:
        _check_starts(folder, past)
    _check_assigned(folder, past)
    return past


def _check_starts(folder: RunFolder, past: Past) -> None:
    """Raises if a trial has an end but the journal lacks its start."""
    trials = [record.spec.trial for record in past.attempts]
    starts = Counter(trials)
    for trial in starts:
        starts[trial] += past.running.starts_less_ends(trial)
    for number, trial in enumerate(trials, 1):
        starts[trial] -= 1
        if starts[trial] < 0:
            problem = f"the journal beside it lacks the beginning of {trial}, so its end is lost"
            raise damaged_line(folder.records, number, problem)


def _check_assigned(folder: RunFolder, past: Past) -> None:
    """Raises if a search under way has trials that were not assigned in virtual time."""
    decided = itertools.chain.from_iterable(past.decisions.values())
    assigned = {decision.job.trial for decision in decided if isinstance(decision, Assigned)}
    for record in (*past.attempts, *past.running.records.values()):
        is_settled = past.confirmations.get(record.spec.budget) == ()
        if not is_settled and record.spec.trial not in assigned:
            raise RunFolderError(
                f"the search in {folder.path} began with an earlier version, whose early "
                "stopping waited for all trials, and can't be resumed; read it with `fathom "
                "analyse`, or begin again under another `study` name"
            )


def _past_of(folder: RunFolder, check: Check, *, at_rest: bool) -> Past:
    attempts = read_attempts(folder.records, check)
    past = Past(attempts, check, has_journal=folder.journal.exists(), at_rest=at_rest)
    for record in past.attempts:
        past.running.end(record.spec.trial)
    for _ in read_as(folder.journal, past.take):
        pass
    return past


def read_run(folder: RunFolder, config: StudyConfig, *, at_rest: bool = False) -> Past:
    """Reads the state of the search in a folder without changing a file, since a search may be
    writing; for commands that only look at the folder.

    Raises:
        DamagedFileError: at a line that can't be read, or that is not of this study; where nothing
            writes `at_rest`, also at one that was written only after lines which are lost.
    """
    return _past_of(folder, check_of(folder, config), at_rest=at_rest)
