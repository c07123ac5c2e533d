"""A search in processes of its own that is begun, killed or stopped, and resumed in one folder."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from mlflow import MlflowClient

from fathom.search.json_lines import read_lines
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder
from tests.support.running import SearchProcess
from tests.support.waiting import wait_until
from tests.support.whole_records import differences, whole_records

STUDY = """
study: killed
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS, seconds: 0.02}
budgets: [4k]
tokens: 4800
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 2, seeds: 1, rates: [1]}
train: {batch_size: 4, evaluations: 5}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2}
"""
ACTORS = ("ray::TrialActor", "ray::ResourceTrainable")
"""What Ray calls a process that trains, between two reports and before one."""


@dataclass(frozen=True)
class Ended:
    """The end of a search before its time."""

    status: int
    out: str
    err: str


class KilledSearch:
    """A search, begun and resumed again and again in one folder."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self._place, self._steps = place, place / "steps"
        self.folder = RunFolder(place / "runs" / "killed")
        self.runs: list[SearchProcess] = []
        (place / "study.yaml").write_text(STUDY.replace("STEPS", str(self._steps)))

    def resumed(self, steps: int = 1) -> SearchProcess:
        """Begins or resumes the search; returns it once it has begun so many further steps."""
        before = self.steps()
        run = self.begun()
        run.wait_until(lambda: self.steps() >= before + steps)
        return run

    def begun(self) -> SearchProcess:
        """Begins or resumes the search; returns it at once."""
        self.runs.append(SearchProcess(self._place, "killed"))
        return self.runs[-1]

    def finish(self) -> None:
        SearchProcess(self._place, "killed").finish()

    def end(self, run: SearchProcess) -> Ended:
        """Waits for the end of a run."""
        return Ended(*run.end())

    def mlflow(self) -> list[tuple[str, str]]:
        """Trial and status of each of MLflow's runs of trials."""
        client = MlflowClient(f"sqlite:///{self.folder.path.parent / 'mlflow.db'}")
        experiment = client.get_experiment_by_name("killed")
        assert experiment
        runs = client.search_runs([experiment.experiment_id])
        return [(run.data.tags.get("trial", ""), run.info.status) for run in runs]

    def steps(self) -> int:
        """Number of steps that were begun so far."""
        return self._steps.stat().st_size if self._steps.exists() else 0

    def ends(self) -> Counter[str]:
        """Trial -> how often it has ended."""
        return Counter(line["trial"] for line in read_lines(self.folder.records))

    def answers(self) -> dict[str, TrialRecord]:
        """Every trial with its whole record, without the clock."""
        return whole_records(self.folder)

    def wait_until_alone(self) -> None:
        """Waits until no process of its runs is left, as Ray's end when they hear of its death."""
        children = [child for run in self.runs for child in run.children]
        wait_until(lambda: not psutil.wait_procs(children, 0)[1], f"{children} outlive a search")


def workers(run: SearchProcess) -> list[psutil.Process]:
    """Processes of a run that train."""
    found: list[psutil.Process] = []

    def look() -> bool:
        for child in psutil.Process(run.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if " ".join(child.cmdline()).startswith(ACTORS):
                    found.append(child)
        return bool(found)

    run.wait_until(look)
    return found


def assert_same(search: KilledSearch, calm: KilledSearch) -> None:
    """Checks that a search has every trial once, as the calm one has, in its files and MLflow."""
    assert not (found := differences(search.answers(), calm.answers())), found
    assert set(search.ends().values()) == {1}, "no trial ended twice"
    assert Counter(name for name, _ in search.mlflow() if name) == search.ends()
    assert "RUNNING" not in {status for _, status in search.mlflow()}
    search.wait_until_alone()
