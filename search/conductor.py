"""The search between events: which trial comes next, what a report means, what an end means.

Knows no Ray: the tuner asks and tells, and so can a simulation. Everything it decides is written
down before it takes effect (`state/journal.jsonl` for what is under way, `records.jsonl` for what
has ended), so that a new conductor on the same folder goes on where the last one was killed.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from models.shape import Shape
from search.budget import Budget
from search.config import Sampler, StudyConfig
from search.confirm import Choice, next_wave, whole_ladder
from search.folder import RunFolder
from search.plan import stage_trials
from search.records import (
    Outcome,
    Report,
    Stage,
    TrialRecord,
    TrialSpec,
    append_line,
    from_json,
    read_lines,
    read_records,
    repair,
    shape_from_json,
    to_json,
)
from search.sampler import ShapeSampler, ladder_shapes
from search.scheduler import FairHalving
from search.seeds import derive_seed

Listener = Callable[[TrialRecord], None]
"""Told of every change of a trial; must return at once."""


@dataclass(slots=True)
class BudgetSearch:
    """One budget on its way from exploring to confirmed."""

    budget: Budget
    shapes: tuple[Shape, ...]
    planned: tuple[int, int]
    """Exploring and confirming trials."""
    sampler: ShapeSampler
    halving: FairHalving
    ended: list[TrialRecord] = field(default_factory=list)
    adopted: deque[TrialSpec] = field(default_factory=deque)
    """Trials that a killed run had under way, to go on first."""
    running: set[str] = field(default_factory=set)
    explored: int = 0
    """Exploring trials begun."""
    wave: deque[Choice] = field(default_factory=deque)
    """Confirming trials to come before the next look at the records."""
    confirmed: int = 0
    """Confirming trials begun."""
    settled: bool = False
    """No further wave of confirming trials is wanted."""

    @property
    def done(self) -> bool:
        """Nothing runs and nothing is to come."""
        return self.settled and not (self.running or self.adopted or self.wave)


class Conductor:
    """All budgets of a study."""

    def __init__(
        self,
        config: StudyConfig,
        spaces: dict[Budget, tuple[Shape, ...]],
        folder: RunFolder,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.config, self.folder, self._listeners = config, folder, tuple(listeners)
        self.live: dict[str, TrialRecord] = {}
        self._numbers: dict[str, int] = {}
        self.budgets = {budget.params: self._open(budget, spaces[budget]) for budget in spaces}
        self._recover()

    @property
    def records(self) -> list[TrialRecord]:
        """Everything that has ended."""
        return [record for search in self.budgets.values() for record in search.ended]

    @property
    def done(self) -> bool:
        """Every budget is explored and confirmed."""
        return all(search.done for search in self.budgets.values())

    def next_trial(self) -> TrialSpec | None:
        """The next trial to start, or None when all that could start waits for running ones.

        The budget that is least far gone comes first, so that none is left for the end, when a
        cluster would stand idle.
        """
        for search in sorted(self.budgets.values(), key=self._share_begun):
            spec = self._next_of(search)
            if spec is not None:
                self._begin(search, spec)
                return spec
        return None

    def report(self, trial: str, report: Report) -> bool:
        """Take in a report; True when the trial shall go on."""
        record = self.live[trial]
        known = record.curve[-1].step if record.curve else 0
        fresh = tuple(point for point in report.points if point.step > known)
        rungs = record.rungs | ({report.rung[0]: report.rung[1]} if report.rung else {})
        record = replace(
            record,
            curve=record.curve + fresh,
            rungs=rungs,
            setup_seconds=report.setup_seconds,
            peak_memory_bytes=report.peak_memory_bytes,
        )
        self.live[trial] = record
        goes_on = report.outcome is None
        if goes_on and report.rung:
            goes_on = self._judge(record, *report.rung)
        self._journal("report", record)
        self._notify(record)
        return goes_on

    def end(self, trial: str, outcome: Outcome, reason: str) -> None:
        """The trial is over: write it down and tell the sampler the truth."""
        record = replace(self.live.pop(trial), outcome=outcome, reason=reason, ended=time.time())
        search = self.budgets[record.spec.budget]
        search.running.discard(trial)
        if trial in self._numbers:
            search.sampler.tell(self._numbers.pop(trial), record)
        append_line(self.folder.records, to_json(record))
        search.ended.append(record)
        self.folder.checkpoint(trial).unlink(missing_ok=True)
        self._notify(record)

    def _open(self, budget: Budget, shapes: tuple[Shape, ...]) -> BudgetSearch:
        depths = [shape.depth for shape in shapes]
        return BudgetSearch(
            budget=budget,
            shapes=shapes,
            planned=stage_trials(self.config, len(set(depths))),
            sampler=ShapeSampler(
                self.config,
                budget.label,
                shapes,
                self.folder.optuna,
                seed=derive_seed(self.config.seed, "sampler", budget.params),
            ),
            halving=FairHalving(self.config.stopping, (min(depths), max(depths))),
        )

    def _next_of(self, search: BudgetSearch) -> TrialSpec | None:
        if search.adopted:
            return search.adopted.popleft()
        if search.explored < search.planned[0]:
            return self._explore(search)
        if not (search.wave or search.running or search.settled):
            self._plan_wave(search)
        if search.wave:
            return self._confirm(search, search.wave.popleft())
        return None

    def _explore(self, search: BudgetSearch) -> TrialSpec:
        index = search.explored
        name = f"{search.budget.label}-explore-{index:03d}"
        if self.config.sampler is Sampler.LADDER:
            shape = ladder_shapes(search.shapes)[index]
            self._numbers[name] = search.sampler.adopt(shape)
        else:
            drawn = search.sampler.draw(index)
            shape, self._numbers[name] = drawn.shape, drawn.number
        search.explored += 1
        begun = [record.spec for record in (*search.ended, *self.live.values())]
        return self._spec(
            search,
            name,
            Stage.EXPLORE,
            Choice(shape, seed=sum(spec.shape == shape for spec in begun), rate_scale=1.0),
        )

    def _confirm(self, search: BudgetSearch, confirmation: Choice) -> TrialSpec:
        name = f"{search.budget.label}-confirm-{search.confirmed:03d}"
        search.confirmed += 1
        return self._spec(search, name, Stage.CONFIRM, confirmation)

    def _spec(self, search: BudgetSearch, name: str, stage: Stage, what: Choice) -> TrialSpec:
        config = self.config
        luck = derive_seed(config.seed, "always_finish", name) / 2**31
        return TrialSpec(
            trial=name,
            study=config.study,
            stage=stage,
            budget=search.budget.params,
            count=config.count,
            horizon_tokens=search.budget.tokens,
            shape=what.shape,
            seed=what.seed,
            learning_rate=config.train.learning_rate * what.rate_scale,
            rate_scale=what.rate_scale,
            may_stop=stage is Stage.EXPLORE and luck >= config.stopping.always_finish,
        )

    def _plan_wave(self, search: BudgetSearch) -> None:
        """Look at all that has ended, and write down what it asks for before any of it starts."""
        config = self.config.confirm
        if self.config.sampler is not Sampler.LADDER:
            wave = next_wave(config, search.shapes, search.ended)
        else:
            wave = () if search.confirmed else whole_ladder(config, search.ended)
        search.wave, search.settled = deque(wave), not wave
        append_line(
            self.folder.journal,
            {
                "event": "wave",
                "budget": search.budget.params,
                "choices": [asdict(choice) for choice in wave],
            },
        )

    def _begin(self, search: BudgetSearch, spec: TrialSpec) -> None:
        search.running.add(spec.trial)
        if spec.trial in self.live:  # adopted: its curve so far is known
            return
        self.live[spec.trial] = TrialRecord(
            spec=spec,
            outcome=None,
            reason="",
            curve=(),
            rungs={},
            started=time.time(),
            ended=None,
            setup_seconds=0.0,
            peak_memory_bytes=None,
        )
        self._journal("started", self.live[spec.trial])
        self._notify(self.live[spec.trial])

    def _judge(self, record: TrialRecord, tokens: int, value: float) -> bool:
        halving = self.budgets[record.spec.budget].halving
        keep = halving.judge(record.spec.trial, record.spec.shape.depth, tokens, value)
        return keep or not record.spec.may_stop

    def _share_begun(self, search: BudgetSearch) -> float:
        return (search.explored + search.confirmed) / sum(search.planned)

    def _notify(self, record: TrialRecord) -> None:
        for listener in self._listeners:
            listener(record)

    def _journal(self, event: str, record: TrialRecord) -> None:
        append_line(self.folder.journal, {"event": event, **to_json(record)})

    def _recover(self) -> None:
        """Take up what an earlier run on this folder left."""
        repair(self.folder.records)
        repair(self.folder.journal)
        ended = {record.spec.trial: record for record in read_records(self.folder.records)}
        journal = list(read_lines(self.folder.journal))
        latest = {line["trial"]: line for line in journal if "trial" in line}
        for record in (from_json(line) for line in latest.values()):
            search = self.budgets.get(record.spec.budget)
            if search is None:
                continue
            for tokens, value in record.rungs.items():
                search.halving.judge(record.spec.trial, record.spec.shape.depth, tokens, value)
            if record.spec.trial not in ended:
                self._adopt(search, record)
        for record in ended.values():
            if record.spec.budget in self.budgets:
                self.budgets[record.spec.budget].ended.append(record)
        waves = {line["budget"]: line["choices"] for line in journal if line["event"] == "wave"}
        for search in self.budgets.values():
            self._recount(search, waves.get(search.budget.params))

    def _adopt(self, search: BudgetSearch, record: TrialRecord) -> None:
        spec = record.spec
        self.live[spec.trial] = record
        search.adopted.append(spec)
        if spec.stage is Stage.EXPLORE:
            self._numbers[spec.trial] = search.sampler.adopt(spec.shape)

    def _recount(self, search: BudgetSearch, wave: list[dict[str, Any]] | None) -> None:
        """How far a budget was; of the last wave, what had not begun is still to come."""
        begun = [record.spec for record in search.ended] + list(search.adopted)
        search.explored = sum(spec.stage is Stage.EXPLORE for spec in begun)
        search.confirmed = len(begun) - search.explored
        if wave is None:
            return
        taken = {Choice(spec.shape, spec.seed, spec.rate_scale) for spec in begun}
        choices = (
            Choice(shape_from_json(line["shape"]), line["seed"], line["rate_scale"])
            for line in wave
        )
        search.wave = deque(choice for choice in choices if choice not in taken)
        search.settled = not wave
