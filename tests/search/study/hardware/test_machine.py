"""The machine of a plan: `search/study/hardware/machine.py`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.hardware.machine import (
    CPU_SPEED,
    START_SECONDS,
    Machine,
    device_name,
    speed_key,
    this_machine,
)
from fathom.search.study.keys.groups import ResourcesConfig, TrainConfig
from fathom.search.study.planning.plan import plan_study, search_hours
from fathom.search.study.timing.device_speed import keep_speeds
from tests.support.dry_run import study

MachineOf = Callable[..., Machine]


@pytest.fixture
def machine_with(monkeypatch: pytest.MonkeyPatch) -> MachineOf:
    """This machine for some resources, if it had so many GPUs and cores."""

    def machine(
        gpus: int, gpu: str | None = None, *, cores: int = 6, **resources: float
    ) -> Machine:
        monkeypatch.setattr("fathom.search.study.hardware.gpus.CLUSTER_FILES", ())
        monkeypatch.setattr("fathom.search.study.hardware.machine._gpus", lambda: ("H200",) * gpus)
        monkeypatch.setattr("fathom.search.study.hardware.machine.os.cpu_count", lambda: cores)
        return this_machine(ResourcesConfig(**resources), TrainConfig(), gpu)

    return machine


def test_the_devices_of_a_trial_are_those_that_the_study_gives_it(machine_with: MachineOf) -> None:
    single, four = machine_with(8, cores=8), machine_with(8, cores=8, gpus_per_trial=4)
    cores = machine_with(8, gpus_per_trial=0, cpus_per_trial=3)

    assert (single.device, single.devices, single.slots) == ("GPU", 1, 8)
    assert (four.devices, four.slots) == (4, 2)
    assert four.speed.peak == 4 * single.speed.peak
    assert (cores.device, cores.devices, cores.slots) == ("core", 3, 2)


def test_trials_that_share_a_gpu_are_as_many_as_have_cores(machine_with: MachineOf) -> None:
    assert machine_with(1, gpus_per_trial=0.25).slots == 4
    assert machine_with(1, gpus_per_trial=0.125).slots == 6
    assert machine_with(0, "H200", gpus_per_trial=0.125).slots == 8, "of one GPU elsewhere"


def test_a_plan_for_devices_that_are_not_here_says_so(machine_with: MachineOf) -> None:
    gpu = machine_with(0, gpus_per_trial=1, max_concurrent_trials=8)
    cores = machine_with(0, cpus_per_trial=64)

    assert (gpu.device, gpu.slots, gpu.here) == ("GPU", 8, False)
    assert "this machine has no A100-80GB, and `resources.gpus_per_trial` is 1" in gpu.notes[0]
    assert "estimate for A100-80GB from its data sheet, not measured yet: A100-80GB" in gpu.notes[1]
    assert gpu.description == "A100-80GB GPUs, 8 trials at a time"
    assert "this machine has 6 cores, and `resources.cpus_per_trial` is 64" in cores.notes[0]


def test_a_named_type_of_gpu_is_planned_for_wherever_the_plan_is_made(
    machine_with: MachineOf,
) -> None:
    away, other = machine_with(0, "B200"), machine_with(8, "B200")
    here = machine_with(8, "H200", cores=8)

    assert (away.slots, away.here, away.description) == (1, False, "B200 GPUs, 1 trial at a time")
    assert (here.slots, here.here, here.description) == (8, True, "8 H200 GPUs, 8 trials at a time")
    assert other == away
    assert away.speed.peak > 2 * here.speed.peak
    with pytest.raises(ConfigError, match=r"`resources.gpus_per_trial` must be above 0 with --gpu"):
        machine_with(8, "H200", gpus_per_trial=0)


def test_what_trials_on_a_type_measured_is_known_on_a_machine_without_it(
    machine_with: MachineOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path))
    whole, half = ResourcesConfig(gpus_per_trial=1), ResourcesConfig(gpus_per_trial=0.5)
    keep_speeds(speed_key("NVIDIA H100 80GB HBM3", whole, gpu=True), {1e12: 3e14})

    planned = machine_with(0, "H100", gpus_per_trial=1)

    assert planned.speed.measured == ((1e12, 3e14),)
    assert len(planned.notes) == 1
    assert "a search needs a cluster that has them" in planned.notes[0]
    assert speed_key("H100", half, gpu=True) == "H100, 0.5 a trial"
    assert machine_with(0, "H100", gpus_per_trial=0.5).speed.measured == ()


def test_a_time_that_was_not_measured_is_called_an_estimate(
    machine_with: MachineOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    config = study()
    before = machine_with(0)
    slow = {1e6: CPU_SPEED.flops_per_second(1e6) / 10, 1e9: CPU_SPEED.flops_per_second(1e9) / 10}
    keep_speeds(device_name(config.resources), slow, 50.0)
    after = machine_with(0)

    assert "the time is an estimate" in before.notes[0]
    assert after.notes == ()
    assert (before.start_seconds, after.start_seconds) == (START_SECONDS, 50.0)
    hours = [search_hours(plan_study(config, 256, there), there) for there in (before, after)]
    assert hours[1] > 2 * hours[0]
