"""SIGTERM at a random moment, or a disk that fills up, loses at most the step under way."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.search.run_folder import RunFolder, read_records

STUDY = """
study: terminated
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS, seconds: 0.02}
budgets: [4k]
tokens: 2400
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 2, seeds: 1, rates: [1]}
train: {batch_size: 4, evaluations: 5}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2}
"""
TIMES = 3
"""Number of times that the search is told to end."""
TOGETHER = 2
"""Trials that train at once, each with a step under way."""
LONGEST_SECONDS = 300.0
DISK, BALLAST = 140_000_000, 60_000_000
"""Bytes of a small disk, and what fills it up to less than a search keeps free."""


class Search:
    """`fathom run` in a process of its own, again and again on one folder."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self._place, self._steps = place, place / "steps"
        (place / "study.yaml").write_text(STUDY.replace("STEPS", str(self._steps)))

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "search", "run", "study.yaml", "--runs", "runs"],
            cwd=self._place,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def steps(self) -> int:
        """Number of steps that were begun so far."""
        return self._steps.stat().st_size if self._steps.exists() else 0

    def terminate(self, seconds: float) -> int:
        """SIGTERM to the search so long after it began to train; returns its exit status."""
        search = self._training()
        time.sleep(seconds)
        search.send_signal(signal.SIGTERM)
        return self._ended(search)[0]

    def fill(self, disk: Path) -> tuple[int, str]:
        """Leaves too little room on the disk for a moment, once the search trains; returns its exit
        status and output.
        """
        search, ballast = self._training(), disk / "ballast"
        ballast.write_bytes(bytes(BALLAST))
        ended = self._ended(search)
        ballast.unlink()
        return ended

    def _training(self) -> "subprocess.Popen[str]":
        """A search that has begun to train."""
        before, search = self.steps(), self.start()
        end = time.monotonic() + LONGEST_SECONDS
        while self.steps() == before and search.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        return search

    def finish(self) -> None:
        status, said = self._ended(self.start())
        assert status == 0, said

    def _ended(self, search: "subprocess.Popen[str]") -> tuple[int, str]:
        """The exit status and the output of a search that is waited for."""
        try:
            said, _ = search.communicate(timeout=LONGEST_SECONDS)
        finally:
            search.kill()
        return search.returncode, said

    def answers(self) -> list[tuple[object, ...]]:
        """Every trial with its whole curve, without the clock."""
        records = read_records(RunFolder(self._place / "runs" / "terminated").records)
        return sorted(
            (r.spec.trial, str(r.spec.shape), str(r.outcome), *map(_losses, r.curve))
            for r in records
        )


def _losses(point: object) -> tuple[int, float, float]:
    return (point.step, point.loss, point.train_loss)  # type: ignore[attr-defined]


@pytest.mark.timeout(1200)
def test_sigterm_at_random_moments_repeats_no_step_but_those_under_way(tmp_path: Path) -> None:
    calm, ended = Search(tmp_path / "calm"), Search(tmp_path / "ended")
    calm.finish()
    moments = random.Random(5)
    assert {ended.terminate(moments.uniform(0, 2.5)) for _ in range(TIMES)} == {130}
    assert ended.steps() < calm.steps(), "it was told to end before it had"
    ended.finish()
    assert ended.answers() == calm.answers()
    assert ended.steps() - calm.steps() <= TIMES * TOGETHER


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


@pytest.mark.timeout(1200)
def test_a_disk_that_fills_up_pauses_the_search_with_one_line_and_repeats_no_step(
    tmp_path: Path, small_disk: Path
) -> None:
    calm, paused = Search(tmp_path / "calm"), Search(small_disk)
    calm.finish()
    status, said = paused.fill(small_disk)
    assert status == 1
    assert "The disk is nearly full" in said
    assert said.splitlines()[-1].startswith("fathom: paused, as the disk has ")
    assert "free some, then the same command goes on" in said.splitlines()[-1]
    assert "Traceback" not in said
    paused.finish()
    assert paused.answers() == calm.answers()
    assert paused.steps() - calm.steps() <= TOGETHER
