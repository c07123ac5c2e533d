"""Checks and opens an MLflow store, with MLflow kept quiet and quick to fail."""

import logging
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.telemetry import set_telemetry_client
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from fathom.objectives.files.durable import put_in_place
from fathom.search.study.store_uri import (
    check_form,
    first_line,
    is_locked,
    is_new_file,
    sqlite_path,
    unusable,
)
from fathom.search.tracking.stores.made_here import is_stamped, note_store, stamp

DATABASE_SERVERS = ("postgresql", "mysql", "mssql")
"""Schemes of addresses that MLflow reaches through a database driver."""

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
"""Values of MLflow's environment variables, for those that the user has not set."""


def settle() -> None:
    """Makes MLflow fail quickly and log nothing, not even to the root logger: log lines can hold
    credentials."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # Importing MLflow has started its telemetry; this looks at the setting again.
    set_telemetry_client()  # type: ignore[no-untyped-call]
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "mlflow" not in Path(record.pathname).parts)


def check(uri: str) -> None:
    """Refuses an address that can never work, before any compute is spent.

    A server that does not answer is no error, and neither is an SQLite file that another process
    has locked: both may be available later.

    Raises:
        TrackingError: when the address is malformed, or the SQLite file cannot be used.
    """
    check_form(uri)
    if is_new_file(uri):
        return
    try:
        if urlsplit(uri).scheme.partition("+")[0] in DATABASE_SERVERS:
            create_engine(uri)  # finds the driver, and does not connect yet
        else:
            MlflowClient(uri)
    except (MlflowException, SQLAlchemyError, ImportError) as error:
        if is_locked(error):
            return
        raise unusable(uri, first_line(error)) from None
    path = sqlite_path(uri)
    if path is not None and not is_stamped(path):
        stamp(path)


def connect(uri: str) -> MlflowClient:
    """Returns a client of the store; makes an SQLite database that is missing.

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
    """Returns the folder of a study's artifacts beside an SQLite file; None for a server, which
    chooses it."""
    path = sqlite_path(uri)
    return None if path is None else (path.absolute().parent / "mlartifacts" / study).as_uri()


def _create_database(path: Path) -> None:
    """Makes the database under another name and moves it into place, since making it takes seconds.

    Otherwise a process killed meanwhile would leave half a schema, which MLflow never repairs.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a folder of its own: beside the file of a name that can be guessed, links may wait.
    with TemporaryDirectory(prefix=".mlflow-", dir=path.parent) as home:
        draft = Path(home, path.name)
        client = MlflowClient(f"sqlite:///{draft}")
        # An empty experiment on the front page would only be in the way of the study.
        client.delete_experiment("0")
        stamp(draft)
        note_store(draft, path)
        if not path.exists():  # else another process was quicker
            put_in_place(draft, path)
