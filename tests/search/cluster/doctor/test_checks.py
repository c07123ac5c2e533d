"""The findings of `fathom doctor` from given facts, with and without problems."""

from dataclasses import replace
from typing import Any

import pytest

from fathom.search.cluster.doctor.access import (
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
    token_hash="0123",
    listeners=(),
    monitor_grows=None,
    import_trouble="",
    storage_trouble="",
)
L4 = Gpu("NVIDIA L4", 24 * GB, "580.1")
NEEDS = Needs(
    gpus_per_trial="auto", cpus_per_trial=1, checkpoints=3 * GB, trial_memory=GB, saved_state=GB
)
PROBE = ClusterProbe("/shared", ".doctor", "content")
ROOMY = Disk("/shared", 100 * GB, 50 * GB)


def node(
    name: str = "10.0.0.1",
    *,
    gpus: float = 0,
    skew: float = 0.0,
    grows: bool = False,
    **facts: Any,
) -> Node:
    return Node(
        name=name,
        cpus=4,
        gpus=gpus,
        grows=grows,
        clock_ahead_seconds=skew,
        facts=replace(FACTS, **facts),
    )


def cluster(*nodes: Node, **changes: Any) -> ClusterFacts:
    return replace(ClusterFacts("10.0.0.1:6379", nodes, {}), **changes)


def judged(*nodes: Node, needs: Needs = NEEDS) -> list[Finding]:
    """The findings that are not ok."""
    found = judge_cluster(cluster(*nodes), needs)
    return [finding for finding in found if finding.level is not Severity.OK]


def only(findings: list[Finding] | tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


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


def test_a_node_that_gives_no_answer_is_a_failure_with_its_reason() -> None:
    found = judge_members(cluster(node(), silent={"10.0.0.3": "No module named 'search'"}))[1]

    assert found.level is Severity.FAILURE
    assert "10.0.0.3" in found.message
    assert "No module named 'search'" in found.message


def test_a_silent_cluster_is_reported_since_the_search_would_run_here() -> None:
    found = only(judge_members(ClusterFacts("", (node(),), {}, unanswered="10.0.0.1:6379")))

    assert found.level is Severity.WARNING
    assert "10.0.0.1:6379" in found.message


@pytest.mark.parametrize(("gpus", "asked"), [(1, 1), (1, 0.25), (2, 2), (0, 0), (1, "auto")])
def test_available_gpus_are_ok(gpus: int, asked: Any) -> None:
    plain = node(gpus=gpus, torch_gpus=gpus)
    well = replace(plain, facts=replace(plain.facts, gpus=(L4,) * gpus, mps=True))

    found = only(judge_gpus(cluster(well), replace(NEEDS, gpus_per_trial=asked)))

    assert found.level is Severity.OK
    assert ("NVIDIA L4" in found.message) == bool(gpus)


@pytest.mark.parametrize(("grows", "level"), [(False, Severity.FAILURE), (True, Severity.WARNING)])
def test_a_study_asks_for_a_gpu_and_no_node_has_one(grows: bool, level: Severity) -> None:
    found = only(judged(node(grows=grows), needs=replace(NEEDS, gpus_per_trial=1.0)))

    assert (found.level, found.subject) == (level, "GPUs")
    assert "asks for 1" in found.message


def test_auto_on_a_cluster_that_has_no_gpu_yet_would_train_on_cpus() -> None:
    found = only(judged(node(grows=True)))

    assert found.level is Severity.WARNING
    assert "gpus_per_trial: 1" in found.remedy


def with_gpu(*, given: float = 1, **facts: Any) -> Node:
    plain = node(gpus=given, torch_gpus=1, **facts)
    return replace(plain, facts=replace(plain.facts, gpus=(L4,)))


@pytest.mark.parametrize(("asked", "level"), [("auto", Severity.FAILURE), (0, Severity.WARNING)])
def test_a_gpu_that_pytorch_cannot_use_matters_as_far_as_trials_would_use_it(
    asked: Any, level: Severity
) -> None:
    blind = with_gpu()
    blind = replace(blind, facts=replace(blind.facts, torch_gpus=0))

    found = only(judged(blind, needs=replace(NEEDS, gpus_per_trial=asked)))

    assert found.level is level
    assert "PyTorch can use 0 of 1 x NVIDIA L4" in found.message


def test_trials_that_share_a_gpu_are_advised_to_use_mps() -> None:
    shared = replace(NEEDS, gpus_per_trial=0.25)

    found = only(judged(node(gpus=1), needs=shared))

    assert found.level is Severity.WARNING
    assert "CUDA's MPS is not on" in found.message
    assert not judged(node(gpus=1, mps=True), needs=shared)
    assert not judged(node(gpus=1), needs=replace(NEEDS, gpus_per_trial=1))


def test_the_error_of_a_failing_driver_is_quoted() -> None:
    found = only(judged(node(gpus=1, gpu_trouble="nvidia-smi: couldn't communicate")))

    assert found.level is Severity.FAILURE
    assert "couldn't communicate" in found.message


def test_a_gpu_unknown_to_ray_is_a_warning() -> None:
    found = only(judged(with_gpu(given=0)))

    assert found.level is Severity.WARNING
    assert "Ray gives out 0 of 1 x NVIDIA L4" in found.message


@pytest.mark.parametrize(("grows", "level"), [(False, Severity.FAILURE), (True, Severity.WARNING)])
def test_a_trial_that_asks_for_more_cpus_than_any_node_has(grows: bool, level: Severity) -> None:
    asks = replace(NEEDS, cpus_per_trial=5, gpus_per_trial=0)
    found = only(judged(node(grows=grows), node("10.0.0.2"), needs=asks))

    assert (found.level, found.subject) == (level, "CPUs")
    assert "asks for 5, no node has more than 4" in found.message


@pytest.mark.parametrize(("skew", "word"), [(6.0, "6 s ahead"), (-60.0, "60 s behind")])
def test_a_clock_that_is_off_is_a_warning(skew: float, word: str) -> None:
    found = only(judged(node(), node("10.0.0.2", skew=skew)))

    assert (found.level, found.subject) == (Severity.WARNING, "clocks")
    assert f"10.0.0.2 is {word}" in found.message
    assert not judged(node(), node("10.0.0.2", skew=4.0))


def test_full_memory_and_a_model_that_does_not_fit_are_failures() -> None:
    full = only(judged(node(memory_used=31 * GB)))
    large = only(judged(node(), needs=replace(NEEDS, trial_memory=25 * GB)))

    assert {full.level, large.level} == {Severity.FAILURE}
    assert "Ray kills workers" in full.message
    assert "25.0 GB" in large.message


def test_a_model_that_trains_on_a_gpu_takes_none_of_the_machines_memory() -> None:
    assert not judged(with_gpu(), needs=replace(NEEDS, trial_memory=25 * GB))


def test_a_node_must_have_memory_for_copies_of_the_states_of_all_its_gpus() -> None:
    needs = replace(NEEDS, saved_state=12 * GB)

    found = only(judged(node(gpus=8), needs=needs))

    assert found.level is Severity.FAILURE
    assert "while they are saved, take 96.0 GB" in found.message
    assert not judged(node(gpus=1), needs=needs)
    assert not judged(node(gpus=8), needs=replace(needs, gpus_per_trial=8))
    assert not judged(node(gpus=8), needs=replace(needs, gpus_per_trial=0))


def test_small_shared_memory_is_a_warning_with_the_size_that_it_needs() -> None:
    found = only(judged(node(shared_memory=Disk("/dev/shm", 64 * 10**6, 64 * 10**6))))

    assert (found.level, found.subject) == (Severity.WARNING, "/dev/shm")
    assert "9.6 GB" in found.remedy
    assert not judged(node(shared_memory=None))


def test_rays_disk_fails_a_search_when_nothing_is_left_or_objects_must_go_there() -> None:
    nearly, full = Disk("/tmp/ray", 100 * GB, 4 * GB), Disk("/tmp/ray", 100 * GB, 0)
    small = Disk("/dev/shm", 10**6, 10**6)

    assert only(judged(node(ray_disk=nearly))).level is Severity.WARNING
    assert only(judged(node(ray_disk=full))).level is Severity.FAILURE
    both = judged(node(ray_disk=nearly, shared_memory=small))
    assert [finding.level for finding in both] == [Severity.WARNING, Severity.FAILURE]
    assert "96%" in both[1].message
    assert "RAY_TMPDIR" in both[1].remedy


@pytest.mark.parametrize(
    ("others", "level", "word"),
    [
        ({}, Severity.OK, "the same"),
        ({"token_hash": "4567"}, Severity.FAILURE, "another on 10.0.0.2"),
        ({"token_hash": ""}, Severity.FAILURE, "none on 10.0.0.2"),
        ({"token_mode": "disabled"}, Severity.FAILURE, "none on 10.0.0.2"),
    ],
)
def test_every_node_must_have_the_token(others: dict[str, Any], level: Severity, word: str) -> None:
    found = only(judge_token(cluster(node(), node("10.0.0.2", **others))))

    assert found.level is level
    assert word in found.message
    assert "0123" not in found.message


def test_a_cluster_without_any_token_works_for_everyone() -> None:
    found = only(judge_token(cluster(node(token_mode="disabled"), node(token_mode="disabled"))))

    assert found.level is Severity.WARNING
    assert "RAY_AUTH_MODE=token" in found.remedy


RAYLET = Listener("raylet", "0.0.0.0", 40123)


@pytest.mark.parametrize(
    ("service", "port", "remedy"),
    [
        ("Ray dashboard", 8265, "--dashboard-host=127.0.0.1"),
        ("MLflow", 5000, "--host 127.0.0.1"),
    ],
)
def test_a_page_that_others_can_open_is_a_warning_even_with_a_token(
    service: str, port: int, remedy: str
) -> None:
    page = Listener(service, "0.0.0.0", port)

    found = only(judge_ports(cluster(node(listeners=(RAYLET, page)))))

    assert found.level is Severity.WARNING
    assert f"{service}: open at *:{port} on 10.0.0.1" in found.message
    assert remedy in found.remedy


def test_rays_own_ports_are_open_between_nodes_and_well_with_a_token_alone() -> None:
    guarded, bare = node(listeners=(RAYLET,)), node(listeners=(RAYLET,), token_mode="disabled")

    assert only(judge_ports(cluster(guarded))).level is Severity.OK
    found = only(judge_ports(cluster(bare)))
    assert found.level is Severity.WARNING
    assert "without a token" in found.message
    elsewhere = only(judge_ports(replace(cluster(guarded), address="")))
    assert elsewhere.level is Severity.WARNING
    assert "another Ray cluster that is running" in elsewhere.message


def test_hidden_ports_count_as_neither_open_nor_closed() -> None:
    found = only(judge_ports(cluster(node(listeners=None))))

    assert found.level is Severity.WARNING
    assert "not shown" in found.message


def stored(probe: ClusterProbe, *nodes: Node) -> list[Finding]:
    found = judge_storage(probe, cluster(*nodes), ROOMY, NEEDS)
    return [finding for finding in found if finding.subject == "storage"]


def test_a_node_whose_workers_lack_a_module_fails_with_file_and_line() -> None:
    trouble = "/home/u/my_task.py, line 3: ModuleNotFoundError: No module named 'x'"
    nodes = cluster(node(), node("10.0.0.2", import_trouble=trouble))
    [found] = [finding for finding in judge_cluster(nodes, NEEDS) if finding.subject == "imports"]

    assert found.level is Severity.FAILURE
    assert found.message == f"10.0.0.2: a worker fails at {trouble}"


def test_storage_is_ok_when_every_node_reads_and_is_read() -> None:
    found = only(stored(PROBE, node(), node("10.0.0.2")))

    assert found.level is Severity.OK
    assert "every node" in found.message


def test_storage_fails_where_this_process_cannot_write() -> None:
    found = only(stored(replace(PROBE, trouble="No space left on device"), node()))

    assert found.level is Severity.FAILURE
    assert "No space left on device" in found.message
    assert "--runs" in found.remedy


def test_storage_fails_where_a_node_does_not_see_it() -> None:
    blind = node("10.0.0.2", storage_trouble="does not see it")
    found = only(stored(PROBE, node(), blind))

    assert found.level is Severity.FAILURE
    assert found.message == "10.0.0.2: does not see it, /shared"


def test_space_must_hold_the_checkpoints_that_the_study_keeps() -> None:
    tight = Disk("/shared", 100 * GB, 3 * GB)

    found = judge_storage(PROBE, cluster(node()), tight, NEEDS)

    assert found[-1].level is Severity.FAILURE
    assert "3.0 GB free, a search may take 3.1 GB" in found[-1].message
    assert judge_storage(PROBE, cluster(node()), ROOMY, NEEDS)[-1].level is Severity.OK


def test_silent_tracking_is_a_warning_and_unusable_tracking_a_failure() -> None:
    uri = "http://host:5000"

    assert judge_tracking(uri).level is Severity.OK
    assert judge_tracking(uri, silence="refused").level is Severity.WARNING
    assert judge_tracking(uri, refusal="no such kind").level is Severity.FAILURE
