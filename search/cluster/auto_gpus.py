"""What `gpus_per_trial: auto` takes on the nodes of a search: the devices that train it sooner."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import ray

from fathom.search.cluster.session.ray_session import concurrent_trials
from fathom.search.cluster.worker_speed import machine_there
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.study.planning.devices import (
    Size,
    choice_text,
    compare_devices,
    given_gpus,
    has_known_speed,
)


def settled_resources(
    config: StudyConfig,
    folder: RunFolder,
    sizes: Sequence[Size],
    say: Callable[[str], None] = lambda _: None,
) -> ResourcesConfig:
    """Returns the resources of a search with the GPUs of each trial; Ray has started.

    What `auto` took is kept in the run folder, and a search that is resumed takes it again, unless
    it took GPUs and there are none. `sizes` are the study's budgets with their shapes; `say` gets
    the choice, where there was one, as a line.
    """
    if config.resources.gpus_per_trial != "auto":
        return config.resources
    has_gpus, kept = ray.cluster_resources().get("GPU", 0) >= 1, _kept(folder)
    if kept is None:
        kept = _chosen(config, sizes, say) if has_gpus else 0
        write_atomically(folder.auto_gpus, str(kept))
    elif has_gpus and not kept:
        say(
            "`gpus_per_trial: auto` takes CPU cores, as it did when this search began; for the "
            "GPUs, set `resources.gpus_per_trial: 1`"
        )
    return given_gpus(config, kept if has_gpus else 0).resources


def _kept(folder: RunFolder) -> int | None:
    """Returns what `auto` took before; None if it was never asked."""
    try:
        text = folder.auto_gpus.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text in ("0", "1") else None


def _chosen(config: StudyConfig, sizes: Sequence[Size], say: Callable[[str], None]) -> int:
    """Returns 0 if CPU cores train the trials sooner than the GPUs, else 1."""
    cores, gpus = (_machine(given_gpus(config, share)) for share in (0, 1))
    if cores is None or gpus is None or not has_known_speed(config):
        return 1
    found = compare_devices(given_gpus(config, 1), sizes, cores=cores, gpus=gpus)
    say(choice_text(found))
    return 0 if found.cores_win else 1


def _machine(config: StudyConfig) -> Machine | None:
    """Returns the nodes as a plan sees them, with the trials that would run at a time."""
    there = ray.cluster_resources()
    found = machine_there(config, there)
    if found is None:
        return None
    slots = concurrent_trials(config.resources)
    on_gpus = found.device == "GPU"
    number, name = there.get("GPU" if on_gpus else "CPU", 0), "GPU" if on_gpus else "CPU core"
    devices = f"{number:g} {name}{'' if number == 1 else 's'}"
    at_a_time = f"{slots} trial{'' if slots == 1 else 's'} at a time"
    return replace(found, slots=slots, description=f"{devices}, {at_a_time}")
