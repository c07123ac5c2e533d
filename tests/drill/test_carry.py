"""The guide's way of a user's own text to a cluster, on hosts of one machine: `ray up`, without
Ray's start on them, and `ray rsync-up`."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom.search.study.hardware.gpus import CARRY
from tests.drill.cluster import _environment, _ray_program, adapted
from tests.drill.hosts import FOLDER, Host, missing, three_hosts
from tests.support.command_line import run
from tests.support.places import ROOT

STUDY = """
study: own
objective: {name: language, corpus: runs/data/*.txt, context: 16, eval_tokens: 64}
budgets: [20k]
count: non_embedding
tokens: 20k
space: {depth: [1, 3], n_heads: 2}
train: {batch_size: 4}
"""

pytestmark = [pytest.mark.drill, pytest.mark.timeout(900)]


def ray(checkout: Path, *words: str) -> None:
    """Runs `ray` in the checkout, as on a laptop."""
    aside = {"env": _environment(), "stdin": subprocess.DEVNULL}
    done = run(_ray_program(), *words, cwd=checkout, **aside)
    assert done.returncode == 0, done.stdout + done.stderr


def without_ray(hosts: list[Host]) -> dict[str, Any]:
    """`cluster.yaml` for these hosts, with none of the commands that start Ray."""
    settings = adapted(yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8")), hosts)
    settings |= {key: [] for key in settings if key.endswith("_commands")}
    mounts = {"~/fathom/study.yaml": "study.yaml"}
    return settings | {"file_mounts": mounts, "cluster_synced_files": []}


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_text_of_ones_own_is_missed_with_the_command_that_carries_it_to_every_host() -> None:
    with three_hosts() as hosts:
        checkout = FOLDER / "checkout"
        checkout.mkdir()
        settings = yaml.safe_dump(without_ray(hosts), sort_keys=False)
        (checkout / "cluster.yaml").write_text(settings, encoding="utf-8")
        (checkout / "study.yaml").write_text(STUDY, encoding="utf-8")
        (checkout / "runs" / "data").mkdir(parents=True)
        (checkout / "runs" / "data" / "own.txt").write_text("a text of one's own. " * 400)
        ray(checkout, "up", "--yes", "cluster.yaml")
        head = hosts[0]
        plan = f"cd ~/fathom && {Path(_ray_program()).with_name('fathom')} plan study.yaml"

        before = head.run(plan)
        assert before.returncode == 2
        (line,) = before.stderr.strip().splitlines()
        assert f"`{CARRY}`" in line

        ray(checkout, *shlex.split(CARRY)[1:])
        for host in hosts:
            assert host.run("cat ~/fathom/runs/data/own.txt").stdout.startswith("a text of one's")
        after = head.run(plan)
        assert after.returncode == 0, after.stderr
