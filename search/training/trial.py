"""One trial: a spec becomes a model, trains, reports; exceptions become outcomes. Torch only."""

import gc
import math
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.search.records import Outcome, Report, Stage, TrialSpec, derive_seed
from fathom.search.study.budget import Budget, evaluation_steps
from fathom.search.study.config import StudyConfig
from fathom.search.study.groups import Precision
from fathom.search.training import checkpoint
from fathom.search.training.compile_policy import pays, possible
from fathom.search.training.data_parallel import ALONE, Ranks
from fathom.search.training.loop import Measurement, Training, TrainPlan, train
from fathom.search.training.trial_log import Due, TrialLog, peak_memory

MICRO_BATCHES = 4
"""Parts in which a batch is trained after a trial has run out of memory."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a worker needs to run a trial, beside the objective's data."""

    config: StudyConfig
    budget: Budget
    spec: TrialSpec
    checkpoint: str
    """Path of the checkpoint file, seen alike from every node."""
    marker: str = ""
    """What the run's marker file holds, beside the checkpoint."""
    short_of_memory: bool = False
    """An earlier worker of the trial was killed as its node ran out of memory."""
    avoid: tuple[str, ...] = ()
    """Nodes on which the trial has lost a worker."""
    parted: str = ""
    """Why it no longer trains as one model with others; empty where it never did."""

    @property
    def log(self) -> TrialLog:
        """What the trial has measured: nothing as yet."""
        return TrialLog(self.config, self.budget, self.spec, Path(self.checkpoint))

    @property
    def due(self) -> Due:
        """When the trial is to be saved and to report."""
        return Due(self.config, self.budget, Path(self.checkpoint))


def trial_seed(assignment: Assignment) -> int:
    """Of everything that is drawn in the trial."""
    return derive_seed(assignment.config.seed, "trial", assignment.spec.seed)


def train_plan(config: StudyConfig, budget: Budget, spec: TrialSpec, device: str) -> TrainPlan:
    """How a trial of a budget trains; shares of the horizon become steps."""
    settings = config.train
    precision = settings.precision
    return TrainPlan(
        steps=budget.steps,
        batch_size=budget.batch_size,
        learning_rate=spec.learning_rate,
        warmup_steps=max(1, round(settings.warmup * budget.steps)),
        cooldown_steps=round(settings.cooldown * budget.steps),
        pretraining_steps=math.ceil(config.objective.pretraining_tokens / budget.tokens_per_step),
        weight_decay=settings.weight_decay,
        betas=settings.betas,
        eps=settings.eps,
        grad_clip=settings.grad_clip,
        evaluation_steps=evaluation_steps(config, budget),
        bfloat16=precision is Precision.BFLOAT16
        or (precision is Precision.AUTO and device == "cuda"),
        compiled=_compiled(config, budget, spec, device),
        diagnostics=settings.diagnostics,
        patience=settings.patience,
    )


def spec_alone(
    trial: str, config: StudyConfig, budget: Budget, shape: Shape, *, seed: int = 0
) -> TrialSpec:
    """What fixes a training outside of a search: nothing stops it, and its rate is the study's."""
    return TrialSpec(
        trial=trial,
        study=config.study,
        stage=Stage.CONFIRM,
        budget=budget.params,
        count=config.count,
        horizon_tokens=budget.tokens,
        shape=shape,
        seed=seed,
        learning_rate=config.train.learning_rate,
        rate_scale=1.0,
        prunable=False,
    )


def _compiled(config: StudyConfig, budget: Budget, spec: TrialSpec, device: str) -> bool:
    setting = config.train.compile
    if setting != "auto":
        return setting
    tokens = budget.tokens_per_step
    worth = pays(spec.shape, steps=budget.steps, tokens_per_step=tokens, device_type=device)
    return worth and possible() and config.resources.processes_per_trial == 1  # untried with more


class WorkerLostError(Exception):
    """What ended is the process and not the trial, which goes on in another."""


class RunningTrial:
    """A trial on its device; iterating trains it and yields what to report."""

    def __init__(
        self,
        assignment: Assignment,
        objective: Objective,
        device: torch.device,
        *,
        micro_batches: int = 1,
        ranks: Ranks = ALONE,
    ) -> None:
        began = time.perf_counter()
        self._assignment, self._objective = assignment, objective
        config, budget, spec = assignment.config, assignment.budget, assignment.spec
        plan = train_plan(config, budget, spec, device.type)
        self._plan = replace(plan, micro_batches=micro_batches)
        self._seed = trial_seed(assignment)
        self._training = Training(
            spec.shape,
            config.model.parametrization.build(),
            self._plan,
            seed=self._seed,
            device=device,
            ranks=ranks,
        )
        self._log, self._due = assignment.log, assignment.due
        self._restore()
        self._log.setup_seconds = time.perf_counter() - began

    def reports(self) -> Iterator[Report]:
        """Train to the end; reports at rungs, every few seconds between them, and at the end.

        While the search is ending also wherever the trial stands, with its state saved.
        """
        if self._training.step:  # restored: its last report may be lost
            yield self._report(self._training.step)
        self._due.begin()
        for measurement in self._measurements():
            if measurement is None:
                self.save()
                yield self._report(0)
                continue
            self._log.add(measurement)
            if measurement.diverged:
                yield self._report(0, Outcome.DIVERGED, measurement.diverged)
                return
            if measurement.step == self._plan.steps or self._training.ended:
                break
            to_save, to_report = self._due.at(measurement.step)
            if to_save:
                self.save()
            if to_report:
                yield self._report(measurement.step)
        reason = self._training.ended or "trained to the horizon"
        yield self._report(0, Outcome.FINISHED, reason)

    def follow(self) -> None:
        """What the other ranks do: train along until the leading one has ended."""
        for _ in self._measurements():
            pass

    def stop(self) -> None:
        """Let the other ranks end as well, which wait to go on after a report."""
        self._training.ranks.told(lambda: False)

    def _measurements(self) -> Iterator[Measurement | None]:
        """Every rank sees the same ones, as long as the leading rank goes on.

        None where the search is ending between two of them. Several ranks go on to the next one:
        they would have to agree at every step.
        """
        training, measurements = self._training, self._train()
        while training.step < self._plan.steps and not training.ended:
            if not training.ranks.told(lambda: True):
                return
            measurement = next(measurements, None)
            if measurement is None:
                measurements = self._train()
            yield measurement
            if measurement and measurement.diverged:
                return

    def _train(self) -> Iterator[Measurement]:
        training = self._training
        leave = self._due.to_leave if training.ranks.size == 1 else lambda: False
        return train(training, self._objective, self._plan, seed=self._seed, leave=leave)

    def save_weights(self, path: Path) -> None:
        """Write the model's weights, as its `state_dict`."""
        checkpoint.save(self._training.model.state_dict(), path)

    def _report(self, step: int, outcome: Outcome | None = None, reason: str = "") -> Report:
        peak = peak_memory(self._training.device)
        return self._log.report(step, outcome, reason, peak_memory_bytes=peak)

    def save(self) -> None:
        """Keep the state of this moment in the trial's checkpoint file."""
        self._log.save(self._training.state_dict())

    def _restore(self) -> None:
        state = self._log.restore(self._training.device)
        if state is not None:
            self._training.load_state_dict(state)
        begun = self._training.ranks.told(lambda: self._training.step)
        if begun != self._training.step:  # a network folder showed them different files
            raise WorkerLostError(f"a rank begins at step {self._training.step}, rank 0 at {begun}")


Attempt = Callable[[int], Iterator[Report]]
"""Takes a trial up where its checkpoint is, with so many micro-batches a step."""


def run_trial(attempt: Attempt, *, short_of_memory: bool = False) -> Iterator[Report]:
    """All reports of a trial; one that runs out of memory goes on once, with smaller batches.

    Their gradients add up to that of the whole batch.
    """
    if not short_of_memory:
        try:
            yield from attempt(1)
            return
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        gc.collect()  # the error's frames held the model
        torch.cuda.empty_cache()
    how = f"in {MICRO_BATCHES} micro-batches a step, as it had run out of memory"
    yield from ending_with(how, attempt(MICRO_BATCHES))


def ending_with(how: str, reports: Iterator[Report]) -> Iterator[Report]:
    """The same reports; the reason of the last one also says how the trial went."""
    for report in reports:
        yield replace(report, reason=f"{report.reason}, {how}") if report.outcome else report


def guarded(reports: Iterator[Report]) -> Iterator[Report]:
    """The same reports; an exception becomes a last report that says what went wrong."""
    try:
        yield from reports
    except WorkerLostError:
        raise
    except Exception as error:  # noqa: BLE001 - a trial's failure is a result, never the search's
        if is_out_of_memory(error):
            outcome, reason = Outcome.OUT_OF_MEMORY, str(error)
        else:
            traceback.print_exc()
            outcome, reason = Outcome.FAILED, f"{type(error).__name__}: {error}"
        yield Report(points=(), outcome=outcome, reason=reason.split("\n")[0])


def is_out_of_memory(error: Exception) -> bool:
    # For a machine's own memory PyTorch has no type: a RuntimeError that says so.
    named = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return named or "can't allocate memory" in str(error)
