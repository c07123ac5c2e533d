"""A trial that the user's own command trains: its lines become reports."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import pairwise
from math import isfinite, log, nan
from pathlib import Path

import numpy as np

from fathom.objectives.keys import short
from fathom.search.analysis.losses.rung_value import rung_value
from fathom.search.formatting import format_count, printable
from fathom.search.json_lines import append_line, read_as, truncate_torn_line
from fathom.search.record_json import DamagedFileError
from fathom.search.records import HOPELESS_NATS, CurvePoint, Outcome, Report
from fathom.search.study.hardware.machine import processor
from fathom.search.study.hardware.memory import is_short_of_memory
from fathom.search.study.planning.budget import rung_steps
from fathom.search.study.planning.evaluations import NEAR, horizon_remedy
from fathom.search.training.assignment import Assignment
from fathom.search.training.command.arguments import arguments_of
from fathom.search.training.command.lines import Evaluation, LineError, load_parser, read_line
from fathom.search.training.command.process import CommandProcess
from fathom.search.training.saving.trial_log import (
    INTERRUPT_POLL_SECONDS,
    REPORT_SECONDS,
    ReportSchedule,
)
from fathom.search.training.trial import HorizonError, MachineMemoryError, WorkerLostError

SAVE_SECONDS = 120.0
"""Seconds from SIGTERM to SIGKILL, in which the command can save."""
OFF_BUDGET = 0.1
"""Largest relative difference between a budget and the number of parameters that a command
reports."""
MEMORY = (
    *("out of memory", "outofmemory", "cannot allocate memory", "resource_exhausted"),
    *("memoryerror", "bad_alloc", "can't allocate memory"),
)
"""Texts, in lower case, that the last line of a command has if its memory ran out."""
KILLED_INSIDE = 128 + signal.SIGKILL
"""Exit status by which a shell reports that its command was killed, mostly for lack of memory."""
LAST_LINE = 300
"""Most characters of a command's last line that a reason quotes."""


class TrialError(Exception):
    """The end of a trial that has no loss at the horizon."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.FAILED) -> None:
        super().__init__(reason)
        self.outcome = outcome


class CommandTrial:
    """A trial of the study's command, trained by iterating over its reports."""

    def __init__(self, assignment: Assignment, *, gpus: int, chance_loss: float) -> None:
        self._assignment, self._gpus = assignment, gpus
        self._parser = load_parser(assignment.config.train.parser)
        self._budget, self._train = assignment.budget, assignment.config.train
        self._hopeless = chance_loss + HOPELESS_NATS
        path = Path(assignment.checkpoint)
        self._folder, self._log = folder_of(path), path.with_suffix(".log")
        self._kept = path.with_suffix(".jsonl")
        self._schedule, self._interrupted = ReportSchedule(assignment), False
        steps = rung_steps(assignment.config, self._budget)
        self._rungs = [step * self._budget.tokens_per_step for step in steps]
        self._points: list[CurvePoint] = []
        self._evaluated: list[int] = []
        """Tokens of each evaluation; the points of the curve also include the rungs."""
        self._beyond = 0
        """Tokens of an evaluation beyond the horizon, after which the command is ended; 0
        before."""
        self._parameters: int | None = None
        self._last_text = ""

    def reports(self) -> Iterator[Report]:
        """Starts the command; reports at rungs, every few seconds between them, and at the end.

        An interrupt of the search ends the command, which saves first, and yields a last report.
        Closing this iterator ends the command too; that is how trials are paused.
        """
        try:
            yield from self._trained()
        except LineError as error:
            yield self._report(outcome=Outcome.FAILED, reason=str(error))
        except TrialError as error:
            yield self._report(outcome=error.outcome, reason=str(error))

    def command(self) -> list[str]:
        """The arguments of the command for this trial."""
        resume = self._folder.exists() and any(self._folder.iterdir())
        return arguments_of(self._assignment, self._folder, resume=resume)

    def _earlier(self) -> list[CurvePoint]:
        """The evaluations of earlier starts, including lines that a command printed after its
        worker had died."""
        kept = _kept_points(self._kept)
        seconds = kept[-1].train_seconds if kept else 0.0
        lines = self._log.read_bytes().splitlines() if self._log.exists() else []
        for raw in lines:
            with suppress(LineError):
                new = self._heard(raw)
                if new and (kept[-1].tokens if kept else 0) < new.tokens <= self._most_tokens:
                    kept.append(self._keep(new, seconds))
        return kept

    def _start(self) -> CommandProcess:
        where = self._assignment.working_folder
        try:
            return CommandProcess(
                self.command(), self._environment(), where, self._log, grace_seconds=SAVE_SECONDS
            )
        except OSError as error:
            raise TrialError(f"the command can't be started in {where}: {error}") from error

    def _environment(self) -> dict[str, str]:
        """The environment of this worker, in which GPUs that the trial was not granted are
        hidden."""
        threads = str(self._assignment.config.resources.threads)
        hidden = {} if self._gpus else {"CUDA_VISIBLE_DEVICES": ""}
        # Python holds back what a program prints to a pipe, unless it is told not to.
        return {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1", **hidden}

    def _trained(self) -> Iterator[Report]:
        reported = time.monotonic()
        for point in self._new_points():
            self._check_converging(point)
            for rung in self._rungs:
                if self._tokens < rung <= point.tokens:
                    self._points.append(_at(rung, self._points, point))
                    yield self._report(rung=rung)
            if point.tokens > self._tokens:
                self._points.append(point)
            if time.monotonic() - reported >= REPORT_SECONDS:
                reported = time.monotonic()
                yield self._report()
        if self._is_whole:
            yield self._report(outcome=Outcome.FINISHED, reason="trained to the horizon")
        else:
            yield self._report(saved=True)  # at an interrupt: the command has ended

    def _new_points(self) -> Iterator[CurvePoint]:
        """Yields the evaluations of earlier starts, then those of the command, up to the horizon.

        Raises:
            TrialError: where the command has fallen silent or ended too early.
            HorizonError: where it never evaluates at the horizon.
        """
        kept = self._earlier()
        self._evaluated = [point.tokens for point in kept]
        yield from kept
        if self._is_whole:
            return
        self._folder.mkdir(exist_ok=True)  # beside checkpoints: a run that was deleted stays so
        began = time.monotonic() - (kept[-1].train_seconds if kept else 0.0)
        process = self._start()
        try:
            for evaluation in self._evaluations(process):
                self._evaluated.append(evaluation.tokens)
                yield self._keep(evaluation, time.monotonic() - began)
        except (TrialError, LineError):  # silent, or none of this study's: it saves nothing
            process.stop(saves=False)
            raise
        finally:
            process.stop()
        if not (self._interrupted or self._is_whole):
            # One that went on beyond the horizon was ended here, by a signal or not.
            raise self._too_early(0 if self._beyond else process.exit_status)

    def _evaluations(self, process: CommandProcess) -> Iterator[Evaluation]:
        """Yields each new evaluation up to the horizon, until the command ends or is interrupted.

        Raises:
            TrialError: where the command has fallen silent, or its model has another size.
        """
        heard = time.monotonic()
        for raw in process.lines(INTERRUPT_POLL_SECONDS):
            self._interrupted = self._schedule.interrupted()
            if self._interrupted:
                return
            if raw:
                heard = time.monotonic()
                new = self._heard(raw)
                if new and new.tokens > self._most_tokens:
                    self._beyond = new.tokens
                    return
                if new and new.tokens > self._tokens:
                    yield new
            elif time.monotonic() - heard > self._train.silence:
                raise TrialError(
                    f"the command printed nothing for {self._train.silence} s (`train.silence`)"
                )

    def _heard(self, raw: bytes) -> Evaluation | None:
        """The evaluation in a line, if there is one. A number of parameters in the line is compared
        with the budget."""
        text = raw.decode(errors="replace").strip()
        self._last_text = printable(text) or self._last_text
        line = read_line(text, self._parser, tokens_per_step=self._budget.tokens_per_step)
        self._check_size(line.parameters)
        return line.evaluation

    def _check_size(self, parameters: int | None) -> None:
        if parameters is None:
            return
        asked = self._budget.params
        if abs(parameters / asked - 1) > OFF_BUDGET:
            raise TrialError(
                f"the command's model has {format_count(parameters)} parameters, more than "
                f"{OFF_BUDGET:.0%} off the budget of {format_count(asked)}; make `model` and "
                "`count` those of the command"
            )
        self._parameters = parameters

    def _check_converging(self, point: CurvePoint) -> None:
        if not point.loss <= self._hopeless:  # true of NaN too
            reason = f"the held-out loss is {point.loss:.4g} after {point.tokens:,} tokens"
            if isfinite(point.loss):
                reason += f", above {self._hopeless:.4g} nats, that of a guess and one more"
                if not self._points and log(point.loss) <= self._hopeless:
                    reason += "; if it is a perplexity, print its logarithm"
            raise TrialError(reason, Outcome.DIVERGED)

    def _too_early(self, status: int | None) -> Exception:
        """The error of a command that ended before the horizon."""
        last = self._last_text[-LAST_LINE:]
        if status == KILLED_INSIDE:
            status = -signal.SIGKILL
        if status is None or status < 0:
            return WorkerLostError(f"the command was killed by signal {-(status or 0)}; {last}")
        interval = self._interval() if status == 0 else 0
        if interval and self._tokens + interval > self._most_tokens:
            steps = interval / self._budget.tokens_per_step
            return HorizonError(
                f"the command evaluates every {interval:,} tokens, so that its last loss before "
                f"the horizon came at {self._tokens:,} of {self._budget.tokens:,} tokens, and no "
                f"trial can finish; {horizon_remedy(self._assignment.config, self._budget, steps)}"
            )
        if status == 0:
            line = f'{{"tokens": {self._budget.tokens}, "loss": 3.2}}'
            return TrialError(
                f"the command ended at {self._tokens:,} of {self._budget.tokens:,} tokens; it must "
                f"print a loss at the horizon, {{tokens}}, in a line such as {line} or one that "
                f"the function of `train.parser` reads; its last line is {short(last)}"
            )
        memory = any(part in last.lower() for part in MEMORY)
        if memory and not self._gpus and is_short_of_memory():
            return MachineMemoryError(last)
        outcome = Outcome.OUT_OF_MEMORY if memory else Outcome.FAILED
        return TrialError(f"the command ended with exit status {status}: {last}", outcome)

    def _interval(self) -> int:
        """Tokens between two evaluations; 0 if they are not evenly spaced, or there are none."""
        heard = [*self._evaluated, *([self._beyond] if self._beyond else [])]
        for evaluations in ((0, *heard), heard if len(heard) > 2 else ()):
            gaps = {after - before for before, after in pairwise(evaluations)}
            if len(gaps) == 1:
                return gaps.pop()
        return 0

    @property
    def _is_whole(self) -> bool:
        """True once the training has reached the horizon."""
        return self._tokens >= (1 - NEAR) * self._budget.tokens

    @property
    def _most_tokens(self) -> float:
        """Most tokens at which an evaluation still counts as the one at the horizon."""
        return (1 + NEAR) * self._budget.tokens

    @property
    def _tokens(self) -> int:
        """Tokens of the last evaluation."""
        return self._points[-1].tokens if self._points else 0

    def _keep(self, evaluation: Evaluation, seconds: float) -> CurvePoint:
        """Appends an evaluation to the trial's file, and returns it as a point of the curve."""
        point = CurvePoint(
            step=max(1, round(evaluation.tokens / self._budget.tokens_per_step)),
            tokens=evaluation.tokens,
            loss=evaluation.loss,
            train_loss=evaluation.train_loss,
            train_seconds=seconds,
            time=time.time(),
            metrics={printable(name): value for name, value in evaluation.metrics.items()},
        )
        append_line(self._kept, asdict(point), wait=False, sealed=False)
        return point

    def _report(
        self, *, rung: int | None = None, outcome: Outcome | None = None, reason: str = "",
        saved: bool = False,
    ) -> Report:  # fmt: skip
        losses = [point.loss for point in self._points]
        median_of = self._assignment.config.stopping.median_of
        return Report(
            points=tuple(self._points),
            rung=None if rung is None else (rung, rung_value(losses, median_of)),
            outcome=outcome,
            reason=reason,
            saved=saved,
            device=f"{self._gpus} GPUs" if self._gpus else processor(),
            parameters=self._parameters,
        )


def _at(rung: int, before: Sequence[CurvePoint], after: CurvePoint) -> CurvePoint:
    """The curve at the tokens of a rung: interpolated linearly in ln tokens between two
    evaluations, so that trials are compared at the same tokens wherever their commands evaluate."""
    if after.tokens == rung:
        return after
    loss = after.loss
    if before:
        times = [log(before[-1].tokens), log(after.tokens)]
        loss = float(np.interp(log(rung), times, [before[-1].loss, after.loss]))
    step = round(after.step * rung / after.tokens)
    return replace(after, tokens=rung, step=step, loss=loss, train_loss=nan, metrics={})


def folder_of(checkpoint: Path) -> Path:
    """The folder in which the command of a trial keeps its checkpoints."""
    return checkpoint.absolute().with_suffix("")


def _kept_points(path: Path) -> list[CurvePoint]:
    """The evaluations of a trial's earlier starts; none if their file is damaged."""
    try:
        truncate_torn_line(path)
        return list(read_as(path, lambda values: CurvePoint(**values), sealed=False))
    except DamagedFileError:
        path.unlink()
        return []
