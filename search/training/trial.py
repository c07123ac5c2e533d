"""One trial on its device: it trains and reports; exceptions become outcomes. Torch only."""

import math
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from fathom.models.own_model import OwnModel
from fathom.objectives.contract import Objective, files_of
from fathom.objectives.errors import UnseenDataError
from fathom.search.records import Outcome, Report, TrialSpec
from fathom.search.study.hardware.memory import is_short_of_memory
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import (
    Budget,
    constant_until,
    evaluation_steps,
    horizon_budgets,
    steps_of_a_start,
    warmup_steps,
)
from fathom.search.study.planning.space.shape_counter import recipe_of
from fathom.search.training.assignment import Assignment
from fathom.search.training.compile_policy import (
    launches_may_dominate,
    pays,
    pays_in,
    possible,
)
from fathom.search.training.device import (
    DeviceError,
    computes_in_bfloat16,
    fitted,
    use_deterministic,
    use_one_attention,
)
from fathom.search.training.evaluation import autocast
from fathom.search.training.loop import train, until_over
from fathom.search.training.micro_batches import free_memory, is_of_machine, is_out_of_memory
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.recorded_step import obstacle_of_plan
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.trial_log import ReportSchedule, TrialLog
from fathom.search.training.state import Measurement, Training, TrainPlan

MULTIPLES = (1, 2, 4, 8, 16)
"""Multiples of the planned number of micro-batches, tried one after another until the trial fits in
memory."""
AFTER_A_KILL = 4
"""First multiple that is tried for a trial whose worker was killed for memory."""


def train_plan(config: StudyConfig, budget: Budget, spec: TrialSpec, device: str) -> TrainPlan:
    """Training settings of a trial of a budget; fractions of the horizon are converted to steps."""
    settings = config.train
    plan = TrainPlan(
        steps=budget.steps,
        batch_size=budget.batch_size,
        learning_rate=spec.learning_rate,
        warmup_steps=warmup_steps(config, budget),
        cooldown_steps=budget.steps - constant_until(config.train, budget),
        pretraining_steps=math.ceil(config.objective.pretraining_tokens / budget.tokens_per_step),
        **settings.of_steps | {"weight_decay": settings.weight_decay * spec.decay_scale},
        auto_sizing=settings.auto_sizing.penalty,
        evaluation_steps=evaluation_steps(config, budget),
        bfloat16=computes_in_bfloat16(settings.precision, device),
        may_be_eager=settings.compile == "auto",
        diagnostics=settings.diagnostics and config.model.build is None,
        patience=settings.patience,
    )
    recorded = _records(plan, config, budget, spec, device)
    compiled = _compiles(config, budget, spec, device, recorded=recorded)
    return replace(plan, recorded=recorded, compiled=compiled)


def _records(
    plan: TrainPlan, config: StudyConfig, budget: Budget, spec: TrialSpec, device: str
) -> bool:
    """True if the trial's steps are to be recorded as a CUDA graph."""
    if config.train.compile == "graph":
        return True
    if not config.train.compile:
        return False
    alike = config.objective.batch_widths == 1 and not config.space.split
    alone = config.resources.processes_per_trial == 1 and not config.model.is_eager
    if not (alike and alone) or obstacle_of_plan(plan):
        return False
    tokens = budget.tokens_per_step
    return launches_may_dominate(spec.shape, tokens_per_step=tokens, device_type=device)


def _compiles(
    config: StudyConfig, budget: Budget, spec: TrialSpec, device: str, *, recorded: bool
) -> bool:
    """True if the trial's steps are to be compiled."""
    setting = config.train.compile
    if setting != "auto":
        return setting is True
    if config.model.is_eager or config.space.split:
        # A model of the user's may do what can't be compiled; sources and targets of many lengths,
        # and the tokens of each expert, would be compiled for each number.
        return False
    if budget.spend.coin.timed:  # alike for all trials of a shape, and where it is timed
        return pays_in(budget.spend.amount / config.objective.batch_widths, device) and possible()
    tokens = budget.tokens_per_step // config.resources.processes_per_trial
    steps: float = horizon_budgets(config, budget)[-1].steps
    if spec.prunable and not config.horizon_of:  # whose trials have the same kernels at each
        steps = steps_of_a_start(config, budget)
    steps /= config.objective.batch_widths
    worth = pays(
        spec.shape, steps=steps, tokens_per_step=tokens, device_type=device, recorded=recorded
    )
    return worth and possible()


class WorkerLostError(Exception):
    """The process of a trial has ended before the trial has; another worker resumes the trial."""


class HorizonError(ValueError):
    """No evaluation of a command falls on the horizon, so no trial of the budget can finish; the
    message is one line."""


class MachineLeavesError(WorkerLostError):
    """The trial has saved, and ends here because its machine is about to be taken away."""


class MachineMemoryError(WorkerLostError):
    """The machine of this process has run out of memory, whichever program took it."""


class GpuFaultError(WorkerLostError):
    """The GPU failed, and this process can't use it any more; another process resumes the trial.

    If trials share a GPU through CUDA's MPS, a fault of one ends all of them.
    """


class RunningTrial:
    """A trial on its device, trained by iterating over its reports."""

    def __init__(
        self,
        assignment: Assignment,
        objective: Objective,
        device: torch.device,
        *,
        micro_batches: int = 1,
        ranks: Ranks = SINGLE_PROCESS,
    ) -> None:
        began = time.perf_counter()
        config, spec = assignment.config, assignment.spec
        use_deterministic(config.train.deterministic)
        use_one_attention(heads_differ=config.space.heads_differ)
        plan = train_plan(config, assignment.budget, spec, device.type)
        plan = fitted(plan, config, spec.shape, device, ranks)
        self._foretold = plan.micro_batches
        most = max(1, plan.batch_size // ranks.size)
        plan = replace(plan, micro_batches=min(most, plan.micro_batches * micro_batches))
        recipe = recipe_of(config.model)
        new = partial(
            Training, spec.shape, recipe, plan, seed=assignment.seed, device=device, ranks=ranks
        )
        self._objective, self._training = objective, new()
        self._log = TrialLog(assignment, device, ranks if plan.shards else None)
        self._schedule = ReportSchedule(assignment, ranks.size)
        self._next_look = 0
        self._restore(new)
        self._log.setup_seconds = time.perf_counter() - began

    def reports(self) -> Iterator[Report]:
        """Trains to the end; reports at rungs, every few seconds between them, and at the end.

        At an interrupt of the search, the trial saves its state and reports as well. Every rank
        makes these reports, of which only the leader's are used.

        Raises:
            DiskFullError: when the disk has no room for the state.
        """
        try:
            yield from self._reports()
        finally:  # what is still being written must not replace what comes after it
            self._log.stop_saving()

    def _reports(self) -> Iterator[Report]:
        training, log = self._training, self._log
        if training.step:  # restored: its last report may be lost
            yield log.report(training.step, saved=True)
        self._schedule.start()
        for measurement in self._measurements():
            if measurement:
                log.add(measurement)
            if training.is_over:
                break
            step = measurement.step if measurement else None
            waits, report = training.ranks.broadcast(partial(self._schedule.due, step))
            if waits:
                self.save()
            if report:
                yield log.report(step, saved=waits)
        log.stop_saving()
        if training.diverged:
            yield log.report(None, Outcome.DIVERGED, training.diverged)
        else:
            reason = training.ended or "trained to the horizon"
            if training.micro_batches > self._foretold:
                count = training.micro_batches
                reason += f", in {count} micro-batches a step, as it had run out of memory"
            yield log.report(None, Outcome.FINISHED, reason)

    def train_with_leader(self) -> None:
        """Trains on a rank that is not the leader, until the leader ends."""
        for _ in self.reports():
            pass

    def stop_other_ranks(self) -> None:
        """Ends the other ranks, which wait for the leader after a report."""
        self._training.ranks.broadcast(lambda: False)

    def _measurements(self) -> Iterator[Measurement | None]:
        """Yields the measurements, the same on every rank, until the leader stops; None at an
        interrupt."""
        training = self._training
        return until_over(
            lambda: train(training, self._objective, self._after_step),
            lambda: training.is_over or not training.ranks.broadcast(lambda: True),
        )

    def _after_step(self) -> bool:
        """Begins to save if it is time to; returns True at an interrupt. The result is the same on
        every rank."""
        training, step = self._training, self._training.step
        if step < self._next_look or step in training.plan.evaluation_steps:
            return False
        look = training.ranks.broadcast(
            lambda: self._schedule.look(step, saving=self._log.is_saving())
        )
        self._next_look = look.next_step
        if look.save:
            self._begin_saving()
        return look.ends

    def save_weights(self, path: Path) -> None:
        """Writes the model's `state_dict`; for a user's own model, the `state_dict` of the user's
        module."""
        model = self._training.model
        module = model.inner if isinstance(model, OwnModel) else model
        checkpoint.save(module.state_dict(), path)

    def files(self) -> Mapping[str, str]:
        """Files that the objective makes from the trained model: content by name."""
        training = self._training
        training.model.eval()
        with autocast(training.device, training.plan):
            return files_of(self._objective, training.model)

    def save(self) -> None:
        """Saves the present state in the trial's checkpoint file.

        Raises:
            DiskFullError: when the disk has no room for it; the file before is still there.
        """
        self._begin_saving()
        self._log.finish_saving()

    def _begin_saving(self) -> None:
        state = self._training.state_dict()  # on all ranks, though one of them writes it
        if self._training.ranks.is_leader or self._training.plan.shards:
            self._log.save(state)

    def _restore(self, new: Callable[[], Training]) -> None:
        self._load(new)
        training = self._training
        first = training.ranks.broadcast(lambda: training.step)
        if first != training.step:  # a network folder showed them different files
            raise WorkerLostError(
                f"all ranks must begin at one step, got {training.step} and, on rank 0, {first}"
            )

    def _load(self, new: Callable[[], Training]) -> None:
        """Continues from the saved state; starts from the beginning if there is none, or a damaged
        one."""
        try:
            if (state := self._log.restore(self._training.whole_state)) is not None:
                self._training.load_state_dict(state)
        except checkpoint.DAMAGED as error:
            if is_out_of_memory(error):
                raise
            warnings.warn(f"a checkpoint is damaged and is not used: {error!r}", stacklevel=2)
            self._log.forget()
            self._training = new()  # the old one may hold a part of it


Attempt = Callable[[int], Iterator[Report]]
"""Function that resumes a trial from its checkpoint. Its argument multiplies the number of
micro-batches per step that the device's memory is planned to need."""


def run_trial(attempt: Attempt, *, out_of_memory: bool = False) -> Iterator[Report]:
    """Yields all reports of a trial; if memory runs out, the trial is resumed with smaller
    micro-batches.

    A trial in one process halves its micro-batches by itself (`loop.advance`); several processes
    wait for each other, so all of them must start again. The gradients of the micro-batches add up
    to the gradient of the whole batch.
    """
    first = AFTER_A_KILL if out_of_memory else 1
    for multiple in MULTIPLES[MULTIPLES.index(first) :]:
        try:
            yield from attempt(multiple)
            return
        except Exception as error:
            if multiple == MULTIPLES[-1] or not is_out_of_memory(error):
                raise
        free_memory()


def catch_failures(reports: Iterator[Report]) -> Iterator[Report]:
    """Yields the reports; an exception in the trial becomes a last report, with the exception as
    its reason."""
    try:
        yield from reports
    except (
        *(WorkerLostError, HorizonError, DeviceError, UnseenDataError, checkpoint.DiskFullError),
        *(KeyboardInterrupt, SystemExit, GeneratorExit),
    ):
        raise
    except BaseException as error:  # what a user's code raises may be derived from it
        if is_of_machine(error) and is_short_of_memory():
            raise MachineMemoryError(str(error).split("\n")[0]) from error
        if is_out_of_memory(error):
            outcome, reason = Outcome.OUT_OF_MEMORY, str(error)
        elif isinstance(error, torch.AcceleratorError):
            raise GpuFaultError(str(error).split("\n")[0]) from error
        else:
            traceback.print_exc()
            outcome, reason = Outcome.FAILED, f"{type(error).__name__}: {error}"
        yield Report(points=(), outcome=outcome, reason=reason.split("\n")[0])
