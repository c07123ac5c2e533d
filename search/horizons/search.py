"""Searches a study at several horizons, one after another, in one session of Ray."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fathom.objectives.contract import Objective
from fathom.objectives.prepare import prepare
from fathom.search.cluster.cost_limit import spent_device_seconds
from fathom.search.cluster.early_end import spent_seconds
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.horizons.answers import answers_from, publish_answers
from fathom.search.horizons.folders import HorizonFolder, horizons_in
from fathom.search.pipeline import run_study
from fathom.search.report.terminal.steps import Steps
from fathom.search.run_folder import RunFolder, locked, token_cache, write_atomically
from fathom.search.scheduling.sampler import check_sampler
from fathom.search.study.keys.config import StudyConfig, dump
from fathom.search.study.preflight import (
    Cap,
    ReadyStudy,
    check_ready,
    check_same_study,
    without_passwords,
)
from fathom.search.tracking.publishing import RunResult


@dataclass(frozen=True, slots=True)
class ReadyHorizons:
    """A study of several horizons, each of which has passed every check."""

    config: StudyConfig
    """The study without passwords."""
    folder: RunFolder
    studies: tuple[ReadyStudy, ...]
    """The study of each horizon, ascending."""

    @property
    def horizons(self) -> tuple[HorizonFolder, ...]:
        """The horizons with their run folders."""
        return horizons_in(self.folder, self.config)


def check_horizons_ready(config: StudyConfig, runs: Path, *, trust: bool) -> ReadyHorizons:
    """Returns a study of several horizons after every check of each that needs no framework.

    Raises:
        ValueError: if one of them can't be run.
    """
    folder = RunFolder(runs / config.study)
    check_same_study(config, folder)
    check_sampler(config)
    studies = tuple(
        replace(check_ready(each.config, folder.path, shared=runs), trust=trust)
        for each in horizons_in(folder, config)
    )
    return ReadyHorizons(without_passwords(config), folder, studies)


def search_horizons(
    ready: ReadyHorizons,
    steps: Steps,
    *,
    extended: bool = False,
    max_hours: float | None = None,
    cap: Cap | None = None,
) -> Iterator[RunResult]:
    """Searches each horizon, yields its result and writes the answers so far; ends with the first
    horizon that `max_hours` or the `cap` of costs, both of all horizons together, has cut short.
    The caller holds the lock of the study's folder.

    Raises:
        ValueError: before any trial of a horizon starts, if it can't be run.
        OSError: when the disk is full; what was trained is saved, as far as there was room.
    """
    folder, config = ready.folder, ready.config
    steps.begin("reading the data")
    objective = prepare(config.objective, token_cache(folder.path.parent))
    write_atomically(folder.config, dump(config))
    found = list[tuple[HorizonFolder, Conclusion]]()
    for each, study in zip(ready.horizons, ready.studies, strict=True):
        others = [other.folder for other in ready.horizons if other.label != each.label]
        hours = max_hours and max(0.0, max_hours - sum(map(spent_seconds, others)) / 3600)
        left = cap and cap.after(sum(map(spent_device_seconds, others)))
        limited = replace(study, max_hours=hours, cap=left)
        result = _search_one(each, limited, objective, steps, extended)
        found.append((each, result.conclusion))
        publish_answers(answers_from(folder, config, found))
        yield result
        if result.conclusion.unfinished:
            return


def _search_one(
    horizon: HorizonFolder, study: ReadyStudy, objective: Objective, steps: Steps, extended: bool
) -> RunResult:
    with ExitStack() as held:
        held.enter_context(locked(horizon.folder))
        steps.end()
        steps.console.print(f"\nHorizon of {horizon.text}", style="bold", highlight=False)
        return run_study(study, steps, objective=objective, extended=extended)
