"""What the facts of the nodes mean for a search. Pure: no Ray, no file, no clock."""

from collections.abc import Callable, Iterable

from rich.filesize import decimal

from fathom.search.cluster.doctor.access import judge_ports, judge_token
from fathom.search.cluster.doctor.facts import ClusterFacts, Finding, Needs, Node, Severity, names

OTHERS_FAIL = {"ray", "fathom", "fathom's sources"}
"""Packages that must be the same on every node; with another torch a trial is only another one."""
SAME_SOFTWARE = "install one set on every node (constraints.txt), sync the sources, restart Ray"

CLOCK_SECONDS = 5.0
"""A larger skew muddles the times of records and logs; nothing decides by a clock."""
RAY_DISK_FULL = 0.95
"""Where Ray stops to spill objects: `local_fs_capacity_threshold`. Measured: a search whose objects
fit in shared memory still works at 97 %, with 11 MB free; with nothing free Ray does not start."""
RAY_DISK_LEAST = 10_000_000
MEMORY_FULL = 0.95
"""Where Ray begins to kill workers: `RAY_memory_usage_threshold`."""
STORE_SHARE, STORE_CAP = 0.3, 10_000_000_000
"""Ray's object store is this share of the memory, and moves from /dev/shm to its folder on disk
when /dev/shm has less, above the cap at any rate: ray/_private/utils.py."""


def judge_cluster(cluster: ClusterFacts, needs: Needs) -> tuple[Finding, ...]:
    """All that the facts of its nodes tell, in the order of the answer."""
    nodes = cluster.nodes
    return (
        *judge_versions(nodes),
        *judge_gpus(cluster, needs),
        judge_cpus(cluster, needs),
        *judge_clocks(nodes),
        *_each("memory", nodes, lambda node: _memory(node, needs), _free_memory(nodes)),
        *_each("/dev/shm", nodes, _shared_memory, "holds Ray's object store"),
        *_each("Ray's disk", nodes, _ray_disk, _free_ray_disk(nodes)),
        *judge_token(cluster),
        *judge_ports(cluster),
    )


def judge_members(cluster: ClusterFacts) -> tuple[Finding, ...]:
    """Which cluster it is, and who of it gave no answer."""
    if cluster.unanswered:
        words = f"nobody answers at {cluster.unanswered}: the search would use this machine alone"
        remedy = "start the cluster (`ray up`, `ray start`), or unset RAY_ADDRESS"
        return (Finding(Severity.WARNING, "cluster", words, remedy),)
    if not cluster.address:
        return (Finding(Severity.OK, "cluster", "none: the search would use this machine alone"),)
    silent = [
        Finding(
            Severity.FAILURE,
            "cluster",
            f"{name} gives no answer: {reason}",
            "install Fathom there as on the head, or take the node out with `ray stop`",
        )
        for name, reason in cluster.silent.items()
    ]
    words = f"{cluster.address}, {_count(len(cluster.nodes), 'node')}"
    more = ", and more when trials wait" if cluster.grows else ""
    return (Finding(Severity.OK, "cluster", words + more), *silent)


def judge_versions(nodes: tuple[Node, ...]) -> tuple[Finding, ...]:
    """Whether the same software is on every node."""
    findings = []
    for package in nodes[0].facts.versions if nodes else ():
        where: dict[str, list[str]] = {}
        for node in nodes:
            where.setdefault(node.facts.versions.get(package, ""), []).append(node.name)
        if "" in where:
            words = f"{package} is missing on {names(where[''])}"
            findings.append(Finding(Severity.FAILURE, "versions", words, SAME_SOFTWARE))
        elif len(where) > 1:
            level = Severity.FAILURE if _breaks(package, where) else Severity.WARNING
            each = "; ".join(f"{version} on {names(there)}" for version, there in where.items())
            remedy = SAME_SOFTWARE
            findings.append(Finding(level, "versions", f"{package} differs: {each}", remedy))
    if findings or not nodes:
        return tuple(findings)
    known = dict(nodes[0].facts.versions)
    sources = known.pop("fathom's sources")
    same = ", ".join(f"{package} {version}" for package, version in known.items())
    return (Finding(Severity.OK, "versions", f"{same} ({sources})"),)


def judge_gpus(cluster: ClusterFacts, needs: Needs) -> tuple[Finding, ...]:
    """Whether there are the GPUs that the study asks for, and whether PyTorch can use them."""
    findings = [found for node in cluster.nodes for found in _gpus_of(node, needs)]
    asked, given = needs.gpus_per_trial, sum(node.gpus for node in cluster.nodes)
    if asked != "auto" and given < asked:
        words = f"the study asks for {asked:g} a trial, the nodes have {given:g}"
        if cluster.grows:
            words, level, remedy = (
                f"{words} so far",
                Severity.WARNING,
                "see that workers will have it",
            )
        else:
            level, remedy = Severity.FAILURE, "set `resources.gpus_per_trial: 0`, or add a GPU node"
        findings.append(Finding(level, "GPUs", words, remedy))
    elif asked == "auto" and not given and cluster.grows:
        words = "no node has one yet, and `auto` counts what is there when the search starts"
        remedy = "set `resources: {gpus_per_trial: 1, max_concurrent_trials: N}`"
        findings.append(Finding(Severity.WARNING, "GPUs", words, remedy))
    if findings:
        return tuple(findings)
    seen = "; ".join(f"{node.name}: {_gpu_words(node)}" for node in cluster.nodes if node.gpus)
    return (Finding(Severity.OK, "GPUs", seen or "none; trials train on CPUs"),)


def judge_cpus(cluster: ClusterFacts, needs: Needs) -> Finding:
    """Whether a trial fits on any node: it would wait for ever otherwise."""
    most = max((node.cpus for node in cluster.nodes), default=0.0)
    if most >= needs.cpus_per_trial:
        total = sum(node.cpus for node in cluster.nodes)
        return Finding(Severity.OK, "CPUs", f"{total:g}, a trial takes {needs.cpus_per_trial:g}")
    words = f"a trial asks for {needs.cpus_per_trial:g}, no node has more than {most:g}"
    level = Severity.WARNING if cluster.grows else Severity.FAILURE
    return Finding(level, "CPUs", words, "lower `resources.cpus_per_trial`, or add a larger node")


def judge_clocks(nodes: tuple[Node, ...]) -> tuple[Finding, ...]:
    """Whether nodes tell the same time; one alone does."""
    good = f"within {CLOCK_SECONDS:g} s of each other"
    return _each("clocks", nodes, _clock, good) if len(nodes) > 1 else ()


def _gpus_of(node: Node, needs: Needs) -> Iterable[Finding]:
    facts = node.facts
    count = max(len(facts.gpus), int(node.gpus))
    level = Severity.FAILURE if node.gpus and needs.gpus_per_trial != 0 else Severity.WARNING
    if facts.gpu_trouble:
        words = f"{node.name}: {facts.gpu_trouble}"
        remedy = "mend the driver until `nvidia-smi` and `import torch` work there"
        yield Finding(level, "GPUs", words, remedy)
    elif count and facts.torch_gpus is not None and facts.torch_gpus < count:
        words = f"{node.name}: PyTorch can use {facts.torch_gpus} of {_gpu_words(node)}"
        remedy = "install the build of torch for that driver (pytorch.org/get-started)"
        yield Finding(level, "GPUs", words, remedy)
    if node.gpus < len(facts.gpus):
        words = f"{node.name}: Ray gives out {node.gpus:g} of {_gpu_words(node)}"
        yield Finding(Severity.WARNING, "GPUs", words, "start Ray there without `--num-gpus`")


def _gpu_words(node: Node) -> str:
    gpus = node.facts.gpus
    if not gpus:
        return f"{node.gpus:g}"
    first = gpus[0]
    return f"{len(gpus)} x {first.name} ({decimal(first.memory)}, driver {first.driver})"


def _clock(node: Node) -> Finding | None:
    ahead = node.clock_ahead_seconds
    if abs(ahead) <= CLOCK_SECONDS:
        return None
    words = f"{node.name} is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"
    return Finding(Severity.WARNING, "clocks", words, "run chrony or systemd-timesyncd there")


def _memory(node: Node, needs: Needs) -> Finding | None:
    size, used = node.facts.memory, node.facts.memory_used
    words = f"{node.name}: {decimal(size - used)} of {decimal(size)} free"
    if used >= MEMORY_FULL * size:
        words += f"; Ray kills workers from {MEMORY_FULL:.0%} on"
        return Finding(Severity.FAILURE, "memory", words, "end what else runs there")
    on_cpu = not node.gpus or needs.gpus_per_trial == 0
    if on_cpu and node.cpus >= needs.cpus_per_trial and size - used < needs.trial_memory:
        words += f"; the largest model takes {decimal(needs.trial_memory)} to train, and more"
        return Finding(
            Severity.FAILURE, "memory", words, "lower `budgets`, or use a larger machine"
        )
    return None


def _shared_memory(node: Node) -> Finding | None:
    disk = node.facts.shared_memory
    if disk is None or disk.free >= _store(node):
        return None
    words = f"{node.name}: {decimal(disk.free)} free; Ray keeps its objects on disk, slowly"
    remedy = f"give it {decimal(_store(node))} (Docker: `--shm-size`)"
    return Finding(Severity.WARNING, "/dev/shm", words, remedy)


def _ray_disk(node: Node) -> Finding | None:
    disk = node.facts.ray_disk
    full = 1 - disk.free / disk.size
    if full < RAY_DISK_FULL:
        return None
    on_disk = _shared_memory(node) is not None
    fails = on_disk or disk.free < RAY_DISK_LEAST
    words = f"{node.name}: {disk.folder} is {full:.0%} full; Ray needs less than "
    words += f"{RAY_DISK_FULL:.0%} to keep objects there"
    level = Severity.FAILURE if fails else Severity.WARNING
    return Finding(level, "Ray's disk", words, "free space, or set RAY_TMPDIR to a larger disk")


def _store(node: Node) -> int:
    return int(min(STORE_SHARE * node.facts.memory, STORE_CAP))


def _breaks(package: str, where: dict[str, list[str]]) -> bool:
    """Ray and pickles ask for the same Python but for its last number."""
    minors = {version.rpartition(".")[0] for version in where}
    return package in OTHERS_FAIL or (package == "python" and len(minors) > 1)


def _each(
    subject: str, nodes: tuple[Node, ...], check: Callable[[Node], Finding | None], good: str
) -> tuple[Finding, ...]:
    """One finding for each node that has one, else one for all."""
    findings = tuple(found for node in nodes if (found := check(node)))
    return findings or (Finding(Severity.OK, subject, good),)


def _free_memory(nodes: tuple[Node, ...]) -> str:
    least = min((node.facts.memory - node.facts.memory_used for node in nodes), default=0)
    return f"{decimal(least)} free{_or_more(nodes)}"


def _free_ray_disk(nodes: tuple[Node, ...]) -> str:
    least = min((node.facts.ray_disk.free for node in nodes), default=0)
    return f"{decimal(least)} free{_or_more(nodes)}"


def _or_more(nodes: tuple[Node, ...]) -> str:
    return " or more on every node" if len(nodes) > 1 else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
