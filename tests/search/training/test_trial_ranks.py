"""A trial in two processes is saved and interrupted by both at one step, and resumes from it."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.distributed

from benchmarks.gpu.processes import in_processes
from fathom.objectives.contract import Batch
from fathom.search.run_folder import ENDING
from fathom.search.training.assignment import Assignment
from fathom.search.training.layer_metrics import SEED as DIAGNOSTICS_SEED
from fathom.search.training.ranks.data_parallel import Ranks
from fathom.search.training.saving import trial_log
from fathom.search.training.trial import RunningTrial
from tests.support.toy import CPU, Successor
from tests.support.training import BUDGET, CONFIG, SPEC, losses_reported

RANKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(Successor):
    """The search is interrupted, or the clock says that it is time to save, within a step."""

    folder: Path
    at_step: int
    how: str

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        if step == self.at_step and seed != DIAGNOSTICS_SEED:
            if self.how == "interrupt":
                (self.folder / ENDING).touch()
            else:
                trial_log.CHECKPOINT_SECONDS = 0.0
        if step == self.at_step + 3 and self.how == "kill":
            raise ConnectionError("the machine is gone")
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)


def _process(rank: int, folder: Path, how: str, at_step: int) -> None:
    trial_log.AGREE_SECONDS = trial_log.INTERRUPT_POLL_SECONDS = 0.0
    objective = Interrupted(folder=folder, at_step=at_step, how=how)
    given = Assignment(CONFIG, BUDGET, SPEC, str(folder / f"{SPEC.trial}.pt"))
    trial = RunningTrial(given, objective, CPU, ranks=Ranks(rank, RANKS))
    if rank:
        trial.train_with_leader()
    else:
        for report in trial.reports():
            torch.save(losses_reported(report), folder / "losses.pt")
            if report.saved and (folder / ENDING).exists():
                trial.stop_other_ranks()
                break


def train(folder: Path, meeting: str, how: str = "", at_step: int = -1) -> list[object]:
    """Trains the trial in two processes; returns the losses of its last report."""
    folder.mkdir(exist_ok=True)
    try:
        in_processes(_process, folder, how, at_step, size=RANKS, meeting=folder / meeting)
    except Exception:
        if how != "kill":
            raise
    (folder / ENDING).unlink(missing_ok=True)
    reported: list[object] = torch.load(folder / "losses.pt")
    return reported


def step_saved(folder: Path) -> int:
    state = torch.load(folder / f"{SPEC.trial}.pt", weights_only=True)
    step: int = state["training"]["step"]
    return step


@pytest.mark.drill
def test_two_processes_save_at_any_step_and_resume_to_the_same_losses(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", "first")
    for how, at_step in (("interrupt", 30), ("kill", 50)):
        cut = train(tmp_path / how, "first", how, at_step)
        assert step_saved(tmp_path / how) in range(at_step + 1, at_step + 4)
        assert len(cut) < len(whole)
        assert train(tmp_path / how, "second") == whole
