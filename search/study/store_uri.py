"""Which tracking addresses are usable, as far as can be told without MLflow, whose import takes
seconds; and how they are shown.
"""

import os
import re
import sqlite3
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

SCHEMES = {
    *("", "file", "http", "https", "sqlite", "postgresql", "mysql", "mssql"),
    *("databricks", "databricks-uc", "uc"),
}
"""What MLflow's own stores go by."""
POSTGRESQL = ("postgresql", "postgresql+psycopg")
SECRET_KEYS = r"(?:\w*password|passwd|pwd|\w*token|\w*secret)"
"""Parameters of a database's address that nobody else may see."""


class TrackingError(ValueError):
    """A tracking address that cannot be used."""


def check_form(uri: str) -> None:
    """Refuse an address that is malformed, or an SQLite file that cannot be used.

    Raises:
        TrackingError: with the reason.
    """
    path = sqlite_path(uri)
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:  # whose own words may repeat a part of a password
        raise unusable(uri, "its host or port can't be read") from None
    if path is not None:
        _check_file(uri, path)
    elif parts.scheme.startswith("sqlite"):
        raise unusable(uri, "it names no file")
    elif parts.scheme in ("http", "https") and not parts.hostname:
        raise unusable(uri, "it names no host")
    elif (kind := parts.scheme.partition("+")[0]) not in SCHEMES | _of_plugins():
        raise unusable(uri, f"MLflow knows no `{kind}` addresses")


def _of_plugins() -> set[str]:
    return {point.name for point in entry_points(group="mlflow.tracking_store")}


def check_optuna(uri: str, mlflow: str) -> None:
    """Refuse an address for Optuna's studies that is malformed, or is MLflow's own.

    Raises:
        TrackingError: with the reason.
    """
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        raise unusable_optuna(uri, "its host or port can't be read") from None
    if parts.scheme not in POSTGRESQL:
        raise unusable_optuna(uri, "it is none of PostgreSQL")
    if not parts.path.strip("/"):
        raise unusable_optuna(uri, "it names no database")
    if _place(uri) == _place(mlflow):
        raise unusable_optuna(uri, "MLflow's tables are there, and both have one of the same name")
    if find_spec("psycopg") is None:
        raise unusable_optuna(uri, "`pip install 'fathom-depth[postgres]'` comes first")


def check_model_name(name: str) -> None:
    """Refuse a name that MLflow's registry would, which is asked when training is over.

    Raises:
        TrackingError: with what is wrong.
    """
    if not name.strip() or set(name) & set("/:"):
        raise TrackingError(
            f"`--register` must be a name without `/` and `:`, got {name!r}; for example best-10M"
        )


def is_new_file(uri: str) -> bool:
    """An SQLite database that is still to be made: nothing in it can be wrong."""
    path = sqlite_path(uri)
    return path is not None and not path.exists()


def without_credentials(text: str) -> str:
    """The text with user names and passwords taken out of every address in it."""
    # To the last @ of a word: a password may hold what should have been escaped there.
    text = re.sub(r"(?<=://)[^\s'\"]*@", "***@", text)
    return re.sub(rf"({SECRET_KEYS}=)[^&\s'\"]*", r"\1***", text, flags=re.IGNORECASE)


def to_keep(uri: str) -> str:
    """The address as a file may hold it: without password, and a server's without user name.

    Who uses it again has the rest in the environment: `MLFLOW_TRACKING_USERNAME` and
    `MLFLOW_TRACKING_PASSWORD`, or `PGPASSWORD`.
    """
    head, separator, rest = uri.partition("://")
    login, at, place = rest.rpartition("@")
    if head in ("http", "https") or not login:
        login = at = ""
    uri = f"{head}{separator}{login.partition(':')[0]}{at}{place}"
    return re.sub(rf"[?&]{SECRET_KEYS}=[^&]*", "", uri, flags=re.IGNORECASE)


def sqlite_path(uri: str) -> Path | None:
    """File of an SQLite address; None for any other address."""
    scheme, _, rest = uri.partition(":///")
    file = rest.partition("?")[0]
    is_file = scheme.partition("+")[0] == "sqlite" and file not in ("", ":memory:")
    return Path(file) if is_file else None


def first_line(error: Exception) -> str:
    """An error in one line that is safe to show; of an error in a chain, the cause."""
    text = without_credentials(str(error))
    line = text.rpartition("(Caused by ")[2].strip().partition("\n")[0]
    return line if len(line) <= 200 else line[:199] + "…"


def unusable(uri: str, problem: str) -> TrackingError:
    """The refusal of an address, in one line."""
    return TrackingError(
        f"`tracking.uri` must be an address that MLflow can use, got {without_credentials(uri)}: "
        f"{without_credentials(problem)}; for example sqlite:///runs/mlflow.db or http://HOST:5000"
    )


def unusable_optuna(uri: str, problem: str) -> TrackingError:
    """The refusal of an address for Optuna's studies, in one line."""
    return TrackingError(
        "`tracking.optuna` must be a PostgreSQL database of its own that answers, got "
        f"{without_credentials(uri)}: {without_credentials(problem)}; for example "
        "postgresql://USER@HOST/optuna after `createdb optuna`, with the password in PGPASSWORD, "
        "or leave the key out: the run folder then keeps Optuna's studies"
    )


def _place(uri: str) -> tuple[str | None, int, str] | None:
    """Host, port and database of a PostgreSQL address; None of any other."""
    try:
        parts = urlsplit(uri)
        kind, port = parts.scheme.partition("+")[0], parts.port or 5432
    except ValueError:
        return None
    return (parts.hostname, port, parts.path.strip("/")) if kind == "postgresql" else None


def _check_file(uri: str, path: Path) -> None:
    """See that the file is, or can become, an SQLite database that may be written to.

    Leaves nothing behind: the study may yet be refused for something else.
    """
    try:
        if not path.exists():
            nearest = next(folder for folder in path.absolute().parents if folder.exists())
            probe = nearest / f".{path.name}.{os.getpid()}.probe"
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
        raise unusable(uri, str(error)) from None
