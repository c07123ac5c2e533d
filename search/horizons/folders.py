"""The run folder of a study of several horizons, and those of its horizons in it."""

from dataclasses import dataclass
from pathlib import Path

from fathom.search.run_folder import RunFolder
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
    """Returns the horizons of the study in a run folder; none if it has one only, or if there is no
    study."""
    if not RunFolder(path).config.exists():
        return ()
    return horizons_in(*load_folder(path))
