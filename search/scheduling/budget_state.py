"""How far the search of one budget has come: what the scheduler keeps between two events."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from fathom.models.shape import Shape
from fathom.search.records import Stage, TrialRecord, TrialSpec
from fathom.search.scheduling.confirmation import Choice
from fathom.search.scheduling.halving import HalvingRule
from fathom.search.scheduling.sampler import ShapeSampler
from fathom.search.study.budget import Budget


@dataclass(slots=True)
class BudgetState:
    """One budget on its way from exploring to confirmed."""

    budget: Budget
    shapes: tuple[Shape, ...]
    planned: tuple[int, int]
    """Exploring and confirming trials."""
    rule: HalvingRule
    sampler: ShapeSampler
    ended: list[TrialRecord] = field(default_factory=list)
    adopted: deque[TrialSpec] = field(default_factory=deque)
    """Trials that a killed run, or a worker that died, had under way, to go on first."""
    running: set[str] = field(default_factory=set)
    beside: dict[str, set[str]] = field(default_factory=dict)
    """For each running trial all, itself too, that its worker trains as one model."""
    under_way: dict[str, None] = field(default_factory=dict)
    """Running and adopted trials in the order in which they began, so that none of another budget
    has to be looked at; a set's order would change from run to run."""
    begun: Counter[Shape] = field(default_factory=Counter)
    """How often each shape was begun."""
    explored: int = 0
    """Exploring trials begun."""
    wave: deque[Choice] = field(default_factory=deque)
    """Confirming trials to come before the next look at the records."""
    confirmed: int = 0
    """Confirming trials begun."""
    settled: bool = False
    """No further wave of confirming trials is wanted."""
    rung_reached: bool = True
    """A trial has reached a rung since paused trials were last looked through."""

    @property
    def done(self) -> bool:
        """Nothing runs and nothing is to come."""
        return self.settled and not (self.running or self.adopted or self.wave)

    @property
    def share_begun(self) -> float:
        """Trials begun, as a share of those planned."""
        return (self.explored + self.confirmed) / sum(self.planned)

    def unite(self, trials: Iterable[str]) -> None:
        """These run in one worker."""
        together = set(trials)
        self.beside |= dict.fromkeys(together, together)

    def leave(self, trial: str) -> None:
        """It no longer runs."""
        self.running.discard(trial)
        self.beside.pop(trial, set()).discard(trial)

    def share(self, trial: str) -> float:
        """What a trial under way has of a worker."""
        return 1 / len(self.beside.get(trial, (trial,)))

    def take_of_wave(self, most: int) -> list[Choice]:
        """The next confirming trial to come, and at most so many with it that are of its shape."""
        taken = [choice for choice in self.wave if choice.shape == self.wave[0].shape][:most]
        self.wave = deque(choice for choice in self.wave if choice not in taken)
        return taken

    def recount(self, wave: tuple[Choice, ...] | None) -> None:
        """Count what has begun; of the last wave, what had not is still to come."""
        begun = [record.spec for record in self.ended] + list(self.adopted)
        self.explored = sum(spec.stage is Stage.EXPLORE for spec in begun)
        self.confirmed = len(begun) - self.explored
        self.begun = Counter(spec.shape for spec in begun)
        taken = {Choice(spec.shape, spec.seed, spec.rate_scale) for spec in begun}
        self.wave = deque(choice for choice in wave or () if choice not in taken)
        self.settled = wave == ()
