"""A run that is opened: what is read and worked out once, before a study is searched."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from fathom.objectives.contract import Objective, content_digest_of, data_digest_of
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.journal import Past, read_past
from fathom.search.study.fingerprint import (
    Fingerprint,
    fingerprint_of,
    keep_content,
    place_of,
    settled_fingerprint,
)
from fathom.search.study.keys.config import StudyConfig, dump
from fathom.search.study.own_records import record_check
from fathom.search.study.planning.plan import BudgetPlan
from fathom.search.study.preflight import ReadyStudy, without_passwords
from fathom.search.tracking.dataset import DataSet, data_set
from fathom.search.tracking.messages import TrackedStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A study and what its run folder holds, ready to be searched."""

    config: StudyConfig
    """The study without passwords: it goes to files and to other machines."""
    folder: RunFolder
    plans: tuple[BudgetPlan, ...]
    """Plan of each budget, with its shapes, by ascending size."""
    tracked: TrackedStudy
    """The study as MLflow's follower is told of it, with the address and its password."""
    data: DataSet
    """Description of the data for MLflow."""
    fingerprint: Fingerprint
    """Digests of the study and its data, those of the first start."""
    past: Past
    """What earlier runs on the folder recorded."""
    began: float
    """Unix time at which the run began."""
    max_hours: float | None
    """Hours after which the search ends, those of earlier runs included; None without a limit."""


def open_run(ready: ReadyStudy, objective: Objective) -> OpenRun:
    """Returns the run of a checked study on its data.

    Raises:
        RunFolderError: if the folder's trials were trained on other data.
        DamagedFileError: if the folder holds records that can't be read or are of another study.
    """
    config, folder = ready.config, ready.folder
    place, digest = place_of(config.objective), data_digest_of(objective)
    fingerprint = settled_fingerprint(
        folder,
        fingerprint_of(config, digest),
        place,
        lambda: content_digest_of(objective, lambda: False),
    )
    check = record_check(config, [plan.budget for plan in ready.plans], fingerprint.study)
    return OpenRun(
        config=config,
        folder=folder,
        plans=ready.plans,
        tracked=tracked_study(config, folder, ready.addresses.mlflow, searching=True),
        data=data_set(objective, config.objective, place, digest),
        fingerprint=fingerprint,
        past=read_past(folder, check),
        began=ready.began,
        max_hours=ready.max_hours,
    )


def tracked_study(
    config: StudyConfig, folder: RunFolder, uri: str, *, searching: bool = False
) -> TrackedStudy:
    """Returns the first message to MLflow's follower, with a study file without passwords."""
    return TrackedStudy(
        uri=uri,
        study=config.study,
        folder=folder.path,
        config_text=dump(without_passwords(config)),
        searching=searching,
    )


@contextmanager
def content_read(
    folder: RunFolder, place: str, fingerprint: Fingerprint, objective: Objective | None
) -> Iterator[Callable[[], None]]:
    """Context in which every byte of the data is read in the background.

    Its value waits for their digest when it is called, and writes it into the folder or checks it;
    it raises `RunFolderError` if the data have changed. Without an objective nothing is read.
    """
    left = Event()
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(content_digest_of, objective, left.is_set)

        def keep() -> None:
            if content := digest.result():
                keep_content(folder, place, fingerprint, content)

        try:
            yield keep
        finally:
            left.set()
