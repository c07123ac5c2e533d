"""A study's way to MLflow, to which another process writes; `records.jsonl` stays what is true.

The caller pays one assignment to a dictionary, and a thread sends what has changed once a second.
Whatever becomes of that process, the search goes on; what was not written is written when the study
is next run or reported.
"""

import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from fathom.search.records import TrialRecord
from fathom.search.study.store_uri import TrackingError, check_form, is_new_file, sqlite_path
from fathom.search.tracking.messages import (
    CLOSE_SECONDS,
    Answer,
    Checked,
    Close,
    Closed,
    Item,
    Message,
    Mirror,
    News,
    Opening,
    Said,
)
from fathom.search.tracking.schema_stamp import is_stamped

log = logging.getLogger(__name__)

GATHER_SECONDS = 1.0
"""Between two sendings; the snapshots that a trial gives meanwhile become one."""
QUIET_SECONDS = 20.0
"""At most so long a store that is known to be good waits for a trial's first loss: until then there
is little to write, and the machine is busy with starting the workers."""
GRACE_SECONDS = 30.0
"""For the other process to start and to end, beside its last writes."""
LEAVE_SECONDS = 1.0
"""For the news to be handed over where nobody waits for them to be written."""


class Tracker(Mirror):
    """Hands one study to the process that writes to MLflow.

    Raises:
        TrackingError: when the address is malformed or its SQLite file cannot be used; for what
            only MLflow can tell, see `confirm`.
    """

    def __init__(
        self, *, uri: str, study: str, folder: Path, config_text: str, watch: bool = False
    ) -> None:
        """`folder` is the run folder; with `watch`, what this machine does is written as well."""
        super().__init__(folder)
        check_form(uri)
        path = sqlite_path(uri)
        known = is_new_file(uri) or (path is not None and is_stamped(path))
        self._must_be_checked = not known
        self._opening = Opening(uri, study, folder, config_text, watch)
        self._lock = threading.Lock()
        self._waiting: dict[str, Item] = {}
        self._wanted, self._closing = threading.Event(), threading.Event()
        self._checked: Future[str] = Future()
        self._missing: Future[int] = Future()
        self._link, self._far_end = Pipe()
        self._environment = dict(os.environ)  # as it is now, with what its store may ask for
        self._process: subprocess.Popen[bytes] | None = None
        self._left = False
        if self._must_be_checked:
            self._wanted.set()
        self._sender = threading.Thread(target=self._send, name="mlflow-news", daemon=True)
        self._sender.start()

    def confirm(self) -> None:
        """Wait until MLflow has said that it can use the address.

        A file that is new, or that this MLflow has used before, needs no such word.

        Raises:
            TrackingError: when it can not.
        """
        if self._must_be_checked and (refusal := self._checked.result()):
            raise TrackingError(refusal)

    def put(self, name: str, item: Item) -> None:
        """Take the latest state of something; returns at once."""
        with self._lock:
            self._waiting[name] = item
        if isinstance(item, TrialRecord) and item.curve:
            self._wanted.set()

    def leave(self) -> None:
        """Let the other process write what waits and end every run, without waiting for it."""
        self._closing.set()
        self._wanted.set()
        self._sender.join(LEAVE_SECONDS)
        with suppress(OSError):
            self._link.send(Close(CLOSE_SECONDS))
        self._left = True

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> int:
        """Write what waits, end every run, and return how many items could not be written."""
        if self._left:
            return 0
        self._closing.set()
        self._wanted.set()
        self._sender.join(GRACE_SECONDS)
        try:
            self._link.send(Close(timeout_seconds))
            missing = self._missing.result(timeout_seconds + GRACE_SECONDS)
        except (OSError, TimeoutError):
            missing = 1
        self._link.close()
        if self._process:
            self._process.terminate()
            self._process.wait()
        return missing

    def _send(self) -> None:
        self._wanted.wait(QUIET_SECONDS)
        self._process = _start(self._far_end, self._environment)
        threading.Thread(target=self._listen, name="mlflow-answers", daemon=True).start()
        news: Message = self._opening
        closing = False
        while not closing:
            try:
                self._link.send(news)
            except OSError:
                return  # the other process is gone, as the listener says
            closing = self._closing.wait(GATHER_SECONDS)
            with self._lock:
                news, self._waiting = News(self._waiting), {}
        with suppress(OSError):
            self._link.send(news)

    def _listen(self) -> None:
        try:
            while not self._missing.done():
                self._hear(self._link.recv())
        except (EOFError, OSError):
            refused = self._checked.done() and self._checked.result()
            if not self._checked.done():
                self._checked.set_result("")
            self._missing.set_result(1)
            if not (refused or self._closing.is_set()):
                log.warning(
                    "the process that writes to MLflow has ended; the search goes on, and "
                    "`fathom report %s` writes what is missing",
                    self.folder,
                )

    def _hear(self, answer: Answer) -> None:
        match answer:
            case Checked():
                self._checked.set_result(answer.refusal)
                if answer.refusal and not self._must_be_checked:
                    log.warning("nothing is written to MLflow: %s", answer.refusal)
            case Said():
                log.warning("%s", answer.text)
            case Closed():
                self._missing.set_result(answer.missing)


def _start(link: Connection, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    """The other process, which alone holds that end of the link from then on.

    A session of its own, so that Ctrl-C ends the search first and lets it write what it found.
    """
    with link:
        return subprocess.Popen(
            [sys.executable, "-m", "fathom.search.tracking.process", str(link.fileno())],
            pass_fds=(link.fileno(),),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
