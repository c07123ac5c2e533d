"""Seconds of a step of models of any size: `search/study/hardware/sized_times.py`."""

from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder
from fathom.search.study.hardware.device_speed import Speed, TimeSource
from fathom.search.study.hardware.sized_times import (
    MOST_SIZES,
    SizedTimes,
    estimated_sizes,
    sizes_to_time,
    times_by_budget,
)
from fathom.search.study.hardware.step_times import freeze_steps, frozen_steps
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from tests.support.free_size import FREE_SIZE_SECONDS as CONFIG
from tests.support.timed import times_of

SHAPES = feasible_shapes(CONFIG, expand_budgets(CONFIG)[0], 256)
STEPS = times_of({size: tuple(of) for size, of in sizes_to_time(SHAPES).items()})


def test_few_sizes_are_timed_from_the_smallest_to_the_largest() -> None:
    timed = sizes_to_time(SHAPES)
    sizes = [shape.params_total for shape in SHAPES]
    assert len(timed) == MOST_SIZES
    assert min(timed) == min(sizes)
    assert max(timed) == pytest.approx(max(sizes), rel=0.01)
    steps = [log(large / small) for small, large in zip(timed, list(timed)[1:], strict=False)]
    assert max(steps) < 2 * min(steps)
    for size, shapes in timed.items():
        assert all(abs(shape.params_total / size - 1) < 0.02 for shape in shapes)


def test_a_space_of_two_sizes_has_both() -> None:
    [small, *_, large] = sizes_to_time(SHAPES).values()
    assert len(sizes_to_time([*small, *large])) == 2


def planted(size: int, depth: int) -> float:
    """Seconds of a step, a layer and a parameter."""
    return 2e-3 + 1e-3 * depth + 1e-7 * size


def test_every_shape_of_every_amount_has_the_time_of_its_size_and_depth() -> None:
    timed = {
        size: tuple(replace(one, seconds=planted(size, one.depth)) for one in of)
        for size, of in STEPS.budgets.items()
    }
    times = times_by_budget(replace(STEPS, budgets=timed), CONFIG)
    assert set(times) == set(CONFIG.budgets)
    for shape in SHAPES:
        wanted = planted(shape.params_total, shape.depth)
        assert times[20].seconds(shape) == pytest.approx(wanted, rel=0.001)


def test_nothing_takes_less_than_no_time() -> None:
    timed = {
        size: tuple(replace(one, seconds=1 / one.depth) for one in of)
        for size, of in STEPS.budgets.items()
    }
    times = times_by_budget(replace(STEPS, budgets=timed), CONFIG)[20]
    assert min(map(times.seconds, SHAPES)) > 0


def test_one_timed_shape_stands_for_all() -> None:
    [(size, timed), *_] = STEPS.budgets.items()
    alone = SizedTimes(((size, timed[:1]),))
    assert alone.seconds(SHAPES[0]) > 0


def test_a_plan_has_the_times_of_the_speed_that_it_assumes() -> None:
    speed = Speed(1e10, 1e-3)
    times = estimated_sizes(SHAPES, 256, speed)
    assert times.source is TimeSource.ESTIMATE
    for shape in SHAPES:
        assert times.seconds(shape) == pytest.approx(speed.step_seconds(shape, 256), rel=0.1)


def test_times_by_size_are_frozen_and_a_file_without_any_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert times_by_budget(frozen_steps(folder, CONFIG), CONFIG) == {}
    freeze_steps(folder, STEPS)
    assert frozen_steps(folder, CONFIG) == STEPS
    freeze_steps(folder, replace(STEPS, budgets={}))
    with pytest.raises(DamagedFileError, match="it lacks the budget 20"):
        frozen_steps(folder, CONFIG)
