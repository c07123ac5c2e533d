"""Confirming trials of one shape as one batched model: what `trial.py` is for one of them.

A group always begins at the beginning. Whatever ends it before its time ends none of its trials:
each has a checkpoint as it would have alone, and goes on from there alone.
"""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from fathom.objectives.contract import ReplicatedObjective
from fathom.search.records import Outcome, Report
from fathom.search.training.loop import Measurement
from fathom.search.training.replicated_loop import Replica, ReplicaTraining, train_replicas
from fathom.search.training.trial import (
    Assignment,
    WorkerLostError,
    is_out_of_memory,
    train_plan,
    trial_seed,
)
from fathom.search.training.trial_log import peak_memory

Reports = tuple[tuple[str, Report], ...]
"""Names of trials that train together, and what each says at the same moment."""


class RunningGroup:
    """Several trials on their device; iterating trains them and yields what all report."""

    def __init__(
        self,
        assignments: Sequence[Assignment],
        objective: ReplicatedObjective,
        device: torch.device,
    ) -> None:
        began = time.perf_counter()
        first = assignments[0]
        self._objective, self._due, self._size = objective, first.due, len(assignments)
        plan = train_plan(first.config, first.budget, first.spec, device.type)
        self._plan = replace(plan, compiled=False)
        # Neighbours of one rate are updated at once.
        ordered = sorted(assignments, key=lambda one: one.spec.learning_rate)
        own = {_replica(one): one for one in ordered}
        self._names = {replica: one.spec.trial for replica, one in own.items()}
        self._logs = {replica: one.log for replica, one in own.items()}
        parametrization = first.config.model.parametrization.build()
        self._training = ReplicaTraining(
            first.spec.shape, parametrization, self._plan, list(own), device=device
        )
        for log in self._logs.values():
            log.setup_seconds = (time.perf_counter() - began) / self._size

    def reports(self) -> Iterator[Reports]:
        """Train to the end; reports of all that still train, when a single trial would make them.

        Who has diverged is reported at once, and is not among the later ones.
        """
        self._due.begin()
        for measured in self._measurements():
            for replica, measurement in measured.items():
                self._logs[replica].add(measurement)
            over = [one for one in measured.values() if one.diverged or self._at_the_end]
            to_save, to_report = self._due.at(self._training.step) if measured else (True, True)
            if to_save:
                self._save()
            if to_report or over:
                yield self._reports(measured)
            if over and len(over) == len(measured):
                return

    def _measurements(self) -> Iterator[dict[Replica, Measurement]]:
        """Of each evaluation; empty where the search is ending between two of them."""
        measurements = self._train()
        while not self._at_the_end:
            measured = next(measurements, {})
            if not measured:
                measurements = self._train()
            yield measured

    def _train(self) -> Iterator[dict[Replica, Measurement]]:
        return train_replicas(self._training, self._objective, self._due.to_leave)

    @property
    def _at_the_end(self) -> bool:
        return self._training.step == self._plan.steps

    def _save(self) -> None:
        """Keep the state of this moment in each trial's own checkpoint file."""
        for replica in self._training.replicas:
            self._logs[replica].save(self._training.state_dict(replica))

    def _reports(self, measured: Mapping[Replica, Measurement]) -> Reports:
        """Of all that have trained up to here."""
        return tuple(
            (self._names[replica], self._report(replica, measured.get(replica)))
            for replica in self._training.replicas
        )

    def _report(self, replica: Replica, measurement: Measurement | None) -> Report:
        step, outcome, reason = 0, None, ""
        if measurement and measurement.diverged:
            outcome, reason = Outcome.DIVERGED, measurement.diverged
        elif self._at_the_end:
            outcome = Outcome.FINISHED
            reason = f"trained to the horizon, in one model of {self._size} trials"
        elif measurement:
            step = measurement.step
        peak = peak_memory(self._training.device)
        share = None if peak is None else peak // self._size
        return self._logs[replica].report(step, outcome, reason, peak_memory_bytes=share)


def run_group(
    assignments: Sequence[Assignment], objective: ReplicatedObjective, device: torch.device
) -> Iterator[Reports]:
    """All reports of a group.

    Raises:
        WorkerLostError: with the reason when anything goes wrong: whose trial it is shows alone.
    """
    try:
        yield from RunningGroup(assignments, objective, device).reports()
    except Exception as error:  # noqa: BLE001 - each goes on alone, and says it
        if not is_out_of_memory(error):
            traceback.print_exc()
        raise WorkerLostError(f"{type(error).__name__}: {error}".split("\n")[0]) from None


def _replica(assignment: Assignment) -> Replica:
    return Replica(seed=trial_seed(assignment), learning_rate=assignment.spec.learning_rate)
