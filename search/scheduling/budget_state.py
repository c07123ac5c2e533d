"""The state of one budget's search, which the scheduler keeps from one report to the next."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from optuna.distributions import BaseDistribution

from fathom.models.shape import Shape
from fathom.search.records import (
    ENDED_BADLY,
    Outcome,
    Stage,
    TrialRecord,
    TrialSpec,
    in_order_of_names,
)
from fathom.search.scheduling.halving import HalvingRule
from fathom.search.scheduling.sampling.study_sampler import ShapeSampler
from fathom.search.scheduling.trained_depths import Choice
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.virtual_time import VirtualJob, VirtualTime


@dataclass(slots=True)
class BudgetState:
    """The trials of one budget, their reports, and the results that are taken into virtual time.

    `VirtualTime` calls the methods about a rung; these see only results that are taken.
    """

    budget: Budget
    shapes: tuple[Shape, ...]
    public_space: Mapping[str, BaseDistribution]
    """Parameters of the budget's study in Optuna, as other tools see them."""
    planned: tuple[int, int]
    """Planned numbers of exploring trials and of confirming trials."""
    rule: HalvingRule
    sampler: ShapeSampler
    schedule: VirtualTime
    live: Mapping[str, TrialRecord]
    """The trials of all budgets that are under way, by name."""
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    """The trials that were assigned, by name, in the order of assignment."""
    results: dict[str, TrialRecord] = field(default_factory=dict)
    """The trials that have ended or are paused, by name, in the order in which they ended or
    paused."""
    running: set[str] = field(default_factory=set)
    """Trials that have a worker."""
    started: Counter[Shape] = field(default_factory=Counter)
    """Number of trials assigned of each shape."""
    started_in: Counter[Stage] = field(default_factory=Counter)
    """Number of trials assigned in each stage."""
    confirmations: deque[Choice] = field(default_factory=deque)
    """Confirming trials of the present batch that are not assigned yet."""
    explored: bool = False
    """True once confirming has begun; from then on, resumed exploring trials train to the end."""
    settled: bool = False
    """True if no further batch of confirming trials is needed."""
    ready: VirtualJob | None = None
    """The next job for a real worker, as `next_job` last returned it."""
    is_stale: bool = True
    """True if something has changed since `ready` was set."""
    _rankings: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    """Rung -> the trials that had reached it when they were last ranked, and the same trials in
    order of rank."""

    @property
    def ended(self) -> list[TrialRecord]:
        """The trials that have ended or are paused, in the order in which they ended or paused."""
        return list(self.results.values())

    @property
    def left(self) -> int:
        """Number of planned trials whose end has not been taken into virtual time."""
        return self.undrawn + len(self.schedule.jobs) + len(self.confirmations)

    @property
    def waiting(self) -> int:
        """Number of confirming trials of the present batch that no worker has started."""
        if not self.explored:
            return 0
        jobs = [job for job in self.schedule.jobs.values() if job.trial not in self.live]
        return len(self.confirmations) + sum(not self.has_come(job) for job in jobs)

    @property
    def undrawn(self) -> int:
        """Number of exploring trials that are not assigned."""
        return max(0, self.planned[0] - self.started_in[Stage.EXPLORE])

    @property
    def done(self) -> bool:
        """True if every planned trial has ended and no more will be planned."""
        return self.settled and not self.left

    def record_of(self, trial: str) -> TrialRecord | None:
        """A trial as last reported; None if no worker has begun it."""
        return self.live.get(trial) or self.results.get(trial)

    def has_come(self, job: VirtualJob) -> bool:
        """True if the result of a job has been reported, even if virtual time has not taken it."""
        record = self.record_of(job.trial)
        return record is not None and record.has_come_to(job.to)

    def next_job(self) -> VirtualJob | None:
        """The first job, in virtual time, that needs a real worker; None if every job has a worker
        or a result."""
        idle = (job for job in self.schedule.jobs.values() if job.trial not in self.running)
        return min((job for job in idle if not self.has_come(job)), default=None)

    def assign(self, job: VirtualJob, spec: TrialSpec | None) -> None:
        """Gives a job to a virtual worker; `spec` describes the trial if it is new."""
        self.schedule.assign(job)
        if self.confirmations:
            self.confirmations.popleft()
        if spec:
            self.specs[spec.trial] = spec
            self.started[spec.shape] += 1
            self.started_in[spec.stage] += 1

    def take(self, trial: str) -> None:
        """Takes the result of a trial's job into virtual time: a rung reached, or the trial's
        end."""
        record, job = self.record_of(trial), self.schedule.jobs[trial]
        assert record is not None, "its result has come"
        reached = [rung for rung in record.rungs if rung >= job.to]
        place = min(reached, default=job.to)
        explores = record.spec.stage is Stage.EXPLORE
        self.schedule.take(
            trial,
            [rung for rung in record.rungs if rung <= place and explores],
            over=not reached,
            badly=not reached and record.outcome in ENDED_BADLY,
        )

    def plan(self, planned: Sequence[Choice]) -> None:
        """Makes a batch of confirming trials the present one; an empty batch means that the budget
        is settled."""
        self.confirmations = deque(planned)
        self.explored, self.settled = True, not planned

    def reopen(self) -> None:
        """Opens closed rungs again and ends confirmation, since fewer trials are to pause from now
        on."""
        self.schedule.closed.clear()
        self.confirmations.clear()
        self.explored = self.settled = False

    def exploring(self) -> list[TrialRecord]:
        """The exploring trials in order of assignment, with the results that virtual time has
        taken."""
        return self._taken([name for name, s in self.specs.items() if s.stage is Stage.EXPLORE])

    def pauses(self, trial: str, rung: int) -> bool:
        """True if a trial pauses at a rung."""
        return self.rule.pauses(self.specs[trial], rung)

    def ranked(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The trials that have reached a rung, the best forecast first."""
        known, order = self._rankings.get(rung, ((), ()))
        if known != trials:
            order = self.rule.ranked(in_order_of_names(self._taken(trials)), rung)
            self._rankings[rung] = tuple(trials), order
        return order

    def kept(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The trials that train on beyond a rung that no further trials will reach."""
        return self.rule.promoted(in_order_of_names(self._taken(trials)), rung)

    @property
    def all_drawn(self) -> bool:
        """True if no exploring trial is to be drawn any more."""
        return not self.undrawn

    def _taken(self, trials: Sequence[str]) -> list[TrialRecord]:
        """The records of trials, with only the results that virtual time has taken."""
        known = (self.record_of(trial) or new_record(self.specs[trial]) for trial in trials)
        return [r if r.spec.trial in self.schedule.over else self._cut(r) for r in known]

    def _cut(self, record: TrialRecord) -> TrialRecord:
        """The record of a trial that goes on, as of the last rung that virtual time has taken."""
        name, place = record.spec.trial, self.schedule.places[record.spec.trial]
        is_paused = place and name not in self.schedule.jobs
        return replace(
            record,
            outcome=Outcome.STOPPED if is_paused else None,
            curve=tuple(point for point in record.curve if record.shared(point) <= place),
            rungs={rung: loss for rung, loss in record.rungs.items() if rung <= place},
            ended=record.ended if is_paused else None,
        )


def new_record(spec: TrialSpec, started: float = 0.0) -> TrialRecord:
    """The record of a trial that has reported nothing."""
    return TrialRecord(
        spec=spec,
        outcome=None,
        reason="",
        curve=(),
        rungs={},
        started=started,
        ended=None,
        setup_seconds=0.0,
        peak_memory_bytes=None,
    )
