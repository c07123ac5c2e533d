"""The head of a joined cluster that dies: `search/cluster/session/death.py`."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fathom.search.cluster.ray_internals import RECONNECT
from tests.support.places import ROOT
from tests.support.ray_folder import cluster_of
from tests.support.waiting import wait_until

JOINED = """
import socket, sys, time
import ray
from fathom.search.cluster.session.death import end_with_head

ray.is_initialized = lambda: True
server = socket.create_server(("127.0.0.1", 0))
address = "127.0.0.1:%d" % server.getsockname()[1]
end_with_head(address, "fathom run study.yaml")
print(address, flush=True)
sys.stdin.readline()
server.close()
time.sleep(600)
"""


def test_the_death_of_a_joined_cluster_is_one_line_with_the_command_that_goes_on() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", JOINED],
        env=os.environ | {"PYTHONPATH": str(ROOT), RECONNECT: "5"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    address = process.stdout.readline().strip()
    assert process.poll() is None
    _, complaint = process.communicate("the head dies\n", timeout=300)
    assert process.returncode == 1
    assert complaint == (
        f"fathom: the Ray cluster at {address} has died (no head for 2 s); nothing is lost. "
        "Once a cluster runs again, resume by: fathom run study.yaml\n"
    )


SHUT_DOWN = """
import subprocess, time
from fathom.search.cluster.session.death import POLL_SECONDS, end_with_ray

server = subprocess.Popen(["sleep", "600"])
watch = end_with_ray([server], "fathom run study.yaml")
watch.socket = "/tmp/raylet"
server.kill()
time.sleep(10 * POLL_SECONDS)
"""


def test_a_ray_shut_down_before_the_watch_saw_it_up_ends_no_process() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", SHUT_DOWN], env=environment, check=True)


STUDY = """
study: cut
objective: {name: language, corpus: stdlib, context: 32, eval_tokens: 4k}
budgets: [8k]
count: non_embedding
tokens: 4k
space: {depth: [1, 3], n_heads: 2}
trials: 4
confirm: {depths: 1, seeds: 1, rates: [1]}
train: {batch_size: 8, evaluations: 2}
resources: {gpus_per_trial: 0}
"""


@pytest.mark.parametrize(
    ("dies", "what"),
    [
        pytest.param(
            "gcs_server", "the Ray cluster at {address} has died (no head for 17 s)",
            marks=pytest.mark.siege,
        ),
        pytest.param(
            "raylet", "Ray on this machine has died (its raylet is gone)",
            marks=pytest.mark.siege,
        ),
    ],
)  # fmt: skip
def test_a_search_whose_cluster_dies_says_how_to_go_on_and_does(
    dies: str, what: str, tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    journal = tmp_path / "runs" / "cut" / "state" / "journal.jsonl"
    known = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "search", "run", "study.yaml"]
    with cluster_of({"num_cpus": 1}) as address:
        joined = {"RAY_ADDRESS": address, "RAY_AUTH_MODE": "token", RECONNECT: "20"}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=known | joined, stderr=subprocess.PIPE, text=True
        )
        try:
            wait_until(lambda: journal.exists() and journal.stat().st_size)
            for each in psutil.process_iter(["name", "environ"]):
                folder = (each.info["environ"] or {}).get("RAY_TMPDIR")
                if each.info["name"] == dies and folder == os.environ["RAY_TMPDIR"]:
                    each.kill()
            _, complaint = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 1
    [line] = complaint.splitlines()
    assert line.startswith(f"fathom: {what.format(address=address)}")
    assert line.endswith("resume by: fathom run study.yaml")
    alone = known | {"RAY_ADDRESS": "local"}
    assert subprocess.run(command, cwd=tmp_path, env=alone, check=False).returncode == 0
