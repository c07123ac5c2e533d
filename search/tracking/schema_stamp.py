"""Marks an SQLite store whose schema this version of MLflow has checked.

Later runs read the mark, and need not import MLflow (seconds) before their first trial.
"""

import sqlite3
import zlib
from contextlib import closing
from importlib.metadata import version
from pathlib import Path


def is_stamped(path: Path) -> bool:
    """True if this version of MLflow has stamped the file and its schema is still the same."""
    try:
        with closing(sqlite3.connect(path)) as database:
            (found,) = database.execute("PRAGMA user_version").fetchone()
            return bool(found == _stamp(database))
    except sqlite3.Error:  # no store of MLflow
        return False


def stamp(path: Path) -> None:
    """Stamps the file; a file that is busy or read-only stays unchanged."""
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA user_version = {_stamp(database)}")
    except sqlite3.Error:
        return


def _stamp(database: sqlite3.Connection) -> int:
    """Returns a number of 31 bits that depends on the versions of MLflow and of its schema."""
    schema = database.execute("SELECT version_num FROM alembic_version").fetchall()
    return zlib.crc32(f"{version('mlflow')} {schema}".encode()) >> 1
