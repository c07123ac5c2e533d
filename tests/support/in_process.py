"""A whole search in this process: the scheduler's trials, one after another, without Ray."""

from collections.abc import Callable

from fathom.objectives.contract import Objective
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.training.assignment import Assignment
from fathom.search.training.trial import RunningTrial
from tests.support.toy import CPU


def search_in_process(
    scheduler: Scheduler, objective: Objective, stops: Callable[[], bool] = lambda: False
) -> None:
    """Trains every trial that the scheduler asks for, as one worker would, until it is done.

    Raises:
        KeyboardInterrupt: when `stops` is true after a report.
    """
    while spec := scheduler.next_trial():
        budget = scheduler.budgets[spec.budget].budget.of_shape(spec.shape)
        checkpoint = scheduler.folder.checkpoint(spec.trial)
        trial = RunningTrial(
            Assignment(
                scheduler.config,
                budget,
                spec,
                str(checkpoint),
            ),
            objective,
            CPU,
        )
        for report in trial.reports():
            if not scheduler.report(spec.trial, report):
                break
            if stops():
                raise KeyboardInterrupt
    assert scheduler.done
