"""Opens a table in a parquet file, as names and rows of values."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fathom.search.formatting import format_count, printable
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import MOST_ROWS, OpenTable, readable, readable_rows

ROWS_AT_ONCE = 64
"""Rows that are decoded together; few, as a value that a file stores once may occur in every
row."""
MOST_BYTES = 1 << 28
"""Most bytes of the rows that are decoded together."""


def open_parquet(path: Path) -> OpenTable:
    """The columns of a parquet file without the index of a data frame, and its rows, read from the
    file on demand.

    Raises:
        TableError: when the file is not a parquet file, or has too many rows.
    """
    label = printable(str(path))
    with readable(label):
        file = pq.ParquetFile(path)
        names, index = file.schema_arrow.names, file.schema_arrow.pandas_metadata or {}
        left_out = [name for name in index.get("index_columns", ()) if isinstance(name, str)]
        places = [place for place, name in enumerate(names) if name not in left_out]
        rows = file.metadata.num_rows
    if rows > MOST_ROWS:
        raise TableError(
            f"{label} must have at most {format_count(MOST_ROWS)} rows, got {format_count(rows)}; "
            "keep every tenth evaluation"
        )
    numbered = readable_rows(enumerate(_rows(file, places), 1), label)
    return OpenTable(label, [names[place] for place in places], numbered)


def _rows(file: pq.ParquetFile, places: Sequence[int]) -> Iterator[Sequence[object]]:
    known = dict[int, tuple[pa.Array, list[object]]]()
    for batch in file.iter_batches(ROWS_AT_ONCE):
        if batch.nbytes > MOST_BYTES:
            raise ValueError(f"{ROWS_AT_ONCE} rows take {batch.nbytes:,} bytes")
        columns = (_values(batch.column(place), place, known) for place in places)
        yield from zip(*columns, strict=True)


def _values(
    column: pa.Array, place: int, known: dict[int, tuple[pa.Array, list[object]]]
) -> Sequence[object]:
    """The values of a column; equal values of a dictionary column are one object, kept in
    `known`."""
    if not pa.types.is_dictionary(column.type):
        return list[object](column.to_pylist())
    words = column.dictionary
    if place not in known or not known[place][0].equals(words):
        known[place] = words, words.to_pylist()
    return [None if at is None else known[place][1][at] for at in column.indices.to_pylist()]
