"""A search on a cluster without workers: Ray's own autoscaler starts them, and ends them when idle.

The machines are processes of this one, by Ray's fake provider.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fathom.search.records import Outcome
from fathom.search.run_folder import RunFolder, read_records
from tests.support.command_line import run
from tests.support.places import ROOT
from tests.support.ports import free_port
from tests.support.ray_program import RAY, ray_folder
from tests.support.waiting import LONGEST_SECONDS, wait_until

HEAD = "f" * 51 + "00000"
"""Id of the head, by which the fake provider knows it."""
MOST = 2
"""Largest number of workers, of one core each."""
STUDY = """
study: zero
objective: {name: language, corpus: stdlib, tokenizer: bytes, context: 32, eval_tokens: 4k}
budgets: [8k]
count: non_embedding
tokens: 20k
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 1, seeds: 1, rates: [1]}
train: {batch_size: 8, evaluations: 4}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2}
"""
NODES = """
import json, ray
ray.init(logging_level="ERROR")
print(json.dumps({node["NodeID"]: node["Alive"] for node in ray.nodes()}))
"""
"""Prints the nodes that have been in the cluster, and whether each still is."""


def settings(port: int) -> dict[str, Any]:
    """Settings of the autoscaler, as `ray up` gives them to a head."""
    commands = (
        *("initialization_commands", "setup_commands", "head_setup_commands"),
        *("worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands"),
    )
    return {
        "cluster_name": "zero",
        "max_workers": MOST,
        "idle_timeout_minutes": 0.05,
        "provider": {
            # By its class, since Ray's wheel lacks the defaults of `type: fake_multinode`.
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "gcs_address": f"127.0.0.1:{port}",
            "head_node_id": HEAD,
            "launch_multiple": True,
        },
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {
                "resources": {"CPU": 1},
                "node_config": {},
                "min_workers": 0,
                "max_workers": MOST,
            },
        },
        **dict.fromkeys((*commands, "cluster_synced_files"), ()),
        "auth": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
    }


@pytest.fixture
def access() -> Iterator[dict[str, str]]:
    """The environment that joins a cluster of a head without cores, which may start workers."""
    port = free_port()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789" * 4}
    options = ["--node-ip-address=127.0.0.1", "--num-cpus=0", "--include-dashboard=false"]
    ports = [f"--port={port}", f"--ray-client-server-port={free_port()}", "--disable-usage-stats"]
    starts = {
        "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_enable_autoscaler_v2": "1",  # as `ray up` of Ray 2.60
        "RAY_CLOUD_INSTANCE_ID": HEAD,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD,
    }
    with ray_folder() as folder:
        joins = os.environ | token | {"RAY_TMPDIR": folder, "PYTHONPATH": str(ROOT)}
        file = Path(folder, "autoscaler.json")
        file.write_text(json.dumps(settings(port)), encoding="utf-8")
        started = run(
            *(RAY, "start", "--head", f"--autoscaling-config={file}", *options, *ports),
            env=joins | starts,
            cwd=folder,
        )
        assert started.returncode == 0, started.stdout + started.stderr
        yield joins | {"RAY_ADDRESS": f"127.0.0.1:{port}"}


def nodes(access: dict[str, str]) -> dict[str, bool]:
    """Id of each node that has been in the cluster -> True if it still is."""
    asked = run(sys.executable, "-c", NODES, env=access)
    assert asked.returncode == 0, asked.stderr
    found: dict[str, bool] = json.loads(asked.stdout.splitlines()[-1])
    return found


@pytest.mark.drill
def test_workers_come_when_trials_wait_and_go_when_none_does(
    access: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    assert nodes(access) == {HEAD: True}

    search = (sys.executable, "-m", "search", "run", "study.yaml")
    done = run(*search, env=access, cwd=tmp_path, timeout=LONGEST_SECONDS)

    assert done.returncode == 0, done.stdout + done.stderr
    folder = RunFolder(tmp_path / "runs" / "zero")
    records = read_records(folder.records)
    assert {record.outcome for record in records} == {Outcome.FINISHED}
    assert folder.report.exists()
    alone = f"{HEAD} alone"
    wait_until(lambda: {node for node, alive in nodes(access).items() if alive} == {HEAD}, alone)
    assert 1 <= len(nodes(access)) - 1 <= MOST, "workers came, no more than allowed"
