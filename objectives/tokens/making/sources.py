"""Files of text, JSON lines, parquet or Arrow, plain or compressed, in blocks of a megabyte."""

import gzip
import os
import shlex
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import check_bounded, matches, open_regular
from fathom.objectives.text.folders import named_files
from fathom.objectives.tokens import arrow
from fathom.objectives.tokens.formats import ARROW, DATASETS, STATE
from fathom.objectives.tokens.shards import TRAIN

BLOCK_BYTES = 1 << 20
LONGEST_DOCUMENT = 1 << 26
"""Most bytes of a line of JSON, or of a document in a table."""
ROWS_AT_ONCE = 256
"""Most rows of a table in a block."""
ROWS_BYTES = 1 << 26
"""Approximate most bytes of the rows in a block."""
GZIP, ZSTD = ".gz", ".zst"
JSON_LINES, PARQUET = (".jsonl", ".ndjson", ".json"), ".parquet"
LONG_WINDOW = "too much memory"
"""Words by which the error of a zstd frame with too long a window is recognised."""
UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)

Kind = Literal["text", "lines", "rows"]
"""Kind of a source: running text; a document in each line, as JSON; a document in each row of a
column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of documents."""

    path: Path
    kind: Kind
    packed: str
    """Suffix of its compression; empty if it is plain."""
    size: int
    modified: int
    """Time of the last change, in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """Documents, or a part of a long text, that one worker cuts into tokens."""

    kind: Kind
    content: bytes | list[Any]
    path: str
    place: int
    """Place in its file: bytes or rows before it."""
    continues: bool
    """True if the text before it, in the block before, is of the same document."""
    read: int
    """Approximate number of bytes on the disk, of all files, up to the end of this block."""


def find_sources(source: str) -> list[SourceFile]:
    """The files of a path or glob, sorted; without those that are held out by their names in a
    folder.

    Raises:
        ObjectiveError: when there are none.
    """
    path = os.path.expanduser(source)
    check_bounded(path)
    if os.path.isdir(path) and (dataset := _dataset(Path(path))):
        return [_source(file) for file in arrow.files_of(dataset)]
    if os.path.isdir(path) and (named := named_files(Path(path))):
        found = list(named.train)
    elif os.path.isdir(path):
        below = (Path(parent, name) for parent, _, names in os.walk(path) for name in names)
        found = [
            file
            for file in below
            if not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
    elif os.path.exists(path):
        found = [Path(path)]
    else:
        found = matches(path)
    files = sorted(file for file in found if file.is_file())
    if not files:
        raise ObjectiveError(
            f"SOURCE must be a file, a folder or a glob with files of text, got {source!r}; check "
            "the path"
        )
    return [_source(file) for file in files]


def _dataset(folder: Path) -> Path | None:
    """The data set that `save_to_disk` of `datasets` wrote into a folder (of several splits, the
    one to train on); None for any other folder."""
    if (folder / DATASETS).is_file():
        if not (folder / TRAIN / STATE).is_file():
            raise ObjectiveError(
                f"SOURCE must be text to train on, got {folder}, a data set without the split "
                f"{TRAIN}; name the folder of one of its splits"
            )
        return folder / TRAIN
    return folder if (folder / STATE).is_file() else None


def _source(file: Path) -> SourceFile:
    packed = file.suffix if file.suffix in (GZIP, ZSTD) else ""
    suffix = Path(file.stem).suffix if packed else file.suffix
    kind: Kind = "text"
    if suffix in JSON_LINES:
        kind = "lines"
    elif suffix in (PARQUET, ARROW):
        kind = "rows"
    status = file.stat()
    return SourceFile(
        path=file, kind=kind, packed=packed, size=status.st_size, modified=status.st_mtime_ns
    )


def read_blocks(files: Sequence[SourceFile], field: str) -> Iterator[TextBlock]:
    """Yields the blocks of all files, in their order; `field` is the column of parquet.

    Raises:
        ObjectiveError: when a file can't be read to its end.
    """
    before = 0
    for file in files:
        try:
            if file.kind == "rows":
                yield from _rows(file, field, before)
            else:
                yield from _bytes(file, before)
        except UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            if LONG_WINDOW in str(reason):
                place, plain = (shlex.quote(str(p)) for p in (file.path, file.path.with_suffix("")))
                raise ObjectiveError(
                    f"{file.path} must be packed with a window of up to 128 MiB, but has a longer "
                    f"one (zstd --long); unpack it: zstd -d --long=31 {place} -o {plain}"
                ) from error
            raise ObjectiveError(
                f"{file.path} can't be read to its end: {str(reason).splitlines()[0]}; "
                "copy it again, or leave it out"
            ) from error
        before += file.size


def _bytes(file: SourceFile, before: int) -> Iterator[TextBlock]:
    """Blocks of whole lines; a text without ends of lines is cut between characters."""
    with open_regular(file.path) as raw:
        opened: Any = raw
        if file.packed == GZIP:
            opened = gzip.GzipFile(fileobj=raw)
        elif file.packed == ZSTD:
            opened = pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")
        rest, place = b"", 0
        while True:
            # More of a long line at a time, or it would be copied once for each block.
            fresh = bytes(opened.read(max(BLOCK_BYTES, len(rest) // 4)))
            whole = rest + fresh
            end = _end(whole, file) if fresh else len(whole)
            if end:
                yield TextBlock(
                    kind=file.kind, content=whole[:end], path=str(file.path), place=place,
                    continues=file.kind == "text" and place > 0, read=before + raw.tell(),
                )  # fmt: skip
            rest, place = whole[end:], place + end
            if not fresh:
                return


def _end(text: bytes, file: SourceFile) -> int:
    """Number of bytes that make a block; 0 if more must be read first."""
    end = text.rfind(b"\n") + 1
    if file.kind == "lines" and not end and len(text) > LONGEST_DOCUMENT:
        raise ObjectiveError(
            f"{file.path} must have a JSON object in each line, got a line of over "
            f"{LONGEST_DOCUMENT:,} bytes; write one document a line, and longer ones as .txt files"
        )
    if file.kind == "lines" or end:
        return end
    end = len(text)
    while end > len(text) - 4 and end and text[end - 1] & 0xC0 == 0x80:
        end -= 1  # inside a character, or at its end: its first byte is read again with the rest
    return max(0, end - 1)


def _rows(file: SourceFile, field: str, before: int) -> Iterator[TextBlock]:
    if file.path.suffix == ARROW:
        rows, names, columns = arrow.column_of(file.path, field, ROWS_AT_ONCE)
    else:
        rows, names, columns = _parquet(file.path, field)
    if field not in names:
        raise ObjectiveError(
            f"{file.path} must have a column {field}, got {', '.join(names)[:200]}; name it with "
            "--field"
        )
    place = 0
    for batch in chain.from_iterable(_slices(batch) for batch in columns):
        if _longest(batch) > LONGEST_DOCUMENT:
            raise ObjectiveError(
                f"{file.path} must have documents of at most {LONGEST_DOCUMENT:,} bytes, got a "
                f"longer one after row {place:,}; divide it, or write it as a .txt file"
            )
        texts = [text for text in batch.to_pylist() if text is not None]
        place += len(batch)
        yield TextBlock(
            kind="rows", content=texts, path=str(file.path), place=place, continues=False,
            read=before + file.size * place // max(1, rows),
        )  # fmt: skip


def _parquet(path: Path, field: str) -> tuple[int, list[str], Iterator[Any]]:
    """The number of rows of a file, the names of its columns, and the values of one of them, some
    rows at a time."""
    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    longest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    # A short text that the file stores once may be that of every row.
    is_text = longest <= LONGEST_DOCUMENT and field in arrow.text_columns(schema)
    table = pq.ParquetFile(path, read_dictionary=[field] if is_text else None)
    batches = table.iter_batches(_rows_at_once(longest), columns=[field])
    return metadata.num_rows, schema.names, (batch.column(0) for batch in batches)


def _rows_at_once(longest: int) -> int:
    """Number of rows in a block whose longest row has so many bytes."""
    return max(1, min(ROWS_AT_ONCE, ROWS_BYTES // max(1, longest)))


def _slices(values: Any) -> Iterator[Any]:
    """A column of values, some rows at a time."""
    rows = _rows_at_once(_longest(values))
    return (values.slice(start, rows) for start in range(0, len(values), rows))


def _longest(values: Any) -> int:
    """Bytes of the longest text in a column; 0 for a column of anything else."""
    texts = values.dictionary if pa.types.is_dictionary(values.type) else values
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return 0
    return pc.max(pc.binary_length(texts)).as_py() or 0
