"""Opens a table in a parquet file, as names and rows of values."""

from pathlib import Path

import pandas as pd

from fathom.search.formatting import printable
from fathom.search.tables.read import OpenTable, unreadable
from fathom.search.tables.runs import TableError

LARGEST = 2 << 30
"""Bytes of a file, which is read as a whole."""


def open_parquet(path: Path) -> OpenTable:
    """The columns of a parquet file and its rows.

    Raises:
        TableError: when the file is none, or is too large.
    """
    label = printable(str(path))
    if path.stat().st_size > LARGEST:
        raise TableError(f"{label} must have at most 2 GB, got more; keep the columns that count")
    try:
        # A number that is not there is not one that is none, which a run that diverged has.
        frame = pd.read_parquet(path, dtype_backend="numpy_nullable")
    except (ValueError, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise unreadable(label, error) from None
    values = [frame[name].tolist() for name in frame]
    columns = [[None if value is pd.NA else value for value in column] for column in values]
    rows = enumerate(zip(*columns, strict=True), 1)
    return OpenTable(label, [str(name) for name in frame.columns], rows)
