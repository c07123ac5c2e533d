"""A sampler of Optuna's that a study names by its import path; making one runs its module's code.

Optuna itself is not imported here, so that planning stays quick.
"""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from fathom.objectives.errors import nearest
from fathom.objectives.keys import short
from fathom.objectives.user_code import NOT_OF_USERS, UserCodeError, named, one_line
from fathom.search.study.file.errors import PlanError

METHODS = ("infer_relative_search_space", "sample_relative", "sample_independent")
"""Methods of every sampler of Optuna's."""


def has_seed(place: str | None) -> bool:
    """True if the sampler of an import path takes a seed, so that its study can be repeated; also
    for None, which means Fathom's own sampler.

    Raises:
        PlanError: if there is no such sampler.
    """
    return not place or "seed" in _arguments(_class(place))


def make_sampler(place: str, options: Mapping[str, Any], seed: int) -> Any:
    """A new sampler of the class of an import path, with its options, and the seed if it takes one.

    Raises:
        PlanError: if there is no such class, or its constructor refuses the options.
    """
    found = _class(place)
    seeded = {"seed": seed} if "seed" in _arguments(found) else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is experimental is for its chooser to know
            return found(**{**options, **seeded})
    except ImportError as error:
        raise PlanError(
            f"sampler {place} needs a package that is not there, got {one_line(error)}; install it",
            key="sampler",
        ) from error
    except NOT_OF_USERS:
        raise
    except BaseException as error:
        raise PlanError(
            f"`sampler_options` must be what {place} takes, {', '.join(_arguments(found))}, got "
            f"{short(options)}: {one_line(error)}; correct them",
            key="sampler_options",
        ) from error


def _class(place: str) -> Any:
    """The class of an import path."""
    module_name, _, name = place.rpartition(".")
    try:
        module, found = named(f"{module_name}:{name}", "sampler")
    except UserCodeError as error:
        raise PlanError(str(error), key="sampler") from error
    if not inspect.isclass(found) or not all(hasattr(found, method) for method in METHODS):
        names = [key for key, value in vars(module).items() if hasattr(value, METHODS[0])]
        remedy = nearest(name, names, otherwise="correct its name")
        raise PlanError(
            f"sampler {place} must be a class derived from `optuna.samplers.BaseSampler`, but "
            f"{module_name} has {'another thing' if found else 'nothing'} by that name; {remedy}",
            key="sampler",
        )
    return found


def _arguments(found: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(found).parameters)
