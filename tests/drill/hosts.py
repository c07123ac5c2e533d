"""Hosts on one machine: each has its own address on a bridge, process table, home folder, /tmp and
/dev/shm, and an sshd; all see one folder of runs and, copy-on-write, this Python environment.

Everything but the bridge and a folder belongs to processes that end with this one, even by kill -9.
"""

import fcntl
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BRIDGE = "fathom-drill"
NETWORK = "10.83.71"
NAMES = ("head", "worker1", "worker2")
FOLDER = Path("/var/tmp/fathom-drill")
"""Folder of the drill; outside /tmp and homes, which each host has for itself."""
INIT = Path(__file__).with_name("init.sh")
TOOLS = {
    "ip": "iproute2",
    "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
    "rsync": "rsync",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "pkill": "procps",
}
"""Each program -> Debian's package."""
SHARE = json.dumps({"CPU": 1})
"""Share of this machine's CPUs that Ray counts on each host."""
BOOT_SECONDS = 60.0


def missing() -> str | None:
    """Returns the reason why no hosts can be made here, with the remedy; None when they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts are made of Linux namespaces, which takes root"
    lacking = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if lacking:
        return f"not installed: `apt-get install {' '.join(lacking)}`"
    if sys.prefix == sys.base_prefix:
        return "the hosts share a virtual environment, and this Python runs in none"
    probe = ["unshare", "--mount", "--pid", "--net", "--fork", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        return "no namespaces may be made here"
    return None


@dataclass(slots=True)
class Host:
    """A host. It can be killed and started again: its home folder stays, as a disk would."""

    name: str
    number: int
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def address(self) -> str:
        """Address on the bridge."""
        return f"{NETWORK}.{self.number}"

    @property
    def home(self) -> Path:
        """Home folder, seen from outside."""
        return FOLDER / self.name / "home"

    @property
    def pid(self) -> int:
        """Process id of its first process, seen from outside."""
        assert self._process is not None
        parent = self._process.pid
        children = (
            Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
        )
        return int(children[0])

    def start(self) -> None:
        """Switch it on; returns when its sshd answers.

        Raises:
            TimeoutError: when it does not; its log says why.
        """
        log = FOLDER / f"{self.name}.log"
        inside = ("--mount", "--pid", "--net", "--uts", "--ipc", "--mount-proc")
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                # Whoever kills this process switches the hosts off.
                [
                    *("setpriv", "--pdeathsig", "KILL"),
                    *("unshare", *inside, "--fork", "--kill-child"),
                    *("bash", str(INIT), self.name, self.address, str(FOLDER), *_environment()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _wait(lambda: bool(self._children()), f"{self.name} has no first process; see {log}")
        _ip("link", "add", _link(self.name), "type", "veth", "peer", "eth0", "netns", str(self.pid))
        _ip("link", "set", _link(self.name), "master", BRIDGE, "up")
        _wait(self._answers, f"{self.name} does not answer on port 22; see {log}")

    def kill(self) -> None:
        """Switch it off as a power cut does: nothing is sent, every process is gone."""
        if self._process is None:
            return
        self.cut()
        self._process.kill()
        self._process.wait()
        self._process = None
        # It would go with the last process, but the kernel takes its time.
        subprocess.run(["ip", "link", "del", _link(self.name)], check=False, capture_output=True)

    def cut(self) -> None:
        """Cut its network."""
        subprocess.run(
            ["ip", "link", "set", _link(self.name), "down"], check=False, capture_output=True
        )

    def mend(self) -> None:
        """Undo `cut`."""
        _ip("link", "set", _link(self.name), "up")

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the shell there, as root at the console would."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--uts", "--ipc"]
        home = {"HOME": home_folder(), "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.run(
            [*enter, "bash", "-c", command], env=home, capture_output=True, text=True, check=False
        )

    def _children(self) -> str:
        assert self._process is not None
        if self._process.poll() is not None:
            return ""
        parent = self._process.pid
        return Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")

    def _answers(self) -> bool:
        asked = ["bash", "-c", f"exec 3<>/dev/tcp/{self.address}/22 && head -c 4 <&3"]
        try:
            answer = subprocess.run(asked, capture_output=True, timeout=2, check=False)
        except subprocess.TimeoutExpired:
            return False
        return answer.stdout == b"SSH-"


@contextmanager
def three_hosts() -> Iterator[list[Host]]:
    """Three hosts; removed with all they leave, whatever happens inside.

    Raises:
        RuntimeError: when none can be made here.
    """
    if reason := missing():
        raise RuntimeError(reason)
    with _alone():
        hosts = [Host(name, number) for number, name in enumerate(NAMES, start=2)]
        _remove([])  # what a drill that was killed left
        try:
            _prepare()
            for host in hosts:
                host.start()
            yield hosts
        finally:
            _remove(hosts)


@contextmanager
def _alone() -> Iterator[None]:
    """Holds a lock so that one drill runs at a time: the bridge and the folder have one name."""
    with Path("/run/lock/fathom-drill").open("w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError("another drill runs on this machine; wait for it to end") from None
        yield
        Path(lock.name).unlink(missing_ok=True)


def _prepare() -> None:
    """The bridge, a key that opens all hosts, and what building our package takes."""
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("address", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    for folder in ("runs", "wheels"):
        (FOLDER / folder).mkdir(parents=True)
    FOLDER.chmod(0o700)
    for key in ("key", "host_key"):
        _quiet("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(FOLDER / key))
    build = ("hatchling>=1.27", "editables")
    _quiet(sys.executable, "-m", "pip", "download", "-q", "-d", str(FOLDER / "wheels"), *build)
    for host in NAMES:
        _furnish(FOLDER / host / "home")


def _furnish(home: Path) -> None:
    """A home as a new machine has it, and wheels instead of a package index."""
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    shutil.copy(FOLDER / "key.pub", home / ".ssh" / "authorized_keys")
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text(
        f"[global]\nno-index = true\nfind-links = {home_folder()}/wheels\n", encoding="utf-8"
    )
    shutil.copytree(FOLDER / "wheels", home / "wheels")
    (home / ".bashrc").write_text(
        f"# Of this host\nexport RAY_OVERRIDE_RESOURCES='{SHARE}'\n", encoding="utf-8"
    )


def _remove(hosts: Sequence[Host]) -> None:
    """Remove everything that exists of the hosts; another Ctrl-C does not interrupt it."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in signals]
    for host in hosts:
        host.kill()
    for link in (*map(_link, NAMES), BRIDGE):
        subprocess.run(["ip", "link", "del", link], check=False, capture_output=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for number, handler in zip(signals, before, strict=True):
        signal.signal(number, handler)


def _link(name: str) -> str:
    return f"fathom-{name}"


def _environment() -> tuple[str, str, str]:
    """Returns the home folder, the virtual environment, and the Python that it is made of."""
    return home_folder(), sys.prefix, sys.base_prefix


def home_folder() -> str:
    return pwd.getpwuid(0).pw_dir


def _ip(*arguments: str) -> None:
    _quiet("ip", *arguments)


def _quiet(*command: str) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed: {answer.stderr.strip()}")


def _wait(until: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + BOOT_SECONDS
    while not until():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.1)
