"""The memory that processes may take here: this machine's, or less where a cgroup limits it, as in
a container, a job of Slurm or a service of systemd.

`/proc/meminfo`, which psutil reads, only shows the whole machine.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fathom.search.formatting import format_bytes

BESIDE_TRIALS = 950_000_000
"""Bytes that a search on this machine takes apart from its trials. Measured with PyTorch for CPUs,
Ray 2.60 and MLflow 3: 340 MB in the driver, 350 in Ray's processes, 190 in the process that writes
to MLflow."""
WORKER = 300_000_000
"""Bytes of a worker apart from its tensors, measured likewise."""
LEAST_MEMORY = BESIDE_TRIALS + WORKER
"""Fewest bytes of memory with which a search of small models runs."""
STORE_SHARE = 0.3
"""Fraction of the memory that Ray's object store takes."""
OWN_GROUPS = Path("/proc/self/cgroup")
"""Linux's list of the cgroups of a process."""
MOUNTS = Path("/proc/self/mountinfo")
"""Linux's list of mounted file systems, those of cgroups among them."""
MACHINE, COUNTS = Path("/proc/meminfo"), Path("/proc/vmstat")
"""Linux's files with the memory and the event counts of the whole machine."""
SHORT = 0.1
"""Free share of the memory below which a lack of memory is ascribed to the machine, not to a trial.
"""


@dataclass(frozen=True, slots=True)
class Files:
    """Names of a cgroup's files, and of the fields in them, in one version of cgroups."""

    limit: str
    used: str
    events: str
    """File with a line `oom_kill N`: the number of the group's processes that the kernel has killed
    for lack of memory."""
    given_back: str
    """Field of `memory.stat`: bytes of files that the kernel gives back when others need them."""


VERSIONS = {
    "cgroup2": Files("memory.max", "memory.current", "memory.events", "inactive_file"),
    "cgroup": Files(
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.oom_control",
        "total_inactive_file",
    ),
}
"""Names of a cgroup's files, by the type of the file system."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the memory of a group of processes to which this one belongs."""

    size: float
    """Bytes."""
    file: Path
    """File that states the limit."""
    used: int
    """Bytes in use, without files that the kernel gives back when others need them."""


def machine_memory() -> float:
    """Bytes of this machine's memory, or the least limit that applies to this process if that is
    less."""
    there = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    limit = memory_limit()
    return min(there, limit.size) if limit else there


def trials_in_memory(processes: int) -> int:
    """Number of trials, of `processes` processes each, that fit the memory here; at least one."""
    return max(1, int((machine_memory() - BESIDE_TRIALS) / WORKER / processes))


def lack_of_memory() -> str:
    """Reason why no search can run here, with a remedy; empty if the memory is enough."""
    if (has := machine_memory()) >= LEAST_MEMORY:
        return ""
    least = format_bytes(LEAST_MEMORY)
    return f"a search takes at least {least} of memory, got {format_bytes(has)}, {memory_words()}"


def memory_words() -> str:
    """Returns the limit of the memory here in words, with the remedy: `the limit in FILE; raise it
    ...`."""
    limit = memory_limit()
    if limit is None:
        return "all that this machine has; use a machine with more"
    return f"the limit in {limit.file}; raise it (`docker run --memory`, SLURM's `--mem`)"


def memory_limit() -> Limit | None:
    """The least memory limit among the cgroups of this process and the groups above them; None
    without any."""
    found = [
        Limit(float(text), folder / files.limit, _used(folder, files))
        for files, group, top in _groups()
        for folder in (group, *group.parents)
        if folder.is_relative_to(top) and (text := _text(folder / files.limit)).isdigit()
    ]
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = [limit for limit in found if limit.size < there]  # version 1 has no word for "none"
    return min(found, key=lambda limit: limit.size, default=None)


def is_short_of_memory() -> bool:
    """True if hardly any of the memory that processes may take here is free."""
    limit = memory_limit()
    free = _field(MACHINE, "MemAvailable:") / max(1, _field(MACHINE, "MemTotal:"))
    return min(free, 1 - limit.used / limit.size if limit else 1.0) < SHORT


def kernel_kills() -> int:
    """Number of processes that the kernel has killed so far for lack of memory: in this process's
    cgroup, or on the machine if no cgroup counts them."""
    files = [group / files.events for files, group, _ in _groups()]
    counted = [file for file in files if "oom_kill " in _text(file)]
    return sum(_field(file, "oom_kill") for file in counted or [COUNTS])


def _groups() -> Iterator[tuple[Files, Path, Path]]:
    """Yields each cgroup that may limit this process's memory: the names of its files, its folder,
    and the folder of the topmost cgroup."""
    own = dict(_own_groups())
    for line in _text(MOUNTS).splitlines():
        fields = line.split(" ")
        kind, _, options = fields[fields.index("-") + 1 :][:3] if "-" in fields else ("", "", "")
        name = "memory" if kind == "cgroup" else ""
        if kind not in VERSIONS or name not in own or name not in ["", *options.split(",")]:
            continue
        root, top = fields[3], Path(fields[4])
        # In a container the path may be the host's, of which it has only the part below `root`.
        inside = os.path.relpath(own[name], root)
        group = top if inside.startswith("..") else top / inside
        yield VERSIONS[kind], group if group.is_dir() else top, top


def _own_groups() -> Iterator[tuple[str, str]]:
    """The controllers (an empty name in version 2) and the path of each cgroup of this process."""
    for line in _text(OWN_GROUPS).splitlines():
        _, names, path = (*line.split(":", 2), "", "")[:3]
        yield from ((name, path or "/") for name in names.split(","))


def _used(folder: Path, files: Files) -> int:
    used = _text(folder / files.used)
    given_back = _field(folder / "memory.stat", files.given_back)
    return max(0, int(used) - given_back) if used.isdigit() else 0


def _field(path: Path, name: str) -> int:
    """A named number from a file whose lines are a name and a number; 0 if it is not there."""
    found = (line.split() for line in _text(path).splitlines())
    return next((int(line[1]) for line in found if len(line) > 1 and line[0] == name), 0)


def _text(path: Path) -> str:
    """The text of a file; empty if it can't be read, for example because the system is not
    Linux."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
