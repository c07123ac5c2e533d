"""Preparing an objective: from its keys to an instance with its data."""

from pathlib import Path

from fathom.objectives.contract import Objective
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.registry import OBJECTIVES
from fathom.objectives.user_objective import UserObjectiveConfig, load_user_objective


def prepare(keys: ObjectiveConfig, cache: Path | None = None) -> Objective:
    """The objective with its data; `cache` is a folder that keeps prepared data.

    Raises:
        ObjectiveError: if the keys or the data do not suit.
    """
    if isinstance(keys, UserObjectiveConfig):
        objective: Objective = load_user_objective(keys)
    else:
        found = OBJECTIVES[keys.name].load()
        objective = found.prepare(keys, cache) if keys.cached else found.prepare(keys)
    return objective
