"""Several confirmation trials of one shape trained as one batched model.

Batched trials always begin at the first step. Anything that ends them early ends none of the
trials: each has its own checkpoint, as if it had trained alone, and is resumed alone.
"""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from fathom.objectives.contract import ReplicatedObjective
from fathom.search.records import Outcome, Report
from fathom.search.training.assignment import Assignment
from fathom.search.training.device import use_deterministic
from fathom.search.training.loop import until_over
from fathom.search.training.micro_batches import is_out_of_memory
from fathom.search.training.replicated_loop import Replica, ReplicaTraining, train_replicas
from fathom.search.training.saving.checkpoint import DiskFullError
from fathom.search.training.saving.trial_log import ReportSchedule, TrialLog
from fathom.search.training.state import Measurement
from fathom.search.training.trial import WorkerLostError, train_plan

Reports = tuple[tuple[str, Report], ...]
"""Reports of the trials of one worker at one moment, each with the trial's name."""


class BatchedTrials:
    """Several trials on their device, trained as one model by iterating over their reports."""

    def __init__(
        self,
        assignments: Sequence[Assignment],
        objective: ReplicatedObjective,
        device: torch.device,
    ) -> None:
        began = time.perf_counter()
        first = assignments[0]
        use_deterministic(first.config.train.deterministic)
        self._objective, self._schedule = objective, ReportSchedule(first)
        plan = train_plan(first.config, first.budget, first.spec, device.type)
        plan = replace(plan, compiled=False)
        # Neighbours of one rate are updated at once.
        ordered = sorted(assignments, key=lambda one: one.spec.learning_rate)
        own = {Replica(seed=one.seed, learning_rate=one.spec.learning_rate): one for one in ordered}
        self._names = {replica: one.spec.trial for replica, one in own.items()}
        self._logs = {replica: TrialLog(one, device) for replica, one in own.items()}
        parametrization = first.config.model.parametrization.build()
        self._training = ReplicaTraining(
            first.spec.shape, parametrization, plan, list(own), device=device
        )
        for log in self._logs.values():
            log.setup_seconds = (time.perf_counter() - began) / len(own)

    def reports(self) -> Iterator[Reports]:
        """Trains to the end; yields reports of all running trials when a single trial would report.

        A trial that has diverged is reported at once, and is not among the later reports.

        Raises:
            DiskFullError: when the disk has no room for their states.
        """
        try:
            yield from self._all_reports()
        finally:
            for log in self._logs.values():
                log.stop_saving()

    def _all_reports(self) -> Iterator[Reports]:
        self._schedule.start()
        measurements = until_over(self._train, lambda: self._at_end)
        for measured in measurements:
            measured = measured or {}  # at an interrupt
            for replica, measurement in measured.items():
                self._logs[replica].add(measurement)
            over = [one for one in measured.values() if one.diverged or self._at_end]
            waits, report = self._schedule.due(self._training.step if measured else None)
            if waits:
                self._begin_saving()
            if waits or over:
                for log in self._logs.values():
                    log.finish_saving()
            if report or over:
                yield self._reports(measured, saved=waits)
            if over and len(over) == len(measured):
                return

    def _train(self) -> Iterator[dict[Replica, Measurement]]:
        return train_replicas(self._training, self._objective, self._after_step)

    def _after_step(self) -> bool:
        """Begins to save if the clock says so; True at an interrupt."""
        step = self._training.step
        if step in self._training.plan.evaluation_steps:
            return False
        saving = any(log.is_saving() for log in self._logs.values())
        look = self._schedule.look(step, saving=saving)
        if look.save:
            self._begin_saving()
        return look.ends

    @property
    def _at_end(self) -> bool:
        return self._training.step == self._training.plan.steps

    def _begin_saving(self) -> None:
        """Begins to save the current state of each trial in its own checkpoint file."""
        for replica in self._training.replicas:
            self._logs[replica].save(self._training.state_dict(replica))

    def _reports(self, measured: Mapping[Replica, Measurement], *, saved: bool) -> Reports:
        """Reports of all running trials, each with its new evaluation if there is one."""
        return tuple(
            (self._names[replica], self._report(replica, measured.get(replica), saved=saved))
            for replica in self._training.replicas
        )

    def _report(self, replica: Replica, measurement: Measurement | None, *, saved: bool) -> Report:
        log, size = self._logs[replica], len(self._logs)
        if measurement and measurement.diverged:
            return log.report(None, Outcome.DIVERGED, measurement.diverged, sharing=size)
        if self._at_end:
            reason = f"trained to the horizon, in one model of {size} trials"
            return log.report(None, Outcome.FINISHED, reason, sharing=size)
        step = measurement.step if measurement else None
        return log.report(step, saved=saved, sharing=size)


def run_batched(
    assignments: Sequence[Assignment], objective: ReplicatedObjective, device: torch.device
) -> Iterator[Reports]:
    """All reports of batched trials.

    Raises:
        DiskFullError: when the disk has no room for their states.
        WorkerLostError: on any other error, with its reason: each trial is then resumed alone.
    """
    try:
        yield from BatchedTrials(assignments, objective, device).reports()
    except DiskFullError:
        raise
    except Exception as error:  # noqa: BLE001 - trials resumed alone report their own failures
        if not is_out_of_memory(error):
            traceback.print_exc()
        raise WorkerLostError(f"{type(error).__name__}: {error}".split("\n")[0]) from None
