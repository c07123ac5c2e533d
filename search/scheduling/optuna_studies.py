"""Optuna's studies as other tools see them: a copy of the ended trials, one study a budget.

Nothing here is asked for again. The records are what is true, and what the copy lacks is added from
them whenever a search starts, so the copy may be deleted, damaged or away for a while.
"""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from fathom.search.run_folder import truncate_torn_line

log = logging.getLogger(__name__)

NAME = "trial"
"""Attribute of Optuna's trials that holds the name of ours."""


class Studies(ABC):
    """The studies of all budgets of a run."""

    @abstractmethod
    def update(self, study: str, trials: Sequence[FrozenTrial]) -> None:
        """See that a study holds these trials, all that have ended so far in their order."""

    @abstractmethod
    def close(self) -> None:
        """Writes what still waits."""


class FileStudies(Studies):
    """The studies in a file of the run folder, which only this process may use."""

    def __init__(self, path: Path) -> None:
        self._store = open_file(path)
        self._copies: dict[str, Copy] = {}

    def update(self, study: str, trials: Sequence[FrozenTrial]) -> None:
        """Writes at once, which costs a millisecond."""
        if study not in self._copies:
            self._copies[study] = Copy(self._store, study)
        self._copies[study].extend(trials)

    def close(self) -> None:
        """Does nothing, since every write is made at once."""


class Copy:
    """One study in a store that nobody else writes to meanwhile."""

    def __init__(self, store: BaseStorage, name: str) -> None:
        self._study = optuna.create_study(study_name=name, storage=store, load_if_exists=True)
        found = self._study.get_trials(deepcopy=False)
        self._found = Counter(trial.user_attrs.get(NAME) for trial in found)
        self._done = 0

    def extend(self, trials: Sequence[FrozenTrial]) -> None:
        """Add what is lacking of these trials, which begin with those of the last call.

        What was found here counts by name: a trial that was stopped and taken up again has ended,
        and stands here, more than once.
        """
        for trial in trials[self._done :]:
            name = trial.user_attrs[NAME]
            if self._found[name]:
                self._found[name] -= 1
            else:
                self._study.add_trial(trial)
            self._done += 1


def open_file(path: Path) -> BaseStorage:
    """Optuna's file; one that can't be read is put aside, and a new one made.

    Not SQLite: it needs 12 ms of CPU for a trial where this needs 1, and a worker waits for it.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)  # of a run that was killed
    try:
        return _read(path)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - Optuna raises whatever a damaged line leads to
        aside = path.with_name(path.name + ".damaged")
        path.replace(aside)
        log.warning(
            "Optuna can't read %s (%s): it is written anew from the records, and the old one is %s",
            path,
            type(error).__name__,
            aside.name,
        )
        return _read(path)


def _read(path: Path) -> BaseStorage:
    truncate_torn_line(path)
    return JournalStorage(JournalFileBackend(str(path)))
