"""Searches in a cgroup of 1.5 GiB whose memory another process takes end whole or pause, and never
with fewer trials and exit status 0."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fathom.search.run_folder import RunFolder
from tests.support.alone import run_alone
from tests.support.command_line import run
from tests.support.killed_search import STUDY
from tests.support.places import ROOT
from tests.support.ports import free_port
from tests.support.ray_program import RAY, ray_folder
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
used, goal, taken = Path(sys.argv[1]), int(sys.argv[2]), []
end = time.monotonic() + float(sys.argv[3])
print("ready", flush=True)
while time.monotonic() < end:
    while int(used.read_text()) < goal:
        taken.append(bytearray(b"x" * 2**22))
    time.sleep(0.01)
"""
"""A program that takes what is free below a number of bytes, as often as something becomes free. Of
two the kernel kills Ray's workers first, which Ray has marked so."""

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


@contextmanager
def inside(group: Group) -> Iterator[None]:
    """Context in which all processes that start are in the group."""
    group.add(os.getpid())
    try:
        yield
    finally:
        (group.folder.parent / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def ray_in(group: Group, place: Path) -> Iterator[None]:
    """Context in which searches join a Ray of the group, which takes less time on a busy machine
    than one of their own each."""
    port = free_port()
    options = ["--node-ip-address=127.0.0.1", "--num-cpus=2", "--include-dashboard=false"]
    ports = [f"--port={port}", f"--ray-client-server-port={free_port()}", "--disable-usage-stats"]
    with ray_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "0123456789" * 4)
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        with inside(group):
            run(RAY, "start", "--head", *options, *ports, cwd=place, timeout=LONGEST)
        patch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        yield


def has_ray(group: Group) -> bool:
    """True if a raylet of the group lives."""
    lines = [
        Path(f"/proc/{number}/cmdline").read_bytes()
        for number in (group.folder / "cgroup.procs").read_text().split()
        if Path(f"/proc/{number}").exists()
    ]
    return any(b"raylet/raylet" in line.partition(b"\0")[0] for line in lines)


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


def training(place: Path, group: Group, steps: int) -> SearchProcess:
    """A search in the group that has trained so many steps, or has ended since."""
    deadline, note = time.monotonic() + LONGEST, place / "steps"
    while time.monotonic() < deadline:
        with inside(group):
            search = SearchProcess(place, "killed")
        while search.process.poll() is None and time.monotonic() < deadline:
            if note.exists() and note.stat().st_size >= steps:
                return search
            time.sleep(0.05)
        if note.exists():
            return search
        print(f"  did not begin: {search.end()[2].strip()}")  # as where Ray starts too slowly
    raise TimeoutError("the search did not begin to train")


def test_a_neighbour_that_takes_the_memory_ten_times_leaves_a_search_whole_or_paused(
    tmp_path: Path, group: Group
) -> None:
    calm = tmp_path / "calm"
    planned = outcomes(run_alone(study(calm), calm / "runs"))
    moments = random.Random(56)
    with ExitStack() as rays:
        for number in range(1, ROUNDS + 1):
            if not has_ray(group):
                rays.close()
                rays.enter_context(ray_in(group, tmp_path))
            file, steps = study(tmp_path / f"{number}"), moments.randint(1, 300)
            left, seconds = moments.choice([2**21, 2**23, 2**25]), moments.uniform(5, 60)
            search = training(file.parent, group, steps)
            with neighbour(group, left, seconds):
                out, err = search.process.communicate(timeout=LONGEST)
            status, ended = search.process.returncode, outcomes(search.folder)
            print(f"{number}: {left >> 20} MiB left after {steps} steps for {seconds:.0f} s:")
            print(f"  exit {status}, {len(ended)} of {len(planned)} trials; {err.strip()}")
            kills = [line for line in out.splitlines() if "The kernel has killed" in line]
            print(f"  {len(kills)} lines on kills", flush=True)
            assert "Traceback" not in out + err, err
            if status:
                assert re.search("go(es)? on", err) or status == -signal.SIGKILL, (
                    "it says how to go on"
                )
                ended = outcomes(run_alone(file, file.with_name("runs")))
            assert ended == planned
