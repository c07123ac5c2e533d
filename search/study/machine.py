"""The machine that a plan assumes: its devices, and how fast they train."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fathom.search.study.config import StudyConfig
from fathom.search.study.groups import ResourcesConfig
from fathom.search.study.speed import Speed, known_speeds

CPU_SPEED = Speed(peak=30e9, layer_seconds=1.5e-3)
"""Estimate for one CPU core, float32. Measured on one machine: 6.6 GFLOP/s for 20k parameters and
256 tokens a step, 28 for a width of 64 and 2,048 tokens."""
GPU_SPEED = Speed(peak=1e14, layer_seconds=0.5e-3)
"""Estimate for a recent data-centre GPU, bfloat16: some seventy kernels a layer, 7 us to start
each."""
START_SECONDS = 30.0
"""Estimate of the time of a search before its first trial and after its last: Ray's start, the
import of PyTorch in the workers, the report."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that the estimate of time assumes."""

    slots: int
    """Number of trials that run at the same time."""
    speed: Speed
    """Training speed of one trial."""
    description: str
    device: str = "core"
    """Kind of device that is paid for: `core` or `GPU`."""
    devices: float = 1.0
    """Number of devices per trial."""
    start_seconds: float = 0.0
    """Seconds of a search before its first trial and after its last."""
    notes: tuple[str, ...] = ()
    """What a person should know before believing the time, a line each."""


def this_machine(config: StudyConfig) -> Machine:
    """Returns this machine's devices and speed; a cluster is faster by its concurrent trials.

    For a study that asks for more than this machine has, the machine is one that has it.
    """
    resources = config.resources
    asked = (resources.gpus_of_trial(len(_gpus())), resources.cpus_per_trial)
    own = device_name(resources)
    known = known_speeds(own)
    if asked[0]:
        device, there, base, share = "GPU", len(_gpus()), GPU_SPEED, asked[0]
    else:
        device, there, base, share = "core", os.cpu_count() or 1, CPU_SPEED, asked[1]
    enough = there >= share
    slots = max(1, int(there / share))
    most = resources.max_concurrent_trials
    if most != "auto":
        slots = min(slots, most) if enough else most
    speed = Speed(base.peak * share, base.layer_seconds, known.rates if enough else ())
    trials = f"{slots} trial{'' if slots == 1 else 's'} at a time"
    name = f"{there} {'CPU core' if device == 'core' else device}{'' if there == 1 else 's'}"
    return Machine(
        slots=slots,
        speed=speed,
        description=f"{name}, {trials}" if enough else f"{device}s that are not here, {trials}",
        device=device,
        devices=share,
        start_seconds=known.start_seconds or START_SECONDS,
        notes=_notes(device, share, there, measured=bool(speed.measured)),
    )


def device_name(resources: ResourcesConfig) -> str:
    """The device of a trial on this machine, by which its speeds are kept."""
    gpus = _gpus()
    share = resources.gpus_of_trial(len(gpus))
    if gpus and share:
        return f"{gpus[0]}, {share:g} a trial"
    return f"{_processor()}, {resources.threads} thread{'' if resources.threads == 1 else 's'}"


def _notes(device: str, share: float, there: int, *, measured: bool) -> tuple[str, ...]:
    if there < share:
        key = f"{'gpus' if device == 'GPU' else 'cpus'}_per_trial"
        has = f"{there or 'no'} {device}{'' if there == 1 else 's'}"
        return (
            f"this machine has {has}, and `resources.{key}` is {share:g}: a search here would not "
            f"start; the time is an estimate for {device}s that the plan does not see",
        )
    if measured:
        return ()
    return (
        f"the time is an estimate: how fast this {device} trains is not measured yet; "
        "`fathom run`, `fathom check` and `fathom doctor` measure it and keep it",
    )


@cache
def _processor() -> str:
    """The model of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


@cache  # asking a driver takes its time
def _gpus() -> tuple[str, ...]:
    """Names of this machine's GPUs, from its driver; importing torch would take seconds."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ()
    listing = subprocess.run([command, "-L"], capture_output=True, text=True, check=False)
    lines = (line.partition(": ")[2] for line in listing.stdout.splitlines() if "GPU " in line)
    return tuple(line.partition(" (UUID")[0] for line in lines)
