"""No trial is lost by Ctrl-C, SIGTERM, or the death of a worker or of the whole search.

`python -m tests.drill` has the long form, with three hosts and more that can go wrong.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from fathom.search.run_folder import RunFolder, read_lines, read_records

STUDY = """
study: killed
objective: {name: language, context: 32, eval_tokens: 2k}
budgets: [8k, 12k]
count: non_embedding
tokens: 120k
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 3, seeds: 1, rates: [1]}
train: {batch_size: 16, evaluations: 8}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2}
"""
TRIALS = 2 * (3 + 3)
COMMAND = ("run", "study.yaml", "--runs", "runs")
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
            [sys.executable, "-m", "search", *COMMAND],
            cwd=place,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, to which a terminal's Ctrl-C would go
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

    def interrupt(self, times: int = 1) -> "Ended":
        """Ctrl-C, which every process of the group gets."""
        for _ in range(times):
            began = time.monotonic()
            os.killpg(self.process.pid, signal.SIGINT)
            time.sleep(0.2)
        return self.end(began)

    def terminate(self) -> "Ended":
        """SIGTERM to every process of the job, twice, as Slurm, systemd and `timeout` send it."""
        began = time.monotonic()
        for _ in range(2):
            for one in (psutil.Process(self.process.pid), *self.children):
                one.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        return self.end(began)

    def end(self, began: float) -> "Ended":
        out, err = self.process.communicate(timeout=LONGEST_SECONDS)
        seconds = time.monotonic() - began
        running = [run.info.run_name for run in mlflow_runs(self.folder) if is_running(run)]
        return Ended(self.process.returncode, out, err, seconds, running)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@dataclass(frozen=True)
class Ended:
    """The end of an interrupted search: status, output and duration."""

    status: int
    out: str
    err: str
    seconds: float
    running: list[str]
    """MLflow's runs that seem to go on."""


@dataclass(frozen=True)
class Story:
    """A search that was killed and interrupted several times and resumed each time."""

    folder: RunFolder
    interrupted: Ended
    terminated: Ended
    at_once: Ended


def mlflow_runs(folder: RunFolder) -> list[Run]:
    client = MlflowClient(f"sqlite:///{folder.path.parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("killed")
    assert experiment
    return list(client.search_runs([experiment.experiment_id]))


def is_running(run: Run) -> bool:
    return bool(run.info.status == "RUNNING")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A worker is killed, the whole, then Ctrl-C, SIGTERM, Ctrl-C twice; then it ends."""
    tmp_path = tmp_path_factory.mktemp("story")
    first = Search(tmp_path / "killed")
    first.wait_until(lambda: first.reports() > 0)
    first.kill_a_worker()
    ended = first.ended()
    first.wait_until(lambda: first.ended() > ended + 1)
    first.kill()
    assert first.ended() < TRIALS
    orphans = psutil.wait_procs(first.children, timeout=60)[1]
    second = Search(tmp_path / "killed")
    reports = second.reports()
    second.wait_until(lambda: second.reports() > reports)
    interrupted = second.interrupt()
    fourth = Search(tmp_path / "killed")
    reports = fourth.reports()
    fourth.wait_until(lambda: fourth.reports() > reports)
    terminated = fourth.terminate()
    third = Search(tmp_path / "killed")
    reports = third.reports()
    third.wait_until(lambda: third.reports() > reports)
    at_once = third.interrupt(times=2)
    again = Search(tmp_path / "killed")
    again.finish()
    yield Story(again.folder, interrupted, terminated, at_once)
    left = [one for search in (second, fourth, third) for one in search.children]
    orphans += psutil.wait_procs(left, timeout=60)[1]
    assert not [one for one in orphans if one.is_running()], "Ray outlives a killed search"


def test_a_killed_worker_and_a_killed_search_cost_nothing_but_time(
    story: Story, tmp_path: Path
) -> None:
    calm = Search(tmp_path / "calm")
    calm.finish()
    killed = story.folder
    assert table(killed) == table(calm.folder)
    assert len(table(killed)) == TRIALS
    lines = Counter(line["trial"] for line in read_lines(killed.records))
    assert set(lines.values()) == {1}, "no trial ended twice"

    runs = mlflow_runs(killed)
    assert Counter(run.data.tags["trial"] for run in runs if "trial" in run.data.tags) == lines
    assert not any(map(is_running, runs))


@pytest.mark.parametrize("how", ["interrupted", "terminated"])
def test_ctrl_c_or_sigterm_saves_all_and_prints_results_and_the_command_to_resume(
    story: Story, how: str
) -> None:
    ended: Ended = getattr(story, how)
    assert ended.status == 130
    assert "Ending: trials under way save where they stand" in ended.out
    assert re.search(r"[0-2] saved where they stood", ended.out)
    assert "best depth" in ended.out, "the answers so far"
    assert ended.err.splitlines()[-1].strip() == f"fathom {' '.join(COMMAND)}"
    assert "Traceback" not in ended.err
    assert ended.running == []


def test_a_second_ctrl_c_ends_at_once(story: Story) -> None:
    ended = story.at_once
    assert ended.status == 130
    assert ended.seconds < 5
    assert ended.err.splitlines()[-1].strip() == f"fathom {' '.join(COMMAND)}"
    assert "Traceback" not in ended.err


def table(folder: RunFolder) -> list[tuple[str, str, float | None]]:
    """Every trial of a search with its shape and its loss."""
    records = read_records(folder.records)
    return sorted((r.spec.trial, str(r.spec.shape), r.loss) for r in records)
