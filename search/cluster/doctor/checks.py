"""Findings about the nodes of a cluster, from their facts alone."""

from collections.abc import Callable, Iterable

from rich.filesize import decimal

from fathom.search.cluster.doctor.access import judge_ports, judge_token
from fathom.search.cluster.doctor.facts import (
    ClusterFacts,
    Finding,
    Needs,
    Node,
    failure,
    names,
    ok,
    warning,
    warning_if,
)
from fathom.search.study.hardware.memory import LEAST_MEMORY, STORE_SHARE

ESSENTIAL = {"ray", "fathom", "fathom's sources"}
"""Packages that must have the same version on every node; another torch only changes a loss's last
digits."""
SAME_SOFTWARE = "install one set on every node (constraints.txt), sync the sources, restart Ray"

CLOCK_SECONDS = 5.0
"""Seconds between two clocks from which on times in records and logs mislead; no decision depends
on a clock."""
RAY_DISK_FULL = 0.95
"""Used fraction of a disk at which Ray stops spilling objects to it: `local_fs_capacity_threshold`.
Measured: a search whose objects fit into shared memory still works at 97 %, with 11 MB free;
without free space Ray does not start."""
RAY_DISK_LEAST = 10_000_000
"""Bytes free on Ray's disk below which a search fails."""
MEMORY_FULL = 0.95
"""Used fraction of the memory at which Ray kills workers: `RAY_memory_usage_threshold`."""
STORE_CAP = 10_000_000_000
"""Most bytes of Ray's object store, which moves from /dev/shm to Ray's folder on disk if /dev/shm
has less: ray/_private/utils.py."""


def judge_cluster(cluster: ClusterFacts, needs: Needs) -> tuple[Finding, ...]:
    """All findings about the nodes, in the order of the answer."""
    nodes = cluster.nodes
    return (
        *judge_versions(nodes),
        *_each("imports", nodes, _imports, "a worker can import what a trial needs"),
        *judge_gpus(cluster, needs),
        judge_cpus(cluster, needs),
        *judge_clocks(nodes),
        *_each(
            "memory",
            nodes,
            lambda node: _memory(node, needs, alone=not cluster.address),
            _least_free(nodes, lambda node: node.facts.memory - node.facts.memory_used),
        ),
        *_each("/dev/shm", nodes, _shared_memory, "holds Ray's object store"),
        *_each(
            "Ray's disk",
            nodes,
            _ray_disk,
            _least_free(nodes, lambda node: node.facts.ray_disk.free),
        ),
        *judge_token(cluster),
        *judge_ports(cluster),
    )


def judge_members(cluster: ClusterFacts) -> tuple[Finding, ...]:
    """Findings on the address of the cluster, and on nodes that gave no answer."""
    if cluster.unanswered:
        text = f"nobody answers at {cluster.unanswered}: the search would use this machine alone"
        remedy = "start the cluster (`ray up`, `ray start`), or unset RAY_ADDRESS"
        return (warning("cluster", text, remedy),)
    if not cluster.address:
        return (ok("cluster", "none: the search would use this machine alone"),)
    remedy = "install Fathom there as on the head, or take the node out with `ray stop`"
    silent = [
        failure("cluster", f"{name} gives no answer: {reason}", remedy)
        for name, reason in cluster.silent.items()
    ]
    count = len(cluster.nodes)
    text = f"{cluster.address}, {count} node{'' if count == 1 else 's'}"
    more = ", and more when trials wait" if cluster.grows else ""
    return (ok("cluster", text + more), *silent)


def judge_versions(nodes: tuple[Node, ...]) -> tuple[Finding, ...]:
    """Findings on differences between the software of the nodes."""
    findings = []
    for package in nodes[0].facts.versions if nodes else ():
        where: dict[str, list[str]] = {}
        for node in nodes:
            where.setdefault(node.facts.versions.get(package, ""), []).append(node.name)
        if "" in where:
            text = f"{package} is missing on {names(where[''])}"
            findings.append(failure("versions", text, SAME_SOFTWARE))
        elif len(where) > 1:
            each = "; ".join(f"{version} on {names(there)}" for version, there in where.items())
            text, works = f"{package} differs: {each}", not _breaks(package, where)
            findings.append(warning_if(works, "versions", text, SAME_SOFTWARE))
    if findings or not nodes:
        return tuple(findings)
    known = dict(nodes[0].facts.versions)
    sources = known.pop("fathom's sources")
    same = ", ".join(f"{package} {version}" for package, version in known.items())
    return (ok("versions", f"{same} (hash of its sources: {sources})"),)


def _imports(node: Node) -> Finding | None:
    if not node.facts.import_trouble:
        return None
    text = f"{node.name}: a worker fails at {node.facts.import_trouble}"
    return failure("imports", text, "fix it there, or install on that node what is missing")


def judge_gpus(cluster: ClusterFacts, needs: Needs) -> tuple[Finding, ...]:
    """Findings on GPUs that the study asks for, if they are missing or PyTorch can't use them."""
    findings = [found for node in cluster.nodes for found in _gpus_of(node, needs)]
    asked, given = needs.gpus_per_trial, sum(node.gpus for node in cluster.nodes)
    if asked == "auto":
        if not given and cluster.grows:
            text = "no node has a GPU yet, and `auto` counts those at the start of the search"
            remedy = "set `resources: {gpus_per_trial: 1, max_concurrent_trials: N}`"
            findings.append(warning("GPUs", text, remedy))
    elif given < asked:
        text = f"the study asks for {asked:g} a trial, the nodes have {given:g}"
        if cluster.grows:
            findings.append(warning("GPUs", f"{text} so far", "check that workers get them"))
        else:
            remedy = "set `resources.gpus_per_trial: 0`, or add a GPU node"
            findings.append(failure("GPUs", text, remedy))
    seen = "; ".join(f"{node.name}: {_gpu_text(node)}" for node in cluster.nodes if node.gpus)
    return tuple(findings) or (ok("GPUs", seen or "none; trials train on CPUs"),)


def judge_cpus(cluster: ClusterFacts, needs: Needs) -> Finding:
    """A failure if a trial fits on no node and so would wait for ever."""
    most = max((node.cpus for node in cluster.nodes), default=0.0)
    if most >= needs.cpus_per_trial:
        total = sum(node.cpus for node in cluster.nodes)
        return ok("CPUs", f"{total:g}, a trial takes {needs.cpus_per_trial:g}")
    text = f"a trial asks for {needs.cpus_per_trial:g}, but no node has more than {most:g}"
    remedy = "lower `resources.cpus_per_trial`, or add a larger node"
    return warning_if(cluster.grows, "CPUs", text, remedy)


def judge_clocks(nodes: tuple[Node, ...]) -> tuple[Finding, ...]:
    """Findings on nodes whose clocks differ; none for a single node."""
    good = f"within {CLOCK_SECONDS:g} s of each other"
    return _each("clocks", nodes, _clock, good) if len(nodes) > 1 else ()


def _gpus_of(node: Node, needs: Needs) -> Iterable[Finding]:
    facts = node.facts
    count = max(len(facts.gpus), int(node.gpus))
    unused = not node.gpus or needs.gpus_per_trial == 0
    if facts.gpu_trouble:
        remedy = "fix the driver until `nvidia-smi` and `import torch` work there"
        yield warning_if(unused, "GPUs", f"{node.name}: {facts.gpu_trouble}", remedy)
    elif count and facts.torch_gpus is not None and facts.torch_gpus < count:
        text = f"{node.name}: PyTorch can use {facts.torch_gpus} of {_gpu_text(node)}"
        remedy = "install the build of torch for that driver (pytorch.org/get-started)"
        yield warning_if(unused, "GPUs", text, remedy)
    if node.gpus < len(facts.gpus):
        text = f"{node.name}: Ray gives out {node.gpus:g} of {_gpu_text(node)}"
        yield warning("GPUs", text, "start Ray there without `--num-gpus`")
    if node.gpus and needs.shares_gpus and not facts.mps:
        text = f"{node.name}: trials that share a GPU take turns on it, since CUDA's MPS is not on"
        yield warning("GPUs", text, "run `nvidia-cuda-mps-control -d` there before Ray starts")


def _gpu_text(node: Node) -> str:
    gpus = node.facts.gpus
    if not gpus:
        return f"{node.gpus:g}"
    first = gpus[0]
    return f"{len(gpus)} x {first.name} ({decimal(first.memory)}, driver {first.driver})"


def _clock(node: Node) -> Finding | None:
    ahead = node.clock_ahead_seconds
    if abs(ahead) <= CLOCK_SECONDS:
        return None
    text = f"{node.name} is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"
    return warning("clocks", text, "run chrony or systemd-timesyncd there")


def _memory(node: Node, needs: Needs, *, alone: bool) -> Finding | None:
    size, used = node.facts.memory, node.facts.memory_used
    text = f"{node.name}: {decimal(size - used)} of {decimal(size)} free"
    if alone and size < LEAST_MEMORY:
        text += f"; a search takes at least {decimal(LEAST_MEMORY)}"
        return failure("memory", text, "raise the limit of the container, or use a larger machine")
    if used >= MEMORY_FULL * size:
        text += f"; Ray kills workers from {MEMORY_FULL:.0%} on"
        return failure("memory", text, "end other programs there")
    on_cpu = not node.gpus or needs.gpus_per_trial == 0
    if on_cpu and node.cpus >= needs.cpus_per_trial and size - used < needs.trial_memory:
        text += f"; the largest model takes {decimal(needs.trial_memory)} to train"
        fits = needs.least_memory < needs.trial_memory and size - used >= needs.least_memory
        less = "drop the largest of the `budgets`" if fits else "end other programs there"
        return failure("memory", text, f"{less}, or use a larger machine")
    copies = 0 if on_cpu else needs.saved_state * _trials_on_gpus(node, needs)
    if size - used < copies:
        text += f"; copies of its trials' states, to save from, take {decimal(copies)} or more"
        return failure("memory", text, "lower `budgets`, or use a machine with more memory")
    return None


def _trials_on_gpus(node: Node, needs: Needs) -> int:
    """Number of trials that fit the GPUs of a node; 1 if a trial takes GPUs of several nodes."""
    asked = 1 if needs.gpus_per_trial == "auto" else needs.gpus_per_trial
    return max(1, int(node.gpus / asked))


def _shared_memory(node: Node) -> Finding | None:
    disk = node.facts.shared_memory
    store = int(min(STORE_SHARE * node.facts.memory, STORE_CAP))
    if disk is None or disk.free >= store:
        return None
    text = f"{node.name}: {decimal(disk.free)} free; Ray keeps its objects on disk, slowly"
    return warning("/dev/shm", text, f"give it {decimal(store)} (Docker: `--shm-size`)")


def _ray_disk(node: Node) -> Finding | None:
    disk = node.facts.ray_disk
    full = 1 - disk.free / disk.size
    if full < RAY_DISK_FULL:
        return None
    works = _shared_memory(node) is None and disk.free >= RAY_DISK_LEAST
    text = f"{node.name}: {disk.folder} is {full:.0%} full; Ray needs less than "
    text += f"{RAY_DISK_FULL:.0%} to keep objects there"
    remedy = "free space, or set RAY_TMPDIR to a larger disk"
    return warning_if(works, "Ray's disk", text, remedy)


def _breaks(package: str, where: dict[str, list[str]]) -> bool:
    """True if nodes with different versions of the package can't work together.

    Ray and pickles need the same Python, down to the last part of its version.
    """
    minors = {version.rpartition(".")[0] for version in where}
    return package in ESSENTIAL or (package == "python" and len(minors) > 1)


def _each(
    subject: str, nodes: tuple[Node, ...], check: Callable[[Node], Finding | None], good: str
) -> tuple[Finding, ...]:
    """Findings of the nodes with a problem; if none has one, a single finding for all nodes."""
    findings = tuple(found for node in nodes if (found := check(node)))
    return findings or (ok(subject, good),)


def _least_free(nodes: tuple[Node, ...], free: Callable[[Node], int]) -> str:
    """The fewest bytes free on any node, as text."""
    or_more = " or more on every node" if len(nodes) > 1 else ""
    return f"{decimal(min(map(free, nodes), default=0))} free{or_more}"
