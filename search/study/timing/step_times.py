"""Seconds of a training step by shape: measured before a search, and frozen in its run folder.

A study with `train_seconds` derives the steps of each training from these times, so they must not
change within a run.
"""

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fathom.models.shape import Shape
from fathom.search.record_json import DAMAGE, DamagedFileError, from_values, problem_of, to_values
from fathom.search.run_folder import RunFolder, RunFolderError, is_lost, write_atomically
from fathom.search.study.file.text_file import read_text
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.timing.device_speed import Speed, TimeSource, interpolated

MOST_DEPTHS = 8
"""Most depths of a budget whose steps are timed, each at the ends of its feed-forward ratios. For
depths from 1 to 64, each timed depth is at most 1.8 times the one before."""


@dataclass(frozen=True, slots=True)
class TimedShape:
    """A shape of a budget and the time of its training step."""

    depth: int
    ln_ff_ratio: float
    seconds: float


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a training step of every shape of a budget, interpolated between timed ones."""

    timed: tuple[TimedShape, ...]
    """Timed shapes, at least one, by ascending depth and ratio."""
    source: TimeSource = TimeSource.MEASURED
    """Source of the times; `MEASURED` means on the workers of the run, before its search."""

    def seconds(self, shape: Shape) -> float:
        """Seconds of a step: linear between timed shapes in the logarithms of time, depth and
        ratio; beyond the ratios of a depth, by the common slope of all depths."""
        depths, groups = self._by_depth
        place = bisect_left(depths, shape.depth)
        near = slice(max(0, place - 1), place + 1)
        logs = [self._at_ratio(shape.ln_ff_ratio, *group) for group in groups[near]]
        places = [math.log(depth) for depth in depths[near]]
        return math.exp(interpolated(math.log(shape.depth), places, logs))

    def _at_ratio(self, ratio: float, ratios: Sequence[float], times: Sequence[float]) -> float:
        """The logarithm of a step's seconds at a ratio, from the timed ratios of one depth."""
        beyond = ratio - min(max(ratio, ratios[0]), ratios[-1])
        return interpolated(ratio, ratios, times) + self._slope * beyond

    @cached_property
    def _slope(self) -> float:
        """Change of ln(seconds) with each unit of ln(ratio) at one depth, by least squares."""
        moved = [(r[-1] - r[0], t[-1] - t[0]) for r, t in self._by_depth[1]]
        squares = sum(ratio**2 for ratio, _ in moved)
        return sum(ratio * time for ratio, time in moved) / squares if squares else 0.0

    @cached_property  # read for each of many thousand shapes
    def _by_depth(self) -> tuple[list[int], list[tuple[list[float], list[float]]]]:
        """Timed depths, ascending, and for each its ratios and times, both in log."""
        groups: dict[int, tuple[list[float], list[float]]] = {}
        for shape in self.timed:
            ratios, times = groups.setdefault(shape.depth, ([], []))
            ratios.append(shape.ln_ff_ratio)
            times.append(math.log(shape.seconds))
        return list(groups), list(groups.values())


def step_times(
    seconds: Iterable[tuple[Shape, float]], source: TimeSource = TimeSource.MEASURED
) -> StepTimes:
    """The step times of a budget, given those of some of its shapes."""
    timed = (TimedShape(shape.depth, shape.ln_ff_ratio, time) for shape, time in seconds)
    ordered = sorted(timed, key=lambda shape: (shape.depth, shape.ln_ff_ratio))
    return StepTimes(tuple(ordered), source)


def estimated_times(shapes: Sequence[Shape], tokens_per_step: int, speed: Speed) -> StepTimes:
    """Step times by the speed that a plan assumes, before any step is measured."""
    return step_times(
        ((shape, speed.step_seconds(shape, tokens_per_step)) for shape in shapes_to_time(shapes)),
        TimeSource.ESTIMATE,
    )


def shapes_to_time(shapes: Sequence[Shape], most: int = MOST_DEPTHS) -> tuple[Shape, ...]:
    """The shapes of a budget whose steps are timed: at most `most` depths, evenly spread in log
    from the shallowest to the deepest, each with the lowest and the highest of its ratios."""
    by_depth: dict[int, list[Shape]] = {}
    for shape in shapes:
        by_depth.setdefault(shape.depth, []).append(shape)
    low, high = min(by_depth), max(by_depth)
    steps = most - 1
    wanted = (low * (high / low) ** (step / steps) for step in range(most))
    depths = {min(by_depth, key=lambda depth: abs(math.log(depth / at))) for at in wanted}
    if len(by_depth) <= most:
        depths = set(by_depth)
    ends = (
        end
        for depth in sorted(depths)
        for end in (
            min(by_depth[depth], key=lambda shape: shape.ln_ff_ratio),
            max(by_depth[depth], key=lambda shape: shape.ln_ff_ratio),
        )
    )
    return tuple(dict.fromkeys(ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSteps:
    """The step times of a run, as its first start measured them."""

    device: str
    """Name by which speeds are kept: the device of a trial with its threads or its share."""
    at_once: int
    """Number of workers that measured at the same time, equal to that of trials that train at
    once."""
    budgets: dict[int, tuple[TimedShape, ...]]
    """Timed shapes of each budget (of each size if sizes are free), by depth and ratio,
    ascending."""

    @property
    def times(self) -> dict[int, StepTimes]:
        """Step times of each budget."""
        return {budget: StepTimes(timed) for budget, timed in self.budgets.items()}


def frozen_steps(folder: RunFolder, config: StudyConfig) -> MeasuredSteps | None:
    """The step times that a run has measured; None before that, and if trainings spend tokens or
    FLOPs.

    Raises:
        RunFolderError: if the search has begun and the file is lost.
        DamagedFileError: if Fathom did not write it for this study.
    """
    if not config.coin.timed:
        return None
    path = folder.step_times
    if is_lost(path):
        if folder.began:
            raise RunFolderError(
                f"{path}, the step times that turn seconds into steps, is lost; "
                "restore it, or give the study another `study` name"
            )
        return None
    try:
        found = from_values(MeasuredSteps, json.loads(read_text(path)))
        _check(found, (config.count.frees_size and found.budgets) or config.budgets)
    except DAMAGE as error:
        raise DamagedFileError(
            f"{path}: {problem_of(error)}; restore the file, or give the study another `study` name"
        ) from error
    return found


def _check(steps: MeasuredSteps, budgets: Iterable[int]) -> None:
    for budget in budgets:
        timed = steps.budgets.get(budget, ())
        if not timed:
            raise ValueError(f"it lacks the budget {budget}")
        places = [(shape.depth, shape.ln_ff_ratio) for shape in timed]
        if places != sorted(set(places)) or not all(
            shape.depth >= 1 and 0 < shape.seconds < math.inf for shape in timed
        ):
            raise ValueError(f"times in `budgets` at {budget} must be above 0, sorted by depth")


def freeze_steps(folder: RunFolder, steps: MeasuredSteps) -> None:
    """Writes step times into a run folder."""
    write_atomically(folder.step_times, json.dumps(to_values(steps), indent=1) + "\n")
