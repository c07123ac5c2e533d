"""The memory that a cgroup leaves to a search: `search/study/hardware/memory.py`."""

import os
from pathlib import Path

import pytest

from fathom.search.formatting import format_bytes
from fathom.search.study.hardware import memory
from fathom.search.study.hardware.memory import (
    BESIDE_TRIALS,
    LEAST_MEMORY,
    WORKER,
    is_short_of_memory,
    kernel_kills,
    lack_of_memory,
    machine_memory,
    memory_limit,
    trials_in_memory,
)
from tests.support.places import ROOT

NONE = 9_223_372_036_854_771_712
"""What version 1 writes where there is no limit."""


class Groups:
    """A file system of cgroups, in a folder."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.top = top / "mounted"
        self.top.mkdir()
        self._own, self._mounts = top / "cgroup", top / "mountinfo"
        patch.setattr(memory, "OWN_GROUPS", self._own)
        patch.setattr(memory, "MOUNTS", self._mounts)
        self._machine, self.counts = top / "meminfo", top / "vmstat"
        patch.setattr(memory, "MACHINE", self._machine)
        patch.setattr(memory, "COUNTS", self.counts)

    def whole(self, lines: str) -> None:
        """The memory of the whole machine."""
        self._machine.write_text(lines)

    def are(self, own: str, kind: str, root: str = "/", options: str = "rw") -> None:
        """This process is in the groups of `own`, seen through one mount."""
        self._own.write_text(own)
        others = "31 23 0:28 / /sys rw - tmpfs tmpfs rw\n32 31 0:29 / /c rw - cgroup cgroup rw,cpu"
        line = f"15 36 0:33 {root} {self.top} rw,relatime shared:9 - {kind} {kind} {options}"
        self._mounts.write_text(f"{others}\n{line}\n")

    def write(self, group: str, **files: object) -> None:
        """Writes files of a group; `_` in a name stands for a dot."""
        folder = self.top / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".", 1)).write_text(f"{text}\n")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    return Groups(tmp_path, monkeypatch)


def test_the_least_limit_of_a_group_and_of_those_that_hold_it_counts(groups: Groups) -> None:
    groups.are("0::/job/step", "cgroup2")
    groups.write("job", memory_max=2**30, memory_current=800, memory_stat="inactive_file 300")
    groups.write("job/step", memory_max=2**31, memory_events="oom 9\noom_kill 3")
    groups.write("job/step/below", memory_max=1)
    limit = memory_limit()
    assert limit
    assert (limit.size, limit.file, limit.used) == (2**30, groups.top / "job/memory.max", 500)
    assert machine_memory() == 2**30
    assert kernel_kills() == 3

    groups.write("job", memory_max="max")
    assert machine_memory() == 2**31


def test_version_1_is_read_by_its_own_names(groups: Groups) -> None:
    groups.are("5:cpu,cpuacct:/\n4:memory:/slice/job\n0::/", "cgroup", options="rw,memory")
    groups.write("slice", memory_limit_in_bytes=NONE)
    groups.write("slice/job", memory_limit_in_bytes=10**9, memory_oom_control="oom_kill 2")
    limit = memory_limit()
    assert limit
    assert limit.file == groups.top / "slice/job/memory.limit_in_bytes"
    assert (machine_memory(), kernel_kills()) == (1e9, 2)


@pytest.mark.parametrize("root", ["/", "/docker/12ab"])
def test_a_container_that_is_told_paths_of_its_host_reads_its_own_mount(
    groups: Groups, root: str
) -> None:
    groups.are("0::/docker/12ab", "cgroup2", root)
    groups.write(".", memory_max=10**9)
    assert machine_memory() == 1e9
    groups.are("0::/../outside", "cgroup2", root)
    assert machine_memory() == 1e9


def test_memory_is_short_where_hardly_any_is_free_here_or_under_the_limit(groups: Groups) -> None:
    groups.are("0::/", "cgroup2")
    groups.whole("MemTotal: 1000 kB\nMemAvailable: 500 kB")
    groups.write(".", memory_max=1000, memory_current=950, memory_stat="inactive_file 100")
    assert not is_short_of_memory()
    groups.write(".", memory_max=1000, memory_current=950, memory_stat="inactive_file 10")
    assert is_short_of_memory()
    groups.write(".", memory_max="max")
    assert not is_short_of_memory()
    groups.whole("MemTotal: 1000 kB\nMemAvailable: 50 kB")
    assert is_short_of_memory()


def test_kills_of_the_whole_machine_count_where_no_cgroup_counts_them(groups: Groups) -> None:
    groups.are("0::/", "cgroup2")
    groups.counts.write_text("pgfault 9\noom_kill 4\n")
    assert kernel_kills() == 4
    groups.write(".", memory_events="oom 1\noom_kill 0")
    assert kernel_kills() == 0


def test_without_a_limit_the_whole_machine_counts(groups: Groups) -> None:
    groups.counts.write_text("oom_kill 0\n")
    there = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    assert (memory_limit(), machine_memory(), kernel_kills()) == (None, there, 0)
    groups.are("4:memory:/", "cgroup", options="rw,memory")
    groups.write(".", memory_limit_in_bytes=NONE)
    assert (memory_limit(), machine_memory()) == (None, there)
    groups.are("4:memory:/\nbroken", "cgroup", options="rw,memory")
    groups.write(".", memory_limit_in_bytes="\udcff".encode("utf-8", "surrogateescape"))
    assert machine_memory() == there


def test_too_little_memory_is_told_with_its_limit_and_the_remedy(groups: Groups) -> None:
    groups.are("0::/", "cgroup2")
    groups.write(".", memory_max=2**30)
    assert lack_of_memory() == (
        f"a search takes at least {format_bytes(LEAST_MEMORY)} of memory, got 1.07 GB, the limit "
        f"in {groups.top}/memory.max; raise it (`docker run --memory`, SLURM's `--mem`)"
    )
    groups.write(".", memory_max=LEAST_MEMORY)
    assert lack_of_memory() == ""


def test_as_many_trials_run_as_the_memory_has_room_for(groups: Groups) -> None:
    groups.are("0::/", "cgroup2")
    for size, alone, pairs in ((1, 1, 1), (2, 2, 1), (5, 5, 2)):
        groups.write(".", memory_max=BESIDE_TRIALS + size * WORKER)
        assert (trials_in_memory(1), trials_in_memory(2)) == (alone, pairs)


def test_the_guide_tells_the_least_memory() -> None:
    text = " ".join((ROOT / "docs" / "clusters.md").read_text().split())
    assert f"Below {format_bytes(LEAST_MEMORY)} it ends" in text
    assert f"each trial {format_bytes(WORKER)} beside {format_bytes(BESIDE_TRIALS)}" in text
