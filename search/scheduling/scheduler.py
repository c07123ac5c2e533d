"""The scheduler of a search, which chooses the next trial and decides on every report.

It needs no Ray: `cluster/tune.py` asks it and reports to it, and a simulation can do the same.
Reports of workers are stored as they come, and used in the order of virtual time, in which all
decisions are made (`study/planning/virtual_time.py`). Every decision is written down before it
takes effect (`state/journal.jsonl` for decisions and trials under way, `records.jsonl` for ended
ones), so that a new scheduler on the folder of a killed run continues it.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from fathom.models.shape import Shape
from fathom.models.spend import Spend
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.formatting import printable
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json, to_values
from fathom.search.records import (
    Outcome,
    Report,
    Stage,
    TrialRecord,
    TrialSpec,
    derive_seed,
    with_report,
    without_known_points,
)
from fathom.search.run_folder import UNFINISHED, RunFolder
from fathom.search.scheduling.budget_state import BudgetState, new_record
from fathom.search.scheduling.halving import halving_rule
from fathom.search.scheduling.journal import (
    Assigned,
    ConfirmingBatch,
    Decided,
    LaterFirstRung,
    Past,
    Taken,
    decided_line,
)
from fathom.search.scheduling.offers import offers
from fathom.search.scheduling.optuna.optuna_studies import Studies
from fathom.search.scheduling.optuna.optuna_trials import (
    StudyContents,
    answer_attributes,
    public_space,
)
from fathom.search.scheduling.sampling.study_sampler import ShapeSampler
from fathom.search.scheduling.study_limits import study_limits
from fathom.search.scheduling.trained_depths import Choice, paused_trial
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.plan import stage_trials, virtual_time
from fathom.search.study.planning.virtual_time import Closing, Draw, Promotion

Listener = Callable[[TrialRecord], None]
"""A function called with every changed trial, which must return at once."""


class Scheduler:
    """The scheduler of all budgets of a study."""

    def __init__(
        self,
        config: StudyConfig,
        spaces: dict[Budget, tuple[Shape, ...]],
        folder: RunFolder,
        listeners: Iterable[Listener],
        *,
        past: Past,
        fingerprint: str,
    ) -> None:
        """Continues the search in `folder` from its `past`.

        The `fingerprint` of the study is an attribute of Optuna's studies.
        """
        self.config, self.folder, self.listeners = config, folder, list(listeners)
        self.live: dict[str, TrialRecord] = {}
        self._fingerprint, self._studies = fingerprint, Studies(folder.optuna)
        self.budgets = {
            budget.params: self._open(budget, shapes, past.first_rungs.get(budget.params, 0))
            for budget, shapes in spaces.items()
        }
        self._recover(past)
        for search in self.budgets.values():
            self._write_study(search)

    @property
    def records(self) -> list[TrialRecord]:
        """The trials that have ended."""
        return [record for search in self.budgets.values() for record in search.ended]

    @property
    def done(self) -> bool:
        """True if every budget is explored and confirmed."""
        return all(search.done for search in self.budgets.values())

    def next_trial(self) -> TrialSpec | None:
        """The next trial for a worker; None if everything that could start waits for running
        trials.

        It is the first trial, in virtual time, of the least advanced budget, so that no budget is
        left over for the end, when most of a cluster would be idle.
        """
        for search in self.budgets.values():
            if search.is_stale:
                self._advance(search)
                search.ready, search.is_stale = search.next_job(), False
        ready = [(s.schedule.now, s.ready, s) for s in self.budgets.values() if s.ready]
        if not ready:
            return None
        _, job, search = min(ready, key=lambda found: found[:2])
        self._begin(search, search.specs[job.trial])
        return search.specs[job.trial]

    def report(self, trial: str, report: Report) -> bool:
        """Records a report and the decisions that follow; returns True if the trial continues.

        Otherwise the trial has ended with the report's outcome, or is paused at the rung that its
        job was to reach. A trial resumed from its checkpoint may report an earlier rung again.
        """
        search = self.budgets[self.live[trial].spec.budget]
        search.is_stale = True
        report = without_known_points(self.live[trial], report)
        record = self.live[trial] = with_report(self.live[trial], report)
        goes_on = report.outcome is None
        if goes_on and report.rung and report.rung[0] >= search.schedule.jobs[trial].to:
            goes_on = not search.pauses(trial, report.rung[0])
        # The rung at which a trial pauses is not noted before its end is: should a kill come in
        # between, the trial comes by again and is judged again. A line without a rung is not waited
        # for: what a power cut takes, the trial reports again from its checkpoint, but for a rung
        # that it has passed before.
        noted = report if goes_on else replace(report, rung=None)
        line = {"event": "report", "trial": trial, **to_values(noted)}
        append_line(self.folder.journal, line, wait=noted.rung is not None)
        self._notify(record)
        if report.outcome is not None:
            self.end(trial, report.outcome, report.reason)
        elif not goes_on:
            reason = f"paused at {record.tokens} tokens, to be compared with others of its budget"
            self.end(trial, Outcome.STOPPED, reason)
        return goes_on

    def end(self, trial: str, outcome: Outcome, reason: str) -> None:
        """Records the end of a trial and tells the sampler."""
        record = replace(
            self.live.pop(trial), outcome=outcome, reason=printable(reason), ended=time.time()
        )
        search = self.budgets[record.spec.budget]
        search.running.discard(trial)
        append_line(self.folder.records, to_json(record))
        search.results[trial], search.is_stale = record, True
        self._write_study(search)
        if outcome is not Outcome.STOPPED:  # a stopped one may be resumed
            self.folder.forget_checkpoint(trial)
        self._notify(record)

    def restart(self, trial: str) -> None:
        """Records that a trial has lost its worker; another worker continues it from its last
        checkpoint, at the same place in virtual time."""
        search = self.budgets[self.live[trial].spec.budget]
        search.running.discard(trial)
        search.is_stale = True

    def conclude(self, optima: Iterable[Optimum]) -> None:
        """Writes the answers into Optuna's studies."""
        for optimum in optima:
            search = self.budgets[optimum.budget]
            self._write_study(search, answer_attributes(optimum, search.ended))

    def _write_study(self, search: BudgetState, answer: Mapping[str, object] | None = None) -> None:
        """Writes the ended and paused trials into Optuna's study, with the answer if there is
        one."""
        budget, path = search.budget, self.folder.path.resolve()
        about = {"run_folder": str(path), "budget": budget.params, "count": self.config.count}
        spend = budget.spend if budget.spend.coin.timed else Spend(budget.tokens)
        contents = StudyContents(
            space=search.public_space,
            records=tuple(search.ended),
            done=search.done,
            attributes={**about, spend.coin.key: spend.amount, **(answer or {})},
        )
        # Every budget has a study of its own: one name for all would mix their losses.
        self._studies.update(f"{self.config.study}/{budget.label}", contents)

    def _open(self, budget: Budget, shapes: tuple[Shape, ...], first_rung: int) -> BudgetState:
        config = self.config
        seed = derive_seed(config.seed, "sampler", budget.params)
        sampler = ShapeSampler(config, shapes, seed=seed)
        return BudgetState(
            budget=budget,
            shapes=shapes,
            public_space=public_space(shapes),
            planned=stage_trials(config, shapes),
            rule=halving_rule(config.stopping, first_rung),
            sampler=sampler,
            schedule=virtual_time(config, budget, at_once=sampler.at_once),
            live=self.live,
        )

    def _advance(self, search: BudgetState) -> None:
        """Takes the reported results of a budget one by one, in the order of virtual time, and
        makes the decisions that follow from each."""
        while True:
            while decided := self._next_decision(search):
                self._decide(search, decided)
            job = search.schedule.first
            if job is None or not search.has_come(job):
                return
            self._decide(search, Taken(job.trial))

    def _next_decision(self, search: BudgetState) -> Decided | None:
        """The next decision: of virtual time while the budget is explored, later of the confirming
        stage; None if another result must be taken first."""
        schedule = search.schedule
        match None if search.explored else schedule.decision(search):
            case Promotion(trial):
                return Assigned(schedule.job(trial))
            case Draw():
                shape = search.sampler.draw(search.started_in[Stage.EXPLORE], search.exploring())
                return self._new(search, Choice(shape, search.started[shape], rate_scale=1.0))
            case Closing() as closing:
                return closing
        if search.confirmations and schedule.free:
            return self._confirmation(search, search.confirmations[0])
        if search.confirmations or schedule.jobs or search.settled:
            return None
        return ConfirmingBatch(self._planned_confirmations(search))

    def _confirmation(self, search: BudgetState, choice: Choice) -> Assigned:
        """The job of a trial of the confirming batch, which trains to the end."""
        if paused := paused_trial(search.results.values(), choice):
            return Assigned(search.schedule.job(paused.spec.trial, to=search.schedule.horizon))
        return self._new(search, choice)

    def _new(self, search: BudgetState, choice: Choice) -> Assigned:
        """The job of a new trial."""
        to = search.schedule.horizon if search.explored else None
        return Assigned(search.schedule.job(self._spec(search, choice).trial, to=to), choice)

    def _decide(self, search: BudgetState, decided: Decided) -> None:
        """Writes a decision to the journal, then lets it take effect."""
        append_line(self.folder.journal, decided_line(search.budget.params, decided))
        self._apply(search, decided)
        if search.settled:
            self._write_study(search)

    def _apply(self, search: BudgetState, decided: Decided) -> None:
        """Changes the state of a budget according to a decision."""
        match decided:
            case Assigned(job, choice):
                search.assign(job, self._spec(search, choice) if choice else None)
            case Taken(trial):
                search.take(trial)
            case Closing():
                search.schedule.close(decided)
            case ConfirmingBatch(choices):
                search.plan(choices)
            case LaterFirstRung():
                search.reopen()

    def _spec(self, search: BudgetState, choice: Choice) -> TrialSpec:
        """The description of a budget's next new trial."""
        config, stage = self.config, Stage.CONFIRM if search.explored else Stage.EXPLORE
        name = f"{search.budget.label}-{stage}-{search.started_in[stage]:03d}"
        luck = derive_seed(config.seed, "always_finish", name) / 2**31
        return TrialSpec(
            trial=name,
            study=config.study,
            stage=stage,
            budget=search.budget.params,
            count=config.count,
            shape=choice.shape,
            **search.budget.length_of(choice.shape),
            seed=choice.seed,
            learning_rate=config.train.learning_rate * choice.rate_scale,
            rate_scale=choice.rate_scale,
            decay_scale=choice.decay_scale,
            prunable=stage is Stage.EXPLORE and luck >= config.stopping.always_finish,
            fingerprint=self._fingerprint,
        )

    def _planned_confirmations(self, search: BudgetState) -> tuple[Choice, ...]:
        """The next batch of confirming trials; empty once the budget is settled."""
        limits = study_limits(self.config, search.shapes)
        return tuple(offer.training for offer in offers(search.ended, limits))

    def _begin(self, search: BudgetState, spec: TrialSpec) -> None:
        """Records that a trial has been given to a worker."""
        search.running.add(spec.trial)
        search.is_stale = True
        known = search.record_of(spec.trial)
        if spec.trial in self.live:  # adopted: its curve so far is known
            self._notify(self.live[spec.trial])
        elif known is None:
            self._journal("started", new_record(spec, time.time()))
        else:
            del search.results[spec.trial]
            self._journal("resumed", replace(known, outcome=None, reason="", ended=None))

    def _notify(self, record: TrialRecord) -> None:
        for listener in self.listeners:
            listener(record)

    def _journal(self, event: str, record: TrialRecord) -> None:
        self.live[record.spec.trial] = record
        append_line(self.folder.journal, {"event": event, **to_json(record)})
        self._notify(record)

    def _recover(self, past: Past) -> None:
        """Continues from the state that an earlier run left in the folder."""
        for half in self.folder.marker.parent.glob(f"*{UNFINISHED}"):
            half.unlink(missing_ok=True)
        self.folder.ending.unlink(missing_ok=True)  # of a search that was killed while it ended
        self.live.update(past.running.records)
        for record in past.ended:
            self.budgets[record.spec.budget].results[record.spec.trial] = record
        for params, search in self.budgets.items():
            for decided in past.decisions.get(params, ()):
                self._apply(search, decided)
