"""Asks every node of a cluster for its facts by a Ray task; without a cluster, asks this
machine."""

import time
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fathom.search.cluster import ray_internals
from fathom.search.cluster.doctor.facts import ClusterFacts, Facts, Node, NodeQuestion
from fathom.search.cluster.doctor.gather import gather
from fathom.search.cluster.doctor.storage import is_answered
from fathom.search.cluster.session.connect import last_line
from fathom.search.cluster.session.folder import places
from fathom.search.cluster.session.ray_session import cluster_address, join_cluster
from fathom.search.study.hardware.memory import memory_limit
from fathom.search.study.hardware.mps import mps_may_start

ANSWER_SECONDS = 300.0
"""Most seconds to wait for all nodes: PyTorch alone can take minutes to load, on a busy machine or
from a network disk."""
CLOCK_SECONDS = 10.0
CLOCK_READINGS = 3
"""Number of readings of each clock; the quickest one counts."""


def ask_nodes(question: NodeQuestion) -> ClusterFacts:
    """Asks every node of the cluster that a search would join, or this machine if there is none.

    Raises:
        NotJoinedError: when there is a cluster that can't be joined.
    """
    address = join_cluster(own_code=len(question.imports) > 1)
    if address is None:
        return replace(alone(question), unanswered=cluster_address() or "")
    try:
        return _ask_cluster(address, question)
    finally:
        ray.shutdown()


def alone(question: NodeQuestion) -> ClusterFacts:
    """Facts of this machine as the only node, gathered without Ray; a search here would start
    CUDA's MPS."""
    facts = _look(question, "here", (str(places()[0]), ""))
    facts = replace(facts, mps=mps_may_start())
    node = Node(
        name="this machine",
        cpus=ray_internals.get_num_cpus(),
        gpus=max(len(facts.gpus), facts.torch_gpus or 0),
        grows=False,
        clock_ahead_seconds=0.0,
        facts=facts,
    )
    return ClusterFacts("", (node,), {})


def _ask_cluster(address: str, question: NodeQuestion) -> ClusterFacts:
    members = {member["NodeID"]: member for member in ray.nodes() if member["Alive"]}
    # Of no CPU: a search may hold them all, and a head often gives out none.
    look = ray.remote(num_cpus=0, max_retries=0)(_look_there)
    waiting = {_on(look, name).remote(question, name): name for name in members}
    ray.wait(list(waiting), num_returns=len(waiting), timeout=ANSWER_SECONDS)
    nodes, silent = [], {}
    for answer, node_id in waiting.items():
        try:
            nodes.append(_node(question, members[node_id], ray.get(answer, timeout=0)))
        except RayError as error:
            silent[members[node_id]["NodeManagerAddress"]] = last_line(error)
    return ClusterFacts(address, tuple(nodes), silent)


def _node(question: NodeQuestion, member: dict[str, Any], facts: Facts) -> Node:
    given, node_id = member["Resources"], member["NodeID"]
    if not (facts.storage_trouble or is_answered(question.probe, node_id)):
        facts = replace(facts, storage_trouble="a file that it wrote is not seen here")
    return Node(
        name=member["NodeManagerAddress"],
        cpus=given.get("CPU", 0.0),
        gpus=given.get("GPU", 0.0),
        # On Kubernetes the head's monitor runs beside the head, where it is not seen.
        grows="node:__internal_head__" in given and facts.monitor_grows is not False,
        clock_ahead_seconds=_clock_ahead(node_id),
        facts=facts,
    )


def _on(task: Any, node_id: str) -> Any:
    where = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return task.options(scheduling_strategy=where)


def _look_there(question: NodeQuestion, node: str) -> Facts:
    """Gathers the facts of a node, as a Ray task on that node."""
    return _look(question, node, ray_internals.node_here())


def _look(question: NodeQuestion, node: str, ray_at: tuple[str, str]) -> Facts:
    limit = memory_limit()  # Ray counts no limit of a group within this machine or container
    memory = (limit.used, int(limit.size)) if limit else ray_internals.memory_in_use()
    return gather(question, node, ray_at=ray_at, memory=memory)


def _clock_ahead(node_id: str) -> float:
    """Least number of seconds by which a node's clock is ahead of this machine's, negative if
    behind; 0 if they may agree.

    The node reads its clock between two readings of this machine's clock, which bound the
    difference.
    """
    read = _on(ray.remote(num_cpus=0, max_retries=0)(_clock), node_id)
    bounds = []
    for _ in range(CLOCK_READINGS):
        before = time.time()
        there: float = ray.get(read.remote(), timeout=CLOCK_SECONDS)
        bounds.append((there - time.time(), there - before))
    low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
    return low if low > 0 else min(high, 0.0)


def _clock() -> float:
    return time.time()
