"""Measures the error of the time left that a search shows, by replaying a run's journal.

    python -m benchmarks.speed.time_left runs/quickstart

It prints, at five shares of the run's duration, the time left as it would have been shown, and the
time that was really left.
"""

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fathom.search.json_lines import read_lines
from fathom.search.record_json import from_json, report_from_json
from fathom.search.records import TrialRecord, with_report, without_known_points
from fathom.search.report.terminal.remaining_work import (
    RemainingTime,
    SearchPace,
    flops_done,
    flops_left,
)
from fathom.search.run_folder import RunFolder
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import load
from fathom.search.study.planning.plan import plan_study, vocab_size_of

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """The displayed time left at one moment of a search."""

    at: float
    """Seconds since the search began."""
    left: RemainingTime | None


class Replay:
    """A run's journal as events in the order in which they came."""

    def __init__(self, folder: RunFolder) -> None:
        config = load(folder.config)
        plans = plan_study(config, vocab_size_of(config), this_machine(config))
        self._plans = {plan.budget.params: plan for plan in plans}
        self._folder, self._now = folder, 0.0
        self._settled = dict.fromkeys(self._plans, False)
        self._trials: dict[str, TrialRecord] = {}

    def shown(self) -> Iterator[Shown]:
        """Yields the time left at each event."""
        lines = [*read_lines(self._folder.journal)]
        self._now = began = next(line["started"] for line in lines if line["event"] == "started")
        pace = SearchPace({}, lambda: self._now)
        for at, line in self._with_ends(lines):
            self._now = max(self._now, at)
            running = Counter(r.spec.budget for r in self._trials.values() if r.outcome is None)
            self._take(line)
            pace.passed(running)
            yield Shown(self._now - began, pace.left(self._done(), self._left()))

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
            case "report":
                record = self._trials[line["trial"]]
                report = without_known_points(record, report_from_json(line))
                self._trials[line["trial"]] = with_report(record, report)
            case "confirmations":
                self._settled[line["budget"]] = not line["choices"]

    def _of(self, budget: int) -> list[TrialRecord]:
        return [record for record in self._trials.values() if record.spec.budget == budget]

    def _done(self) -> dict[int, float]:
        return {budget: flops_done(self._of(budget)) for budget in self._plans}

    def _left(self) -> dict[int, float]:
        return {
            budget: flops_left(plan, self._of(budget), settled=self._settled[budget])
            for budget, plan in self._plans.items()
        }


def main() -> None:
    """Prints the displayed and the true time left at several shares of the run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="run folder")
    shown = [*Replay(RunFolder(parser.parse_args().run)).shown()]
    length = shown[-1].at
    print(
        f"{length:.0f} s in all\n\n| share of the time | left, as shown | left |\n|---:|---:|---:|"
    )
    for share in SHARES:
        last = [moment for moment in shown if moment.at <= share * length][-1]
        text = f"{last.left.seconds:.0f} s" if last.left else "-"
        print(f"| {share:.0%} | {text} | {length - last.at:.0f} s |")


if __name__ == "__main__":
    main()
