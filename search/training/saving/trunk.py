"""Trunks as files: states before a cool-down, from which trainings of longer horizons continue."""

import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fathom.objectives.durable import put_in_place
from fathom.search.run_folder import UNFINISHED
from fathom.search.training.assignment import Assignment
from fathom.search.training.state import SINCE_EVALUATION, TrainPlan


@dataclass(frozen=True, slots=True)
class Trunk:
    """The file of a trunk, and what it must be a state of."""

    path: Path
    identity: str


def trunk_identity(assignment: Assignment, plan: TrainPlan) -> str:
    """Returns text that is the same for trainings that begin alike, and for no others: the file's
    name has the data and the study's settings."""
    alike = replace(plan, steps=0, cooldown_steps=0, evaluation_steps=(0,), longer=(), trunk_step=0)
    name, tokens = Path(assignment.trunk).stem, assignment.budget.tokens_per_step
    return f"{name} {assignment.spec.shape} {assignment.seed} {tokens} {alike}"


def keep_as_trunk(checkpoint: Path, trunk: Path) -> None:
    """Gives a checkpoint a second name, so that a longer training finds it once the trial has gone
    on; without room for it there is no trunk."""
    name = f"{trunk.stem}.{socket.gethostname()}-{os.getpid()}{UNFINISHED}"
    temporary = trunk.with_name(name)
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
        try:
            os.link(checkpoint, temporary)
        except OSError:  # this file system has no second names
            shutil.copyfile(checkpoint, temporary)
        put_in_place(temporary, trunk)
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def training_state(training: Mapping[str, Any], steps: int) -> tuple[dict[str, Any], Any] | None:
    """Returns the state of a shorter training as that of one of so many steps, and the evaluations
    that were measured for it; None if it was not measured for it."""
    ahead = dict(training["ahead"])
    own = ahead.pop(steps, None)
    if own is None:
        return None
    begun = {key: part for key, part in training.items() if key not in (*SINCE_EVALUATION, "ahead")}
    since = {name: own[name] for name in SINCE_EVALUATION} if own["loss_steps"] else {}
    return {**begun, **since, "ahead": ahead}, own["measured"]
