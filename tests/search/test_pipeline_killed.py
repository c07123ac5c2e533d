"""No trial is lost by Ctrl-C, SIGTERM, a full disk, or the death of a worker or of the search.

`python -m tests.drill` has the long form, with three hosts and more that can go wrong.
"""

import random
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from fathom.search.json_lines import read_lines
from fathom.search.run_folder import RunFolder, read_records
from tests.support.running import COMMAND, SearchProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1500)]

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
TOGETHER = 2
"""Trials that train at once, each with a step under way."""
ACTORS = ("ray::TrialActor", "ray::ResourceTrainable")
"""What Ray calls a process that trains, between two reports and before one."""
SAVED = "saved where they stood"
"""What a search says once it has waited for its trials."""
DISK, BALLAST = 140_000_000, 60_000_000
"""Bytes of a small disk, and what fills it up to less than a search keeps free."""


@dataclass(frozen=True)
class Ended:
    """The end of a search before its time."""

    status: int
    out: str
    err: str
    running: list[str]
    """MLflow's runs that seem to go on."""


class Search:
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
        self.runs.append(SearchProcess(self._place, "killed"))
        self.runs[-1].wait_until(lambda: self.steps() >= before + steps)
        return self.runs[-1]

    def finish(self) -> None:
        SearchProcess(self._place, "killed").finish()

    def end(self, run: SearchProcess) -> Ended:
        """Waits for the end of a run."""
        status, out, err = run.end()
        names = [name for name, status in self.mlflow() if status == "RUNNING"]
        return Ended(status, out, err, names)

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

    def answers(self) -> list[tuple[object, ...]]:
        """Every trial with its whole curve, without the clock."""
        return sorted(
            (
                record.spec.trial,
                str(record.spec.shape),
                str(record.outcome),
                *((point.step, point.loss, point.train_loss) for point in record.curve),
            )
            for record in read_records(self.folder.records)
        )

    def wait_until_alone(self) -> None:
        """Waits until no process of its runs is left, as Ray's end when they hear of its death."""
        children = [child for run in self.runs for child in run.children]
        wait_until(lambda: not psutil.wait_procs(children, 0)[1], f"{children} outlive a search")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """A search that nothing disturbs."""
    search = Search(tmp_path_factory.mktemp("calm") / "place")
    search.finish()
    return search


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


def assert_same(search: Search, calm: Search) -> None:
    """Checks that a search has every trial once, as the calm one has, in its files and MLflow."""
    assert search.answers() == calm.answers()
    assert set(search.ends().values()) == {1}, "no trial ended twice"
    assert Counter(name for name, _ in search.mlflow() if name) == search.ends()
    assert "RUNNING" not in {status for _, status in search.mlflow()}
    search.wait_until_alone()


def test_a_killed_worker_and_a_killed_search_cost_nothing_but_time(
    calm: Search, tmp_path: Path
) -> None:
    search = Search(tmp_path / "place")
    run = search.resumed(steps=60)
    workers(run)[0].kill()
    run.wait_until(lambda: search.ends())
    run.process.kill()
    run.end()
    search.wait_until_alone()
    assert search.ends().total() < calm.ends().total()

    run = search.resumed()
    asleep = workers(run)
    for worker in asleep:
        worker.suspend()  # so that none can save
    run.send_interrupt()
    run.wait_until_ending()
    run.send_interrupt()
    ended = search.end(run)
    for worker in asleep:
        if worker.is_running():
            worker.resume()
    assert_interrupted(ended)
    assert SAVED not in ended.out, "a second Ctrl-C does not wait for trials to save"

    search.finish()
    assert_same(search, calm)


def assert_interrupted(ended: Ended) -> None:
    """Checks the exit status of a search that was told to end, and the command that resumes it."""
    assert ended.status == 130
    assert ended.err.splitlines()[-1].strip() == f"fathom {' '.join(COMMAND)}"
    assert "Traceback" not in ended.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a small file system of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system can't be mounted here; it takes root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_ctrl_c_sigterm_or_a_full_disk_repeat_no_step_but_those_under_way(
    calm: Search, small_disk: Path
) -> None:
    search, moments = Search(small_disk), random.Random(5)
    run = search.resumed(steps=moments.randrange(1, 150))
    run.send_interrupt()
    assert_saved(search.end(run))

    run = search.resumed(steps=moments.randrange(1, 150))
    run.send(signal.SIGTERM)  # to every process of the job, twice, as Slurm and systemd send it
    run.wait_until_ending()
    run.send(signal.SIGTERM)
    assert_saved(search.end(run))

    run, ballast = search.resumed(steps=moments.randrange(1, 150)), small_disk / "ballast"
    ballast.write_bytes(bytes(BALLAST))
    paused = search.end(run)
    ballast.unlink()
    assert paused.status == 1
    assert "The disk is nearly full" in paused.out
    assert paused.err.splitlines()[-1].startswith("fathom: paused, as the disk has ")
    assert "free some, then run the same command again" in paused.err.splitlines()[-1]
    assert "Traceback" not in paused.out + paused.err

    assert search.steps() < calm.steps(), "it was told to end before it had"
    search.finish()
    assert_same(search, calm)
    assert search.steps() - calm.steps() <= len(search.runs) * TOGETHER


def assert_saved(ended: Ended) -> None:
    """Checks that a search has saved all and printed its results so far."""
    assert_interrupted(ended)
    assert "Ending: trials under way save where they stand" in ended.out
    assert re.search(rf"[0-2] {SAVED}", ended.out)
    assert "best depth" in ended.out, "the answers so far"
    assert ended.running == []
