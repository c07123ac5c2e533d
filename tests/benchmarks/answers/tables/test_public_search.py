"""Replays of other people's searches, on a small table."""

from pathlib import Path

from benchmarks.answers.tables.public_search import kinds_of_shuffled, read_rows, shuffled
from tests.support.drawn_tables import drawn

TRIAL = "DEPTH,ASPECT_RATIO,HEAD_DIM,val_bpb,MATRIX_LR\n8,64,128,1.0,0.04\n10,60,64,2.0,0.02\n"


def test_trials_of_autoresearch_get_a_size(tmp_path: Path) -> None:
    (tmp_path / "tpe.csv").write_text(TRIAL, encoding="utf-8")
    [first, second] = read_rows(tmp_path / "tpe.csv")

    assert (first["val_bpb"], first["params_non_embedding"]) == ("1.0", "2.51658e+07")
    assert second["params_non_embedding"] == f"{12 * 10 * 640**2:g}"
    assert "ASPECT_RATIO" not in first


def test_shuffled_depths_are_never_identified() -> None:
    rows = [{name: str(value) for name, value in row.items()} for row in drawn(80)]
    [mixed] = [shuffled(rows, seed=0)]

    assert sorted(row["depth"] for row in mixed) == sorted(row["depth"] for row in rows)
    assert kinds_of_shuffled(rows, [0])["identified"] == 0
