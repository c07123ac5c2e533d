"""Optuna's studies in a file of the run folder: a copy of the ended trials for other tools, one
study a budget.

The search never reads it: the records are the source of truth. Each start of a search adds the
records that the copy lacks, so the copy may be deleted or damaged.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial

from fathom.objectives.files.durable import put_in_place
from fathom.search.json_lines import truncate_torn_line
from fathom.search.scheduling.optuna.optuna_trials import (
    NAME,
    StudyContents,
    is_paused,
    public_trial,
    stored_end,
    trial_ends,
)

log = logging.getLogger(__name__)

METRIC_NAMES = "study:metric_names"
"""Optuna's attribute of a study that names the values of its trials, for dashboards."""


class Studies:
    """The studies of all budgets of a run, in a file that only this process may use."""

    def __init__(self, path: Path) -> None:
        self._store = open_file(path)
        self._copies: dict[str, Copy] = {}

    def update(self, study: str, contents: StudyContents) -> None:
        """Adds to Optuna's file all that is missing, in one go; a trial takes a millisecond."""
        with self._store.file.locked():
            if study not in self._copies:
                self._copies[study] = Copy(self._store, study)
            self._copies[study].write(contents)


class Copy:
    """One study in a storage that no other process writes to at the same time."""

    def __init__(self, store: BaseStorage, name: str) -> None:
        self._store, self._name = store, name
        self._open()

    def write(self, contents: StudyContents) -> None:
        """Adds missing trials, and updates those that are paused.

        Optuna changes no trial that has ended. So the study is rebuilt if it has a trial twice, or
        a trial whose end has changed, as after an extension of the search.
        """
        wanted = trial_ends(contents)
        ended = {name: end for name, end in self._ends.items() if not is_paused(end)}
        if self._repeated or any(wanted.get(name, end) != end for name, end in ended.items()):
            optuna.delete_study(study_name=self._name, storage=self._store)
            self._open()
        for record in contents.records:
            name = record.spec.trial
            if self._ends.get(name) != wanted[name]:
                self._write_trial(name, public_trial(record, contents.space, wanted[name]))
                self._ends[name] = wanted[name]
        for key, value in contents.attributes.items():
            if key not in self._attributes or self._attributes[key] != value:
                self._store.set_study_user_attr(self._study, key, value)
                self._attributes[key] = value

    def _write_trial(self, name: str, trial: FrozenTrial | None) -> None:
        if trial is None:
            return
        if name not in self._ids:
            self._ids[name] = self._store.create_new_trial(self._study, template_trial=trial)
            return
        number = self._ids[name]
        known = self._store.get_trial(number)
        for tokens, loss in trial.intermediate_values.items():
            if known.intermediate_values.get(tokens) != loss:
                self._store.set_trial_intermediate_value(number, tokens, loss)
        for key, value in trial.user_attrs.items():
            if key not in known.user_attrs or known.user_attrs[key] != value:
                self._store.set_trial_user_attr(number, key, value)
        self._store.set_trial_state_values(number, trial.state, trial.values)

    def _open(self) -> None:
        study = optuna.create_study(study_name=self._name, storage=self._store, load_if_exists=True)
        self._study = self._store.get_study_id_from_name(self._name)
        found = study.get_trials(deepcopy=False)
        self._ends = {str(trial.user_attrs.get(NAME)): stored_end(trial) for trial in found}
        self._ids = {
            str(trial.user_attrs.get(NAME)): self._store.get_trial_id_from_study_id_trial_number(
                self._study, trial.number
            )
            for trial in found
        }
        self._repeated = len(self._ends) < len(found)
        self._attributes = study.user_attrs
        if METRIC_NAMES not in self._store.get_study_system_attrs(self._study):
            self._store.set_study_system_attr(self._study, METRIC_NAMES, ["loss"])


class _Lock(JournalFileSymlinkLock):
    """Optuna's lock, which other programs respect; it is released without a second name for its
    file.

    A second name takes disk space, which a full quota lacks: Optuna would then wait for ever for
    its own lock.
    """

    def release(self) -> None:
        """Removes the lock.

        Raises:
            RuntimeError: when there is none, as Optuna does.
        """
        try:
            os.unlink(self._lock_file)
        except FileNotFoundError:
            raise RuntimeError("the lock is not there") from None


class UnsyncedFile(JournalFileBackend):
    """Optuna's file, written without waiting for the disk: lines lost in a power cut are written
    again from the records. Optuna itself would wait 4 times per trial."""

    def __init__(self, path: Path) -> None:
        self._place, self._lock, self._is_locked = path, _Lock(str(path)), False
        super().__init__(str(path), self._lock)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context in which no other program writes to the file; may be nested. All lines of a block
        share one lock, as taking it may cost a disk milliseconds."""
        if self._is_locked:
            yield
            return
        self._is_locked = self._lock.acquire()
        try:
            yield
        finally:
            self._is_locked = False
            self._lock.release()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends lines, as Optuna does, safely even if another program appends at the same
        time."""
        lines = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in logs)
        with self.locked(), self._place.open("ab") as file:
            file.write(lines.encode())


class StudiesStorage(JournalStorage):
    """Optuna's storage of a file that is written without waiting for the disk."""

    def __init__(self, path: Path) -> None:
        self.file = UnsyncedFile(path)
        super().__init__(self.file)


def open_file(path: Path) -> StudiesStorage:
    """Opens Optuna's file; a file that can't be read is put aside, and a new one is made.

    The file is not SQLite, which needs 12 ms of CPU for a trial where this one needs 1, while a
    worker waits.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)  # of a run that was killed
    try:
        return _read(path)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - Optuna raises whatever a damaged line leads to
        aside = path.with_name(path.name + ".damaged")
        put_in_place(path, aside)
        log.warning(
            "Optuna can't read %s (%s): it is rewritten from the records; the old one is now %s",
            path,
            type(error).__name__,
            aside.name,
        )
        return _read(path)


def _read(path: Path) -> StudiesStorage:
    truncate_torn_line(path)
    storage = StudiesStorage(path)
    # Optuna passes over a last line that is not JSON, and fails at it once another follows.
    if content := path.read_bytes():
        json.loads(content[:-1].rpartition(b"\n")[-1])
    return storage
