"""The device that was granted, where PyTorch sees a GPU and where it sees none."""

import pytest
import torch

from fathom.search.study.groups import ResourcesConfig
from fathom.search.training.device import CPU, DeviceError, granted_device, local_device

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
