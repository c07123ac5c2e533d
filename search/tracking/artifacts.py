"""Finds out whether an SQLite store of MLflow keeps the artifacts of a study beside itself.

A store that lies in a runs folder may be another person's, or a copy, and its addresses lead
wherever they led there. Read with Python's own SQLite, since MLflow takes seconds to import.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from fathom.search.formatting import visible
from fathom.search.study.store_uri import TrackingError, sqlite_path
from fathom.search.tracking.messages import TrackedStudy

ADDRESSES = (
    "SELECT artifact_location FROM experiments WHERE name = :study",
    "SELECT DISTINCT artifact_uri FROM runs WHERE experiment_id IN "
    "(SELECT experiment_id FROM experiments WHERE name = :study)",
)


def strange_artifacts(uri: str, study: str) -> str:
    """Returns why writing a study's artifacts may write outside the folder of its SQLite store, as
    a sentence; empty if it does not, for a new store, and for any other kind of store."""
    path = sqlite_path(uri)
    if path is None or not os.path.lexists(path):
        return ""
    home = Path(os.path.realpath(path.absolute().parent))
    problem = f"{path} is a link" if path.is_symlink() else _outside(_addresses(path, study), home)
    if not problem:
        return ""
    return visible(
        f"{problem}, as in a folder that was copied, moved or made by somebody else; delete "
        f"{path} to have it made anew, or add --trust to write there"
    )


def check_artifacts(study: TrackedStudy) -> None:
    """Checks that the artifacts of a study go where its store is, unless the store is trusted.

    Raises:
        TrackingError: says where they would go.
    """
    if not study.trusted and (problem := strange_artifacts(study.uri, study.study)):
        raise TrackingError(problem)


def _addresses(path: Path, study: str) -> list[str]:
    """Returns the addresses of the artifacts of a study and its runs; empty for a file that is no
    store."""
    try:
        with closing(sqlite3.connect(path)) as database:
            rows = [row for ask in ADDRESSES for row in database.execute(ask, {"study": study})]
    except sqlite3.Error:
        return []
    return [str(address) for (address,) in rows if address is not None]


def _outside(addresses: Iterable[str], home: Path) -> str:
    """Returns which address, or which file at one, is not of the folder `home` alone."""
    seen = set[Path]()
    for address in addresses:
        place = _place(address)
        if place is None or not place.is_relative_to(home):
            return f"MLflow's artifacts are to go to {address}, outside {home}"
        if not seen & {place, *place.parents}:
            seen.add(place)
            for file in _shared_files(place):
                return f"{file}, among MLflow's artifacts, is a link or has another name elsewhere"
    return ""


def _place(address: str) -> Path | None:
    """Returns the folder of an address, as MLflow reads it; None if it is no path of its own."""
    if address.startswith("file:///"):
        return Path(os.path.realpath(url2pathname(urlsplit(address).path)))
    return Path(os.path.realpath(url2pathname(address))) if address.startswith("/") else None


def _shared_files(folder: Path) -> Iterator[Path]:
    """Yields the links in a folder, and the files that have a second name: written through, either
    changes a file elsewhere."""
    for inner, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(inner, name)
            if path.is_symlink() or (name in files and path.lstat().st_nlink > 1):
                yield path
