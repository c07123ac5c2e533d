"""CUDA's Multi-Process Service on this machine: trials that share a GPU then use it at the same
time, not in turns. Imports neither Ray nor torch."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

CONTROL = "nvidia-cuda-mps-control"
"""The program that starts the service and ends it."""
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
"""Environment variable with the folder in which the service hears of new processes."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable with the numbers of the GPUs that a process may use. A process that shares a
GPU must number the GPUs of the MPS service from 0; Ray's workers do not."""
USUAL_PIPES = "/tmp/nvidia-mps"
"""The folder that is used if the variable `PIPES` is not set."""
SECONDS = 20
"""Longest time in seconds for the service to start, or to end."""
USE_GPU = """
import ctypes, sys
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
for code in (
    cuda.cuInit(0),
    cuda.cuDeviceGet(ctypes.byref(device), 0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
):
    if code:
        sys.exit(f"CUDA error {code}")
"""
"""A program in Python that begins to use the first GPU, as a trial does."""
END = f'cat > /dev/null; echo quit -t 5 | {CONTROL}; rm -r "${PIPES}"'
"""A command that waits until its input is closed, which happens however the process that holds it
ends, and then ends the service. It has a time limit, since processes that use the service may hang.
"""


class GpuSharing:
    """The service for this process and its children, as a context: leaving it ends the service."""

    def __init__(self) -> None:
        self.pipes: Path | None = None
        """Folder of the service, for the variable `PIPES` of processes that share a GPU; None if
        they find it by themselves, or if the service does not run."""
        self._end: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Starts the service unless it runs; returns the reason if it can't start, otherwise an
        empty text."""
        if self._end or mps_listens():
            return ""
        if shutil.which(CONTROL) is None:
            return f"{CONTROL} is not installed"
        if _renumbers_gpus():
            return f"{VISIBLE} must be unset or count from 0, got {os.environ[VISIBLE]}"
        folder = tempfile.mkdtemp(prefix="fathom-mps-")  # of mode 0700
        places = os.environ | {PIPES: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        if trouble := _trouble(CONTROL, "-d", environment=places):
            shutil.rmtree(folder, ignore_errors=True)
            return trouble
        self._end = subprocess.Popen(
            ["sh", "-c", END], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=places, start_new_session=True,
        )  # fmt: skip
        if trouble := _trouble(sys.executable, "-I", "-c", USE_GPU, environment=places):
            self.close()
            return f"no process can use a GPU by it: {trouble}"
        self.pipes = Path(folder)
        return ""

    def close(self) -> None:
        """Ends the service if this object has started it."""
        if self._end is None:
            return
        assert self._end.stdin is not None
        self._end.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # it goes on by itself
            self._end.wait(SECONDS)
        self.pipes = self._end = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def mps_may_start() -> bool:
    """True if the service runs here, or the program that starts it is installed."""
    return mps_listens() or shutil.which(CONTROL) is not None


def mps_listens() -> bool:
    """True if a service of this user's or root's listens, in the folder that the environment names
    or the usual one."""
    try:
        owner = Path(os.environ.get(PIPES, USUAL_PIPES), "control").stat().st_uid
    except OSError:
        return False
    return owner in (0, os.getuid())


def _renumbers_gpus() -> bool:
    """True if the service would number the GPUs differently from Ray, which uses this process's
    numbers."""
    visible = os.environ.get(VISIBLE, "0").split(",")
    return visible != [str(number) for number in range(len(visible))]


def _trouble(*command: str, environment: dict[str, str]) -> str:
    """Runs a command; returns the reason if it failed, otherwise an empty text."""
    with tempfile.TemporaryFile("w+") as said:  # a daemon that it starts would keep a pipe open
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False,
                timeout=SECONDS, env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{Path(command[0]).name} did not end in {SECONDS} s"
        said.seek(0)
        text = said.read(1000).strip()
    last = text.splitlines()[-1][:100] if text else f"exit status {done.returncode}"
    return f"{Path(command[0]).name}: {last}" if done.returncode else ""
