"""Stage `hours`: the time that a plan predicts against the time that a trial takes."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.gpu.finding import Cases, Setup, StageFinding, holds, measured, within
from benchmarks.gpu.subject import python_source, random_ids, shape_of, trial_of
from fathom.search.records import Outcome
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.planning.plan import plan_budget
from fathom.search.study.timing.device_speed import Speed
from fathom.search.training.assignment import Assignment
from fathom.search.training.calibrate import measured_rate
from fathom.search.training.trial import RunningTrial, catch_failures

LABELS = ((5, 128), (6, 384), (12, 832), (24, 1152), (24, 1856))
"""Depth and width of about 1M, 10M, 100M, 400M and 1B parameters."""
FACTOR = 1.5


def cases(setup: Setup) -> Cases:
    """Yields a trial of a plan that has measured, and estimates by size beside measurements."""
    yield "trial", _trial
    for depth, width in ((1, 32), (2, 48)) if setup.tiny else LABELS:
        yield f"{depth}x{width}", partial(_size, depth=depth, width=width)


def _trial(setup: Setup) -> Iterator[StageFinding]:
    """The time told for the trials of a budget, if all had one shape, and that of one of them."""
    config, budget, spec = trial_of(setup)
    objective = python_source(64).to(setup.device)
    machine = this_machine(config.resources, config.train)
    rate = measured_rate(config, budget, spec.shape, objective, setup.device)
    machine = replace(machine, slots=1, speed=replace(machine.speed, measured=(rate,)))
    plan = plan_budget(config, budget, (spec.shape,), machine)
    trials = plan.expected_tokens / budget.tokens
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        given = Assignment(config, budget, spec, str(Path(folder) / "trial.pt"))
        *_, last = catch_failures(RunningTrial(given, objective, setup.device).reports())
    took, told = time.monotonic() - began, 3600 * plan.hours / trials
    yield holds("the trial finishes", last.outcome is Outcome.FINISHED, last.reason)
    yield measured("seconds told", told)
    yield measured("seconds taken", took)
    ratio = told / took
    yield within("told / taken", ratio, FACTOR) if setup.on_gpu else measured("told / taken", ratio)


def _size(setup: Setup, depth: int, width: int) -> Iterator[StageFinding]:
    """A measured speed, and the estimate beside it."""
    shape = shape_of(depth, width, vocabulary=256, context=64 if setup.tiny else 1024)
    config, budget, _ = trial_of(setup)
    budget = replace(budget, batch_size=4 if setup.tiny else 16)
    objective = random_ids(shape).to(setup.device)
    layer_flops, rate = measured_rate(config, budget, shape, objective, setup.device)
    tokens = round(layer_flops * depth / shape.train_flops_per_token)
    estimate: Speed = replace(this_machine(config.resources, config.train).speed, measured=())
    told, took = estimate.step_seconds(shape, tokens), layer_flops * depth / rate
    yield measured("FLOPs of a layer in a step", layer_flops)
    yield measured("FLOPs per second, not compiled", rate)
    ratio, what = told / took, "estimated / measured time of a step"
    yield within(what, ratio, 2.0) if setup.on_gpu else measured(what, ratio)
