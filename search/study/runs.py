"""The runs of a study: one, or one for each of its horizons in the folder of the whole study."""

from dataclasses import dataclass
from pathlib import Path

from fathom.search.record_json import check_controls
from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import horizon_name, horizon_studies, is_horizon


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One search: of a whole study, or of a study at one of its horizons."""

    folder: RunFolder
    """The run folder, which is not there before the search has begun."""
    config: StudyConfig
    """The study at the one horizon."""

    @property
    def horizon(self) -> str | None:
        """Short name among several horizons, such as `20` or `10M`; None with one."""
        return horizon_name(self.config)

    @property
    def began(self) -> bool:
        """True once its search has begun."""
        return self.folder.config.exists()


def runs_in(folder: RunFolder, config: StudyConfig) -> tuple[StudyRun, ...]:
    """Returns the runs that a study has or will have in its run folder, by ascending horizon."""
    if not config.horizons:
        return (StudyRun(folder, config),)
    return tuple(
        StudyRun(RunFolder(folder.path / study.study), study) for study in horizon_studies(config)
    )


def kept_runs(folder: RunFolder, config: StudyConfig) -> tuple[StudyRun, ...]:
    """Returns the runs of a study in its run folder, by ascending horizon; runs that have begun
    come with their own study files.

    Raises:
        RunFolderError: if the folder of a horizon is damaged.
    """
    runs = runs_in(folder, config)
    return tuple(
        StudyRun(*load_folder(run.folder.path)) if config.horizons and run.began else run
        for run in runs
    )


def runs_of(path: Path) -> tuple[StudyRun, ...]:
    """Returns the runs of the run folder at a path, by ascending horizon.

    Raises:
        RunFolderError: if it is not a run folder.
    """
    return kept_runs(*load_folder(path))


def one_run(path: Path, horizon: str | None = None) -> StudyRun:
    """Returns the only run of a run folder, or its run at a horizon.

    Raises:
        RunFolderError: if it is not a run folder, has several runs and no horizon is named, has no
            such horizon, or has not begun to search it.
    """
    runs = runs_of(path)
    known = ", ".join(run.horizon for run in runs if run.horizon)
    if horizon is None and len(runs) > 1:
        raise RunFolderError(
            f"{path} was searched at the horizons {known}; choose one with --horizon (in Python "
            "`horizon=`)"
        )
    if horizon is not None and not known:
        raise RunFolderError(f"{path} was searched at one horizon only; drop --horizon {horizon}")
    chosen = [run for run in runs if horizon is None or is_horizon(horizon, run.horizon)]
    if not chosen:
        raise RunFolderError(f"{path} has no horizon {horizon}; it was searched at {known}")
    [run] = chosen
    if not run.began:
        raise RunFolderError(
            f"the search of {path} at the horizon {run.horizon} has not begun; "
            f"`{run.folder.resume_command}` begins it"
        )
    return run


def load_folder(path: Path) -> tuple[RunFolder, StudyConfig]:
    """Returns the run folder at a path, and its study, of one horizon or of several.

    Raises:
        RunFolderError: if it is not a run folder.
    """
    folder = RunFolder(path)
    folder.check_files()
    folder.check_config()
    if not folder.config.exists():
        raise RunFolderError(f"{path} is not a run folder: it has no config.yaml; see `ls runs`")
    config = load(folder.config)
    try:
        check_controls(config.model_dump(mode="json"))
    except ValueError as error:
        raise RunFolderError(f"{folder.config}: {error}; write them differently") from error
    return folder, config
