"""Checks that an SQLite store of MLflow was made here, and that it keeps a study's artifacts beside
it.

A store in a runs folder may be another person's, or a copy whose addresses still lead to the
original's folders. It is read with Python's own SQLite, since MLflow takes seconds to import.
"""

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from fathom.search.formatting import visible
from fathom.search.run_folder import is_named_store
from fathom.search.study.store_uri import TrackingError, is_locked, sqlite_path
from fathom.search.tracking.stores.made_here import NO_PLAIN_FILE, is_plain, strangeness
from fathom.search.tracking.stores.messages import TrackedStudy

ADDRESSES = (
    "SELECT artifact_location FROM experiments WHERE name = :study",
    "SELECT DISTINCT artifact_uri FROM runs WHERE experiment_id IN "
    "(SELECT experiment_id FROM experiments WHERE name = :study)",
)


PLAIN = re.compile(r"[0-9a-f]+/artifacts")
"""What MLflow puts after the address of an experiment for one of its runs; it leads nowhere else.
"""


def strange_artifacts(uri: str, study: str, address: str = "") -> str:
    """Returns a sentence on why a study must not be written to an SQLite store: it was not made
    here, or artifacts, also those at `address`, would go elsewhere. Empty if writing is allowed,
    for a new store, and for another kind of store."""
    path = sqlite_path(uri)
    if path is None:
        return ""
    home = Path(os.path.realpath(path.absolute().parent))
    own = (home / "mlartifacts" / study).as_uri()
    problem = strangeness(path)
    try:
        known = [] if problem or not path.exists() else _addresses(path, study)
    except sqlite3.Error as error:
        problem = "" if is_locked(error) else f"{path} can't be read ({error})"
    else:
        problem = problem or _outside(filter(None, (own, address, *known)), home)
    return _refusal(problem, path)


def strange_store(uri: str) -> str:
    """Returns why an SQLite store must not even be opened, if it was not made here; empty if it was
    made here, and for any other kind of store."""
    path = sqlite_path(uri)
    return _refusal(strangeness(path), path) if path else ""


def _refusal(problem: str, path: Path) -> str:
    trust = "" if problem.endswith(NO_PLAIN_FILE) else ", or add --trust"
    return problem and visible(
        f"{problem}, as in a folder that was copied, moved or made by somebody else; delete "
        f"{path} and what SQLite keeps beside it to have it made again{trust}"
    )


def check_artifacts(study: TrackedStudy, address: str = "") -> None:
    """Checks that a study may be written to its store, and artifacts to an address; a trusted store
    is not checked.

    Raises:
        TrackingError: if it may not; the message says why.
    """
    if not study.trusted and (problem := strange_artifacts(study.uri, study.study, address)):
        raise TrackingError(problem)


def check_store(uri: str, study: str, *, trust: bool) -> None:
    """Checks that a study may be written to the store of a runs folder; with `trust`, or if the
    environment names the store, nothing is checked.

    Raises:
        TrackingError: if it may not; the message says why.
    """
    trusted = trust or is_named_store(None)
    if not trusted and (problem := strange_artifacts(uri, study)):
        raise TrackingError(problem)


def _addresses(path: Path, study: str) -> list[str]:
    """Returns the addresses of the artifacts of a study and its runs."""
    with closing(sqlite3.connect(path)) as database:
        rows = [row for ask in ADDRESSES for row in database.execute(ask, {"study": study})]
    return [str(address) for (address,) in rows if address is not None]


def _outside(addresses: Iterable[str], home: Path) -> str:
    """Returns an address, or a file at one, that is not inside the folder `home` alone; empty if
    there is none."""
    seen, walked = set[Path](), ""
    for address in addresses:
        if walked and address.startswith(walked) and PLAIN.fullmatch(address, len(walked)):
            continue  # as tens of thousands of runs
        place = _place(address)
        if place is None or not place.is_relative_to(home):
            return f"MLflow's artifacts must lie in {home}, got {address}"
        if not seen & {place, *place.parents}:
            seen.add(place)
            for file in _shared_files(place):
                return f"{file}, one of MLflow's artifacts, is a link or no file, or has two names"
        walked = walked or f"{address}/"
    return ""


def _place(address: str) -> Path | None:
    """Returns the folder that an address names for MLflow; None unless the address is an absolute
    path."""
    if address.startswith("file:///"):
        return Path(os.path.realpath(url2pathname(urlsplit(address).path)))
    return Path(os.path.realpath(url2pathname(address))) if address.startswith("/") else None


def _shared_files(folder: Path) -> Iterator[Path]:
    """Yields the links and pipes in a folder, and the files with a second name: writing to any of
    them changes a file elsewhere, or never ends."""
    for inner, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(inner, name)
            if path.is_symlink() or (name in files and not is_plain(path)):
                yield path
