"""Writes a study to MLflow, from a thread of its own; `records.jsonl` stays the source of truth.

The caller pays one assignment to a dictionary. A store that is slow, down or refuses costs the
search nothing: what is not written yet waits here, and what was never written is written when the
study is next run or reported, because every write may be repeated without repeating anything.
"""

import logging
import re
import threading
import uuid
from pathlib import Path

from mlflow.exceptions import MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from fathom.search.conclusion import Conclusion
from fathom.search.records import TrialRecord
from fathom.search.report.answer_log import Trail
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.study import store_uri as address
from fathom.search.tracking import store
from fathom.search.tracking.messages import (
    CLOSE_SECONDS,
    CONFIG,
    DataSet,
    Item,
    Mirror,
)
from fathom.search.tracking.runs import StudyRuns

log = logging.getLogger(__name__)

REFUSALS = ("INVALID_PARAMETER_VALUE", "INVALID_STATE", "RESOURCE_DOES_NOT_EXIST")
"""MLflow's answers that trying again does not change."""
KEY = re.compile(r"[0-9a-f]{32}")
"""What ties a folder to its runs, and is put into MLflow's queries as it is."""
GATHER_SECONDS = 1.0
"""Between two rounds of writing; the snapshots that a trial sends meanwhile become one."""
LONGEST_WAIT_SECONDS = 30.0
"""Between two attempts on a store that does not answer; the wait doubles up to this."""


class Writer(Mirror):
    """Writes one study to MLflow in the background.

    Raises:
        TrackingError: when the address can never work.
    """

    def __init__(
        self, *, uri: str, study: str, folder: Path, config_text: str, watch: bool = False
    ) -> None:
        """`folder` is the run folder; it keeps the key that ties the study to its MLflow runs.

        With `watch`, the study's run also gets what this machine does meanwhile.
        """
        store.settle()
        store.check(uri)
        super().__init__(folder)
        self._uri, self._study = uri, study
        self._watch = watch
        self._monitor: SystemMetricsMonitor | None = None
        self._key = study_key(folder)
        self._lock = threading.Lock()
        self._waiting: dict[str, Item] = {CONFIG: address.without_credentials(config_text)}
        self._refused: set[str] = set()
        self._runs: StudyRuns | None = None
        self._answers = True
        self._concluded = False
        self._ended = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> int:
        """Gives up at the first attempt that fails, and in any case after `timeout_seconds`."""
        self._closing.set()
        self._thread.join(timeout_seconds)
        with self._lock:
            missing = len(self._waiting.keys() | self._refused)
        # With all written but the ends of the runs, there is still something to come back for.
        missing = missing or int(not self._ended)
        if missing:
            shown = address.without_credentials(self._uri)
            remedy = f"`fathom report {self.folder}` writes them once it answers"
            log.warning("MLflow at %s lacks %d items of this study; %s", shown, missing, remedy)
        return missing

    def put(self, name: str, item: Item) -> None:
        """Take the latest state of something; what was not written of an earlier one is dropped."""
        with self._lock:
            self._concluded |= isinstance(item, Conclusion)
            self._waiting[name] = item
            self._refused.discard(name)

    def _work(self) -> None:
        pause = GATHER_SECONDS
        while True:
            # Asked before the round, so that a whole round follows the last snapshot.
            closing = self._closing.is_set()
            answers = self._round(last=closing)
            if closing:
                return
            pause = GATHER_SECONDS if answers else min(2 * pause, LONGEST_WAIT_SECONDS)
            self._closing.wait(pause)

    def _round(self, *, last: bool) -> bool:
        """Write what waits; False when the store did not answer."""
        try:
            if self._runs is None:
                self._runs = self._find_runs()
            with self._lock:
                names = list(self._waiting)
            for name in names:
                self._write(self._runs, name)
            self._observe(self._runs, last=last)
            if last:
                self._runs.end(concluded=self._concluded)
                self._ended = True
        except (MlflowException, OSError) as error:
            # What became of the request is not known, so the next attempt looks again.
            self._runs = None
            self._say_down(error)
            return False
        self._say_up()
        return True

    def _observe(self, runs: StudyRuns, *, last: bool) -> None:
        """MLflow's own thread for processor, memory, disk, network and, with its driver, GPUs."""
        if last and self._monitor:
            self._monitor.finish()  # type: ignore[no-untyped-call]
        elif self._watch and self._monitor is None and not last:
            run = runs.study_run_id
            self._monitor = SystemMetricsMonitor(  # type: ignore[no-untyped-call]
                run, resume_logging=True, tracking_uri=self._uri
            )
            self._monitor.start()  # type: ignore[no-untyped-call]

    def _find_runs(self) -> StudyRuns:
        return StudyRuns(
            store.connect(self._uri),
            study=self._study,
            key=self._key,
            folder=self.folder,
            artifacts=store.artifact_location(self._uri, self._study),
        )

    def _write(self, runs: StudyRuns, name: str) -> None:
        """Write one item; a newer one that came meanwhile stays waiting."""
        with self._lock:
            # To the end of the line: an item that always fails must not hold up the others.
            item = self._waiting[name] = self._waiting.pop(name)
        try:
            _send(runs, item)
        except MlflowException as error:
            if error.error_code not in REFUSALS:
                raise
            self._refused.add(name)
            log.warning("MLflow refuses %s: %s", name, address.first_line(error))
        with self._lock:
            if self._waiting[name] is item:
                del self._waiting[name]

    def _say_down(self, error: Exception) -> None:
        if self._answers:
            shown, problem = address.without_credentials(self._uri), address.first_line(error)
            rest = "the search goes on, and what is missed is written later"
            log.warning("MLflow at %s does not answer: %s; %s", shown, problem, rest)
        self._answers = False

    def _say_up(self) -> None:
        if not self._answers:
            log.warning("MLflow answers again, and has what it missed")
        self._answers = True


def study_key(folder: Path) -> str:
    """Key of a run folder: the same whenever the study is resumed, another for a fresh start."""
    path = RunFolder(folder).state / "tracking-key"
    key = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if not KEY.fullmatch(key):
        key = uuid.uuid4().hex
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, key)
    return key


def _send(runs: StudyRuns, item: Item) -> None:
    match item:
        case TrialRecord():
            runs.write_trial(item)
        case DataSet():
            runs.write_data(item)
        case Trail():
            runs.write_trail(item)
        case Conclusion():
            runs.write_conclusion(item)
        case str():
            runs.write_study(item)
