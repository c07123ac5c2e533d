"""Measures the time left that a search tells, by replaying runs from their files.

    python -m benchmarks.speed.time_left runs/quickstart runs/other runs/resumed@141

It prints the range told after 1, 2, 4 and 8 minutes of each run, and the time that was really
left; `@141` begins 141 seconds after the first trial, where an interrupted run was resumed. Runs
that are shorter than 12 minutes are read at the same shares of their time.
"""

import argparse
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.formatting import format_seconds
from fathom.search.json_lines import read_lines
from fathom.search.record_json import from_json, report_from_json
from fathom.search.records import TrialRecord, with_report, without_known_points
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import load
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.planning.budget import evaluation_steps
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from fathom.search.study.timing.remaining_work import (
    SearchPace,
    WorkLeft,
    work_left,
)
from fathom.search.study.timing.time_left import TimeLeft

MINUTES = (1, 2, 4, 8)
WHOLE_MINUTES = 12
COLUMNS = {
    "run": "",
    "after": "",
    "told": "",
    "left": "",
    "holds it": "",
    "middle": "+.0%",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """The time left that was told at one moment of a search."""

    at: float
    """Seconds since the search began."""
    left: TimeLeft | None


class Replay:
    """A run's records and journal as events in the order in which they came."""

    def __init__(self, folder: RunFolder, since: float = 0.0) -> None:
        """The run that began `since` seconds after the first one on the folder."""
        config = load(folder.config)
        plans = plan_study(
            config, vocab_size_of(config.objective), this_machine(config.resources, config.train)
        )
        self._plans = {plan.budget.params: plan for plan in plans}
        self._folder, self._since, self._now = folder, since, 0.0
        self._evaluations = {
            plan.budget.params: 0
            if config.train.command
            else len(evaluation_steps(config, plan.budget))
            for plan in plans
        }
        self._together = config.confirm.together
        self._batches: dict[int, set[str]] = {}
        self._planned: dict[int, int] = {}
        self._trials: dict[str, TrialRecord] = {}

    def told(self) -> Iterator[Told]:
        """Yields the time left at each event."""
        lines = [*read_lines(self._folder.journal)]
        first = next(line["started"] for line in lines if line["event"] == "started")
        self._now = began = first + self._since
        pace = SearchPace(self._plans.values(), self._evaluations, lambda: self._now)
        for at, line in self._with_ends(lines):
            running = sum(record.outcome is None for record in self._trials.values())
            if at < began:
                self._take(line)
                continue
            self._now = max(self._now, at)
            pace.passed(running)
            self._take(line)
            if line.get("points"):
                pace.evaluated()
            yield Told(self._now - began, pace.left(self._by_budget(), self._left()))

    def _with_ends(self, lines: list[dict[str, Any]]) -> list[tuple[float, dict[str, Any]]]:
        """The journal's lines with the ends of trials, which are in another file, by time: each
        with its Unix time."""
        now, timed = 0.0, []
        for order, line in enumerate(lines):
            times = [point["time"] for point in line.get("points", ())]
            now = max([now, *times, line["started"] if line["event"] == "started" else now])
            timed.append((now, order, line))
        timed += [
            (line["ended"], len(lines), {"event": "ended", **line})
            for line in read_lines(self._folder.records)
        ]
        return [(at, line) for at, _, line in sorted(timed, key=lambda event: event[:2])]

    def _take(self, line: dict[str, Any]) -> None:
        match line["event"]:
            case "started" | "resumed" | "ended":
                record = from_json(line)
                self._trials[record.spec.trial] = record
                if line["event"] != "ended":
                    budget = record.spec.budget
                    self._planned[budget] = max(0, self._planned.get(budget, 0) - 1)
            case "report":
                record = self._trials[line["trial"]]
                report = without_known_points(record, report_from_json(line))
                self._trials[line["trial"]] = with_report(record, report)
            case "confirmations" | "bought":
                for batch in line.get("batches", [line]):
                    self._planned[batch["budget"]] = len(batch["choices"])
                    self._batches[batch["budget"]] = set() if batch["choices"] else {"settled"}

    def _of(self, budget: int) -> list[TrialRecord]:
        return [record for record in self._trials.values() if record.spec.budget == budget]

    def _by_budget(self) -> dict[int, list[TrialRecord]]:
        return {budget: self._of(budget) for budget in self._plans}

    def _left(self) -> dict[int, WorkLeft]:
        return {
            budget: work_left(
                plan,
                self._of(budget),
                waiting=self._planned.get(budget, 0) if budget in self._batches else 0,
                explored=budget in self._batches,
                settled=bool(self._batches.get(budget)),
                together=self._together,
            )
            for budget, plan in self._plans.items()
        }


def replayed(run: str) -> Replay:
    """The replay of a run folder, or of a later run on it: `FOLDER@SECONDS`."""
    folder, _, since = run.partition("@")
    return Replay(RunFolder(Path(folder)), float(since or 0))


def main() -> None:
    """Prints the told and the true time left at some moments of each run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", help="run folders")
    add_json_option(parser)
    arguments = parser.parse_args()
    table = PrintedTable(COLUMNS, arguments.json)
    held, errors, leaps = 0, list[float](), 0
    for run in arguments.runs:
        told = [*replayed(run).told()]
        leaps += jumps(told)
        for moment, left in moments(told):
            row = [Path(run.partition("@")[0]).name, format_seconds(moment.at)]
            if moment.left is None:
                table.add(*row, "not known", format_seconds(left), "-", "-")
                continue
            low, high = moment.left.low, moment.left.high
            holds = low <= left <= high
            held += holds
            errors.append((low + high) / 2 / left - 1)
            words = moment.left.text.removesuffix(" left")
            table.add(*row, words, format_seconds(left), "yes" if holds else "no", errors[-1])
    table.figure("held", held, "")
    table.figure("of", len(MINUTES) * len(arguments.runs), "")
    table.figure("error", median(map(abs, errors)), "", ".0%")
    table.figure("jumps", leaps, "")
    error = median(map(abs, errors))
    print(f"{held} ranges hold what was left; middle {error:.0%} off, median; {leaps} jumps")


def moments(told: Sequence[Told]) -> Iterator[tuple[Told, float]]:
    """Yields what was told at each of the moments, and the time that was really left, seconds."""
    length = told[-1].at
    for minutes in MINUTES:
        at = min(60.0 * minutes, length * minutes / WHOLE_MINUTES)
        last = [moment for moment in told if moment.at <= at][-1]
        yield Told(at, last.left), length - at


def jumps(told: Sequence[Told]) -> int:
    """Number of ranges that do not overlap the one before, as times at which the search ends."""
    ends = [(m.at + m.left.low, m.at + m.left.high) for m in told if m.left]
    return sum(
        later[0] > before[1] or later[1] < before[0] for before, later in itertools.pairwise(ends)
    )


if __name__ == "__main__":
    main()
