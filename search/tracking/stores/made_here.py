"""Recognises the SQLite stores of MLflow that were made here, by notes that lie outside all runs.

A store in a runs folder may be another person's. SQLite would run triggers of such a store, and
change or delete other files that its journal names, so only a store's first bytes are read before
it is recognised.
"""

import os
import secrets
import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path
from stat import S_ISREG

from fathom.objectives.files.reading import digest_of, open_regular
from fathom.search.run_folder import write_atomically
from fathom.search.study.store_uri import JOURNALS, is_locked
from fathom.search.version import MLFLOW, installed_version

NO_PLAIN_FILE = "is a link, has another name elsewhere or is no plain file"
"""End of a sentence on a file of a store that is never opened."""
MARK = slice(68, 72)
"""Bytes of SQLite's header with the `application_id`, a number that each store is given when it is
made."""
SCHEMA = (
    "SELECT type, name, tbl_name, sql FROM sqlite_master "
    "WHERE NOT (type = 'table' AND name LIKE 'sqlite_stat_') ORDER BY 1, 2"
)
"""Query for all tables, indexes, triggers and views, except the statistics that `ANALYZE` keeps."""


def note_store(draft: Path, path: Path) -> None:
    """Marks a new store that is to be moved from `draft` to `path`, and notes it as made here.

    If notes can't be kept, the store is used this once, and later commands do not recognise it.
    """
    mark = 1 + secrets.randbelow(2**31 - 1)
    with closing(sqlite3.connect(draft)) as database:
        database.execute(f"PRAGMA application_id = {mark}")
        schema = _schema(database)
    note = _note(path, mark.to_bytes(4))
    with suppress(OSError):
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(note, schema)


def strangeness(path: Path) -> str:
    """Returns how a store, or a file beside it, differs from what was made here; empty if nothing
    differs, and if no store is there."""
    beside = [path.with_name(path.name + end) for end in JOURNALS]
    for file in filter(os.path.lexists, (path, *beside)):
        if not is_plain(file):
            return f"{file} {NO_PLAIN_FILE}"
    if not path.exists():
        left = next(filter(Path.exists, beside), None)
        return f"{left} is of a store that is not there" if left else ""
    try:
        with open_regular(path) as store:
            note = _note(path, store.read(100)[MARK])
        if not note.is_file():
            return f"{path} was not made here"
        with closing(sqlite3.connect(path)) as database:
            same = _schema(database) == note.read_text()
    except (OSError, sqlite3.Error) as error:
        return "" if is_locked(error) else f"{path} can't be read ({error})"
    return "" if same else f"{path} has other tables, triggers or views than were made here"


def is_plain(file: Path) -> bool:
    """True for a plain file with a single name, so that using it reads or writes nothing
    elsewhere."""
    seen = file.lstat()
    return S_ISREG(seen.st_mode) and seen.st_nlink == 1


def is_stamped(path: Path) -> bool:
    """True if this version of MLflow has stamped the file, and the file's schema is unchanged
    since."""
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
    """Returns a number of 31 bits that depends on MLflow's version and on the schema of the
    database."""
    schema = database.execute("SELECT version_num FROM alembic_version").fetchall()
    return zlib.crc32(f"{installed_version(*MLFLOW)} {schema}".encode()) >> 1


def _note(path: Path, mark: bytes) -> Path:
    """Path of the note about a store: one for each path and each store made at that path."""
    states = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    place = os.path.join(os.path.realpath(path.absolute().parent), path.name)
    return Path(states, "fathom", "stores", digest_of((place, mark))).expanduser()


def _schema(database: sqlite3.Connection) -> str:
    """A digest of everything in a database except its rows."""
    return digest_of(str(part) for row in database.execute(SCHEMA) for part in row)
