"""Seconds of a step by shape, timed and interpolated: `search/study/timing/step_times.py`."""

from dataclasses import replace
from pathlib import Path

import pytest

from fathom.models.shape import Shape
from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.device_speed import Speed, TimeSource
from fathom.search.study.timing.step_times import (
    MOST_DEPTHS,
    MeasuredSteps,
    estimated_times,
    freeze_steps,
    frozen_steps,
    shapes_to_time,
    step_times,
)
from tests.support.timed import seconds_of, times_of

CONFIG: StudyConfig = parse(
    "study: s\nobjective: {name: language, context: 64}\nbudgets: [300k]\n"
    "train_seconds: 60\ntrain: {batch_size: 8}\n"
)
SHAPES: tuple[Shape, ...] = feasible_shapes(CONFIG, expand_budgets(CONFIG)[0], 256)
STEPS: MeasuredSteps = times_of({300_000: SHAPES})


def test_few_depths_are_timed_from_end_to_end_at_both_ends_of_their_ratios() -> None:
    timed = shapes_to_time(SHAPES)
    depths = sorted({shape.depth for shape in timed})
    assert len(depths) == MOST_DEPTHS
    assert depths[0] == min(shape.depth for shape in SHAPES)
    assert depths[-1] == max(shape.depth for shape in SHAPES)
    for depth in depths:
        ratios = [shape.ln_ff_ratio for shape in SHAPES if shape.depth == depth]
        own = {shape.ln_ff_ratio for shape in timed if shape.depth == depth}
        assert own == {min(ratios), max(ratios)}


def test_every_depth_is_timed_where_there_are_few() -> None:
    few = [shape for shape in SHAPES if shape.depth <= 5]
    assert {shape.depth for shape in shapes_to_time(few)} == {1, 2, 3, 4, 5}


def test_a_timed_shape_has_its_own_time_and_one_between_is_interpolated_within_a_percent() -> None:
    times = STEPS.times[300_000]
    for shape in shapes_to_time(SHAPES):
        assert times.seconds(shape) == pytest.approx(seconds_of(shape))
    for shape in SHAPES:
        assert times.seconds(shape) == pytest.approx(seconds_of(shape), rel=0.01)


def test_a_shape_beyond_those_that_could_be_timed_has_the_time_of_the_nearest() -> None:
    [shallow, deep] = (f(SHAPES, key=lambda shape: shape.depth) for f in (min, max))
    assert step_times([(shallow, 0.25)]).seconds(deep) == pytest.approx(0.25)


def test_an_estimate_is_that_of_the_speed_and_says_that_it_is_none_of_a_measurement() -> None:
    speed = Speed(1e10)
    times = estimated_times(SHAPES, 512, speed)
    assert times.source is TimeSource.ESTIMATE
    for shape in shapes_to_time(SHAPES):
        assert times.seconds(shape) == pytest.approx(speed.step_seconds(shape, 512))


def test_frozen_times_come_back_as_they_were(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert frozen_steps(folder, CONFIG) is None, "before they are measured"
    freeze_steps(folder, STEPS)
    assert frozen_steps(folder, CONFIG) == STEPS


def test_a_study_of_tokens_has_none(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    freeze_steps(folder, STEPS)
    assert (
        frozen_steps(folder, CONFIG.model_copy(update={"train_seconds": None, "tokens": 1000}))
        is None
    )


def test_a_search_that_began_and_lost_its_times_is_refused_with_a_remedy(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.records.touch()
    with pytest.raises(RunFolderError, match=r"is lost.*restore it, or give") as caught:
        frozen_steps(folder, CONFIG)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "damaged",
    [
        replace(STEPS, budgets={}),
        replace(STEPS, budgets={300_000: ()}),
        replace(STEPS, budgets={300_000: STEPS.budgets[300_000][::-1]}),
        replace(STEPS, budgets={300_000: (replace(STEPS.budgets[300_000][0], seconds=0.0),)}),
    ],
)
def test_times_that_no_run_can_have_are_refused(damaged: MeasuredSteps, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    freeze_steps(folder, damaged)
    with pytest.raises(DamagedFileError, match=r"step_times\.json: .*restore the file"):
        frozen_steps(folder, CONFIG)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.step_times.write_text("{")
    with pytest.raises(DamagedFileError, match="it is not JSON"):
        frozen_steps(folder, CONFIG)
