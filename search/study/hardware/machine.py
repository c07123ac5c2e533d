"""The machine that a plan assumes: its devices, and how fast they train."""

import math
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from fathom.search.records import TrialRecord
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.hardware.fit import usable_memory
from fathom.search.study.hardware.gpus import GpuChoice, choose_gpu, recognised
from fathom.search.study.hardware.memory import trials_in_memory
from fathom.search.study.keys.groups import Precision, ResourcesConfig, TrainConfig
from fathom.search.study.timing.device_speed import (
    Speed,
    keep_speeds,
    known_speeds,
    rates_by_device,
    start_seconds,
)

CPU_SPEED = Speed(peak=30e9, layer_seconds=1.5e-3)
"""Estimate for one CPU core, float32. Measured on one machine: 6.6 GFLOP/s for 20k parameters and
256 tokens a step, 28 for a width of 64 and 2,048 tokens."""
START_SECONDS = 30.0
"""Estimate of the time of a search before its first trial and after its last: Ray's start, the
import of PyTorch in the workers, the report."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine for which a plan estimates the time."""

    slots: int
    """Number of trials that run at the same time."""
    speed: Speed
    """Training speed of one trial."""
    description: str
    device: str = "core"
    """Kind of device whose hours count: `core` or `GPU`."""
    devices: float = 1.0
    """Number of devices per trial."""
    here: bool = True
    """True if the plan is for this machine; False if its machine has devices that this one
    lacks."""
    memory: float = math.inf
    """Bytes of memory for one trial."""
    bfloat16: bool = False
    """True if its trials compute in bfloat16."""
    start_seconds: float = 0.0
    """Seconds of a search before its first trial and after its last."""
    notes: tuple[str, ...] = ()
    """Notes that a person should read before believing the time, a line each."""


def this_machine(resources: ResourcesConfig, train: TrainConfig, gpu: str | None = None) -> Machine:
    """Returns this machine's devices and their speed; if trials ask for more devices than it has, a
    machine that has them.

    `gpu` names the type of its GPUs.

    Raises:
        ConfigError: if the type is unknown, or the study's trials have no GPU.
    """
    share = resources.gpus_of_trial(len(_gpus()) if gpu is None else 1)
    if share:
        return _with_gpus(resources, train, share, choose_gpu(gpu, _gpus()))
    if gpu is not None:
        raise ConfigError(
            f"`resources.gpus_per_trial` must be above 0 with --gpu {gpu}, got 0; drop one of them"
        )
    return _with_cores(resources, train.precision)


def device_name(resources: ResourcesConfig) -> str:
    """The name by which speeds of a trial's device on this machine are kept."""
    gpus = _gpus()
    on_gpu = bool(gpus and resources.gpus_of_trial(len(gpus)))
    return speed_key(gpus[0] if on_gpu else processor(), resources, gpu=on_gpu)


def speed_key(device: str, resources: ResourcesConfig, *, gpu: bool) -> str:
    """The name by which speeds of trials on a GPU or processor are kept."""
    if gpu:
        known = recognised(device)
        return f"{known.name if known else device}, {resources.gpus_of_trial(1):g} a trial"
    return f"{device}, {resources.threads} thread{'' if resources.threads == 1 else 's'}"


def keep_speeds_of(
    records: Sequence[TrialRecord], resources: ResourcesConfig, since: float,
    report_seconds: float | None,
) -> None:  # fmt: skip
    """Keeps, for later plans, the speeds of the trials that began at or after the Unix time
    `since`. Fathom must have trained its own models in them, since only their FLOPs are exact.

    `report_seconds` is the time of the search after its last trial; None for a search on a cluster,
    whose start time says nothing about this machine.
    """
    started = start_seconds(records, since)
    if started is None or resources.processes_per_trial > 1:
        return
    start = None if report_seconds is None else started + report_seconds
    for (device, gpu), rates in rates_by_device(records, since).items():
        keep_speeds(speed_key(device, resources, gpu=gpu), rates, start, own=os.cpu_count() or 1)


def _with_cores(resources: ResourcesConfig, precision: Precision) -> Machine:
    there, share = os.cpu_count() or 1, resources.cpus_per_trial
    enough, slots = there >= share, _slots(resources, there, share)
    known = known_speeds(device_name(resources))
    measured = known.rates if enough else ()
    cores = f"{there} CPU core{'' if there == 1 else 's'}" if enough else "cores that are not here"
    missing = (
        f"this machine has {there} core{'' if there == 1 else 's'}, and "
        f"`resources.cpus_per_trial` is {share:g}: a search here would not start; the time is an "
        "estimate for cores that the plan does not see"
    )
    unmeasured = (
        "the time is an estimate: how fast this core trains is not measured yet; "
        "`fathom run`, `fathom check` and `fathom doctor` measure it and keep it"
    )
    return Machine(
        slots=slots,
        speed=replace(CPU_SPEED, peak=CPU_SPEED.peak * share, measured=measured),
        description=f"{cores}, {_at_a_time(slots)}",
        devices=share,
        here=enough,
        memory=usable_memory(resources, None) if enough else math.inf,
        bfloat16=precision is Precision.BFLOAT16,
        start_seconds=known.start_seconds or START_SECONDS,
        notes=(() if measured else (unmeasured,)) if enough else (missing,),
    )


def _with_gpus(
    resources: ResourcesConfig, train: TrainConfig, share: float, choice: GpuChoice
) -> Machine:
    gpu, enough = choice.gpu, choice.here >= share
    slots = _slots(resources, choice.here, share)
    if enough and resources.max_concurrent_trials == "auto":  # each needs cores as well
        slots = min(slots, resources.trials_at_once(os.cpu_count() or 1, choice.here))
    known = known_speeds(speed_key(choice.device, resources, gpu=True))
    missing = (
        f"this machine has {choice.here or 'no'} {gpu.name}, and `resources.gpus_per_trial` is "
        f"{share:g}: a search needs a cluster that has them"
    )
    estimated = (
        f"the time is an estimate for {gpu.name} from its data sheet, not measured yet: "
        f"{choice.source or 'a search measures it and keeps it'}"
    )
    number = f"{choice.here} {gpu.name} GPU{'' if choice.here == 1 else 's'}"
    return Machine(
        slots=slots,
        speed=replace(gpu.speed(train, share), measured=known.rates),
        description=f"{number if enough else f'{gpu.name} GPUs'}, {_at_a_time(slots)}",
        device="GPU",
        devices=share,
        here=enough,
        memory=usable_memory(resources, gpu.memory),
        bfloat16=bool(gpu.bfloat16_flops) and train.precision is not Precision.FLOAT32,
        start_seconds=known.start_seconds or START_SECONDS,
        notes=(*(() if enough else (missing,)), *(() if known.rates else (estimated,))),
    )


def _slots(resources: ResourcesConfig, there: int, share: float) -> int:
    """Number of trials at a time; if the devices are not on this machine, as many as the study
    allows."""
    most = resources.max_concurrent_trials
    here = max(1, int(max(1, there) / share))  # at least the trials of one GPU
    if there >= share:
        here = min(here, trials_in_memory(resources.processes_per_trial))
    return here if most == "auto" else min(here, most) if there >= share else most


def _at_a_time(slots: int) -> str:
    return f"{slots} trial{'' if slots == 1 else 's'} at a time"


@cache
def processor() -> str:
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
