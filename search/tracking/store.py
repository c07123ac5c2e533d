"""Reaching an MLflow store: which addresses are usable, and MLflow kept quiet and quick to fail."""

import logging
import os
import re
import sqlite3
from pathlib import Path
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.telemetry import set_telemetry_client
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

DATABASE_SERVERS = ("postgresql", "mysql", "mssql")

SETTINGS = {
    # A retried request may create a run twice. The writer tries again by itself, after a look at
    # what exists.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # A search reports to nobody but its own store.
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Environment of MLflow where the user has not set it."""


class TrackingError(ValueError):
    """A tracking address that cannot be used."""


def settle() -> None:
    """Make MLflow quick to fail, and silent: its log lines can hold credentials."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # Importing MLflow has started its telemetry; this looks at the setting again.
    set_telemetry_client()  # type: ignore[no-untyped-call]
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def without_credentials(text: str) -> str:
    """The text with user names and passwords taken out of every address in it."""
    return re.sub(r"(?<=://)[^/\s'\"]*@", "***@", text)


def sqlite_path(uri: str) -> Path | None:
    """File of an SQLite address; None for any other address."""
    scheme, _, rest = uri.partition(":///")
    file = rest.partition("?")[0]
    is_file = scheme.partition("+")[0] == "sqlite" and file not in ("", ":memory:")
    return Path(file) if is_file else None


def check(uri: str) -> None:
    """Refuse what can never work, before any compute is spent.

    A server that does not answer is no error: it may come back.

    Raises:
        TrackingError: when the address is malformed, or the SQLite file cannot be used.
    """
    path = sqlite_path(uri)
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError as error:
        raise _unusable(uri, str(error)) from None
    if path is not None:
        _check_file(uri, path)
        if not path.exists():
            return
    elif parts.scheme.startswith("sqlite"):
        raise _unusable(uri, "it names no file")
    elif parts.scheme in ("http", "https") and not parts.hostname:
        raise _unusable(uri, "it names no host")
    try:
        if parts.scheme.partition("+")[0] in DATABASE_SERVERS:
            create_engine(uri)  # finds the driver, and does not connect yet
        else:
            MlflowClient(uri)
    except (MlflowException, SQLAlchemyError, ImportError) as error:
        raise _unusable(uri, first_line(error)) from None


def connect(uri: str) -> MlflowClient:
    """A client; makes the SQLite database where there is none.

    Raises:
        ConnectionError: when a database cannot be reached.
    """
    path = sqlite_path(uri)
    try:
        if path is not None and not path.exists():
            _create_database(path)
        return MlflowClient(uri)
    except SQLAlchemyError as error:
        raise ConnectionError(first_line(error)) from None


def artifact_location(uri: str, study: str) -> str | None:
    """Folder of a study's artifacts: beside an SQLite file, elsewhere the server's choice."""
    path = sqlite_path(uri)
    return None if path is None else (path.absolute().parent / "mlartifacts" / study).as_uri()


def first_line(error: Exception) -> str:
    """An error in one line that is safe to show; of an error in a chain, the cause."""
    text = without_credentials(str(error))
    line = text.rpartition("(Caused by ")[2].strip().partition("\n")[0]
    return line if len(line) <= 200 else line[:199] + "…"


def _unusable(uri: str, problem: str) -> TrackingError:
    return TrackingError(
        f"`tracking.uri` must be an address that MLflow can use, got {without_credentials(uri)}: "
        f"{without_credentials(problem)}; for example sqlite:///runs/mlflow.db or http://HOST:5000"
    )


def _check_file(uri: str, path: Path) -> None:
    """See that the file is, or can become, an SQLite database that may be written to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            probe = path.with_name(f".{path.name}.{os.getpid()}.probe")
            probe.touch()
            probe.unlink()
            return
        database = sqlite3.connect(path)
        try:
            database.execute("PRAGMA user_version").fetchone()
            if not os.access(path, os.W_OK):
                raise sqlite3.OperationalError("it is read-only")
        finally:
            database.close()
    except (OSError, sqlite3.Error) as error:
        raise _unusable(uri, str(error)) from None


def _create_database(path: Path) -> None:
    """Make the database aside and move it into place, since its making takes seconds.

    A process killed in between would otherwise leave half a schema, which MLflow never mends.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    client = MlflowClient(f"sqlite:///{draft}")
    # An empty experiment on the front page would only be in the way of the study.
    client.delete_experiment("0")
    if path.exists():  # another process was quicker
        draft.unlink()
    else:
        os.replace(draft, path)
