"""A run folder read as it grows: the trials and answers that changed since the last reading."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fathom.search.analysis.interim import InterimAnswer
from fathom.search.record_json import DAMAGE, from_json, from_values, parse_line
from fathom.search.records import TrialRecord
from fathom.search.report.answer_log import AnswerSeries
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.journal import RunningTrials


class RunTail:
    """Reads the lines that a search has appended to its files since the last reading.

    A line that can't be read is passed over: the search itself refuses a folder that is damaged.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._read: Counter[Path] = Counter()  # bytes of each file
        self._running = RunningTrials()
        self._series: dict[int, AnswerSeries] = {}
        self._changed: dict[str, TrialRecord | AnswerSeries] = {}

    def changes(self) -> dict[str, TrialRecord | AnswerSeries]:
        """The latest record of each trial and the answers of each budget that changed, by name."""
        # Records first: what the journal holds of attempts that have ended need not be parsed.
        self._take_lines(self._folder.records, self._take_end)
        self._take_lines(self._folder.journal, self._take_event)
        self._take_lines(self._folder.answers, self._take_answer)
        changed, self._changed = self._changed, {}
        return changed

    def _take_lines(self, path: Path, take: Callable[[dict[str, Any]], None]) -> None:
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read[path])
            for line in file:
                try:
                    values = parse_line(line)
                except DAMAGE:
                    if not line.endswith(b"\n"):  # it is still being written
                        return
                else:
                    with suppress(*DAMAGE):
                        take(values)
                self._read[path] += len(line)

    def _take_end(self, line: dict[str, Any]) -> None:
        if self._running.end(line["trial"]):
            self._changed[line["trial"]] = from_json(line)

    def _take_event(self, line: dict[str, Any]) -> None:
        if line["event"] in ("started", "resumed", "report"):
            record = self._running.take(line)
            if record:
                self._changed[line["trial"]] = record

    def _take_answer(self, line: dict[str, Any]) -> None:
        answer = from_values(InterimAnswer, line)
        before = self._series.get(answer.budget)
        series = AnswerSeries(answer.budget, (*(before.answers if before else ()), answer))
        self._series[answer.budget] = series
        self._changed[f"the answers of {answer.budget}"] = series
