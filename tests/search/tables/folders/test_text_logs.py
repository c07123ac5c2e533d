"""Logs of text, one for each run."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from fathom.search.tables.errors import TableError
from fathom.search.tables.folders import text_logs
from fathom.search.tables.folders.finding import find_files
from fathom.search.tables.folders.logged import Logged, keeper
from fathom.search.tables.folders.settings_files import SettingsFiles
from fathom.search.tables.folders.text_logs import LONGEST_LINE, read_logs


def read(folder: Path, *patterns: str, asked: Sequence[str] = ()) -> Logged:
    found = find_files(str(folder))
    return read_logs(found, patterns, keeper({}, asked), SettingsFiles(found.root, None))


def losses(folder: Path, *patterns: str) -> dict[str, list[object]]:
    runs = read(folder, *patterns).runs
    return {run.name: run.series["loss"].values for run in runs if "loss" in run.series}


def test_each_file_is_a_run_with_the_settings_of_its_name_and_of_files_beside_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "w64").mkdir()
    (tmp_path / "w64/d8.log").write_text("step 1 loss 3.5\nstep 2 loss 3.4\n")
    (tmp_path / "w64/d4.jsonl").write_text('{"step": 1, "loss": 3.5, "mfu": 40}\n')
    (tmp_path / "config.json").write_text('{"batch_size": 64}')
    logged = read(tmp_path)

    assert [run.name for run in logged.runs] == ["w64/d4.jsonl", "w64/d8.log"]
    assert logged.runs[1].named == {"d_model": "64", "depth": "8"}
    assert logged.runs[1].settings == {"batch_size": 64}
    assert logged.runs[1].series["step"].values == [1.0, 2.0]
    assert "(there are also mfu)" in logged.lacking["loss"]


def test_a_packed_log_is_read_up_to_where_it_is_torn(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"step {s} loss 3.{s}\n" for s in range(9)).encode())
    (tmp_path / "whole.log.gz").write_bytes(packed)
    (tmp_path / "torn.log.gz").write_bytes(packed[:-12])
    found = losses(tmp_path)

    assert len(found["whole.log.gz"]) == 9
    assert found["torn.log.gz"] == found["whole.log.gz"][: len(found["torn.log.gz"])]


def test_lines_of_a_progress_bar_are_lines(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\r 1%| step 1 loss=3.5\r 2%| step 2 loss=3.4\n")
    assert losses(tmp_path) == {"a.log": [3.5, 3.4]}


def test_of_a_line_without_end_only_the_beginning_is_read(tmp_path: Path) -> None:
    long = "x" * 3 * LONGEST_LINE + " step 9 loss 9.0"
    (tmp_path / "a.log").write_text(f"{long}\nstep 1 loss 3.5\n")
    assert losses(tmp_path) == {"a.log": [3.5]}


def test_a_pattern_reads_what_it_names_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("10M weights\nit 5 (val) nll 3.5,\nit 5 (train) nll 3.1,\n")
    line = r"it (?P<step>\d+) \((?P<phase>\w+)\) nll (?P<loss>\S+)"
    logged = read(tmp_path, line, r"(?P<params>\S+) weights")
    [run] = logged.runs

    assert {name: values.values for name, values in run.series.items()} == {
        "params": ["10M"], "step": ["5", "5"], "phase": ["val", "train"], "loss": ["3.5", "3.1"],
    }  # fmt: skip
    assert logged.settings == {"step", "phase", "loss", "params"}


def test_a_pattern_that_takes_too_long_on_a_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_logs, "SLOWEST", 0.1)
    (tmp_path / "a.log").write_text("a" * 1000)
    with pytest.raises(TableError, match="must be a pattern that is matched quickly"):
        read(tmp_path, "(?P<loss>(a+)+)!")


def test_more_lines_than_a_table_may_have_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_logs, "MOST_ROWS", 2)
    (tmp_path / "a.log").write_text("words\n" * 9 + "step 1 loss 3\n" * 2)
    assert len(losses(tmp_path)["a.log"]) == 2
    (tmp_path / "b.log").write_text("step 1 loss 3\n")
    with pytest.raises(TableError, match=r"at most 2 lines .* got more at .*b\.log; .*--line"):
        losses(tmp_path)


@pytest.mark.parametrize(
    ("content", "patterns", "message"),
    [
        (b"Epoch one is done\n", (), "got lines such as 'Epoch one is done'; say how a line looks"),
        (b"s:250 tel:6.4\n", (), "with s, tel; say which is the loss with --map NAME=loss, or"),
        (b"", (), "in its file, got nothing; say how"),
        ("step 1 loss 3".encode("utf-16"), (), "logs in UTF-8, got binary files: a.log"),
        (b"Epoch one\n", ("(?P<loss>[0-9])",), "must find something .*; the pattern was "),
    ],
)
def test_logs_that_say_nothing_are_one_line_with_the_flag(
    tmp_path: Path, content: bytes, patterns: tuple[str, ...], message: str
) -> None:
    (tmp_path / "a.log").write_bytes(content)
    with pytest.raises(TableError, match=message):
        read(tmp_path, *patterns)
