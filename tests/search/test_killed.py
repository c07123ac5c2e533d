"""Nothing is lost when a worker or the whole search is killed: the drill's short form, on one host.

`python -m benchmarks.drill` has the long one, with three hosts and more that can go wrong.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from search.folder import RunFolder
from search.record_file import read_lines, read_records

STUDY = """
study: killed
objective: {name: language, context: 32, eval_tokens: 2k}
budgets: [8k, 12k]
count: non_embedding
tokens: 120k
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 2, seeds: 1, rates: [1]}
train: {batch_size: 16, evaluations: 8}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2}
"""
TRIALS = 2 * (3 + 2)
ACTORS = ("ray::TrialActor", "ray::ResourceTrainable")
"""What Ray calls a process that trains, between two reports and before one."""
LONGEST_SECONDS = 150.0


class Search:
    """`fathom run` in a process of its own."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        (place / "study.yaml").write_text(STUDY)
        self.folder = RunFolder(place / "runs" / "killed")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "search", "run", "study.yaml"],
            cwd=place,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children: list[psutil.Process] = []

    def wait_until(self, happened: Callable[[], object]) -> None:
        end = time.monotonic() + LONGEST_SECONDS
        while not happened():
            assert self.process.poll() is None, "the search has ended before"
            assert time.monotonic() < end
            time.sleep(0.05)
        self.children = psutil.Process(self.process.pid).children(recursive=True)

    def reports(self) -> int:
        return sum(line["event"] == "report" for line in read_lines(self.folder.journal))

    def ended(self) -> int:
        return len(list(read_lines(self.folder.records)))

    def finish(self) -> None:
        _, said = self.process.communicate(timeout=LONGEST_SECONDS)
        assert self.process.returncode == 0, said

    def kill_a_worker(self) -> None:
        titles = {one: " ".join(one.cmdline()) for one in self.children if one.is_running()}
        workers = [one for one, title in titles.items() if title.startswith(ACTORS)]
        workers[0].kill()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[RunFolder]:
    """The folder of a search that was killed twice, a worker of it and the whole, and went on."""
    first = Search(tmp_path / "killed")
    first.wait_until(lambda: first.reports() > 0)
    first.kill_a_worker()
    ended = first.ended()
    first.wait_until(lambda: first.ended() > ended + 1)
    first.kill()
    assert first.ended() < TRIALS
    orphans = psutil.wait_procs(first.children, timeout=60)[1]
    again = Search(tmp_path / "killed")
    again.finish()
    yield again.folder
    assert not [one for one in orphans if one.is_running()], "Ray outlives a killed search"


@pytest.mark.timeout(500)
def test_a_killed_worker_and_a_killed_search_cost_nothing_but_time(
    killed: RunFolder, tmp_path: Path
) -> None:
    calm = Search(tmp_path / "calm")
    calm.finish()
    assert table(killed) == table(calm.folder)
    assert len(table(killed)) == TRIALS
    lines = Counter(line["trial"] for line in read_lines(killed.records))
    assert set(lines.values()) == {1}, "no trial ended twice"

    client = MlflowClient(f"sqlite:///{killed.path.parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("killed")
    assert experiment
    runs = client.search_runs([experiment.experiment_id])
    assert Counter(run.data.tags["trial"] for run in runs if "trial" in run.data.tags) == lines
    assert "RUNNING" not in {run.info.status for run in runs}


def table(folder: RunFolder) -> list[tuple[str, str, float | None]]:
    """What a search found: every trial, its shape and its loss."""
    records = read_records(folder.records)
    return sorted((r.spec.trial, str(r.spec.shape), r.loss) for r in records)
