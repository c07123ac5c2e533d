"""Files that are tables, and files that are not."""

import gzip
import math
import os
from pathlib import Path

import pandas as pd
import pytest

from fathom.search.tables import open_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.sources import parquet, read
from fathom.search.tables.sources.parquet import open_parquet
from fathom.search.tables.sources.read import open_text

ROWS = [["4", "10M", "3.1"], ["8", "10M", "3.0"]]


def content(path: Path) -> tuple[list[str], list[list[object]]]:
    with open_text(path) as table:
        return table.names, [list(row) for _, row in table.rows]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_values_are_separated_by_what_the_first_line_has(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "t.csv"
    lines = [["depth", "params", "loss"], *ROWS]
    path.write_text("\ufeff" + "\r\n".join(separator.join(line) for line in lines))

    assert content(path) == (["depth", "params", "loss"], ROWS)


def test_a_header_that_is_marked_as_a_comment_is_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# of our runs, of May\n# layers,params,loss\n4,10M,3.1\n8,10e6,3.0\n")
    assert content(path) == (
        ["layers", "params", "loss"], [["4", "10M", "3.1"], ["8", "10e6", "3.0"]]
    )  # fmt: skip
    path.write_text("# of our runs, of, May\nlayers,params,loss\n4,10e6,3.1\n")
    assert content(path) == (["layers", "params", "loss"], [["4", "10e6", "3.1"]])


def test_a_line_that_only_names_the_separator_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("sep=;\ndepth;loss\n2;3,5\n")
    with open_text(path) as table:
        assert (table.names, [row for _, row in table.rows]) == (["depth", "loss"], [["2", "3.5"]])


def test_a_line_of_names_may_be_long(tmp_path: Path) -> None:
    path, names = tmp_path / "runs.csv", [f"column {n}" for n in range(10_000)]
    path.write_text(",".join(names) + "\n" + "1," * 9_999 + "1\n")
    with open_text(path) as table:
        assert table.names == names


def test_prose_is_no_table_and_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("# A title\n\nA sentence without end\n")
    with pytest.raises(TableError, match="first line has none of the separators") as error:
        content(path)
    assert "sentence" not in str(error.value)


def test_a_packed_table_is_one_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(b"depth,loss\n4,3.1\n"))

    assert content(path) == (["depth", "loss"], [["4", "3.1"]])


def test_json_lines_have_names_with_points(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"config": {"depth": 4}, "loss": 3.1}\n\n{"config": {"depth": 8}}\n')

    assert content(path) == (["config.depth", "loss"], [[4, 3.1], [8, None]])


def test_rows_in_a_json_array_are_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('\n[{"config": {"depth": 4}, "loss": 3.1},\n {"config": {"depth": 8}}]\n')

    assert content(path) == (["config.depth", "loss"], [[4, 3.1], [8, None]])


def test_a_json_array_may_be_one_long_line(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(f'[{{"note": "{"x" * 100_000}", "depth": 4}}]')

    assert content(path)[1] == [["x" * 100_000, 4]]


def test_parquet_is_read_by_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"depth": [4, 8], "loss": [3.1, None]}).to_parquet(path)
    table = open_parquet(path)

    assert table.names == ["depth", "loss"]
    assert [list(row) for _, row in table.rows] == [[4, 3.1], [8, None]]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", b"", "got an empty file"),
        ("t.csv", b"\n\n", "got an empty file"),
        ("t.csv", os.urandom(100_000), "got a binary file"),
        ("t.csv", b"x" * 100_000, "first line has none of the separators"),
        ("t.csv", "depth,loss\n".encode("utf-16"), "got a binary file"),
        ("t.csv", b"depth,loss\n4,3,1\n", "t.csv:2: a row must have as many values"),
        ("t.csv.gz", gzip.compress(b"depth,loss\n4,3.1\n", mtime=0)[:-6], "can't be read as one"),
        ("t.jsonl", b'{"depth": 4}\n[1]\n', "t.jsonl:2: a line must be a JSON object"),
        ("t.json", b'[{"depth": 4}, 1]', "must be an array of objects"),
        ("t.json", b'[{"depth": 4},', "can't be read as one"),
        ("t.json", b"[" * 100_000, "can't be read as one"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)

    with pytest.raises(TableError, match=message):
        content(path)


@pytest.mark.parametrize(
    ("name", "start"),
    [("t.csv", b"depth,loss\n4,"), ("t.jsonl", b'{"depth": 1}\n{"depth": "'), ("t.json", b"[\n")],
)
def test_a_line_without_end_is_not_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, start: bytes
) -> None:
    monkeypatch.setattr(read, "LONGEST_LINE", 1 << 16)
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(start + b"1" * (1 << 20)))
    with pytest.raises(TableError, match="over 65,536 characters"):
        content(path)


def test_more_lines_than_a_table_may_have_are_not_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MOST_ROWS", 9)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"depth,loss\n4,3\n" + b"\n" * 99))
    with pytest.raises(TableError, match="it has over 9 lines; keep every tenth"):
        content(path)


def test_a_table_of_too_many_columns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_table, "MOST_COLUMNS", 3)
    path = tmp_path / "t.json"
    path.write_text('[{"depth": 4, "loss": 3.2}, {"a": {"b": 1, "c": 2}}]')
    with pytest.raises(TableError, match="at most 3 columns, got 4"):
        content(path)


def test_lines_of_json_beyond_what_is_kept_in_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MOST_JSON", 1000)
    path = tmp_path / "t.jsonl"
    path.write_text('{"depth": 4, "loss": 3.2}\n' * 6)
    assert len(content(path)[1]) == 6
    path.write_text('{"depth": 4, "loss": 3.2}\n' * 7)
    with pytest.raises(TableError, match=r"jsonl:7: lines of JSON .* write them as CSV"):
        content(path)


def test_parquet_is_read_without_the_index_of_a_data_frame(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"depth": [4, 8, 4], "loss": [3.1, math.nan, 3.2]}, index=["a", "b", "c"])
    frame[frame.depth == 4].to_parquet(path)
    assert open_parquet(path).names == ["depth", "loss"]


def test_parquet_of_too_many_rows_or_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"depth": [4] * 50, "note": ["x" * 10_000] * 50}).to_parquet(path)
    monkeypatch.setattr(parquet, "MOST_BYTES", 100_000)
    with pytest.raises(TableError, match="64 rows take 5"):
        list(open_parquet(path).rows)
    monkeypatch.setattr(parquet, "MOST_ROWS", 49)
    with pytest.raises(TableError, match="must have at most 49 rows, got 50; keep every tenth"):
        open_parquet(path)


def test_a_value_that_parquet_holds_once_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    values = ["x" * 1_000_000, "y", None] * 100
    pd.DataFrame({"note": pd.Categorical(values), "depth": range(300)}).to_parquet(path)
    notes = [row[0] for _, row in open_parquet(path).rows]
    assert notes == values
    assert len({id(note) for note in notes}) <= 3 * 5, "one for each batch at most"


def test_parquet_whose_rows_are_damaged_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"depth": range(10_000)}).to_parquet(path, compression="gzip")
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes(500) + whole[540:])
    with pytest.raises(TableError, match="can't be read as one"):
        list(open_parquet(path).rows)


def test_a_file_that_is_no_parquet_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("depth,loss")

    with pytest.raises(TableError, match="can't be read as one"):
        open_parquet(path)
