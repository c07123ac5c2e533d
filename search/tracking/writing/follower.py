"""The process that mirrors a run folder into MLflow; run as `python -m`, with the number of a
socket.

It is a separate process, since MLflow takes seconds to import and milliseconds of Python for every
write; in the search's own process, this would delay the thread that starts and stops trials.
`records.jsonl` stays the source of truth, so a store that is slow, down or refuses writes costs the
search nothing. Unwritten items wait here. What is still unwritten at the end is written when the
study is next run or reported, since repeating a write changes nothing.
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from fathom.search.analysis.answer.interim import InterimAnswer
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.formatting import shell_command
from fathom.search.json_lines import without_checksums
from fathom.search.record_json import DAMAGE, from_json, from_values, parse_line
from fathom.search.records import TrialRecord
from fathom.search.report.live.answer_log import AnswerSeries
from fathom.search.report.words.text import counted
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.scheduling.journal import RunningTrials
from fathom.search.study.store_uri import (
    TrackingError,
    first_line,
    sqlite_path,
    without_credentials,
)
from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.artifacts import check_artifacts
from fathom.search.tracking.stores.messages import (
    CLOSE_SECONDS,
    GOES_ON,
    Close,
    DataSet,
    TrackedStudy,
)
from fathom.search.tracking.writing.study_runs import StudyRuns

NICENESS = 5
"""Niceness of the follower's process, so that trials on its machine have priority."""
REFUSALS = ("INVALID_PARAMETER_VALUE", "INVALID_STATE", "RESOURCE_DOES_NOT_EXIST")
"""MLflow's error codes after which trying again is useless."""
GATHER_SECONDS = 1.0
"""Seconds between two rounds of writing; reports of trials that come meanwhile are written
together."""
LONGEST_WAIT_SECONDS = 30.0
"""Most seconds between two attempts on a store that does not answer; the wait doubles until
then."""
TELL_SECONDS = 15.0
"""Seconds, at the end, between two lines on how much is left to write."""
OPEN_SECONDS = 300.0
"""Most seconds to wait at the end for a file to be opened: making one takes minutes on a busy
disk."""
CONFIG, CONCLUSION, DATA = "the study file", "the conclusion", "the data set"
"""Names of the items other than trials; trials have names of their own."""

Item = TrialRecord | AnswerSeries | Conclusion | DataSet | str
"""What can be written: a trial's latest record, a budget's answers so far, the conclusion, the data
set, or the text of the study file."""


class RunTail:
    """Reads the lines that a search has appended to its files since the last reading.

    A line that can't be read is skipped: the search itself refuses a damaged folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._read: Counter[Path] = Counter()  # bytes of each file
        self._running = RunningTrials()
        self._series: dict[int, AnswerSeries] = {}
        self._changed: dict[str, TrialRecord | AnswerSeries] = {}

    def changes(self) -> dict[str, TrialRecord | AnswerSeries]:
        """The latest record of each trial, and the answers of each budget, that changed since the
        last call, by name."""
        for path, take in self._files.items():
            self._take_lines(path, take)
        changed, self._changed = self._changed, {}
        return changed

    @property
    def _files(self) -> dict[Path, Callable[[dict[str, Any]], None]]:
        """Each file, with what takes its lines."""
        # Records first: what the journal holds of attempts that have ended need not be parsed.
        return {
            self._folder.records: self._take_end,
            self._folder.journal: self._take_event,
            self._folder.answers: self._take_answer,
        }

    def skip_written(self) -> str:
        """Returns the note on the MLflow run to which all trials in the files as they are have
        been written, and reads none of these; empty if some may not have been."""
        path = self._folder.tracked
        note = path.read_text(errors="replace") if path.is_file() else ""
        sizes = {path: path.stat().st_size for path in self._files if path.exists()}
        if note.partition(" ")[2] != self._text(sizes):
            return ""
        self._read.update(sizes)
        return note

    @property
    def bytes_read(self) -> str:
        """The bytes of each file that have been read."""
        return self._text(self._read)

    def _text(self, sizes: Mapping[Path, int]) -> str:
        return " ".join(str(sizes.get(path, 0)) for path in self._files)

    def _take_lines(self, path: Path, take: Callable[[dict[str, Any]], None]) -> None:
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read[path])
            for line in file:
                try:
                    values = without_checksums(parse_line(line))
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


class Follower:
    """Mirrors one run folder into MLflow, from a thread of its own.

    Raises:
        TrackingError: when the address can never work.
    """

    def __init__(self, study: TrackedStudy, say: Callable[[str], None]) -> None:
        """`say` is called with each line for the user."""
        store.settle()
        check_artifacts(study)  # first: opening a stranger's database may harm
        store.check(study.uri)
        self._study, self._say = study, say
        self._tail = RunTail(RunFolder(study.folder))
        self._written_to = "" if study.searching else self._tail.skip_written()
        self._lock = threading.Lock()
        self._waiting: dict[str, Item] = {CONFIG: without_credentials(study.config_text)}
        self._refused: set[str] = set()
        self._runs: StudyRuns | None = None
        self._monitor: SystemMetricsMonitor | None = None
        self._was_there = study.searching or study.folder.is_dir()
        self._answers, self._is_strange = True, False
        self._concluded = False
        self._ended = False
        self._closing = threading.Event()
        self._wrote = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def put(self, item: Conclusion | DataSet) -> None:
        """Queues an item that is not in the files of the run folder."""
        is_conclusion = isinstance(item, Conclusion)
        self._concluded |= isinstance(item, Conclusion) and not item.unfinished
        self._wait_for({CONCLUSION if is_conclusion else DATA: item})

    def close(
        self, timeout_seconds: float = CLOSE_SECONDS, goes_on: Callable[[], None] = lambda: None
    ) -> int:
        """Writes what is left, ends every run, and returns how many items could not be written.

        Gives up at the first attempt that fails, or once nothing was written for `timeout_seconds`,
        or for `OPEN_SECONDS` while a file is being opened. Calls `goes_on` about every second
        meanwhile.
        """
        self._wrote = told = time.monotonic()
        self._closing.set()
        while self._thread.is_alive():
            opens = self._runs is None and sqlite_path(self._study.uri) is not None
            patience = max(timeout_seconds, OPEN_SECONDS) if opens else timeout_seconds
            if time.monotonic() >= self._wrote + patience:
                break
            if time.monotonic() >= told + TELL_SECONDS:
                told = time.monotonic()
                self._say(f"writing to MLflow at {self._shown}: {counted(self._left, 'item')} left")
            goes_on()
            self._thread.join(min(timeout_seconds, 1.0))
        missing = self._left
        # With all written but the ends of the runs, there is still something to come back for.
        missing = missing or int(not self._ended)
        if self._is_gone():
            return 0
        if missing:
            again = shell_command("fathom", "report", self._study.folder)
            remedy = f"`{again}` writes them once it answers"
            self._say(f"MLflow at {self._shown} lacks {missing} items of this study; {remedy}")
        return missing

    @property
    def _left(self) -> int:
        """Number of items that are not written yet."""
        with self._lock:
            return len(self._waiting.keys() | self._refused)

    @property
    def _shown(self) -> str:
        return without_credentials(self._study.uri)

    def _wait_for(self, items: dict[str, Item]) -> None:
        """Queues items; each replaces its own earlier version if that is not written yet."""
        with self._lock:
            self._waiting |= items
            self._refused -= items.keys()

    def _work(self) -> None:
        pause = GATHER_SECONDS
        while True:
            # Asked before the round, so that a whole round follows the last message.
            closing = self._closing.is_set()
            if self._is_gone():
                return
            answers = self._round(last=closing)
            if closing:
                return
            pause = GATHER_SECONDS if answers else min(2 * pause, LONGEST_WAIT_SECONDS)
            self._closing.wait(pause)

    def _is_gone(self) -> bool:
        """True once the run folder was deleted, or once the store is not the one that was checked:
        then nothing may be written."""
        return self._is_strange or (self._was_there and not self._study.folder.is_dir())

    def _round(self, *, last: bool) -> bool:
        """Reads the folder and writes the queued items; returns False if the store did not
        answer."""
        try:
            self._wait_for({**self._tail.changes()})
            if self._runs is None:
                self._runs = StudyRuns(self._study, self._written_to)
                self._wrote = time.monotonic()
                if self._written_to and not self._runs.has_all_trials:
                    self._written_to, self._tail = "", RunTail(RunFolder(self._study.folder))
                    self._wait_for({**self._tail.changes()})
            with self._lock:
                names = list(self._waiting)
            for name in names:
                if self._is_gone():
                    return True
                self._write(self._runs, name)
            self._observe(self._runs, last=last)
            if last:
                files = "" if self._left else self._tail.bytes_read
                note = self._runs.end(concluded=self._concluded, files=files)
                self._ended = True
                with suppress(OSError):  # the next report then compares everything again
                    write_atomically(RunFolder(self._study.folder).tracked, note)
        except TrackingError as error:
            self._is_strange = True
            self._say(f"nothing more is written to MLflow: {error}")
            return False
        except (MlflowException, OSError) as error:
            # What became of the request is not known, so the next attempt looks again.
            self._runs = None
            if not self._is_gone():
                self._say_down(error)
            return False
        self._say_up()
        return True

    def _observe(self, runs: StudyRuns, *, last: bool) -> None:
        """Starts MLflow's monitor of CPU, memory, disk, network and GPUs; with `last`, ends it."""
        if last and self._monitor:
            self._monitor.finish()  # type: ignore[no-untyped-call]
        elif self._study.searching and self._monitor is None and not last:
            self._monitor = SystemMetricsMonitor(  # type: ignore[no-untyped-call]
                runs.machine_run.id, resume_logging=True, tracking_uri=self._study.uri
            )
            self._monitor.start()  # type: ignore[no-untyped-call]

    def _write(self, runs: StudyRuns, name: str) -> None:
        """Writes one item; if a newer version has come meanwhile, that stays queued."""
        with self._lock:
            # To the end of the line: an item that always fails must not hold up the others.
            item = self._waiting[name] = self._waiting.pop(name)
        try:
            _send(runs, item)
        except MlflowException as error:
            if error.error_code not in REFUSALS:
                raise
            self._refused.add(name)
            self._say(f"MLflow refuses {name}: {first_line(error)}")
        self._wrote = time.monotonic()
        with self._lock:
            if self._waiting[name] is item:
                del self._waiting[name]

    def _say_down(self, error: Exception) -> None:
        if self._answers:
            rest = "the search goes on, and missing entries are written later"
            self._say(f"MLflow at {self._shown} does not answer: {first_line(error)}; {rest}")
        self._answers = False

    def _say_up(self) -> None:
        if not self._answers:
            self._say("MLflow answers again, and has what it missed")
        self._answers = True


def _send(runs: StudyRuns, item: Item) -> None:
    match item:
        case TrialRecord():
            runs.write_trial(item)
        case DataSet():
            runs.write_data(item)
        case AnswerSeries():
            runs.write_answers(item)
        case Conclusion():
            runs.write_conclusion(item)
        case str():
            runs.write_study(item)


def follow(link: Connection) -> None:
    """Mirrors one study into MLflow until the search closes the link or dies."""

    def say(message: TrackingError | str | int | None) -> None:
        with suppress(OSError):  # a search that was killed does not read it
            link.send(message)

    study: TrackedStudy = link.recv()
    try:
        follower = Follower(study, say)
    except TrackingError as error:
        say(error)
        return
    say(None)
    while not isinstance(message := _next(link), Close):
        follower.put(message)
    say(follower.close(message.seconds, lambda: say(GOES_ON)))


def _next(link: Connection) -> Conclusion | DataSet | Close:
    """Returns the next message; `Close` if the search was killed, so that its runs are ended."""
    try:
        message: Conclusion | DataSet | Close = link.recv()
    except (EOFError, ConnectionError):
        return Close(CLOSE_SECONDS)
    return message


def main() -> None:
    """Runs the follower until the search ends; the next run writes what is then missing."""
    os.nice(NICENESS)
    follow(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
