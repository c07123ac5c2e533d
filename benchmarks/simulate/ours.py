"""A real search of a known budget: scheduler, sampler, stopping, confirming and statistics."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.simulate.clock import Start
from benchmarks.simulate.driver import report_evaluation, scheduler_in
from benchmarks.worlds.known import Known
from fathom.models.shape import Count
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.interim import ENOUGH_DEPTHS
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.curve.joint_curve import best_of, finished_depths
from fathom.search.records import Stage, TrialRecord
from fathom.search.scheduling.trained_depths import FRESH_SEEDS_FROM
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, evaluation_steps

DRAWS = 400
"""Bootstrap draws of an answer during a replay: enough for whole depths."""
STEPS = 1024
"""Optimizer steps of a trial: fine enough for any rung."""


class FathomSearch:
    """`fathom run` on the simulated cluster."""

    def __init__(self, known: Known, settings: str, seed: int, home: Path) -> None:
        """Create the search with its run folder at `home`."""
        self.known, self.config = known, study(known, settings, seed)
        self.budget = Budget(
            params=known.params,
            count=Count.TOTAL,
            tolerance=self.config.tolerance,
            batch_size=1,
            steps=STEPS,
            tokens_per_step=max(1, round(known.horizon / STEPS)),
        )
        first = known.tokens[0] / known.horizon
        steps = evaluation_steps(self.config, self.budget)
        self._steps = [step for step in steps if step / STEPS >= first]
        self.shares = [step / STEPS for step in self._steps]
        self.scheduler = scheduler_in(home, self.config, {self.budget: known.shapes})
        self._answer: int | None = None

    def start(self) -> Start | None:
        """Returns the next trial of the scheduler."""
        spec = self.scheduler.next_trial()
        if spec is None:
            return None
        # Exploring trials have the first seeds, confirming ones those after them.
        fresh = spec.stage is Stage.CONFIRM
        seed = spec.seed - FRESH_SEEDS_FROM + 1 if fresh else spec.seed
        return Start(spec.trial, spec.shape, seed)

    def report(self, trial: str, index: int, loss: float) -> bool:
        """Reports an evaluation to the scheduler as a real trial would."""
        explored = self.scheduler.budgets[self.budget.params].explored
        goes_on = report_evaluation(self.scheduler, trial, self._steps[index], loss)
        if not (goes_on and explored):  # a confirming or resumed trial shows nothing before its end
            self._answer = None
        return goes_on

    def answer(self) -> int | None:
        """Returns the depth that a user would see, the best among the table's depths."""
        if self._answer is None:
            records = [*self.scheduler.records, *self.scheduler.live.values()]
            self._answer = best_of(records, self._possible(records))
        return self._answer

    def _possible(self, records: Sequence[TrialRecord]) -> Sequence[int]:
        """Depths of the table inside the interval, once enough depths are confirmed for one."""
        if len(finished_depths(records)) < ENOUGH_DEPTHS:
            return self.known.depths
        found = find_optimum(records, seed=self.config.seed, draws=DRAWS)
        low, high = self.known.depths[0], self.known.depths[-1]
        if isinstance(found, Located):
            low, high = found.interval
        tested = {estimate.depth for estimate in found.depths}
        best = found.optimal_depth or found.lowest_depth
        if best in tested:
            return [best]
        return [d for d in self.known.depths if low <= d <= high] or self.known.depths


def study(known: Known, settings: str, seed: int) -> StudyConfig:
    """The study that a user would write, with as many seeds as the table has."""
    return parse(f"""
study: replay
objective: {{name: language}}
budgets: [{known.params}]
confirm: {{rates: [1], seeds: {min(4, known.seeds)}}}
seed: {seed}
{settings}
""")
