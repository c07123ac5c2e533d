"""Optuna's studies in a PostgreSQL database, where a team and its dashboards find them.

The search waits for the server only before its first trial. From then on a thread writes, and what
a server that is away misses is written when it is back, or by the same command again.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.optuna_studies import Copy, Studies
from fathom.search.study.config import StudyConfig
from fathom.search.study.store_uri import first_line, unusable_optuna, without_credentials

log = logging.getLogger(__name__)

CONNECT: dict[str, Any] = {"connect_timeout": 5}
RETRY_SECONDS = 5.0
CLOSE_SECONDS = 20.0
"""Longest time for the last writes."""
LOCK = 0x46617468
"""PostgreSQL's number of the lock under which tables are made: two runs may start at once."""
FAILURES = (OptunaError, SQLAlchemyError, KeyError)
"""Errors of a server that is away, or of a study that somebody has deleted meanwhile."""


class DatabaseStudies(Studies):
    """The studies of one run, apart from those of other runs of the same name.

    Raises:
        TrackingError: when the database can't be used now.
    """

    def __init__(self, uri: str, folder: RunFolder) -> None:
        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        self._shown, self._folder = without_credentials(uri), folder
        self._store = _open(uri)
        self._trials: dict[str, Sequence[FrozenTrial]] = {}
        self._copies: dict[str, Copy] = {}
        self._news, self._closing = threading.Event(), threading.Event()
        self._answers, self._complete = True, False
        self._thread = threading.Thread(target=self._work, name="optuna-studies", daemon=True)

    def update(self, study: str, trials: Sequence[FrozenTrial]) -> None:
        """Return at once, whatever the server does."""
        self._trials[study] = trials
        self._news.set()
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """Write what waits, and say so when that can't be done."""
        self._closing.set()
        self._news.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)
        if self._trials and not self._complete:
            rest = "the same command writes them once it answers"
            log.warning("Optuna's studies at %s lack the last trials; %s", self._shown, rest)
        self._store.engine.dispose()

    def _work(self) -> None:
        while True:
            self._news.clear()
            closing = self._closing.is_set()  # before the round, which then is a whole one
            written = self._round()
            if closing:
                self._complete = written
                return
            if written:
                self._news.wait()
            else:
                self._closing.wait(RETRY_SECONDS)

    def _round(self) -> bool:
        """Write what the studies lack; False when that failed."""
        try:
            for study, trials in list(self._trials.items()):
                if study not in self._copies:
                    self._copies[study] = Copy(self._store, self._name(study))
                self._copies[study].extend(trials)
        except FAILURES as error:
            # Whether the last one came through is not known, so the next attempt looks again.
            self._copies = {}
            self._say_down(error)
            return False
        self._say_up()
        return True

    def _name(self, study: str) -> str:
        key = self._folder.marker.read_text(encoding="utf-8", errors="replace")
        return f"{study}-{key[:8]}"

    def _say_down(self, error: Exception) -> None:
        if self._answers:
            rest = "the search goes on, and what they miss is written later"
            log.warning("Optuna's studies at %s: %s; %s", self._shown, _reason(error), rest)
        self._answers = False

    def _say_up(self) -> None:
        if not self._answers:
            log.warning("Optuna's studies have what they missed")
        self._answers = True


def open_database(config: StudyConfig, folder: RunFolder) -> DatabaseStudies | None:
    """Optuna's studies where the study names a database for them; None where it names none.

    Raises:
        TrackingError: when the database can't be used.
    """
    uri = config.tracking.optuna
    return None if uri is None else DatabaseStudies(uri, folder)


def reach(uri: str) -> None:
    """See whether the database can be used now; changes nothing.

    Raises:
        TrackingError: when it can not.
    """
    with _alone(uri):
        pass


def _open(uri: str) -> RDBStorage:
    """Connect, and make Optuna's tables where there are none."""
    with _alone(uri):
        # A connection that a restart of the server has cut is found out before it is used.
        settings = {"connect_args": CONNECT, "pool_pre_ping": True}
        return RDBStorage(uri, engine_kwargs=settings)


@contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Hold a lock of the database, once it is seen to be nobody else's."""
    engine = create_engine(uri, connect_args=CONNECT, poolclass=NullPool)
    try:
        with engine.begin() as connection:
            connection.execute(text("select pg_advisory_xact_lock(:number)"), {"number": LOCK})
            tables = set(inspect(connection).get_table_names())
            if "alembic_version" in tables and "version_info" not in tables:
                # Both keep the version of their tables in a table of that name.
                raise unusable_optuna(uri, "it holds another program's tables, as MLflow's")
            yield
    except (*FAILURES, RuntimeError) as error:  # the last for the tables of another Optuna
        raise unusable_optuna(uri, _reason(error)) from None


def _reason(error: Exception) -> str:
    cause = error.__cause__  # of Optuna's own, which says nothing of the database
    return first_line(cause if isinstance(cause, SQLAlchemyError) else error)
