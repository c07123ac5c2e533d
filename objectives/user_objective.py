"""A user's own objective, by its place: `my_package.my_task:MyObjective`.

Preparing it runs the user's code: that is what naming it asks for. The working folder is searched
first, as `python -m` would; Ray's workers do the same where they see that folder.
"""

import difflib
import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fathom.objectives.errors import ObjectiveError

MEMBERS = (
    *("vocab_size", "context", "chance_loss"),
    *("to", "batch", "loss", "evaluate", "final_metrics"),
)
"""What an objective has, see `objective.py`."""
SEVERAL = ("batches", "losses", "evaluations")
"""What it also has where it can judge several models at once."""


def is_own(name: str) -> bool:
    """Whether a name is a place."""
    return ":" in name


def judges_several(name: str) -> bool:
    """Whether the class can judge several models at once; raises `ObjectiveError` without it."""
    return all(hasattr(_class(name), member) for member in SEVERAL)


def load_own(name: str, settings: Mapping[str, Any]) -> Any:
    """Import the class and prepare it from the settings.

    Raises:
        ObjectiveError: when it is not there, does not take these settings or is no objective.
    """
    found = _class(name)
    _check_keys(name, found.prepare, settings)
    try:
        objective = found.prepare(**settings)
    except ValueError as error:
        raise ObjectiveError(f"objective {name}: {error}") from error
    lacking = [member for member in MEMBERS if not hasattr(objective, member)]
    if lacking:
        raise ObjectiveError(
            f"what `prepare` of {name} returns must be an objective, but it has no "
            f"{', '.join(lacking)}; see objectives/contract.py"
        )
    if objective.context != settings["context"]:
        raise ObjectiveError(
            f"the `context` of {name} must be that of the study, which the horizon counts in, got "
            f"{objective.context} for context={settings['context']}; set `objective.context`"
        )
    return objective


def _class(name: str) -> Any:
    module_name, _, class_name = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ObjectiveError(
            f"the module of objective {name} must be importable from {folder}, got {reason}; "
            "check its name, and run where its folder is"
        ) from error
    found = getattr(module, class_name, None)
    if not callable(getattr(found, "prepare", None)):
        classes = [key for key, value in vars(module).items() if hasattr(value, "prepare")]
        near = difflib.get_close_matches(class_name, classes, n=1)
        raise ObjectiveError(
            f"objective {name} must be a class with `prepare`, but {module_name} has "
            + (f"no {class_name}" if found is None else f"{class_name} without it")
            + (f"; did you mean {module_name}:{near[0]}?" if near else "; correct `objective.name`")
        )
    return found


def _check_keys(name: str, prepare: Any, settings: Mapping[str, Any]) -> None:
    try:
        inspect.signature(prepare).bind(**settings)
    except TypeError as error:
        raise ObjectiveError(
            f"the keys of objective {name} must be what its `prepare` takes, "
            f"{inspect.signature(prepare)}, got {', '.join(settings)}: {error}"
        ) from error
