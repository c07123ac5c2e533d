"""The state of the search of one budget, which the scheduler keeps between two events."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from optuna.distributions import BaseDistribution

from fathom.models.shape import Shape
from fathom.search.records import Outcome, Stage, TrialRecord, TrialSpec
from fathom.search.scheduling.halving import HalvingRule
from fathom.search.scheduling.sampler import ShapeSampler
from fathom.search.scheduling.trained_depths import Choice, choice_of
from fathom.search.study.planning.budget import Budget


@dataclass(slots=True)
class BudgetState:
    """The trials of one budget: started, ended, and still to come."""

    budget: Budget
    shapes: tuple[Shape, ...]
    public_space: Mapping[str, BaseDistribution]
    """Parameters of the budget's study in Optuna, as other tools see them."""
    planned: tuple[int, int]
    """Numbers of exploring and of confirming trials."""
    rule: HalvingRule
    sampler: ShapeSampler
    ended: list[TrialRecord] = field(default_factory=list)
    waiting: deque[TrialSpec] = field(default_factory=deque)
    """Trials to continue before others: resumed, or interrupted with their run or their worker."""
    running: set[str] = field(default_factory=set)
    under_way: dict[str, None] = field(default_factory=dict)
    """Running and waiting trials in the order in which they started; the values are None. A
    set's order would change from run to run."""
    started: Counter[Shape] = field(default_factory=Counter)
    """Number of trials started of each shape."""
    started_in: Counter[Stage] = field(default_factory=Counter)
    """Number of trials started in each stage."""
    confirmations: deque[Choice] = field(default_factory=deque)
    """Confirming trials of the present batch that have not started."""
    explored: bool = False
    """True once confirming has begun: exploring trials that are resumed then train to the end."""
    settled: bool = False
    """True if no further batch of confirming trials is needed."""

    @property
    def left(self) -> int:
        """Number of trials, of those planned so far, that have not ended."""
        unexplored = max(0, self.planned[0] - self.started_in[Stage.EXPLORE])
        begun = max(self.started_in.total() - len(self.ended), len(self.under_way))
        return unexplored + begun + len(self.confirmations)

    @property
    def done(self) -> bool:
        """True if every planned trial has ended and none is to come."""
        return self.settled and not self.left

    @property
    def share_started(self) -> float:
        """Trials started, as a share of those planned."""
        return self.started_in.total() / sum(self.planned)

    def paused_trial(self, choice: Choice) -> TrialRecord | None:
        """The paused trial that a choice resumes; None if the choice is a new trial."""
        for record in self.ended:
            if choice_of(record) == choice:
                return record if record.outcome is Outcome.STOPPED else None
        return None

    def recount(self, planned: tuple[Choice, ...] | None) -> None:
        """Counts the trials that an earlier run began, and queues the rest of its planned batch."""
        started = [record.spec for record in self.ended] + list(self.waiting)
        self.started_in = Counter(spec.stage for spec in started)
        self.started = Counter(spec.shape for spec in started)
        # A paused trial of the batch is still to be resumed.
        over = [record.spec for record in self.ended if record.outcome is not Outcome.STOPPED]
        taken = {Choice(spec.shape, spec.seed, *spec.scale) for spec in (*over, *self.waiting)}
        self.confirmations = deque(choice for choice in planned or () if choice not in taken)
        self.explored = planned is not None
        self.settled = planned == ()
