"""Whether a study can be run, before anything starts. Imports no framework: it says so at once."""

import os
from collections.abc import Set
from pathlib import Path

from fathom.objectives.user_objective import SEVERAL, is_own, judges_several
from fathom.search.run_folder import RunFolder, default_tracking_uri
from fathom.search.study.config import StudyConfig, load
from fathom.search.study.errors import ConfigError, PlanError, short
from fathom.search.study.plan import plan_study, this_machine, vocab_size_of
from fathom.search.study.store_uri import check_form, check_optuna
from fathom.search.study.types import Group

FREE_TO_CHANGE = {"resources", "tracking"}
"""Groups of a study file that may differ when a run is resumed: they can't change its answer."""


def refuse_unready(config: StudyConfig, runs: Path) -> None:
    """Look at all that can be looked at without a framework.

    Raises:
        ValueError: when the study can't be run.
    """
    refuse_another_study(config, RunFolder(runs / config.study))
    _refuse_one_by_one(config)
    plan_study(config, vocab_size_of(config), this_machine(config))
    tracking = config.tracking.uri or default_tracking_uri(runs)
    check_form(tracking)
    if config.tracking.optuna is not None:
        check_optuna(config.tracking.optuna, mlflow=tracking)


def _refuse_one_by_one(config: StudyConfig) -> None:
    """A user's own objective; of the others the study file itself says it."""
    name, replicas = config.objective.name, config.resources.replicas
    if replicas > 1 and is_own(name) and not judges_several(name):
        raise PlanError(
            f"`resources.replicas` must be 1 with objective {name}, which has not all of "
            f"{', '.join(SEVERAL)}, got {replicas}; drop it, or see objectives/contract.py",
            key="resources.replicas",
        )


def open_run(path: Path) -> tuple[RunFolder, StudyConfig]:
    """A run's folder and its study.

    Raises:
        ConfigError: when it is no run folder.
    """
    folder = RunFolder(path)
    refuse_foreign(folder)
    if not folder.config.exists():
        raise ConfigError(f"{path} is no run folder: it has no config.yaml; see `ls runs`")
    return folder, load(folder.config)


def refuse_foreign(folder: RunFolder) -> None:
    """What is not a file or folder of the run's own: a link, by which other files would be written
    or deleted; a folder in a file's place; a pipe, on which reading would wait for ever.

    Raises:
        ConfigError: names the first.
    """
    own = ("config", "records", "best", "report", "journal", "optuna")
    files = [*(getattr(folder, name) for name in own), folder.state / "lock"]
    folders = [folder.state, folder.state / "checkpoints", folder.figures, folder.path / "tables"]
    for path in (*files, *folders):
        wanted = path.is_file if path in files else path.is_dir
        if os.path.lexists(path) and (path.is_symlink() or not wanted()):
            kind = "file" if path in files else "folder"
            raise ConfigError(
                f"{path} must be a plain {kind} of the run itself, and is a link or something "
                "else; move it away (the run folder as a whole may be a link)"
            )


def refuse_another_study(config: StudyConfig, folder: RunFolder) -> None:
    """Trials of two different studies in one folder would be compared with each other."""
    refuse_foreign(folder)
    if not folder.config.exists():
        return
    difference = _difference(load(folder.config), config, free=FREE_TO_CHANGE)
    if difference:
        raise ConfigError(
            f"{folder.path} holds a study with another {difference}; "
            "give this one another `study` name, or remove that folder"
        )


def _difference(before: Group, now: Group, *, free: Set[str] = frozenset()) -> str:
    """The first key in which two groups differ, and both its values; empty where there is none."""
    for name in type(now).model_fields:
        old, new = getattr(before, name), getattr(now, name)
        if name in free or old == new:
            continue
        if isinstance(new, Group) and type(old) is type(new):
            within = _difference(old, new)
            return f"`{name}.{within[1:]}" if within else f"`{name}`"
        if isinstance(new, Group):
            return f"`{name}`"
        return f"`{name}` ({_shown(old)}, not {_shown(new)})"
    return ""


def _shown(value: object) -> str:
    return short(list(value) if isinstance(value, tuple) else getattr(value, "value", value))
