"""GPUs of a trial under `gpus_per_trial: auto`: cores or GPUs, whichever finish a search sooner."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import ray

from fathom.search.cluster.session.ray_session import cluster_address, concurrent_trials
from fathom.search.cluster.worker_speed import machine_there
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.study.file.study_file import changed
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.hardware.mps import GpuSharing
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig, TrainConfig
from fathom.search.study.planning.devices import DeviceTimes, choice_text, compare_devices
from fathom.search.study.planning.sharing import (
    GPUS,
    Size,
    auto_sharing,
    compares_by_time,
)

SHARES = (0.0, 0.125, 0.25, 0.5, 1.0)
"""Numbers of GPUs per trial that `auto` may choose."""


def settled_resources(
    config: StudyConfig,
    folder: RunFolder,
    sizes: Sequence[Size],
    sharing: GpuSharing,
    say: Callable[[str], None] = lambda _: None,
) -> ResourcesConfig:
    """Returns the resources of a search, with the number of GPUs of each trial decided; Ray has
    started.

    The choice of `auto` is kept in the run folder. A resumed search keeps it, except if there are
    no GPUs any more, or if trials were to share a GPU and CUDA's MPS does not start. On this
    machine alone, `sharing` starts MPS if trials share a GPU. `sizes` are the study's budgets with
    their shapes; `say` is called with a line about the choice, if there was one.
    """
    here = cluster_address() is None
    share = config.resources.gpus_per_trial
    if share == "auto":
        share = _of_auto(config, folder, sizes, sharing if here else None, say)
    elif here and 0 < share < 1 and (trouble := sharing.start()):
        say(f"trials that share a GPU take turns on it, as CUDA's MPS does not start: {trouble}")
    return config.resources.model_copy(update={"gpus_per_trial": share})


def _of_auto(
    config: StudyConfig,
    folder: RunFolder,
    sizes: Sequence[Size],
    sharing: GpuSharing | None,
    say: Callable[[str], None],
) -> float:
    """Returns the number of GPUs per trial that `auto` chooses, and keeps the choice; without
    `sharing` each trial has a whole GPU."""
    has_gpus, kept = ray.cluster_resources().get("GPU", 0) >= 1, _kept(folder)
    if kept is None:
        kept = _chosen(config, sizes, sharing, say) if has_gpus else 0
        write_atomically(folder.auto_gpus, f"{kept:g}")
    elif has_gpus and not kept:
        say(
            "`gpus_per_trial: auto` takes CPU cores, as it did when this search began; for the "
            "GPUs, set `resources.gpus_per_trial: 1`"
        )
    elif has_gpus and kept < 1:
        kept = _shared(kept, sharing, say)
    return kept if has_gpus else 0


def _kept(folder: RunFolder) -> float | None:
    """Returns the number of GPUs per trial that `auto` chose in an earlier run; None if it has not
    chosen yet."""
    with suppress(FileNotFoundError, ValueError):
        share = float(folder.auto_gpus.read_text(encoding="utf-8", errors="replace"))
        return share if share in SHARES else None
    return None


def _chosen(
    config: StudyConfig,
    sizes: Sequence[Size],
    sharing: GpuSharing | None,
    say: Callable[[str], None],
) -> float:
    """Returns 0 if CPU cores train the trials sooner than the GPUs, otherwise the number of GPUs of
    a trial."""
    if not compares_by_time(config):
        return 1
    shared = auto_sharing(config, sizes) if sharing else None
    share = shared.share if shared else 1.0
    found = _compared(config, sizes, share)
    if share < 1 and found and not found.cores_win and _shared(share, sharing, say) == 1:
        share, found = 1.0, _compared(config, sizes, 1)
    if found is None:
        return 1
    say(choice_text(found))
    return 0 if found.cores_win else share


def _shared(share: float, sharing: GpuSharing | None, say: Callable[[str], None]) -> float:
    """Returns `share` if trials can use a GPU at the same time, otherwise 1: a whole GPU for
    each."""
    trouble = (
        sharing.start() if sharing else "on a cluster it is started by hand (docs/clusters.md)"
    )
    if trouble:
        say(f"trials do not share a GPU, as CUDA's MPS does not start: {trouble}")
    return 1 if trouble else share


def _compared(config: StudyConfig, sizes: Sequence[Size], share: float) -> DeviceTimes | None:
    """Returns the time of the trials on cores and on the GPUs; None where either has no room for a
    trial."""
    on_gpus = changed(config, {GPUS: share})
    alone = config.resources.model_copy(update={"gpus_per_trial": 0})
    cores, gpus = (_machine(each, config.train) for each in (alone, on_gpus.resources))
    if cores is None or gpus is None:
        return None
    return compare_devices(on_gpus, sizes, cores=cores, gpus=gpus)


def _machine(resources: ResourcesConfig, train: TrainConfig) -> Machine | None:
    """Returns the nodes as the machine of a plan, which has the number of trials that run at a
    time."""
    there = ray.cluster_resources()
    found = machine_there(resources, train, there)
    if found is None:
        return None
    slots = concurrent_trials(resources)
    on_gpus = found.device == "GPU"
    number, name = there.get("GPU" if on_gpus else "CPU", 0), "GPU" if on_gpus else "CPU core"
    devices = f"{number:g} {name}{'' if number == 1 else 's'}"
    at_a_time = f"{slots} trial{'' if slots == 1 else 's'} at a time"
    return replace(found, slots=slots, description=f"{devices}, {at_a_time}")
