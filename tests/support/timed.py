"""Step times without measuring: a millisecond for each layer, and more for wide layers."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.simulate.driver import VOCAB_SIZE, scheduler_in
from fathom.models.shape import Shape
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan import BudgetPlan
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.step_times import (
    MeasuredSteps,
    frozen_steps,
    shapes_to_time,
    step_times,
)

DEVICE = "a quiet machine, 1 thread"


def seconds_of(shape: Shape) -> float:
    """Seconds of a step of a shape."""
    return 1e-3 * shape.depth * (1 + shape.ln_ff_ratio / 10)


def times_of(spaces: dict[int, tuple[Shape, ...]], device: str = DEVICE) -> MeasuredSteps:
    """The step times of budgets with these shapes, as workers would have measured them."""
    return MeasuredSteps(
        device=device,
        at_once=1,
        budgets={
            size: step_times((shape, seconds_of(shape)) for shape in shapes_to_time(shapes)).timed
            for size, shapes in spaces.items()
        },
    )


def measured(plans: Sequence[BudgetPlan], device: str = DEVICE) -> MeasuredSteps:
    """The step times of these plans."""
    return times_of({plan.budget.params: plan.shapes for plan in plans}, device)


def timed_scheduler(config: StudyConfig, path: Path) -> Scheduler:
    """The scheduler of a study of equal seconds by the step times in its run folder."""
    steps = frozen_steps(RunFolder(path), config)
    assert steps, "frozen before the search"
    spaces = {
        budget: feasible_shapes(config, budget, VOCAB_SIZE)
        for budget in expand_budgets(config, steps.times)
    }
    return scheduler_in(path, config, spaces)
