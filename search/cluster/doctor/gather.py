"""Gathers the facts of the node on which it runs; needs neither Ray nor a study."""

import hashlib
import ipaddress
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from fathom.objectives.tokens.stream import not_seen
from fathom.search.cluster.doctor.facts import Disk, Facts, Gpu, Listener, NodeQuestion
from fathom.search.cluster.doctor.storage import answer
from fathom.search.study.hardware.mps import mps_listens

PACKAGES = {
    "ray": "ray",
    "torch": "torch",
    "optuna": "optuna",
    "mlflow": "mlflow",
    "fathom": "fathom-depth",
}
SOURCES = Path(__file__).parents[3]
"""The folder `fathom`, installed or not."""

SERVICES = (
    ("gcs_server", "Ray GCS"),
    ("raylet/raylet", "raylet"),
    ("ray/dashboard/dashboard.py", "Ray dashboard"),
    ("ray.util.client.server", "Ray client server"),
    ("monitor.py", "Ray metrics"),
    ("ray::", "Ray agents"),
    ("mlflow", "MLflow"),
)
"""Part of a command line -> service that the process runs. The names are Ray's own:
ray/_private/services.py."""
USUAL_PORTS = {6379: "Ray GCS", 8265: "Ray dashboard", 10001: "Ray client server", 5000: "MLflow"}
"""Port -> service, for sockets of other users, whose command lines are hidden."""

ASK_TORCH = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
DRIVER_SECONDS = 20
TORCH_SECONDS = 240
"""Longest time for the import of PyTorch, or of a worker's modules, which include it."""
MIB = 2**20


def gather(
    question: NodeQuestion, node: str, *, ray_at: tuple[str, str], memory: tuple[int, int]
) -> Facts:
    """The facts of this machine.

    `ray_at` is Ray's folder and the address of its head, both empty if Ray does not run; `memory`
    is the bytes in use and the bytes of all memory.
    """
    commands = _commands()
    gpus, trouble = driver_gpus()
    torch_gpus = None
    if gpus or question.asks_torch:
        torch_gpus, torch_trouble = _torch_gpus()
        trouble = trouble or torch_trouble
    return Facts(
        versions=_versions(),
        gpus=gpus,
        torch_gpus=torch_gpus,
        gpu_trouble=trouble,
        mps=mps_listens(),
        ray_disk=disk(Path(ray_at[0])),
        shared_memory=disk(Path("/dev/shm")) if os.path.isdir("/dev/shm") else None,
        memory=memory[1],
        memory_used=memory[0],
        token_mode=os.environ.get("RAY_AUTH_MODE", "").lower() or "disabled",
        token_hash=_token_hash(question.salt),
        listeners=_listeners(commands),
        monitor_grows=_monitor_grows(list(commands.values()), ray_at[1]),
        import_trouble=_import_trouble(question.imports),
        storage_trouble="" if question.probe.trouble else answer(question.probe, node),
        unseen_data=not_seen(question.data),
    )


def disk(folder: Path) -> Disk:
    """The file system of a folder, or of its nearest parent that exists."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    usage = shutil.disk_usage(there)
    return Disk(str(folder), usage.total, usage.free)


def driver_gpus() -> tuple[tuple[Gpu, ...], str]:
    """The GPUs that NVIDIA's driver lists, except those that the user has hidden, and the driver's
    error.

    GPUs of AMD and Apple are not among them: only PyTorch and Ray see these.
    """
    command = shutil.which("nvidia-smi")
    if command is None:
        return (), ""
    fields = "name,memory.total,driver_version"
    listing, trouble = output_of(
        [command, f"--query-gpu={fields}", "--format=csv,noheader,nounits"], DRIVER_SECONDS
    )
    if trouble:
        return (), f"nvidia-smi: {trouble}"
    rows = [line.rsplit(", ", 2) for line in listing.splitlines()]
    if strange := next((row for row in rows if len(row) != 3), None):
        return (), f"nvidia-smi printed {', '.join(strange)!r} in place of {fields}"
    gpus = [
        Gpu(name, int(memory) * MIB if memory.isdigit() else 0, driver)
        for name, memory, driver in rows
    ]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        gpus = gpus[: len([name for name in visible.split(",") if name.strip()])]
    return tuple(gpus), ""


def is_loopback(address: str) -> bool:
    """True if a socket at the address can be reached from this machine only."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def service_of(command: str, port: int) -> str:
    """The service of a socket by its process's command line or, if that is hidden, by its port.

    Empty for programs that are neither Ray's nor MLflow's.
    """
    if not command:
        return USUAL_PORTS.get(port, "")
    name = next((name for part, name in SERVICES if part in command), "")
    if name == "Ray dashboard" and f"--port={port} " not in f"{command} ":
        return "Ray metrics"
    return name


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name, distribution in PACKAGES.items():
        try:
            found[name] = version(distribution)
        except PackageNotFoundError:
            found[name] = ""
    found["fathom's sources"] = _sources_hash()
    return found


def _sources_hash() -> str:
    """A hash of Fathom's sources; unlike the version, it changes with the files of a checkout."""
    digest = hashlib.sha256()
    for package in ("models", "objectives", "papers", "search"):
        for path in sorted((SOURCES / package).rglob("*.py")):
            digest.update(str(path.relative_to(SOURCES)).encode() + path.read_bytes())
    return digest.hexdigest()[:7]


def _torch_gpus() -> tuple[int | None, str]:
    """Number of GPUs that PyTorch can use, and its error if it failed.

    Asks in a separate process, since CUDA may kill a process in which it can't start.
    """
    output, trouble = output_of([sys.executable, "-P", "-c", ASK_TORCH], TORCH_SECONDS)
    return (None, f"PyTorch: {trouble}") if trouble else (json.loads(output.splitlines()[-1]), "")


def _import_trouble(modules: tuple[str, ...]) -> str:
    """Imports modules as a worker does, in a separate process; returns file, line and error of the
    first import that fails."""
    if not modules:
        return ""
    # A worker has the search path of the search, and so of this process.
    path = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "fathom.search.cluster.doctor.imports", *modules]
    output, trouble = output_of(command, TORCH_SECONDS, environment=path)
    return trouble or output


def output_of(
    command: list[str], seconds: float, *, environment: Mapping[str, str] = os.environ
) -> tuple[str, str]:
    """Runs a command; returns its output and the last line of its error."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer in {seconds:g} s"
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return "", lines[-1] if lines else f"exit status {done.returncode}"
    return done.stdout.strip(), ""


def _token_hash(salt: str) -> str:
    """Salted hash of Ray's token, which is read from the first of Ray's places that has one; empty
    without a token."""
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    if not token:
        named = os.environ.get("RAY_AUTH_TOKEN_PATH")
        path = Path(named) if named else Path.home() / ".ray" / "auth_token"
        try:
            token = path.read_text(encoding="utf-8").strip()
        except OSError:
            return ""
    return hashlib.sha256((salt + token).encode()).hexdigest()[:16]


def _commands() -> dict[int, str]:
    processes = psutil.process_iter(["cmdline"])
    return {process.pid: " ".join(process.info["cmdline"] or ()) for process in processes}


def _listeners(commands: dict[int, str]) -> tuple[Listener, ...] | None:
    try:
        sockets: list[Any] = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:  # macOS tells root alone
        return None
    found = {
        Listener(service, connection.laddr.ip, connection.laddr.port)
        for connection in sockets
        if connection.status == psutil.CONN_LISTEN and not is_loopback(connection.laddr.ip)
        if (service := service_of(commands.get(connection.pid, ""), connection.laddr.port))
    }
    return tuple(sorted(found, key=lambda listener: listener.port))


def _monitor_grows(commands: list[str], address: str) -> bool | None:
    monitor = f"--gcs-address={address} "
    mine = [command for command in commands if "ray/autoscaler/" in command and monitor in command]
    return any("--autoscaling-config=" in command for command in mine) if mine else None
