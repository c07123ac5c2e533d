"""Searches in a cgroup of 1.5 GiB whose memory another process takes end whole or pause, and never
with fewer trials and exit status 0."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fathom.search.run_folder import RunFolder
from tests.support.alone import run_alone
from tests.support.killed_search import STUDY
from tests.support.running import SearchProcess
from tests.support.waiting import wait_until
from tests.support.whole_records import whole_records

TOP = Path("/sys/fs/cgroup")
LIMIT = 3 * 2**29
"""Bytes of the cgroup."""
ROUNDS = 10
LONGEST = 900.0
"""Most seconds in which a search begins to train, and then ends, on a busy machine."""
NEIGHBOUR = """
import sys, time
from pathlib import Path
Path("/proc/self/oom_score_adj").write_text("-1000")  # the search is what the kernel kills
used, goal, taken = Path(sys.argv[1]), int(sys.argv[2]), []
end = time.monotonic() + float(sys.argv[3])
print("ready", flush=True)
while time.monotonic() < end:
    while int(used.read_text()) < goal:
        taken.append(bytearray(b"x" * 2**22))
    time.sleep(0.01)
"""
"""A program that takes what is free below a number of bytes, as often as something becomes free."""

pytestmark = [pytest.mark.siege, pytest.mark.timeout(7200)]


@dataclass(frozen=True)
class Group:
    """A cgroup with a limit of memory."""

    folder: Path
    used: Path
    """File with the bytes in use."""

    def add(self, process: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(process))


@pytest.fixture
def group() -> Iterator[Group]:
    second = (TOP / "cgroup.controllers").exists()
    folder = (TOP if second else TOP / "memory") / f"fathom-{os.getpid()}"
    limit, used = ("max", "current") if second else ("limit_in_bytes", "usage_in_bytes")
    try:
        folder.mkdir()
        (folder / f"memory.{limit}").write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"no cgroup with a limit of memory can be made here: {error}")
    yield Group(folder, folder / f"memory.{used}")
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), "processes outlive the search")
    folder.rmdir()


def begun(place: Path, group: Group) -> SearchProcess:
    """A search in the group."""
    group.add(os.getpid())  # by which all that the search starts is there too
    try:
        return SearchProcess(place, "killed")
    finally:
        (group.folder.parent / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def neighbour(group: Group, left: int, seconds: float) -> Iterator[None]:
    """Context in which a process of the group takes its memory but for so many bytes."""
    command = [sys.executable, "-c", NEIGHBOUR, str(group.used), str(LIMIT - left), f"{seconds}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        group.add(process.pid)
        try:
            yield
        finally:
            process.kill()


def outcomes(folder: RunFolder) -> dict[str, str]:
    """Trial -> its outcome."""
    return {name: str(each.outcome) for name, each in whole_records(folder).items()}


def study(place: Path) -> Path:
    """A study file in a new folder."""
    place.mkdir()
    file = place / "study.yaml"
    file.write_text(STUDY.replace("STEPS", str(place / "steps")))
    return file


def wait_for_steps(search: SearchProcess, steps: Path, count: int) -> None:
    """Waits until so many steps were trained, or the search has ended."""

    def so_far() -> bool:
        trained = steps.stat().st_size if steps.exists() else 0
        return trained >= count or search.process.poll() is not None

    deadline = time.monotonic() + LONGEST
    while not so_far():
        assert time.monotonic() < deadline, "it did not begin to train"
        time.sleep(0.1)


def test_a_neighbour_that_takes_the_memory_ten_times_leaves_a_search_whole_or_paused(
    tmp_path: Path, group: Group
) -> None:
    calm = tmp_path / "calm"
    planned = outcomes(run_alone(study(calm), calm / "runs"))
    moments = random.Random(56)
    for number in range(1, ROUNDS + 1):
        file = study(tmp_path / f"{number}")
        search, steps = begun(file.parent, group), moments.randint(1, 300)
        wait_for_steps(search, file.with_name("steps"), steps)
        left, seconds = moments.choice([2**21, 2**23, 2**25]), moments.uniform(5, 90)
        with neighbour(group, left, seconds):
            out, err = search.process.communicate(timeout=LONGEST)
        status, ended = search.process.returncode, outcomes(search.folder)
        print(f"{number}: after {steps} steps {left >> 20} MiB are left for {seconds:.0f} s: exit")
        print(f"  {status}, {len(ended)} of {len(planned)} trials: {err.strip()}", flush=True)
        assert "Traceback" not in out + err, err
        if status:
            assert "fathom run" in err or status == -signal.SIGKILL, "it says how to go on"
            ended = outcomes(run_alone(file, file.with_name("runs")))
        assert ended == planned
