"""Searches whose processes are killed again and again, of every kind, end with the records of one
that nothing disturbs. Hosts and their network are killed by `python -m tests.drill`."""

import random
import signal
import time
from collections import Counter, deque
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil
import pytest

from tests.support.killed_search import ACTORS, KilledSearch, assert_same
from tests.support.running import SearchProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.siege, pytest.mark.timeout(7200)]

KINDS = {
    "driver": (),
    "worker": ACTORS,
    "raylet": ("raylet",),
    "GCS": ("gcs_server",),
    "follower": ("fathom.search.tracking.writing.follower",),
}
"""What is killed -> what its command line has."""
ENDS_THE_RUN = {"driver", "raylet", "GCS"}
TIMES = 8
"""Kills of each kind."""
MOST_STEPS = 300
"""Most steps between two kills."""
MOST_SECONDS = 3600.0
"""Time after which nothing more is killed; a busy machine has fewer kills, of every kind."""


def test_forty_kills_of_every_kind_lose_no_trial_and_repeat_none(tmp_path: Path) -> None:
    calm = KilledSearch(tmp_path / "calm")
    calm.finish()
    moments, killed, end = random.Random(33), Counter[str](), time.monotonic() + MOST_SECONDS
    kinds = deque[str]()
    for _ in range(TIMES):
        kinds += moments.sample(list(KINDS), len(KINDS))
    for number in count(1):
        if not kinds or (time.monotonic() > end and len(killed) == len(KINDS)):
            break
        search = KilledSearch(tmp_path / f"{number}")
        disturb(search, kinds, moments, killed)
        search.finish()
        assert_same(search, calm)
        print(f"search {number}: {killed.total()} kills so far, records equal", flush=True)
    print(f"{dict(killed)}: lost 0, twice 0")


def disturb(
    search: KilledSearch, kinds: deque[str], moments: random.Random, killed: Counter[str]
) -> None:
    """Kills processes of a search, which is resumed, until it ends or there are no more kinds."""
    while kinds:
        run = search.begun()
        while kinds and run.process.poll() is None:
            wait_for_steps(search, run, moments.randint(1, MOST_STEPS))
            if not kill(run, KINDS[kinds[0]]):  # it has not begun, or the run has ended
                continue
            kind = kinds.popleft()
            killed[kind] += 1
            print(f"killed: {kind}", flush=True)
            if kind in ENDS_THE_RUN:
                break
        status, out, err = ended_run(run)
        assert "Traceback" not in out + err, err
        if status == 0:
            return


def ended_run(run: SearchProcess) -> tuple[int, str, str]:
    """Waits for the end of a run, and of all of its processes."""
    found = run.end()
    wait_until(lambda: not psutil.wait_procs(run.children, 0)[1], "they outlive a search")
    return found


def wait_for_steps(search: KilledSearch, run: SearchProcess, steps: int) -> None:
    """Waits until so many further steps were trained, or the run has ended."""
    goal = search.steps() + steps
    wait_until(lambda: search.steps() >= goal or run.process.poll() is not None)


def kill(run: SearchProcess, words: tuple[str, ...]) -> bool:
    """Kills a process of a run, the driver itself without words; False if it is not there."""
    with suppress(psutil.NoSuchProcess):
        driver = psutil.Process(run.process.pid)
        run.children = driver.children(recursive=True)
        for process in run.children if words else [driver]:
            with suppress(psutil.NoSuchProcess):
                line = " ".join(process.cmdline())
                if not words or any(word in line for word in words):
                    process.send_signal(signal.SIGKILL)
                    return True
    return False
