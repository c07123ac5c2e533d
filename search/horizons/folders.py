"""The run folder of a study of several horizons, and those of its horizons in it."""

from dataclasses import dataclass
from pathlib import Path

from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.horizons import horizon_label, horizon_text
from fathom.search.study.planning.horizons import horizon_of, horizon_studies
from fathom.search.study.preflight import load_folder


@dataclass(frozen=True, slots=True)
class HorizonFolder:
    """One horizon of a study, its study and its run folder, which may not be there yet."""

    horizon: float
    config: StudyConfig
    folder: RunFolder

    @property
    def label(self) -> str:
        """Short name of the horizon, such as `20` or `10M`."""
        return horizon_label(self.horizon)

    @property
    def text(self) -> str:
        """The horizon in words, such as `20 tokens per parameter`."""
        return horizon_text(self.horizon)

    @property
    def began(self) -> bool:
        """True once its search has begun."""
        return self.folder.config.exists()


def horizons_in(folder: RunFolder, config: StudyConfig) -> tuple[HorizonFolder, ...]:
    """Returns the horizons of a study with their folders, ascending; none if it has one only."""
    if not config.horizons:
        return ()
    return tuple(
        HorizonFolder(horizon_of(study), study, RunFolder(folder.path / study.study))
        for study in horizon_studies(config)
    )


def read_horizons(path: Path) -> tuple[HorizonFolder, ...]:
    """Returns the horizons of the study in a run folder; none if it has one only.

    Raises:
        RunFolderError: if it is not a run folder.
    """
    return horizons_in(*load_folder(path))


def chosen_folder(path: Path, horizon: str | None) -> Path:
    """Returns the run folder of one horizon of a study, or the folder itself if it has one only.

    Raises:
        ConfigError: if the study has no such horizon, or several and none is named.
    """
    if not path.is_dir() or not RunFolder(path).config.exists():
        return path
    found = read_horizons(path)
    if not found:
        if horizon is not None:
            raise ConfigError(f"{path} was searched at one horizon; drop --horizon {horizon}")
        return path
    labels = ", ".join(each.label for each in found)
    if horizon is None:
        raise ConfigError(f"{path} was searched at the horizons {labels}; choose one by --horizon")
    for each in found:
        if each.label.lower() == horizon.lower():
            if not each.began:
                raise RunFolderError(f"{path} has not begun its horizon {each.label} yet")
            return each.folder.path
    raise ConfigError(f"--horizon must be one of {labels} for {path}, got {horizon}")
