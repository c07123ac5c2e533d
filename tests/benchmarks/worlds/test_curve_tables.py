"""Reading learning curves and sorting them into classes of size: `worlds/curve_tables.py`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.worlds.curve_tables import COLUMNS, corrected, read_runs, size_class
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json
from fathom.search.run_folder import RunFolder
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.sizes import size_slope
from tests.support.curves import run, write
from tests.support.simulated import simulated_study


def test_the_best_shape_has_the_lowest_mean_over_its_seeds() -> None:
    runs = [run(depth, seed=seed) for depth in (4, 8) for seed in (0, 1)]
    some = size_class(runs)
    ends = np.array([1.0, 3.0, 1.8, 1.8])  # a lucky seed of depth 4 is the lowest of all
    some = replace(some, losses=np.repeat(ends[:, None], 64, axis=1))
    assert some.best.depth == 8
    assert some.final.tolist() == [2.0, 2.0, 1.8, 1.8]


def test_a_table_is_read_by_shape_and_seed_without_infinite_values(tmp_path: Path) -> None:
    runs = [run(depth, seed=seed) for depth in (4, 8) for seed in (0, 1)]
    runs[0].losses[5] = np.nan
    read = read_runs(write(tmp_path / "table.csv", runs, (*COLUMNS, "seed", "d_ff")))
    shallow, deep = (160, 4, None), (80, 8, None)
    found = [(curve.shape, curve.seed, len(curve.tokens)) for curve in read]
    assert found == [(shallow, 0, 63), (shallow, 1, 64), (deep, 0, 64), (deep, 1, 64)]


def test_a_run_folder_gives_its_finished_trials_at_the_studys_rate(tmp_path: Path) -> None:
    records = simulated_study()
    for record in records:
        append_line(RunFolder(tmp_path).records, to_json(record))
    wanted = [r for r in records if r.loss is not None and r.spec.rate_scale == 1]
    assert len(wanted) < len(records)
    read = read_runs(tmp_path)
    assert [curve.losses[-1] for curve in read] == [record.loss for record in wanted]
    assert [curve.shape for curve in read] == [
        (r.spec.shape.d_model, r.spec.shape.depth, r.spec.shape.d_ff) for r in wanted
    ]


def test_d_ff_tells_shapes_apart(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(
        ",".join((*COLUMNS, "d_ff"))
        + "\n64,4,1000,900,100,0.1,3.0,128\n64,4,1000,900,100,0.1,3.1,256"
        + "\n64,4,1000,900,200,0.1,2.0,128\n64,4,1000,900,200,0.1,2.1,256\n"
    )
    assert [curve.label for curve in read_runs(path)] == ["64x4/128", "64x4/256"]


def test_a_table_without_a_column_or_with_words_for_numbers_is_refused(tmp_path: Path) -> None:
    lacking = write(tmp_path / "lacking.csv", [run(4)], COLUMNS[:-1])
    with pytest.raises(TableError, match=r"must have the columns .*add \['loss'\]"):
        read_runs(lacking)
    wordy = tmp_path / "wordy.csv"
    wordy.write_text(",".join(COLUMNS) + "\n64,four,1000,900,100,0.1,3.0\n")
    with pytest.raises(TableError, match=r"numbers in every column: .*four"):
        read_runs(wordy)


def test_runs_are_compared_on_the_sparsest_grid_and_broken_off_ones_are_left_out() -> None:
    dense, sparse, broken = run(4, points=64), run(8, points=64), run(16, points=20)
    sparse = replace(sparse, tokens=sparse.tokens[7::8], losses=sparse.losses[7::8])
    some = size_class([dense, sparse, broken])
    assert [curve.depth for curve in some.runs] == [4, 8]
    assert some.tokens.tolist() == sparse.tokens.tolist()
    assert size_class([dense, sparse], horizon=3200).horizon == 3200


def test_the_slope_in_size_is_found_beside_a_parabola_in_depth_and_taken_out() -> None:
    runs = []
    for depth in (2, 3, 5, 8, 12, 18):
        for params in (900_000, 1_000_000, 1_100_000):
            sized = replace(run(depth, params=params), d_model=params // 1000)
            sized.losses[:] = 3 - 0.3 * np.log(params / 1e6) + 0.05 * np.log(depth / 6) ** 2
            runs.append(sized)
    some = size_class(runs)
    slope, _ = size_slope(runs, some.runs, some.horizon, "total")
    assert slope == pytest.approx(-0.3, abs=1e-6)
    flat = corrected(some, "total", slope).final
    for depth in (2, 18):
        same = [end for end, curve in zip(flat, some.runs, strict=True) if curve.depth == depth]
        assert np.ptp(same) < 1e-6
