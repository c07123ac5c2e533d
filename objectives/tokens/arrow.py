"""Columns of token ids in Arrow's files and in folders that `datasets` has written, read in place.

A record batch holds the ids of its rows one after another, so that they are a `Segment` of the
file.
"""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.tokens.stream import Segment

COLUMNS = ("input_ids", "token_ids", "tokens", "ids")
"""Usual names of a column of token ids, the likeliest first."""
UNREADABLE = (pa.ArrowException, OSError, ValueError)


def files_of(folder: Path) -> list[Path]:
    """The files of a dataset that `save_to_disk` has written, in their order.

    Raises:
        ObjectiveError: when it is damaged, or its rows are not in the order of its files.
    """
    path = folder / "state.json"
    try:
        state = json.loads(path.read_bytes())
        files = [folder / entry["filename"] for entry in state["_data_files"]]
        shuffled = bool(state.get("_indices_files"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ObjectiveError(
            f"{path} must be written by `save_to_disk` of `datasets`, got {error!r}; save it again"
        ) from error
    if shuffled:
        raise ObjectiveError(
            f"{folder} must be a dataset in the order of its files, got one with a list of "
            "indices; save it again after `flatten_indices()`"
        )
    return files


def segments_of(file: Path, column: str | None) -> list[Segment]:
    """The places of the ids of a column, a segment for each record batch.

    Raises:
        ObjectiveError: when the file is damaged, compressed, or has no such column of ids.
    """
    try:
        with pa.memory_map(str(file)) as mapped:
            whole = mapped.read_buffer()
            mapped.seek(0)
            batches = list(_batches(mapped))
            name = id_column(file, batches[0].schema, column) if batches else ""
            return [_segment(file, whole, batch.column(name), name) for batch in batches]
    except ObjectiveError:
        raise
    except UNREADABLE as error:
        raise ObjectiveError(
            f"{file} must be a whole Arrow file, got {str(error).splitlines()[0]}; write it again"
        ) from error


def id_column(file: Path, schema: Any, column: str | None) -> str:
    """The column of ids: the one that is named, else the first with a usual name."""
    names = schema.names
    wanted = (column,) if column else COLUMNS
    found = next((name for name in wanted if name in names), None)
    if found is None:
        if (texts := text_columns(schema)) and not column:
            source = file.parent if file.suffix == ".arrow" else file
            raise ObjectiveError(
                f"{file} must have a column of token ids, got text in {', '.join(texts)[:200]}; "
                f"{tokenize_command(source, texts[0])} cuts it into tokens"
            )
        raise ObjectiveError(
            f"{file} must have a column of token ids, {' or '.join(wanted)}, got "
            f"{', '.join(names)[:200]}; name it with `column`"
        )
    return found


def tokenize_command(source: Path, field: str) -> str:
    """The command that cuts a column of text into tokens."""
    place = shlex.join([str(source), "--field", field])
    return f"fathom tokenize {place} --tokenizer bpe:8192 --out FOLDER"


def ids_command(file: Path, column: str, largest: int) -> str:
    """The command that writes a column of token ids as shards."""
    place = shlex.join([str(file), "--field", column])
    return f"fathom tokenize {place} --tokenizer ids --vocabulary {largest + 1} --out FOLDER"


def parquet_command(file: Path, column: str | None) -> str:
    """The command that turns a parquet file into shards: of its ids, or of its text.

    Raises:
        ObjectiveError: when it has neither, or can't be read.
    """
    try:
        table = pq.ParquetFile(file)
        name, largest = id_column(file, table.schema_arrow, column), 0
        for batch in table.iter_batches(columns=[name]):
            values = batch.column(0)
            while pa.types.is_nested(values.type):
                values = values.flatten()
            largest = max(largest, pc.max(values).as_py() or 0)
        return ids_command(file, name, largest)
    except ObjectiveError:
        raise
    except UNREADABLE as error:
        raise ObjectiveError(
            f"{file} must be a whole parquet file, got {str(error).splitlines()[0]}; write it again"
        ) from error


def column_of(file: Path, name: str, rows: int) -> tuple[int, list[str], Iterator[Any]]:
    """The number of rows of a file, the names of its columns, and the values of one of them, some
    rows at a time."""
    mapped = pa.memory_map(str(file))
    batches = list(_batches(mapped))
    names = batches[0].schema.names if batches else []
    parts = (
        batch.column(name).slice(start, rows)
        for batch in batches
        for start in range(0, len(batch), rows)
    )
    return sum(map(len, batches)), names, parts


def text_columns(schema: Any) -> list[str]:
    """Names of the columns of text."""
    kinds = (pa.types.is_string, pa.types.is_large_string)
    return [field.name for field in schema if any(is_kind(field.type) for is_kind in kinds)]


def _batches(mapped: Any) -> Any:
    """The record batches of a file in either of Arrow's forms, without copies."""
    try:
        reader = pa.ipc.open_stream(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        reader = pa.ipc.open_file(mapped)
        return [reader.get_batch(index) for index in range(reader.num_record_batches)]
    return reader


def _segment(file: Path, whole: Any, values: Any, column: str) -> Segment:
    """The place of a column's ids in a record batch, where the ids of its rows follow each
    other."""
    begin, end = 0, len(values)
    if pa.types.is_fixed_size_list(values.type):
        width = values.type.list_size
        begin, end = values.offset * width, (values.offset + end) * width
        values = values.values
    elif pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        begin, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        values = values.values
    if not pa.types.is_integer(values.type) or values.null_count:
        raise ObjectiveError(
            f"{file} must have whole numbers in its column of ids, got "
            f"{values.type}{' with nulls' if values.null_count else ''}; name another `column`"
        )
    dtype = np.dtype(values.type.to_pandas_dtype())
    data = values.buffers()[1]
    offset = 0
    if data is not None:
        offset = data.address - whole.address + (values.offset + begin) * dtype.itemsize
    found = Segment(str(file), offset, end - begin, dtype.newbyteorder("<").str)
    if found.tokens and not 0 <= found.offset <= found.end <= whole.size:
        raise ObjectiveError(
            f"{file} must not be compressed, since it is read in place; turn it into shards: "
            f"{ids_command(file, column, pc.max(values).as_py())}"
        )
    return found
