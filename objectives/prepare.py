"""Preparing an objective: from its keys to an instance with its data."""

import importlib
from typing import Any

from fathom.objectives.contract import Objective
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.registry import OBJECTIVES
from fathom.objectives.user_objective import UserObjectiveConfig, load_user_objective


def prepare(keys: ObjectiveConfig) -> Objective:
    """The objective with its data.

    Raises:
        ObjectiveError: if the keys or the data do not suit.
    """
    if isinstance(keys, UserObjectiveConfig):
        objective: Objective = load_user_objective(keys)
    else:
        objective = class_of(keys.name).prepare(keys)
    return objective


def class_of(name: str) -> Any:
    """The class of a registered objective."""
    module, _, found = OBJECTIVES[name].place.partition(":")
    return getattr(importlib.import_module(f"fathom.objectives.{module}"), found)
