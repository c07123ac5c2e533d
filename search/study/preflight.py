"""Checks that a study can be run, before anything starts; imports no framework, to be quick."""

import os
import shlex
import time
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from fathom.objectives.keys import Group, short
from fathom.search.run_folder import (
    RunFolder,
    RunFolderError,
    default_tracking_uri,
    is_lost,
    is_named_store,
)
from fathom.search.study.file.errors import ConfigError, PlanError
from fathom.search.study.file.study_file import changed, load
from fathom.search.study.fingerprint import FREE_TO_CHANGE
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.command import check_program, own_parser
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import TrackingConfig, TrainConfig
from fathom.search.study.planning.plan import BudgetPlan, plan_study, vocab_size_of
from fathom.search.study.planning.space.shape_counter import try_own_model
from fathom.search.study.planning.space.shape_space import ShapeLimits
from fathom.search.study.runs import StudyRun, runs_in
from fathom.search.study.store_uri import (
    check_store,
    is_new_file,
    to_keep,
    without_credentials,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of a run's stores, including passwords."""

    mlflow: str
    is_named: bool
    """True if the user named MLflow's store, by the study or the environment."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The cap on the cost of a study's trials, and the price of an hour of a device: a GPU or,
    where trials have no GPU, a core."""

    cost: float
    price: float

    def of(self, device_seconds: float) -> float:
        """Cost of `device_seconds` seconds of a device."""
        return device_seconds / 3600 * self.price

    def after(self, device_seconds: float) -> "Cap":
        """The cap that is left after `device_seconds` seconds of a device."""
        return Cap(max(0.0, self.cost - self.of(device_seconds)), self.price)


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A run that has passed every check that needs no framework, with its plan."""

    config: StudyConfig
    """The study at one horizon, without passwords."""
    runs: Path
    """The folder of run folders."""
    addresses: Addresses
    plans: tuple[BudgetPlan, ...]
    """Plan of each budget, by ascending size."""
    began: float = field(default_factory=time.time)
    """Unix time of the checks, at which the run begins."""
    began_monotonic: float = field(default_factory=time.monotonic)
    """Time of the checks by the monotonic clock, which nobody sets; the hours of the run count from
    it."""
    max_hours: float | None = None
    """Hours after which the search ends, those of earlier runs included; None without a limit."""
    cap: Cap | None = None
    """Most that trials may cost, those of earlier runs included; None without a limit."""
    trust: bool = False
    """True if the user trusts the code and the stores that are named in the run folder and in the
    store beside it."""

    @property
    def folder(self) -> RunFolder:
        """The run folder of the study."""
        return RunFolder(self.runs / self.config.study)

    @property
    def has_report(self) -> bool:
        """True if an earlier run has written its report: most likely nothing is left to train."""
        return self.folder.report.exists()


@dataclass(frozen=True, slots=True)
class ReadyStudy:
    """A study whose runs have passed every check that needs no framework."""

    config: StudyConfig
    """The study without passwords."""
    folder: RunFolder
    """The run folder of the study, which holds those of its horizons if there are several."""
    runs: tuple[ReadyRun, ...]
    """Runs of the study, by ascending horizon."""
    max_hours: float | None = None
    """Hours after which the search ends, those of all runs together; None without a limit."""
    cap: Cap | None = None
    """Most that the trials of all runs together may cost; None without a limit."""


def check_ready(config: StudyConfig, runs: Path, *, trust: bool = False) -> ReadyStudy:
    """Returns the study with its plans after every check that needs no framework, except the check
    of a user's own model; `trust` allows code and stores that the run folder and the store beside
    it name.

    Raises:
        ValueError: if the study can't be run.
    """
    folder = RunFolder(runs / config.study)
    inside = runs_in(folder, config)
    for place, study in {folder: config, **{run.folder: run.config for run in inside}}.items():
        check_same_study(study, place)
    return ReadyStudy(
        without_passwords(config), folder, tuple(_ready(run, runs, trust=trust) for run in inside)
    )


def _ready(run: StudyRun, shared: Path, *, trust: bool) -> ReadyRun:
    """Returns a run with its plan after its checks; `shared` is the folder of MLflow's store."""
    config, runs = run.config, run.folder.path.parent
    _check_writable(runs)
    check_trainer(config.train)
    vocab_size = vocab_size_of(config.objective)
    plans = plan_study(config, vocab_size, this_machine(config.resources, config.train))
    try_own_model(config, ShapeLimits.of(config, vocab_size).smallest())
    addresses = _addresses(config.tracking, shared)
    return ReadyRun(without_passwords(config), runs, addresses, plans, trust=trust)


def check_trainer(train: TrainConfig) -> None:
    """Checks that the program of `train.command` and the function of `train.parser` are there.

    Raises:
        PlanError: if one of them is not.
    """
    if train.command:
        check_program(train.command)
    if train.parser:
        own_parser(train.parser)


def _addresses(tracking: TrackingConfig, runs: Path) -> Addresses:
    """Returns the addresses of the stores of a run in the folder `runs`, once they are checked."""
    addresses = Addresses(
        mlflow=tracking.uri or default_tracking_uri(runs),
        is_named=is_named_store(tracking.uri),
    )
    if addresses.is_named or is_new_file(addresses.mlflow):  # another is a copy, of no importance
        check_store(addresses.mlflow)
    return addresses


def without_passwords(config: StudyConfig) -> StudyConfig:
    """Returns the study without the passwords in its addresses of stores."""
    uri = config.tracking.uri
    return changed(config, {"tracking.uri": uri and to_keep(uri)})


def _check_writable(runs: Path) -> None:
    """Raises `RunFolderError` if no run folder can be made in this folder, which may be new."""
    there = next(place for place in (runs, *runs.absolute().parents) if os.path.lexists(place))
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise RunFolderError(
            f"`--runs` must be a folder that can be written to, got {runs}; make {there} writable, "
            "or choose another folder"
        )
    for place in (runs.absolute(), Path.cwd()):
        if any("\udc80" <= letter <= "\udcff" for letter in str(place)):  # Ray can't send it
            raise RunFolderError(
                f"`--runs` and the working folder must have names in UTF-8, got {str(place)!r}; "
                "rename the folder"
            )


def check_trusted(config: StudyConfig, file: Path, *, trust: bool) -> None:
    """Checks that the user allows running the code that a run folder or an answer names.

    Such a file may be another person's; a study file that the user writes is trusted.

    Raises:
        ConfigError: if the file names a class, a function or a command, and `trust` is not
            given.
    """
    named = [*config.own_code]
    if config.own_sampler:
        named.append(config.own_sampler)
    if config.train.command:
        named.append(shlex.join(config.train.command))
    if named and not trust:
        raise ConfigError(
            f"{file} names code, {' and '.join(named)}, which would be run; read it, and "
            "add --trust (in Python `trust=True`) if it is yours or you trust its author"
        )


def check_own_loop(config: StudyConfig) -> None:
    """Checks that Fathom's own loop trains the shapes, since `fathom check` tries rates with it.

    Raises:
        PlanError: if `train.command` trains them.
    """
    if config.train.command:
        raise PlanError(
            "`fathom check` trains by Fathom's own loop, but this study has a `train.command`; use "
            f"`fathom run`, which tries `confirm.rates`, {short(list(config.confirm.rates))}",
            key="train.command",
        )


def check_kept_study(file: Path) -> None:
    """Raises `RunFolderError` if `file` is the `config.yaml` of a run folder and is lost."""
    folder = RunFolder(file.parent)
    if file == folder.config:
        folder.check_files()
        folder.check_config()


def check_trusted_study(config: StudyConfig, file: Path, *, trust: bool) -> None:
    """Checks that the user trusts the code of a study and, if its file is in a run folder, its
    store.

    Raises:
        ConfigError: if such a file names code or a store, and `trust` is not given.
    """
    if trust or not any(map(_is_of_run, {file.absolute(), file.resolve()})):
        return
    check_trusted(config, file, trust=False)
    if uri := config.tracking.uri:
        raise ConfigError(
            f"{file} names {without_credentials(uri)} as `tracking.uri`, to which this would "
            "connect, with the passwords of the environment; add --trust (in Python `trust=True`) "
            "if it is yours, or `--set tracking.uri=null` to go without"
        )


def _is_of_run(file: Path) -> bool:
    """True for a study file in a run folder, or one that a report wrote among MLflow's artifacts:
    both may be another person's."""
    folder = RunFolder(file.parent)
    is_config = file.name == folder.config.name
    kept = [folder.records, folder.fingerprint, folder.journal]
    if is_config:
        kept += [folder.state, folder.best, folder.report, folder.card]
    return any(map(os.path.lexists, kept)) or (is_config and file.parent.name == "artifacts")


def check_same_study(config: StudyConfig, folder: RunFolder) -> None:
    """Checks that a run folder is new or holds the same study, as trials of two studies can't be
    compared.

    Raises:
        RunFolderError: if it holds another study, or files that are not plain files.
    """
    folder.check_files()
    if is_lost(folder.config):
        return  # a search that has begun knows its settings by their fingerprint
    difference = _difference(load(folder.config), config, free=FREE_TO_CHANGE)
    if difference:
        raise RunFolderError(
            f"{folder.path} holds a study with another {difference}; "
            "give this one another `study` name, or remove that folder"
        )


def _difference(before: Group, now: Group, *, free: Set[str] = frozenset()) -> str:
    """The first key that differs between two groups, with both values; empty if none does."""
    for name in type(now).model_fields:
        old, new = getattr(before, name), getattr(now, name)
        if name in free or old == new:
            continue
        if isinstance(new, Group):
            within = _difference(old, new) if type(old) is type(new) else ""
            return f"`{name}.{within[1:]}" if within else f"`{name}`"
        return f"`{name}` ({_shown(old)}, not {_shown(new)})"
    return ""


def _shown(value: object) -> str:
    return short(list(value) if isinstance(value, tuple) else getattr(value, "value", value))
