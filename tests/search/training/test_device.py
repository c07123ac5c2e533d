"""The device that was granted, where PyTorch sees a GPU and where it sees none."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fathom.search.study.hardware.fit import BESIDE_TENSORS
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.training import device as device_module
from fathom.search.training.assignment import Assignment
from fathom.search.training.device import (
    CPU,
    DeviceError,
    granted_device,
    keep_to_share,
    local_device,
)
from fathom.search.training.trial import RunningTrial
from tests.support.toy import Successor
from tests.support.training import BUDGET, CONFIG, SPEC

GPU = torch.device("cuda")


def test_without_a_granted_gpu_none_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert granted_device(0) == CPU
    assert granted_device(1) == granted_device(0.25) == GPU


def test_a_granted_gpu_that_cannot_be_used_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"must train on it.* set `resources.gpus_per_trial: 0`"):
        granted_device(1)


@pytest.mark.parametrize(
    ("asked", "there", "device"),
    [(0, True, CPU), ("auto", True, GPU), ("auto", False, CPU), (1, False, CPU), (0.5, True, GPU)],
)
def test_without_ray_a_gpu_is_used_unless_trials_have_none(
    asked: float | str, there: bool, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    resources = ResourcesConfig.model_validate({"gpus_per_trial": asked})
    assert local_device(resources) == device


def test_a_deterministic_trial_has_no_other_kernels_and_the_next_one_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(device_module.CUBLAS_WORKSPACE, raising=False)
    seen, losses = [], []

    def see(loss: float) -> float:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return loss

    for deterministic in (True, False):
        train = CONFIG.train.model_copy(update={"deterministic": deterministic})
        config = CONFIG.model_copy(update={"train": train})
        given = Assignment(config, BUDGET, SPEC, str(tmp_path / f"{deterministic}.pt"))
        *_, last = RunningTrial(given, Successor(fault=see), CPU).reports()
        assert set(seen) == {deterministic}
        losses.append([point.loss for point in last.points])
        seen.clear()
    assert os.environ.pop(device_module.CUBLAS_WORKSPACE) == ":4096:8"
    assert losses[0] == losses[1], "on a CPU these kernels are all there are"


def test_trials_whose_heads_differ_have_no_kernel_that_takes_only_some_of_them(
    tmp_path: Path,
) -> None:
    differ = CONFIG.model_copy(update={"space": CONFIG.space.model_copy(update={"n_heads": 2})})
    for config, wanted in ((differ, False), (CONFIG, True)):
        assignment = Assignment(config, BUDGET, SPEC, str(tmp_path / "trial.pt"))
        RunningTrial(assignment, Successor(), CPU)
        allowed = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        assert allowed is wanted


@pytest.mark.parametrize(
    ("gpus", "device", "limits"),
    [
        (0.25, "cuda", [pytest.approx(0.25 - 0.01)]),
        (1, "cuda", []),
        (2, "cuda", []),
        (0.5, "cpu", []),
    ],
)
def test_a_trial_takes_no_memory_of_those_that_share_its_gpu(
    gpus: float, device: str, limits: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[float]()
    properties = SimpleNamespace(total_memory=100 * BESIDE_TENSORS)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", found.append)
    keep_to_share(torch.device(device), ResourcesConfig(gpus_per_trial=gpus))
    assert found == limits
