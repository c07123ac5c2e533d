"""The three hosts as a cluster of Slurm, to which `sbatch deploy/slurm.sh` is given."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.drill.hosts import FOLDER, Host, home_folder
from tests.support.places import ROOT

PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
}
"""Each program -> Debian's package."""
SHARED = "slurm"
"""Folder beside the runs that all hosts see: the checkout from which the job is submitted."""
CONFIGURATION = """ClusterName=drill
SlurmctldHost=head({address})
SlurmUser=root
AuthInfo=cred_expire=10
StateSaveLocation=/run/slurm-state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/run/slurmctld.log
SlurmdLogFile=/run/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MailProg=/bin/true
"""
MUNGE = """set -e
mkdir -m 755 /run/munge
install -m 400 -o munge {key} /run/munge.key
chown munge: /run/munge
setpriv --reuid=munge --regid=munge --init-groups munged --key-file=/run/munge.key \\
    --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/pid --log-file=/run/munge/log \\
    --seed-file=/run/munge/seed
"""
"""Starts what knows who asks Slurm."""


def missing() -> str | None:
    """Returns the reason why Slurm can't be started here, with the remedy; None when it can."""
    lacking = sorted({package for tool, package in PROGRAMS.items() if not shutil.which(tool)})
    return f"not installed: `apt-get install {' '.join(lacking)}`" if lacking else None


@dataclass(frozen=True, slots=True)
class Slurm:
    """The cluster, of which the first host is its controller too."""

    hosts: Sequence[Host]

    @property
    def outside(self) -> Path:
        """The checkout, seen from outside."""
        return FOLDER / "runs" / SHARED

    @property
    def checkout(self) -> Path:
        """The checkout, as the hosts see it."""
        return Path(home_folder()) / "fathom" / "runs" / SHARED

    def run(self, command: str, host: Host | None = None) -> str:
        """What a command of the shell prints in the checkout, on the head by default.

        Raises:
            RuntimeError: when it fails.
        """
        place = self.checkout
        settings = f"SLURM_CONF={place}/slurm.conf PYTHONPATH={place}"
        settings += f" RAY_AUTH_TOKEN_PATH={place}/token"  # the hosts' homes are not shared
        done = (host or self.hosts[0]).run(f"export {settings}; cd {place}; {command}")
        if done.returncode:
            raise RuntimeError(f"`{command}` failed: {done.stderr.strip()}")
        return done.stdout

    def wait(self, until: Callable[[], bool], what: str, seconds: float) -> None:
        """Waits for a state.

        Raises:
            TimeoutError: when it does not come; the message has the end of the job's log.
        """
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: {self.log()[-3000:]}")
            time.sleep(1)

    def log(self) -> str:
        """What the jobs have printed."""
        texts = [path.read_text(errors="replace") for path in self.outside.glob("fathom-*.log")]
        return "\n".join(texts)

    def start(self) -> None:
        """Lays out the checkout, and starts Slurm on every host."""
        self._lay_out()
        names = "\n".join(f"{host.address} {host.name}" for host in self.hosts)
        for host in self.hosts:
            # As Debian has it: a machine's own name is no address at which others reach it.
            self.run(
                f"echo '127.0.0.1 localhost\n127.0.1.1 {host.name}\n{names}' > /etc/hosts", host
            )
            self.run(MUNGE.format(key=self.checkout / "munge.key"), host)
            self.run("mkdir -p /run/slurmd /run/slurm-state", host)
        self.run("slurmctld")
        for host in self.hosts:
            self.run(f"slurmd -N {host.name}", host)
        self.wait(lambda: self.run("sinfo -h -t idle -o %D").strip() == "3", "three nodes", 60)

    def _lay_out(self) -> None:
        folder = self.outside
        folder.mkdir()
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "fathom", folder / "fathom", ignore=ignored)
        script = (ROOT / "deploy" / "slurm.sh").read_text(encoding="utf-8")
        edited = script.replace("#SBATCH --gpus-per-node=1\n", "")
        assert edited != script, "the hosts have no GPU, and the script says where to say so"
        (folder / "slurm.sh").write_text(edited, encoding="utf-8")
        shutil.copy(Path(__file__).with_name("study.yaml"), folder)
        (folder / ".venv").symlink_to(sys.prefix)
        for name, secret in (
            ("munge.key", os.urandom(1024)),
            ("token", os.urandom(32).hex().encode()),
        ):
            (folder / name).write_bytes(secret)
            (folder / name).chmod(0o600)
        nodes = [f"NodeName={host.name} NodeAddr={host.address} CPUs=1" for host in self.hosts]
        text = CONFIGURATION.format(address=self.hosts[0].address)
        text += "\n".join([*nodes, "PartitionName=all Nodes=ALL Default=YES State=UP", ""])
        (folder / "slurm.conf").write_text(text, encoding="utf-8")


@contextmanager
def slurm_on(hosts: Sequence[Host]) -> Iterator[Slurm]:
    """The hosts as a cluster of Slurm; its daemons end with the hosts."""
    cluster = Slurm(hosts)
    cluster.start()
    yield cluster
