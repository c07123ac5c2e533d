"""The drill: its hosts and its cluster for real where root may make them, its measures anywhere."""

import copy
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from fathom.search.json_lines import append_line
from fathom.search.run_folder import RunFolder
from tests.drill.__main__ import run_with
from tests.drill.cluster import adapted, cluster_on
from tests.drill.failures import FAILURES
from tests.drill.hosts import BRIDGE, FOLDER, Host, missing, three_hosts
from tests.drill.search import TRIALS, Search
from tests.drill.watch import Restart, Watch
from tests.support.places import ROOT

HOSTS = [Host("head", 2), Host("worker1", 3), Host("worker2", 4)]
OURS = {"provider", "auth", "available_node_types", "head_node_type", "max_workers"}


@pytest.fixture
def settings() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_hosts_cluster_differs_in_provider_addresses_and_packages_only(
    settings: dict[str, Any],
) -> None:
    local = adapted(copy.deepcopy(settings), HOSTS)

    assert local["provider"] == {
        "type": "local",
        "head_ip": "10.83.71.2",
        "worker_ips": ["10.83.71.3", "10.83.71.4"],
    }
    changed = {key for key in settings | local if settings.get(key) != local.get(key)}
    assert changed <= OURS | {"setup_commands"}
    assert "apt-get" not in "\n".join(local["setup_commands"])


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    return folder


def save(folder: RunFolder, trial: str, step: int) -> None:
    torch.save({"points": [{"step": step}]}, folder.checkpoint(trial))


def journal(folder: RunFolder, trial: str, *steps: int) -> None:
    started = {"event": "started", "trial": trial}
    report = {"event": "report", "trial": trial, "points": [{"step": step} for step in steps]}
    for line in (started, report):
        append_line(folder.journal, line)


def test_a_read_checkpoint_counts_as_a_resumption_that_repeats_later_reports(
    folder: RunFolder,
) -> None:
    watch = Watch(folder)
    save(folder, "a", 10)
    watch.look()
    journal(folder, "a", 5, 10, 17)
    watch.look()
    assert watch.restarts == [], "the watch itself is nobody"

    time.sleep(0.05)  # the time of access is as coarse as the kernel's clock
    torch.load(folder.checkpoint("a"), weights_only=True)
    watch.look()
    watch.look()

    assert watch.restarts == [Restart("a", step=10, reached=17)]
    assert watch.restarts[0].repeated == 7
    assert watch.steps == {"a": [10]}


@pytest.mark.cluster
@pytest.mark.siege
@pytest.mark.timeout(1800)
def test_a_search_over_three_hosts_ends_and_leaves_no_trace_of_them() -> None:
    if reason := missing():
        pytest.skip(reason)

    with three_hosts() as hosts, cluster_on(hosts) as cluster:
        search = Search(cluster, "short")
        row = run_with(FAILURES["undisturbed"], search)
        assert row.unharmed, search.last_words()
        assert row.trials == row.mlflow_trials == TRIALS
        assert cluster.trained() == {host.name for host in hosts}

    assert not FOLDER.exists()
    assert not Path("/sys/class/net", BRIDGE).exists()
