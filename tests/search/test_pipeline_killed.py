"""No trial is lost by Ctrl-C, SIGTERM, a full disk, or the death of a worker or of the search.

`python -m tests.drill` has the long form, with three hosts and more that can go wrong.
"""

import random
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.killed_search import Ended, KilledSearch, assert_same, workers
from tests.support.running import COMMAND

pytestmark = pytest.mark.timeout(1500)

TOGETHER = 2
"""Trials that train at once, each with a step under way."""
SAVED = "saved where they stood"
"""What a search says once it has waited for its trials."""
DISK, BALLAST = 140_000_000, 60_000_000
"""Bytes of a small disk, and what fills it up to less than a search keeps free."""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> KilledSearch:
    """A search that nothing disturbs."""
    search = KilledSearch(tmp_path_factory.mktemp("calm") / "place")
    search.finish()
    return search


@pytest.mark.drill
def test_a_killed_worker_and_a_killed_search_cost_nothing_but_time(
    calm: KilledSearch, tmp_path: Path
) -> None:
    search = KilledSearch(tmp_path / "place")
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


@pytest.mark.siege
def test_ctrl_c_sigterm_or_a_full_disk_repeat_no_step_but_those_under_way(
    calm: KilledSearch, small_disk: Path
) -> None:
    search, moments = KilledSearch(small_disk), random.Random(5)
    run = search.resumed(steps=moments.randrange(1, 150))
    run.send_interrupt()
    assert_saved(search, search.end(run))

    run = search.resumed(steps=moments.randrange(1, 150))
    run.send(signal.SIGTERM)  # to every process of the job, twice, as Slurm and systemd send it
    run.wait_until_ending()
    run.send(signal.SIGTERM)
    assert_saved(search, search.end(run))

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


def assert_saved(search: KilledSearch, ended: Ended) -> None:
    """Checks that a search has saved all and printed its results so far."""
    assert_interrupted(ended)
    assert "Ending: trials under way save where they stand" in ended.out
    assert re.search(rf"[0-2] {SAVED}", ended.out)
    assert "best depth" in ended.out, "the answers so far"
    assert "RUNNING" not in {status for _, status in search.mlflow()}
