"""Asynchronous successive halving of one budget in virtual time: ASHA of the kind that promotes (Li
et al. 2020).

A paused trial is promoted as soon as it is among the best 1/eta that have come to its rung. Which
trials have come depends on the speed of workers, so results are not taken as workers bring them,
but in the order in which virtual workers of equal speed would have brought them. So any number of
real workers gives the same trials. This module knows no records, files or workers: the scheduler,
the plan of a study and the replays of learning curves drive it.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class VirtualJob:
    """A trial on a virtual worker, from where it stands to its next rung or the horizon."""

    finish: Fraction
    """Virtual time at which the job ends, in units of a whole training."""
    seq: int
    """Number of the assignment, from 0."""
    trial: str
    to: int
    """Tokens at which the job ends: those of the rung or of the horizon."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """The decision that a trial trains on beyond its rung."""

    trial: str


@dataclass(frozen=True, slots=True)
class Draw:
    """The decision that a new trial starts."""


@dataclass(frozen=True, slots=True)
class Closing:
    """The decision that a rung is closed, since no trial will come to it."""

    rung: int
    promoted: tuple[str, ...]
    """Paused trials that are promoted although the rung closes."""


Decision = Promotion | Draw | Closing


class Trials(Protocol):
    """The trials of a budget, with the results taken so far."""

    def pauses(self, trial: str, rung: int) -> bool:
        """True if a trial pauses at a rung."""

    def ranked(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The trials that stand at a rung, the best first."""

    def kept(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The trials that train beyond a rung once it is closed."""

    @property
    def all_drawn(self) -> bool:
        """True if no new trial is to come."""


@dataclass(slots=True, kw_only=True)
class VirtualTime:
    """The virtual workers of a budget, and where its trials stand."""

    workers: int
    rungs: tuple[int, ...]
    """Tokens of the rungs, ascending."""
    horizon: int
    eta: float
    at_once: int = 0
    """Number of trials that are drawn at once; later draws know the results of these at their first
    rung."""
    waits: bool = False
    """True if a rung promotes nobody before it is closed: synchronous halving."""
    now: Fraction = Fraction(0)
    """Virtual time at which a result was last taken."""
    assigned: int = 0
    """Number of assignments so far."""
    jobs: dict[str, VirtualJob] = field(default_factory=dict)
    """The assigned jobs whose results are not taken, by trial."""
    places: dict[str, int] = field(default_factory=dict)
    """Tokens of each trial when its result was last taken; 0 before its first rung."""
    standing: dict[int, dict[str, None]] = field(init=False)
    """Trials that were taken at each rung and did not end badly; a dict keeps their order, with
    None as values."""
    over: set[str] = field(default_factory=set)
    """Trials that have ended."""
    closed: set[int] = field(default_factory=set)
    """Rungs that are closed."""
    kept: set[str] = field(default_factory=set)
    """Paused trials that were promoted when their rung closed."""

    def __post_init__(self) -> None:
        self.standing = {rung: {} for rung in self.rungs}

    @property
    def first(self) -> VirtualJob | None:
        """The job whose result is taken next; None if none is assigned."""
        return min(self.jobs.values(), default=None)

    @property
    def free(self) -> int:
        """Number of idle virtual workers."""
        return self.workers - len(self.jobs)

    def decision(self, trials: Trials) -> Decision | None:
        """Next decision before another result is taken; None if there is none."""
        if self.free:
            if trial := self._next_promoted(trials):
                return Promotion(trial)
            if not trials.all_drawn and self._may_draw():
                return Draw()
        still_open = [rung for rung in self.rungs if rung not in self.closed]
        if self.jobs or not trials.all_drawn or not still_open:
            return None
        rung = still_open[0]
        kept = trials.kept(self._at(rung), rung)
        return Closing(rung, tuple(trial for trial in kept if self._waits(trial, rung)))

    def job(self, trial: str, *, to: int | None = None) -> VirtualJob:
        """The job of a trial that starts now and goes to `to` or, if that is not given, to its next
        rung."""
        place = self.places.get(trial, 0)
        to = to or next((rung for rung in self.rungs if rung > place), self.horizon)
        return VirtualJob(self.now + Fraction(to - place, self.horizon), self.assigned, trial, to)

    def assign(self, job: VirtualJob) -> None:
        """Gives a job to a virtual worker."""
        self.jobs[job.trial] = job
        self.places.setdefault(job.trial, 0)
        self.kept.discard(job.trial)
        self.assigned = job.seq + 1

    def take(self, trial: str, rungs: Iterable[int], *, over: bool, badly: bool = False) -> None:
        """Takes the result of a trial's job: the rungs that the trial has reached, whether it is
        `over`, and whether it ended `badly`, without a loss at the horizon."""
        self.now = self.jobs.pop(trial).finish
        for rung in rungs:
            self.standing[rung][trial] = None
            self.places[trial] = max(rung, self.places[trial])
        if over:
            self.over.add(trial)
        if badly:
            for standing in self.standing.values():
                standing.pop(trial, None)

    def close(self, closing: Closing) -> None:
        """Closes a rung."""
        self.closed.add(closing.rung)
        self.kept.update(closing.promoted)

    def waiting(self, rung: int) -> list[str]:
        """The trials whose last rung is this one and that have no job."""
        return [trial for trial in self._at(rung) if self._waits(trial, rung)]

    def _may_draw(self) -> bool:
        """True until `at_once` trials are drawn, and again once all of these have come to a rung or
        ended."""
        first = list(self.places)[: self.at_once]
        if len(first) < self.at_once:
            return True
        return all(self.places[trial] or trial in self.over for trial in first)

    def _next_promoted(self, trials: Trials) -> str | None:
        """The trial that trains on: one that need not pause at its rung, otherwise the best that is
        promoted at the highest rung; None if there is none."""
        waiting = {rung: here for rung in self.rungs[::-1] if (here := self.waiting(rung))}
        for rung, here in waiting.items():
            for trial in here:
                if not trials.pauses(trial, rung):
                    return trial
        for rung, here in waiting.items():
            places = 0 if self.waits else int(len(self._at(rung)) / self.eta)
            if not (places or self.kept.intersection(here)):
                continue
            for place, trial in enumerate(trials.ranked(self._at(rung), rung)):
                if trial in here and (place < places or trial in self.kept):
                    return trial
        return None

    def _at(self, rung: int) -> tuple[str, ...]:
        return tuple(self.standing[rung])

    def _waits(self, trial: str, rung: int) -> bool:
        is_over = trial in self.over or trial in self.jobs
        return self.places.get(trial) == rung and not is_over


class SimulatedTrials(Trials, Protocol):
    """Trials whose results are known as soon as they are asked for."""

    def drawn(self) -> str:
        """Name of a new trial."""


def explore(time: VirtualTime, trials: SimulatedTrials) -> None:
    """Takes simulated trials through virtual time until all rungs are closed."""
    while True:
        while decision := time.decision(trials):
            match decision:
                case Draw():
                    time.assign(time.job(trials.drawn()))
                case Promotion(trial):
                    time.assign(time.job(trial))
                case Closing():
                    time.close(decision)
        if (job := time.first) is None:
            return
        over = job.to == time.horizon
        time.take(job.trial, () if over else (job.to,), over=over)


@dataclass(slots=True)
class RandomTrials:
    """Exploring trials of a simulated search, ranked at random, in the same order at all rungs."""

    dice: random.Random
    left: int
    """Number of trials not yet drawn."""
    exempt: float
    """Share of the trials that never pause."""
    eta: float
    losses: dict[str, float] = field(default_factory=dict)
    never_pause: set[str] = field(default_factory=set)

    def drawn(self) -> str:
        """Name of a new trial."""
        trial, self.left = str(len(self.losses)), self.left - 1
        self.losses[trial] = self.dice.random()
        if self.dice.random() < self.exempt:
            self.never_pause.add(trial)
        return trial

    def pauses(self, trial: str, rung: int) -> bool:
        """True except for trials that never pause."""
        return trial not in self.never_pause

    def ranked(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The trials by ascending loss."""
        return sorted(trials, key=self.losses.__getitem__)

    def kept(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The best one in `eta`, at least one trial; none counts as too close to tell."""
        return self.ranked(trials, rung)[: max(1, int(len(trials) / self.eta))]

    @property
    def all_drawn(self) -> bool:
        """True if no trial is left to draw."""
        return not self.left
