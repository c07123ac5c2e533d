"""The three hosts as a Ray cluster: `ray up` with a copy of cluster.yaml, commands, `ray down`."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.drill.hosts import FOLDER, Host
from tests.support.places import ROOT

CHECKPOINT_SECONDS = 2
"""Seconds between a trial's checkpoints, instead of 300: trials last seconds here."""
ACTOR = "TrialActor"
"""Ray's name of the process that trains."""
NODES_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The hosts, and the folder from which `ray up` brought them up."""

    hosts: Sequence[Host]
    checkout: Path

    @property
    def head(self) -> Host:
        """The host on which the search and MLflow run."""
        return self.hosts[0]

    @property
    def workers(self) -> Sequence[Host]:
        """The hosts other than the head."""
        return self.hosts[1:]

    def up(self) -> None:
        """`ray up`, and wait until every host has joined: it returns before the workers have.

        Raises:
            RuntimeError: when it fails, or when a host does not join.
        """
        self._ray("up", "--yes")
        self.wait_for_all()

    def down(self) -> None:
        """`ray down`."""
        self._ray("down", "--yes")

    def wait_for_all(self) -> None:
        """Wait until Ray counts all hosts."""
        end = time.monotonic() + NODES_SECONDS
        while (alive := self._alive()) != len(self.hosts):
            if time.monotonic() > end:
                raise RuntimeError(
                    f"{alive} of {len(self.hosts)} hosts joined in {NODES_SECONDS:g} s; "
                    f"{self.head.home}/.. has the head's files"
                )
            time.sleep(2)

    def execute(self, command: str, log: Path) -> "subprocess.Popen[bytes]":
        """`ray exec`, in the background; what it prints goes to the log."""
        with log.open("ab") as output:
            return subprocess.Popen(
                [_ray_program(), "exec", "cluster.yaml", command],
                cwd=self.checkout,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start_mlflow(self) -> None:
        """Start MLflow's server on the head by the command of cluster.yaml."""
        settings = yaml.safe_load((self.checkout / "cluster.yaml").read_text(encoding="utf-8"))
        starts = settings["head_start_ray_commands"]
        command = next(line for line in starts if "mlflow server" in line)
        self.head.run(f". ~/fathom/env\n{command}")

    def trained(self) -> set[str]:
        """Names of the hosts on which a trial has run, by the logs of Ray's workers."""
        logs = '"$RAY_TMPDIR"/ray/session_latest/logs/worker-*'
        look = f". ~/fathom/env; grep -qs 'actor_name:{ACTOR}' {logs}"
        return {host.name for host in self.hosts if host.run(look).returncode == 0}

    def _alive(self) -> int:
        """Hosts whose Ray is connected to the head's."""
        ask = (
            '. ~/fathom/env; python -c \'import ray; ray.init(address="auto", log_to_driver=False);'
            ' print(sum(node["Alive"] for node in ray.nodes()))\' 2> /dev/null'
        )
        words = self.head.run(ask).stdout.split()
        return int(words[-1]) if words else 0

    def _ray(self, verb: str, *options: str) -> None:
        log = FOLDER / f"ray-{verb}.log"
        command = [_ray_program(), verb, *options, "cluster.yaml"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.checkout,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with the ssh that it waits for
            raise
        if status:
            last = log.read_text(errors="replace").strip().splitlines()[-15:]
            raise RuntimeError(f"`ray {verb}` failed:\n" + "\n".join(last))


@contextmanager
def cluster_on(hosts: Sequence[Host]) -> Iterator[Cluster]:
    """The hosts as a cluster, up; down at the end."""
    cluster = Cluster(hosts, _stage(hosts))
    cluster.up()
    yield cluster
    cluster.down()


def adapted(settings: dict[str, Any], hosts: Sequence[Host]) -> dict[str, Any]:
    """`cluster.yaml` for these hosts.

    Another provider, with its addresses and its key, which has no types of nodes.
    """
    of_the_cloud = {"provider", "auth", "available_node_types", "head_node_type"}
    local = {key: value for key, value in settings.items() if key not in of_the_cloud}
    local["setup_commands"] = [_without_apt(command) for command in settings["setup_commands"]]
    addresses = [host.address for host in hosts]
    local["provider"] = {"type": "local", "head_ip": addresses[0], "worker_ips": addresses[1:]}
    local["auth"] = {"ssh_user": "root", "ssh_private_key": str(FOLDER / "key")}
    local["max_workers"] = len(addresses) - 1
    return local


def _without_apt(command: str) -> str:
    """The command as it can run here, where `apt-get` has nothing to fetch from."""
    return re.sub(r"\$?sudo apt-get (.|\\\n)*", "true", command)


def _stage(hosts: Sequence[Host]) -> Path:
    """A copy of what `ray up` sends, so that the drill's runs all have the same code."""
    checkout = FOLDER / "checkout"
    checkout.mkdir()
    settings = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
    for local in settings["file_mounts"].values():
        if (ROOT / local).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / local, checkout / local, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / local, checkout / local)
    _checkpoint_often(checkout / "search" / "training" / "saving" / "trial_log.py")
    text = yaml.safe_dump(adapted(settings, hosts), sort_keys=False)
    (checkout / "cluster.yaml").write_text(text, encoding="utf-8")
    return checkout


def _checkpoint_often(trial: Path) -> None:
    text, changed = re.subn(
        r"^CHECKPOINT_SECONDS = .*$",
        f"CHECKPOINT_SECONDS = {CHECKPOINT_SECONDS}",
        trial.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    if changed != 1:
        raise RuntimeError(f"{trial.name} no longer says CHECKPOINT_SECONDS; the drill sets it")
    trial.write_text(text, encoding="utf-8")


def _ray_program() -> str:
    return str(Path(sys.executable).with_name("ray"))


def _environment() -> dict[str, str]:
    """Returns the environment of a laptop whose home and temporary folder the drill removes."""
    laptop = FOLDER / "laptop"
    laptop.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    folders = {"HOME": str(laptop), "TMPDIR": str(laptop), "RAY_TMPDIR": str(laptop)}
    # The newer autoscaler never starts the second of two hosts of one's own (Ray 2.60).
    return kept | folders | {"RAY_UP_enable_autoscaler_v2": "0"}
