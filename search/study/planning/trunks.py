"""Trunks: states of trainings before their cool-down, from which those of longer horizons continue.

With warm-up, constant rate and cool-down, trainings of one shape, seed, rate and decay are the same
at every horizon until the cool-down of the shortest begins.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from fathom.objectives.files import digest_of
from fathom.search.record_json import to_values
from fathom.search.records import TrialSpec
from fathom.search.run_folder import RunFolder
from fathom.search.study.fingerprint import FREE_TO_CHANGE
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import horizon_of, unshared_reason

BY_HORIZON = {"study", "tokens", "tokens_per_parameter"}
"""Keys in which the studies of a study's horizons differ."""


@dataclass(frozen=True, slots=True)
class Trunks:
    """The trunks of a study's horizons, as files in one folder."""

    folder: Path
    family: str
    """Digest of the data and of the settings that all horizons share."""
    is_longest: bool
    """True for the longest horizon, after which no training needs a trunk."""

    def path(self, spec: TrialSpec) -> Path:
        """The file of the trunk that a trial may begin with; its name tells every setting by which
        trials differ."""
        what = (spec.budget, to_values(spec.shape), spec.seed, *spec.scale)
        return self.folder / f"{digest_of((self.family, json.dumps(what)))[:32]}.pt"

    def end(self, spec: TrialSpec) -> None:
        """Deletes the trunk of a trial that has ended, if no longer horizon follows."""
        if self.is_longest:
            self.path(spec).unlink(missing_ok=True)


def trunks_of(config: StudyConfig, folder: RunFolder, data: str) -> Trunks | None:
    """The trunks that a search in a folder may begin with, on data of this digest; None if the
    study is not searched at several horizons, or if their trainings share nothing."""
    parent = RunFolder(folder.path.parent)
    if not config.horizon_of or unshared_reason(config) or not parent.is_run:
        return None
    settings = config.model_dump(mode="json", exclude=FREE_TO_CHANGE | BY_HORIZON)
    return Trunks(
        folder=parent.trunks.absolute(),
        family=digest_of((json.dumps(settings), data)),
        is_longest=horizon_of(config) == config.horizon_of[-1],
    )
