"""Addresses of MLflow's stores and Optuna's studies, told apart and checked without importing
either, and shown without passwords."""

import glob
import json
import os
import re
import sqlite3
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import SplitResult, urlsplit

from fathom.objectives.files.reading import open_regular

SCHEMES = {
    *("", "file", "http", "https", "sqlite", "postgresql", "mysql", "mssql"),
    *("databricks", "databricks-uc", "uc"),
}
"""Schemes of the addresses of MLflow's own stores."""
SECRETS = ("password", "passwd", "pwd", "token", "secret")
"""Endings of the names of those parameters in a database's address that hold secrets."""
SECRET_KEY = rf"\w++(?:{'|'.join(f'(?<={end})' for end in SECRETS)})="
"""Pattern of the name of such a parameter, from the start of a word; possessive, so that no long
word is read again from each of its letters."""

SQLITE = b"SQLite format 3"
"""First bytes of a database of SQLite."""
MALFORMED, NO_DATABASE = "database disk image is malformed", "file is not a database"
"""Ends of SQLite's messages on a damaged database, and on a file that is no database."""
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Error codes of an SQLite file that is locked."""


DRIVERS = {
    "MySQLdb": "run `pip install pymysql` and write mysql+pymysql:// for mysql://",
    "psycopg": "run `pip install 'fathom-depth[postgres]'`",
}
"""What to do if the driver of a database is not installed, by the driver's module."""
JOURNALS = ("-journal", "-wal", "-shm")
"""Endings in the names of the files that SQLite keeps beside a database."""
OPTUNA = "optuna:"
"""Prefix that marks an address as Optuna's if it could be MLflow's too."""


FOLDERS = "MLFLOW_ALLOW_FILE_STORE"
"""MLflow's setting that lets it open a store that is a folder."""


class TrackingError(ValueError):
    """A tracking address that cannot be used."""


def check_form(uri: str) -> None:
    """Refuses an address that is malformed, or an SQLite file that can't be used.

    Raises:
        TrackingError: says what is wrong with it.
    """
    path, parts = sqlite_path(uri), _split(uri)
    if path is not None:
        _check_file(uri, path)
    elif parts.scheme.startswith("sqlite"):
        raise unusable(uri, "it names no file")
    elif parts.scheme in ("http", "https") and not parts.hostname:
        raise unusable(uri, "it names no host")
    plugins = {point.name for point in entry_points(group="mlflow.tracking_store")}
    if (kind := parts.scheme.partition("+")[0]) not in SCHEMES | plugins:
        raise unusable(uri, f"MLflow knows no `{kind}` addresses")


def check_store(uri: str) -> None:
    """Refuses an address that is malformed, or is a folder, as MLflow no longer writes to folders.

    Raises:
        TrackingError: says what is wrong with it.
    """
    check_form(uri)
    is_folder = uri.startswith("file:") or not (urlsplit(uri).scheme or uri in SCHEMES)
    if is_folder and FOLDERS not in os.environ:
        raise unusable(uri, "it is a folder, to which MLflow no longer writes")


def check_model_name(name: str, own_model: str | None = None) -> None:
    """Refuses a name that MLflow's registry would refuse after the training, and any model that a
    function of the user's builds.

    Raises:
        TrackingError: says what is wrong.
    """
    if own_model:
        raise TrackingError(
            f"`--register` is for Fathom's own model, and this shape is of {own_model}; register "
            "the weights with your own code"
        )
    if not name.strip() or set(name) & set("/:"):
        raise TrackingError(
            f"`--register` must be a name without `/` and `:`, got {name!r}; for example best-10M"
        )


def is_locked(error: BaseException | None) -> bool:
    """True if an error, or one of its causes, says that another process has locked an SQLite
    file."""
    while error is not None:
        if isinstance(error, sqlite3.OperationalError):
            return getattr(error, "sqlite_errorcode", None) in LOCKED
        error = error.__cause__ or error.__context__
    return False


def is_new_file(uri: str) -> bool:
    """True if the address is of an SQLite database that does not exist yet."""
    path = sqlite_path(uri)
    return path is not None and not path.exists()


def without_credentials(text: str) -> str:
    """Returns the text with user names and passwords replaced by *** in every address."""
    text = re.sub(r"[^\s'\"]++", _without_login, text)
    return re.sub(rf"\b({SECRET_KEY})[^&\s'\"]*", r"\1***", text, flags=re.IGNORECASE)


def _without_login(word: re.Match[str]) -> str:
    # To the last @ of a word: a password may hold what should have been escaped there.
    head, separator, rest = word[0].partition("://")
    _, at, place = rest.rpartition("@")
    return f"{head}{separator}***@{place}" if at else word[0]


def to_keep(uri: str) -> str:
    """Returns the address without its password, and a server's address without its user name, to be
    written to a file.

    To use it again, set `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`, or `PGPASSWORD`.
    """
    head, separator, rest = uri.partition("://")
    login, at, place = rest.rpartition("@")
    if head in ("http", "https") or not login:
        login = at = ""
    uri = f"{head}{separator}{login.partition(':')[0]}{at}{place}"
    return re.sub(rf"[?&]{SECRET_KEY}[^&]*", "", uri, flags=re.IGNORECASE)


def is_server(uri: str) -> bool:
    """True if the address is that of a tracking server, which serves MLflow's page itself."""
    return uri.startswith(("http:", "https:"))


def sqlite_path(uri: str) -> Path | None:
    """Returns the file of an SQLite address; None for any other address."""
    scheme, _, rest = uri.partition(":///")
    file = rest.partition("?")[0]
    is_file = scheme.partition("+")[0] == "sqlite" and file not in ("", ":memory:")
    return Path(file) if is_file else None


def first_line(error: BaseException) -> str:
    """Returns one line of an error, or of the cause at the end of its chain, without secrets."""
    text = without_credentials(str(error))
    line = text.rpartition("(Caused by ")[2].strip().partition("\n")[0]
    if isinstance(error, ModuleNotFoundError):
        line += f"; {DRIVERS.get(error.name or '', f'run `pip install {error.name}`')}"
    return line if len(line) <= 200 else line[:199] + "…"


def unusable(uri: str, problem: str) -> TrackingError:
    """Returns the error that refuses an address for MLflow, in one line."""
    path = sqlite_path(uri)
    own = (MALFORMED, NO_DATABASE) if path and path.name == "mlflow.db" else MALFORMED
    if path and problem.endswith(own):
        return TrackingError(
            f"{path} is damaged ({problem}); it is a copy of the records: delete it, and "
            "`fathom report` writes it again"
        )
    return TrackingError(
        f"`tracking.uri` must be an address that MLflow can use, got {without_credentials(uri)}: "
        f"{without_credentials(problem)}; for example sqlite:///runs/mlflow.db or http://HOST:5000"
    )


def _split(uri: str) -> SplitResult:
    """Returns the parts of an address; refuses one whose host or port can't be read."""
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:  # its own words may repeat a part of a password
        raise unusable(uri, "its host or port can't be read") from None
    return parts


def _check_file(uri: str, path: Path) -> None:
    """Refuses a file that is no writable SQLite database and can't become one.

    The file is not made yet, as the study may still be refused for something else.
    """
    try:
        if not path.exists():
            nearest = next(folder for folder in path.absolute().parents if folder.exists())
            TemporaryFile(dir=nearest).close()
            return
        for beside in path.parent.glob(f"{glob.escape(path.name)}-*"):
            open_regular(beside).close()  # SQLite would wait at a pipe for ever
        with open_regular(path) as file:
            if file.read(len(SQLITE)) not in (b"", SQLITE):
                raise OSError(NO_DATABASE)
        if not os.access(path, os.W_OK):
            raise OSError("it is read-only")
    except OSError as error:
        raise unusable(uri, str(error)) from None


def is_optuna(address: str) -> bool:
    """True for an address that begins with `OPTUNA`, and for a database file or a journal that
    Optuna wrote."""
    if address.startswith(OPTUNA):
        return True
    path = Path(sqlite_path(address) or address)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(1 << 16)
    if first.startswith(SQLITE):
        return has_studies(path)
    try:
        line = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(line, dict) and "op_code" in line


def pipe_beside(database: Path) -> Path | None:
    """Returns a pipe or folder under the name of one of an SQLite file's journals, for which SQLite
    might wait for ever; None if there is none."""
    beside = [database.with_name(database.name + end) for end in JOURNALS]
    return next((file for file in beside if file.exists() and not file.is_file()), None)


def has_studies(path: Path) -> bool:
    """True for an SQLite file with Optuna's tables."""
    if pipe_beside(path):
        return False
    query = "SELECT count(*) FROM sqlite_master WHERE name IN ('studies', 'trial_params')"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return bool(database.execute(query).fetchone()[0] == 2)
    except (sqlite3.Error, UnicodeDecodeError):  # the latter from a damaged schema
        return False
