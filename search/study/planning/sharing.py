"""Whether several small trials should share each GPU. Imports no framework."""

import math
from collections.abc import Sequence
from dataclasses import replace

from fathom.search.formatting import format_seconds
from fathom.search.study.hardware.machine import Machine, this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import BudgetPlan, plan_budget, search_hours

TRIALS = (2, 4, 8)
"""Numbers of trials on a GPU that are compared with one."""
WORTH = 0.75
"""Largest part of the present time that sharing may take to be advised: it is an estimate only."""


def sharing_notes(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine, gpu: str | None = None
) -> tuple[str, ...]:
    """A line if several trials on each GPU would take much less time than one; none otherwise.

    A small model's step takes the time of its launches, in which the GPU waits. As many trials can
    share it as fill that time with work, fit its memory in one piece, and have cores. `gpu` is the
    type that the plan was asked for.
    """
    if machine.device != "GPU" or machine.devices != 1 or config.train.command:
        return ()
    if config.train_seconds is not None:
        return ()  # trials that share a GPU take the same time, and train on fewer tokens
    hours = {trials: _hours(config, plans, gpu, trials) for trials in (1, *TRIALS)}
    best = min(hours, key=lambda trials: hours[trials])
    if hours[best] > WORTH * hours[1]:
        return ()
    slots = config.resources.max_concurrent_trials
    more = "" if slots == "auto" else f", max_concurrent_trials: {best * slots}"
    alone, shared = (format_seconds(3600 * hours[trials]) for trials in (1, best))
    return (
        f"a trial leaves its GPU idle most of the time: with `resources: {{gpus_per_trial: "
        f"{1 / best:g}{more}}}` {best} share each, and the search takes about {shared} instead of "
        f"{alone}, both estimated from data sheets; start CUDA's MPS for it (docs/clusters.md)",
    )


def _hours(config: StudyConfig, plans: Sequence[BudgetPlan], gpu: str | None, trials: int) -> float:
    """Estimated hours with so many trials on each GPU; infinite if their steps do not fit it."""
    given = config.resources
    most = given.max_concurrent_trials
    shared = given.model_copy(
        update={
            "gpus_per_trial": 1 / trials,
            "max_concurrent_trials": most if most == "auto" else trials * most,
        }
    )
    study = config.model_copy(update={"resources": shared})
    machine = this_machine(study, gpu)
    machine = replace(machine, speed=replace(machine.speed, measured=()))
    anew = [plan_budget(study, plan.budget, plan.shapes, machine) for plan in plans]
    if any(now.step.memory > machine.memory or now.step.micro_batches > before.step.micro_batches
           for now, before in zip(anew, plans, strict=True)):  # fmt: skip
        return math.inf
    return search_hours(anew, machine)
