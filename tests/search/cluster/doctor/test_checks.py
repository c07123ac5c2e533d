"""The findings of `fathom doctor` from given facts, with and without problems."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fathom.search.cluster.doctor.access import (
    judge_data,
    judge_ports,
    judge_storage,
    judge_token,
    judge_tracking,
)
from fathom.search.cluster.doctor.checks import judge_cluster, judge_gpus, judge_members
from fathom.search.cluster.doctor.facts import (
    ClusterFacts,
    ClusterProbe,
    Disk,
    Facts,
    Finding,
    Gpu,
    Listener,
    Needs,
    Node,
    Severity,
)
from fathom.search.study.hardware.gpus import CARRY

GB = 10**9
VERSIONS = {
    "python": "3.11.7",
    "ray": "2.60.0",
    "torch": "2.13.0",
    "optuna": "5.0.0",
    "mlflow": "3.17.2",
    "fathom": "0.1.0",
    "fathom's sources": "abcdef0",
}
FACTS = Facts(
    versions=VERSIONS,
    gpus=(),
    torch_gpus=None,
    gpu_trouble="",
    mps=False,
    ray_disk=Disk("/tmp/ray", 100 * GB, 50 * GB),
    shared_memory=Disk("/dev/shm", 16 * GB, 16 * GB),
    memory=32 * GB,
    memory_used=8 * GB,
    token_mode="token",
    token_hash="89abcdef",
    listeners=(),
    monitor_grows=None,
    import_trouble="",
    storage_trouble="",
)
L4 = Gpu("NVIDIA L4", 24 * GB, "580.1")
NEEDS = Needs(
    gpus_per_trial="auto", cpus_per_trial=1, checkpoints=3 * GB, trial_memory=GB,
    least_memory=GB, saved_state=GB,
)  # fmt: skip
PROBE = ClusterProbe("/shared", ".doctor", "content")
ROOMY = Disk("/shared", 100 * GB, 50 * GB)


def node(
    name: str = "10.0.0.1",
    *,
    gpus: float = 0,
    skew: float = 0.0,
    grows: bool = False,
    gpus_of_driver: tuple[Gpu, ...] = (),
    **facts: Any,
) -> Node:
    return Node(
        name=name,
        cpus=4,
        gpus=gpus,
        grows=grows,
        clock_ahead_seconds=skew,
        facts=replace(FACTS, gpus=gpus_of_driver, **facts),
    )


def cluster(*nodes: Node, **changes: Any) -> ClusterFacts:
    return replace(ClusterFacts("10.0.0.1:6379", nodes, {}), **changes)


def judged(*nodes: Node, needs: Needs = NEEDS) -> list[Finding]:
    """The findings that are not ok."""
    found = judge_cluster(cluster(*nodes), needs)
    return [finding for finding in found if finding.level is not Severity.OK]


def needs(**changes: Any) -> Needs:
    return replace(NEEDS, **changes)


def with_gpu(*, given: float = 1, torch_gpus: int = 1, **facts: Any) -> Node:
    return node(gpus=given, gpus_of_driver=(L4,), torch_gpus=torch_gpus, **facts)


def only(findings: list[Finding] | tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def stored(cluster_facts: ClusterFacts, probe: ClusterProbe = PROBE) -> list[Finding]:
    found = judge_storage(probe, cluster_facts, ROOMY, NEEDS)
    return [finding for finding in found if finding.subject == "storage"]


def test_equal_healthy_nodes_have_one_ok_line_per_subject() -> None:
    found = judge_cluster(cluster(node(), node("10.0.0.2")), NEEDS)

    assert {finding.level for finding in found} == {Severity.OK}
    assert not any(finding.remedy for finding in found)
    assert len({finding.subject for finding in found}) == len(found)


def test_this_machine_alone_has_no_clock_and_no_token_to_compare() -> None:
    found = judge_cluster(replace(cluster(node(token_hash="")), address=""), NEEDS)

    assert {finding.level for finding in found} == {Severity.OK}
    assert not {finding.subject for finding in found} & {"clocks", "token"}


@pytest.mark.parametrize(
    ("package", "version", "level"),
    [
        ("python", "3.11.9", Severity.WARNING),
        ("python", "3.12.7", Severity.FAILURE),
        ("ray", "2.61.0", Severity.FAILURE),
        ("torch", "2.12.0", Severity.WARNING),
        ("optuna", "5.1.0", Severity.WARNING),
        ("mlflow", "3.18.0", Severity.WARNING),
        ("fathom", "0.2.0", Severity.FAILURE),
        ("fathom's sources", "0000000", Severity.FAILURE),
        ("torch", "", Severity.FAILURE),
    ],
)
def test_a_node_with_another_version_is_named_with_both(
    package: str, version: str, level: Severity
) -> None:
    other = node("10.0.0.9", versions=VERSIONS | {package: version})

    found = only(judged(node(), node("10.0.0.2"), other))

    assert found.level is level
    assert package in found.message
    assert "10.0.0.9" in found.message
    assert version in found.message
    assert "constraints.txt" in found.remedy


OK, WARNING, FAILURE = Severity.OK, Severity.WARNING, Severity.FAILURE
WITHOUT_TOKEN: dict[str, Any] = {"token_mode": "disabled"}
RAYLET = Listener("raylet", "0.0.0.0", 40123)
NEARLY_FULL, FULL = Disk("/tmp/ray", 100 * GB, 4 * GB), Disk("/tmp/ray", 100 * GB, 0)
SMALL = Disk("/dev/shm", 64 * 10**6, 64 * 10**6)
MISSING = "/home/u/my_task.py, line 3: ModuleNotFoundError: No module named 'x'"
GPU, FOUR_SHARE = needs(gpus_per_trial=1.0), needs(gpus_per_trial=0.25)
FIVE_CPUS = needs(cpus_per_trial=5, gpus_per_trial=0)
SECOND = "10.0.0.2"
TOKENS, RUNS = {"/r/x": 1}, Path("/r")


FINDINGS: list[tuple[Any, Severity, str, str, str]] = [
    (judge_members(cluster(node(), silent={"10.0.0.3": "No module"}))[1:],
     FAILURE, "cluster", "10.0.0.3 gives no answer: No module", "install Fathom there"),
    (judge_members(ClusterFacts("", (node(),), {}, unanswered="10.0.0.1:6379")),
     WARNING, "cluster", "10.0.0.1:6379", "start the cluster"),
    (judged(node(), needs=GPU), FAILURE, "GPUs", "asks for 1", "gpus_per_trial: 0"),
    (judged(node(grows=True), needs=GPU), WARNING, "GPUs", "asks for 1", "workers"),
    (judged(node(grows=True)), WARNING, "GPUs", "no node has a GPU yet", "gpus_per_trial: 1"),
    (judged(with_gpu(torch_gpus=0)),
     FAILURE, "GPUs", "PyTorch can use 0 of 1 x NVIDIA L4", "torch for that driver"),
    (judged(with_gpu(torch_gpus=0), needs=needs(gpus_per_trial=0)),
     WARNING, "GPUs", "PyTorch can use 0 of 1 x NVIDIA L4", "torch for that driver"),
    (judged(node(gpus=1), needs=FOUR_SHARE), WARNING, "GPUs", "MPS is not on", "-control -d"),
    (judged(node(gpus=1, gpu_trouble="nvidia-smi: couldn't communicate")),
     FAILURE, "GPUs", "couldn't communicate", "fix the driver"),
    (judged(with_gpu(given=0)),
     WARNING, "GPUs", "Ray gives out 0 of 1 x NVIDIA L4", "without `--num-gpus`"),
    (judged(node(), node(SECOND), needs=FIVE_CPUS),
     FAILURE, "CPUs", "asks for 5, but no node has more than 4", "cpus_per_trial"),
    (judged(node(grows=True), node(SECOND), needs=FIVE_CPUS),
     WARNING, "CPUs", "asks for 5, but no node has more than 4", "cpus_per_trial"),
    (judged(node(), node(SECOND, skew=6.0)), WARNING, "clocks", "10.0.0.2 is 6 s ahead", ""),
    (judged(node(), node(SECOND, skew=-60.0)), WARNING, "clocks", "is 60 s behind", ""),
    (judged(node(memory_used=31 * GB)), FAILURE, "memory", "Ray kills workers", ""),
    (judged(node(), needs=needs(trial_memory=25 * GB)), FAILURE, "memory", "25.0 GB",
     "drop the largest of the `budgets`"),
    (judged(node(), needs=needs(trial_memory=25 * GB, least_memory=25 * GB)),
     FAILURE, "memory", "25.0 GB", "end other programs there, or use a larger machine"),
    (judged(node(gpus=8), needs=needs(saved_state=12 * GB)),
     FAILURE, "memory", "to save from, take 96.0 GB or more", ""),
    (judged(node(shared_memory=SMALL)), WARNING, "/dev/shm", "", "9.6 GB"),
    (judged(node(ray_disk=NEARLY_FULL)), WARNING, "Ray's disk", "96%", ""),
    (judged(node(ray_disk=FULL)), FAILURE, "Ray's disk", "100%", "RAY_TMPDIR"),
    (judged(node(ray_disk=NEARLY_FULL, shared_memory=SMALL))[1:],
     FAILURE, "Ray's disk", "96%", "RAY_TMPDIR"),
    (judge_token(cluster(node(), node(SECOND))), OK, "token", "the same", ""),
    (judge_token(cluster(node(), node(SECOND, token_hash="4567"))),
     FAILURE, "token", "another on 10.0.0.2", "RAY_AUTH_MODE=token"),
    (judge_token(cluster(node(), node(SECOND, token_hash=""))),
     FAILURE, "token", "none on 10.0.0.2", ""),
    (judge_token(cluster(node(), node(SECOND, **WITHOUT_TOKEN))),
     FAILURE, "token", "none on 10.0.0.2", ""),
    (judge_token(cluster(node(**WITHOUT_TOKEN), node(SECOND, **WITHOUT_TOKEN))),
     WARNING, "token", "none", "RAY_AUTH_MODE=token"),
    (judge_ports(cluster(node(listeners=(RAYLET, Listener("Ray dashboard", "::", 8265))))),
     WARNING, "ports", "Ray dashboard: open at *:8265 on 10.0.0.1", "-host=127.0.0.1"),
    (judge_ports(cluster(node(listeners=(RAYLET, Listener("MLflow", "0.0.0.0", 5000))))),
     WARNING, "ports", "MLflow: open at *:5000 on 10.0.0.1", "--host 127.0.0.1"),
    (judge_ports(cluster(node(listeners=(RAYLET,)))), OK, "ports", "the token alone", ""),
    (judge_ports(cluster(node(listeners=(RAYLET,), **WITHOUT_TOKEN))),
     WARNING, "ports", "without a token", "RAY_AUTH_MODE=token"),
    (judge_ports(cluster(node(listeners=(RAYLET,)), address="")),
     WARNING, "ports", "another Ray cluster that is running", "ray stop"),
    (judge_ports(cluster(node(listeners=None))), WARNING, "ports", "not shown", "lsof"),
    (judged(node(), node(SECOND, import_trouble=MISSING)),
     FAILURE, "imports", f"10.0.0.2: a worker fails at {MISSING}", "install"),
    (stored(cluster(node(), node(SECOND))), OK, "storage", "on every node: /shared", ""),
    (stored(cluster(node()), replace(PROBE, trouble="No space left on device")),
     FAILURE, "storage", "No space left on device", "--runs"),
    (stored(cluster(node(), node(SECOND, storage_trouble="does not see it"))),
     FAILURE, "storage", "10.0.0.2: does not see it, /shared", "--runs"),
    (judge_storage(PROBE, cluster(node()), Disk("/shared", 100 * GB, 3 * GB), NEEDS)[1:],
     FAILURE, "space", "3.0 GB free, a search may take 3.1 GB", "--runs"),
    (judge_storage(PROBE, cluster(node()), ROOMY, NEEDS)[1:], OK, "space", "50.0 GB free", ""),
    (judge_data(cluster(node(), node(SECOND, unseen_data={"/r/x": "No such file"})), TOKENS, RUNS),
     FAILURE, "data", "10.0.0.2 does not see /r/x (No such file)", f"`{CARRY}`"),
    (judge_data(cluster(node(grows=True)), {"/other/x": 1}, RUNS),
     WARNING, "data", "/other/x is outside /r, the only folder that later workers", f"`{CARRY}`"),
    (judge_data(cluster(node(grows=True)), TOKENS, RUNS), OK, "data", "seen: /r/x", ""),
    (judge_data(cluster(node(), node(SECOND)), TOKENS, RUNS),
     OK, "data", "every node sees /r/x", ""),
    ([judge_tracking("http://host:5000")], OK, "tracking", "http://host:5000", ""),
    ([judge_tracking("http://host", silence="refused")],
     WARNING, "tracking", "http://host does not answer: refused", "start it"),
    ([judge_tracking("gopher://host", refusal="no such kind")],
     FAILURE, "tracking", "no such kind", "MLFLOW_TRACKING_URI"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "level", "subject", "says", "remedy"),
    FINDINGS,
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_finding_has_its_level_its_words_and_its_remedy(
    found: list[Finding], level: Severity, subject: str, says: str, remedy: str
) -> None:
    finding = only(found)
    assert (finding.level, finding.subject) == (level, subject)
    assert says in finding.message
    assert remedy in finding.remedy
    assert FACTS.token_hash not in finding.message


@pytest.mark.parametrize(("gpus", "asked"), [(1, 1), (1, 0.25), (2, 2), (0, 0), (1, "auto")])
def test_available_gpus_are_ok(gpus: int, asked: Any) -> None:
    well = node(gpus=gpus, gpus_of_driver=(L4,) * gpus, torch_gpus=gpus, mps=True)

    found = only(judge_gpus(cluster(well), needs(gpus_per_trial=asked)))

    assert found.level is OK
    assert ("NVIDIA L4" in found.message) == bool(gpus)


def test_what_a_study_does_not_need_is_no_problem() -> None:
    assert not judged(node(gpus=1, mps=True), needs=FOUR_SHARE)
    assert not judged(node(gpus=1), needs=GPU)
    assert not judged(node(), node(SECOND, skew=4.0))
    assert not judged(with_gpu(), needs=needs(trial_memory=25 * GB)), "it trains on the GPU"
    copies = needs(saved_state=12 * GB)
    assert not judged(node(gpus=1), needs=copies)
    assert not judged(node(gpus=8), needs=replace(copies, gpus_per_trial=8))
    assert not judged(node(gpus=8), needs=replace(copies, gpus_per_trial=0))
    assert not judged(node(shared_memory=None))


def test_a_machine_alone_needs_the_memory_of_a_whole_search() -> None:
    small = node(memory=GB, memory_used=0)
    found = only([f for f in judge_cluster(cluster(small, address=""), needs(trial_memory=0))
                  if f.subject == "memory"])  # fmt: skip
    assert found.level is FAILURE
    assert "a search takes at least 1.2 GB" in found.message
    assert "raise the limit of the container" in found.remedy
    assert not [f for f in judged(small, needs=needs(trial_memory=0)) if f.subject == "memory"]
