"""`fathom run` in this process, its trials one after another: without Ray, MLflow or a report."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from rich.console import Console

from fathom.objectives.contract import Objective
from fathom.search import pipeline
from fathom.search.report.terminal.steps import Steps
from fathom.search.run_folder import RunFolder, locked
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import load
from fathom.search.study.preflight import check_ready
from fathom.search.tracking.writing import publishing
from fathom.search.training.saving.trial_log import ReportSchedule
from tests.support.in_process import search_in_process
from tests.support.toy import CPU


class Stop:
    """An interrupt of the search at the n-th look of its trials for one, after which they save."""

    def __init__(self, look: int) -> None:
        self._look, self.looks = look, 0

    def interrupted(self) -> bool:
        """Counts a look; True from the n-th on."""
        self.looks += 1
        return self.came()

    def came(self) -> bool:
        """True once the n-th look was taken."""
        return self.looks >= self._look


def run_alone(study: Path, runs: Path, stop: Stop | None = None) -> RunFolder:
    """Begins or resumes the search of a study file; returns its run folder.

    Raises:
        KeyboardInterrupt: at the interrupt `stop`; the trial under way has saved.
    """
    ready = check_ready(load(study), runs)
    with alone(stop) as steps, locked(ready.folder):
        pipeline.run_study(ready, steps)
    return ready.folder


@contextmanager
def alone(stop: Stop | None = None) -> Iterator[Steps]:
    """Context in which searches run in this process, up to the interrupt `stop`."""
    stop = stop or Stop(10**9)

    def trials(scheduler: Scheduler, objective: Objective, *_: Any) -> None:
        search_in_process(scheduler, objective.to(CPU), stop.came)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "run_trials", trials)
        patch.setattr(pipeline, "start_ray", lambda *_: None)
        patch.setattr(pipeline, "settled_resources", lambda config, *_: config.resources)
        patch.setattr(pipeline, "Tracker", MagicMock())
        patch.setattr(publishing, "write_report", lambda *_: None)
        patch.setattr(ReportSchedule, "interrupted", lambda _: stop.interrupted())
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as a worker does
        try:
            with Steps(Console(file=io.StringIO())) as steps:
                yield steps
        finally:
            torch.set_num_threads(threads)
