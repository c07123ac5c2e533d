"""A machine that is about to be taken away, on a real Ray: `search/cluster/worker.py`."""

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray
import torch
from ray.cluster_utils import Cluster

from fathom.objectives.contract import Batch
from fathom.search.cluster.session.connect import QUIET
from fathom.search.cluster.tune import run_trials
from fathom.search.records import Outcome
from fathom.search.training.assignment import Assignment
from fathom.search.training.saving.trial_log import LEAVING
from fathom.search.training.trial import RunningTrial
from tests.support.ray_folder import started_cluster
from tests.support.ray_program import RAY
from tests.support.searches import new_search
from tests.support.toy import Successor
from tests.support.waiting import wait_until

STUDY = """
study: leaving
objective: {name: language, context: 6}
budgets: [8k]
count: non_embedding
tokens: 3k
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 1, seeds: 1, rates: [1]}
train: {batch_size: 4, evaluations: 4, learning_rate: 1e-2, diagnostics: false}
resources: {gpus_per_trial: 0}
"""
STEPS_BEFORE = 40
"""Steps of the node before it has its notice."""
NOTICE_SECONDS = 60
"""Seconds from the notice to the end of the machine."""
GONE = "the machine is gone"
"""Line of the note once the machine has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Successor):
    """Steps that are noted with the node that takes them.

    On the node that will be taken away they wait until its worker has heard of that. Elsewhere
    they wait until a trial runs there, and later ones until the machine is gone.
    """

    note: Path
    drained: str

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        node = ray.get_runtime_context().get_node_id()
        if node != self.drained:
            awaited = GONE if step > STEPS_BEFORE else self.drained
            wait_until(lambda: awaited in self.note.read_text(), f"never noted: {awaited}")
        with self.note.open("a") as file:
            file.write(f"{node} {step}\n")
        if node == self.drained and step > STEPS_BEFORE:
            LEAVING.wait(300)
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of a head and another node, with a core each."""
    with started_cluster({"num_cpus": 1}, {"num_cpus": 1}) as there:
        ray.init(address=there.address, **QUIET)
        yield there


def take_away(node: str, note: Path, cluster: Cluster) -> None:
    """Gives a node its notice once it has taken some steps, and ends it when the notice says."""
    wait_until(lambda: note.read_text().count(node) > STEPS_BEFORE, "no step")
    deadline = time.monotonic() + NOTICE_SECONDS
    command = "drain-node --reason DRAIN_NODE_REASON_PREEMPTION --reason-message spot"
    command += f" --deadline-remaining-seconds {NOTICE_SECONDS}"  # docs/clusters.md has it too
    where = ["--node-id", node, "--address", cluster.address]
    subprocess.run([RAY, *command.split(), *where], check=True)
    time.sleep(max(0.0, deadline - time.monotonic()))
    (machine,) = set(cluster.worker_nodes)
    cluster.remove_node(machine, allow_graceful=False)
    with note.open("a") as file:
        file.write(f"{GONE}\n")


@pytest.mark.drill
def test_a_trial_on_a_machine_with_a_notice_saves_and_goes_on_elsewhere_as_if_undisturbed(
    cluster: Cluster, tmp_path: Path
) -> None:
    search, note = new_search(tmp_path / "run", STUDY, 8), tmp_path / "steps"
    head = ray.get_runtime_context().get_node_id()
    (node,) = {node["NodeID"] for node in ray.nodes()} - {head}
    note.touch()
    given = (node, note, cluster)
    threading.Thread(target=take_away, args=given, daemon=True).start()

    run_trials(search, Watched(note=note, drained=node))

    assert search.done
    assert {record.outcome for record in search.records} == {Outcome.FINISHED}
    noted = note.read_text().splitlines()
    assert GONE in noted, "the search went on without the machine"
    places = [line.split()[0] for line in noted if line != GONE]
    each = search.records[0].curve[-1].step
    assert len(places) == each * len(search.records), "no step was taken twice"
    assert places.count(node) % each, "a trial left the node before its end"
    for record in search.records:
        budget = search.budgets[record.spec.budget].budget
        alone = Assignment(search.config, budget, record.spec, str(tmp_path / "alone.pt"))
        (tmp_path / "alone.pt").unlink(missing_ok=True)
        *_, last = RunningTrial(alone, Successor(), torch.device("cpu")).reports()
        assert [point.loss for point in last.points] == [point.loss for point in record.curve]
