"""Searches whose processes are killed again and again, of every kind, end with the records of one
that nothing disturbs. Hosts and their network are killed by `python -m tests.drill`."""

import random
import signal
from collections import Counter
from collections.abc import Iterator
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
    "follower": ("fathom.search.tracking.follower",),
}
"""What is killed -> what its command line has."""
ENDS_THE_RUN = {"driver", "raylet", "GCS"}
TIMES = 8
"""Kills of each kind."""
MOST_STEPS = 600
"""Most steps between two kills."""


def test_forty_kills_of_every_kind_lose_no_trial_and_repeat_none(tmp_path: Path) -> None:
    calm = KilledSearch(tmp_path / "calm")
    calm.finish()
    moments, killed = random.Random(33), Counter[str]()
    kinds = [kind for kind in KINDS for _ in range(TIMES)]
    moments.shuffle(kinds)
    waiting = iter(kinds)
    for number in count(1):
        search = KilledSearch(tmp_path / f"{number}")
        before = killed.total()
        disturb(search, waiting, moments, killed)
        search.finish()
        assert_same(search, calm)
        print(f"search {number}: {killed.total() - before} kills, records equal")
        if killed.total() == len(kinds):
            break
    print(f"{dict(killed)}: lost 0, twice 0")


def disturb(
    search: KilledSearch, kinds: Iterator[str], moments: random.Random, killed: Counter[str]
) -> None:
    """Kills processes of a search, which is resumed, until it ends or there are no more kinds."""
    kind = next(kinds, None)
    while kind:
        run = search.resumed()
        while kind and run.process.poll() is None:
            wait_for_steps(search, run, moments.randint(1, MOST_STEPS))
            if not kill(run, KINDS[kind]):
                break
            killed[kind] += 1
            ended, kind = kind in ENDS_THE_RUN, next(kinds, None)
            if ended:
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
