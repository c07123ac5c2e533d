"""The scheduler of a search: the next trial, and the decision on every report.

It needs no Ray: `cluster/tune.py` asks it and reports to it, and so can a simulation. Every
decision is written down before it takes effect (`state/journal.jsonl` for trials under way,
`records.jsonl` for ended ones), so that a new scheduler on the folder of a killed run continues it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from fathom.models.shape import Shape
from fathom.search.analysis.optimum import Optimum
from fathom.search.formatting import printable
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json, to_values
from fathom.search.records import (
    Outcome,
    Report,
    Stage,
    TrialRecord,
    TrialSpec,
    by_budget,
    derive_seed,
    in_order_of_names,
    with_report,
    without_known_points,
)
from fathom.search.run_folder import UNFINISHED, RunFolder
from fathom.search.scheduling.budget_state import BudgetState
from fathom.search.scheduling.confirmation import ladder_confirmations, next_confirmations
from fathom.search.scheduling.halving import halving_rule
from fathom.search.scheduling.journal import Past
from fathom.search.scheduling.optuna_studies import Studies
from fathom.search.scheduling.optuna_trials import StudyContents, answer_attributes, public_space
from fathom.search.scheduling.sampler import ShapeSampler
from fathom.search.scheduling.trained_depths import Choice
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.plan import stage_trials

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

        Optuna's studies are marked with the study's `fingerprint`.
        """
        self.config, self.folder, self.listeners = config, folder, list(listeners)
        self.live: dict[str, TrialRecord] = {}
        self._fingerprint, self._studies = fingerprint, Studies(folder.optuna)
        self.budgets = {
            budget.params: self._open(budget, shapes, past) for budget, shapes in spaces.items()
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
        """The next trial to start, or None when all that could start waits for running ones.

        The budget of which the smallest share has started comes first, so that none is left for
        the end, when a cluster would stand idle.
        """
        for search in sorted(self.budgets.values(), key=lambda search: search.share_started):
            if spec := self._next_of(search):
                self._begin(search, spec)
                return spec
        return None

    def report(self, trial: str, report: Report) -> bool:
        """Records a report and what follows from it; returns True if the trial continues.

        Otherwise the trial has ended with the report's outcome, or is paused at its rung. A trial
        pauses at a rung only once: it may come to it again, resumed from its checkpoint.
        """
        judged = self.live[trial].rungs
        search = self.budgets[self.live[trial].spec.budget]
        report = without_known_points(self.live[trial], report)
        record = self.live[trial] = with_report(self.live[trial], report)
        goes_on = report.outcome is None
        if goes_on and report.rung and report.rung[0] not in judged:
            goes_on = search.explored or not search.rule.pauses(record, report.rung[0])
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
        search.under_way.pop(trial)
        append_line(self.folder.records, to_json(record))
        search.ended.append(record)
        self._write_study(search)
        if outcome is not Outcome.STOPPED:  # a stopped one may be resumed
            self.folder.forget_checkpoint(trial)
        self._notify(record)

    def restart(self, trial: str) -> None:
        """Queues a trial whose worker is gone; it continues from its last checkpoint."""
        spec = self.live[trial].spec
        search = self.budgets[spec.budget]
        search.running.discard(trial)
        search.waiting.append(spec)

    def conclude(self, optima: Iterable[Optimum]) -> None:
        """Writes the answers into Optuna's studies."""
        for optimum in optima:
            search = self.budgets[optimum.budget]
            self._write_study(search, answer_attributes(optimum, search.ended))

    def _write_study(self, search: BudgetState, answer: Mapping[str, object] | None = None) -> None:
        """Writes the ended and paused trials into Optuna's study."""
        budget, path = search.budget, self.folder.path.resolve()
        about = {"run_folder": str(path), "budget": budget.params, "count": self.config.count}
        length = "train_seconds" if budget.unit == "seconds" else "tokens"
        contents = StudyContents(
            space=search.public_space,
            records=tuple(search.ended),
            done=search.done,
            attributes={**about, length: budget.train_seconds or budget.tokens, **(answer or {})},
        )
        # Every budget has a study of its own: one name for all would mix their losses.
        self._studies.update(f"{self.config.study}/{budget.label}", contents)

    def _open(self, budget: Budget, shapes: tuple[Shape, ...], past: Past) -> BudgetState:
        return BudgetState(
            budget=budget,
            shapes=shapes,
            public_space=public_space(shapes),
            planned=stage_trials(self.config, budget.params, shapes),
            rule=halving_rule(self.config.stopping, past.first_rungs.get(budget.params, 0)),
            sampler=ShapeSampler(
                self.config,
                shapes,
                seed=derive_seed(self.config.seed, "sampler", budget.params),
            ),
        )

    def _next_of(self, search: BudgetState) -> TrialSpec | None:
        if search.waiting:
            return search.waiting.popleft()
        if search.started_in[Stage.EXPLORE] < search.planned[0]:
            return self._explore(search)
        if not (search.confirmations or search.running or search.settled):
            if not search.explored and self._resume(search):
                return search.waiting.popleft()
            self._plan_confirmations(search)
        if not search.confirmations:
            return None
        choice = search.confirmations.popleft()
        if paused := search.paused_trial(choice):
            self._take_up(search, [paused])
            return search.waiting.popleft()
        return self._spec(search, Stage.CONFIRM, choice)

    def _explore(self, search: BudgetState) -> TrialSpec | None:
        """The next exploring trial; None while the trials of earlier rounds have not all reached
        their first rung or ended."""
        index, records = search.started_in[Stage.EXPLORE], self._exploring(search)
        needed = records[: search.sampler.needed(index)]
        if not all(record.rungs or record.outcome for record in needed):
            return None
        shape = search.sampler.draw(index, records)
        choice = Choice(shape, seed=search.started[shape], rate_scale=1.0)
        return self._spec(search, Stage.EXPLORE, choice)

    def _spec(self, search: BudgetState, stage: Stage, choice: Choice) -> TrialSpec:
        """The next trial of a stage, which counts as started from here on."""
        config = self.config
        name = f"{search.budget.label}-{stage}-{search.started_in[stage]:03d}"
        search.started_in[stage] += 1
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

    def _plan_confirmations(self, search: BudgetState) -> None:
        """Plans the next batch of confirming trials, and journals it before any of them starts."""
        config, ended = self.config.confirm, in_order_of_names(search.ended)
        if self.config.sampler is not Sampler.LADDER:
            plain = self.config.plain_rates
            planned = next_confirmations(config, search.shapes, ended, plain_rates=plain)
        else:
            again = search.started_in[Stage.CONFIRM]
            planned = () if again else ladder_confirmations(config, ended)
        self._plan(search, planned)

    def _plan(self, search: BudgetState, planned: Sequence[Choice]) -> None:
        """Journals a batch of confirming trials; an empty one settles the budget."""
        batch = self._batch(search, planned)
        append_line(self.folder.journal, {"event": "confirmations", **batch})
        if search.settled:
            self._write_study(search)

    def _batch(self, search: BudgetState, planned: Sequence[Choice]) -> dict[str, Any]:
        """Makes a batch the one of its budget; returns it as the journal has it."""
        search.confirmations = deque(planned)
        search.explored, search.settled = True, not planned
        choices = [asdict(choice) for choice in planned]
        return {"budget": search.budget.params, "choices": choices}

    def _begin(self, search: BudgetState, spec: TrialSpec) -> None:
        search.running.add(spec.trial)
        if spec.trial in self.live:  # adopted: its curve so far is known
            self._notify(self.live[spec.trial])
            return
        search.started[spec.shape] += 1
        search.under_way[spec.trial] = None
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

    def _exploring(self, search: BudgetState) -> list[TrialRecord]:
        """The exploring trials of a budget that have started, in the order of their names."""
        live = (self.live[trial] for trial in search.under_way)
        found = [r for r in (*search.ended, *live) if r.spec.stage is Stage.EXPLORE]
        return in_order_of_names(found)

    def _resume(self, search: BudgetState) -> bool:
        """Queues the paused trials that the rule resumes, now that all are paused or have ended;
        returns True if there are any."""
        names = search.rule.resumed(self._exploring(search))
        paused = {record.spec.trial: record for record in search.ended}
        self._take_up(search, [paused[name] for name in names])
        return bool(names)

    def _take_up(self, search: BudgetState, paused: Iterable[TrialRecord]) -> None:
        """Queues paused trials; they continue from their last checkpoints."""
        for stopped in paused:
            search.ended.remove(stopped)
            record = replace(stopped, outcome=None, reason="", ended=None)
            self._requeue(search, record)
            self._journal("resumed", record)

    def _notify(self, record: TrialRecord) -> None:
        for listener in self.listeners:
            listener(record)

    def _journal(self, event: str, record: TrialRecord) -> None:
        append_line(self.folder.journal, {"event": event, **to_json(record)})
        self._notify(record)

    def _recover(self, past: Past) -> None:
        """Continues from the state that an earlier run left in the folder."""
        for half in self.folder.marker.parent.glob(f"*{UNFINISHED}"):
            half.unlink(missing_ok=True)
        self.folder.ending.unlink(missing_ok=True)  # of a search that was killed while it ended
        ended, under_way = by_budget(past.ended), by_budget(past.running.records.values())
        for params, search in self.budgets.items():
            search.ended = ended.get(params, [])
            for record in under_way.get(params, ()):
                self._requeue(search, record)
            search.recount(past.confirmations.get(params))

    def _requeue(self, search: BudgetState, record: TrialRecord) -> None:
        spec = record.spec
        self.live[spec.trial] = record
        search.under_way[spec.trial] = None
        search.waiting.append(spec)
