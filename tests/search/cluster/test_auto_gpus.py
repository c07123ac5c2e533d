"""What `gpus_per_trial: auto` takes, on stand-ins for clusters: `search/cluster/auto_gpus.py`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fathom.search.cluster.auto_gpus import settled_resources
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import study_of
from fathom.search.study.hardware.mps import GpuSharing
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.device_speed import keep_speeds

CORES = {"CPU": 16.0}
ONE_GPU = {**CORES, "GPU": 1.0, "accelerator_type:H100": 1.0}
OF_MACHINE = "fathom.search.study.hardware.machine"
RAY_SESSION = "fathom.search.cluster.session.ray_session"
Settle = Callable[..., tuple[float | str, str]]


@pytest.fixture
def settle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settle:
    """The GPUs of each trial on nodes with some resources of Ray, and what is said of it."""
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")  # whose memory is not asked
    folder = RunFolder(tmp_path / "run")
    folder.create()

    def settled(
        there: dict[str, float], budget: str = "20k", **resources: Any
    ) -> tuple[float | str, str]:
        monkeypatch.setattr("ray.cluster_resources", lambda: there)
        sizes = {"budgets": [budget], "count": "non_embedding", "tokens": "600k"}
        objective = {"name": "language", "corpus": "stdlib", "context": 128}
        keys = {"study": "devices", "objective": objective, "train": {"batch_size": 8}, **sizes}
        config = study_of({**keys, "resources": resources})
        shapes = [(b, feasible_shapes(config, b, 256)) for b in expand_budgets(config)]
        said: list[str] = []
        found = settled_resources(config, folder, shapes, GpuSharing(), said.append)
        return found.gpus_per_trial, "".join(said)

    return settled


def test_without_a_gpu_trials_train_on_cores_and_nothing_is_said(settle: Settle) -> None:
    assert settle(CORES) == (0, "")


def test_cores_are_taken_where_they_train_small_models_sooner_than_the_gpu(settle: Settle) -> None:
    share, said = settle(ONE_GPU)

    assert share == 0
    assert said.startswith("`gpus_per_trial: auto` takes CPU cores: about ")
    assert "on 16 CPU cores, 16 trials at a time (an estimate), about " in said
    assert "on 1 GPU, 1 trial at a time (by its data sheet); for the others, set" in said


def test_the_gpu_is_taken_where_it_trains_large_models_sooner(settle: Settle) -> None:
    share, said = settle(ONE_GPU, "100M")

    assert share == 1
    assert said.startswith("`gpus_per_trial: auto` takes GPUs: about ")
    assert said.endswith("set `resources.gpus_per_trial: 0`")


def test_measured_speeds_decide_where_there_are_any(settle: Settle) -> None:
    keep_speeds("H100, 1 a trial", {1e6: 1e15, 1e8: 1e15})
    share, said = settle(ONE_GPU)

    assert share == 1
    assert "(measured)" in said


def test_a_resumed_search_keeps_what_it_began_with(settle: Settle) -> None:
    assert settle(ONE_GPU)[0] == 0
    share, said = settle(ONE_GPU, "100M")
    assert share == 0
    assert said.startswith("`gpus_per_trial: auto` takes CPU cores, as it did when this search")
    assert settle(ONE_GPU, gpus_per_trial=1) == (1, ""), "the study's own word counts more"


def test_a_search_that_began_on_gpus_trains_on_cores_only_while_there_are_none(
    settle: Settle,
) -> None:
    assert settle(ONE_GPU, "100M")[0] == 1
    assert settle(CORES, "20k") == (0, "")
    assert settle(ONE_GPU, "20k") == (1, "")


def test_the_gpu_is_taken_for_a_command_whose_speed_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: ONE_GPU)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    external = {"name": "external", "vocabulary": 256, "context": 64}
    config = study_of(
        {
            "study": "mine", "objective": external, "budgets": ["20k"], "tokens": "600k",
            "train": {"command": ["python", "mine.py", "{depth}", "{d_model}", "{folder}"]},
        }
    )  # fmt: skip

    assert settled_resources(config, folder, [], GpuSharing()).gpus_per_trial == 1


def test_a_damaged_choice_is_made_anew(settle: Settle, tmp_path: Path) -> None:
    (tmp_path / "run" / "state" / "auto_gpus").write_text("many")
    assert settle(ONE_GPU)[0] == 0


@pytest.fixture
def alone(settle: Settle, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """This machine without a cluster, where CUDA's MPS may start; why it does not is set by a
    test."""
    why = {"": ""}
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setenv("RAY_TMPDIR", "/nowhere")
    monkeypatch.setattr("fathom.search.study.planning.sharing.mps_may_start", lambda: True)
    monkeypatch.setattr(f"{OF_MACHINE}._gpus", lambda: ("NVIDIA H100 80GB HBM3",))
    monkeypatch.setattr(f"{OF_MACHINE}.os.cpu_count", lambda: 16)
    monkeypatch.setattr(f"{OF_MACHINE}.trials_in_memory", lambda _: 16)
    monkeypatch.setattr(f"{RAY_SESSION}.trials_in_memory", lambda _: 16)
    monkeypatch.setattr(GpuSharing, "start", lambda _: why[""])
    return why


def test_small_trials_share_the_gpu_of_this_machine_and_a_resumed_search_shares_it_again(
    settle: Settle, alone: dict[str, str]
) -> None:
    share, said = settle(ONE_GPU, "1M")

    assert share == 0.125
    assert said.startswith("`gpus_per_trial: auto` takes GPUs, 8 trials on each: about ")
    assert "on 1 GPU, 8 trials at a time" in said
    assert settle(ONE_GPU, "1M") == (0.125, "")
    assert settle(ONE_GPU, "1M", gpus_per_trial=1) == (1, ""), "the study's own word counts more"


def test_each_trial_has_a_whole_gpu_where_mps_does_not_start(
    settle: Settle, alone: dict[str, str]
) -> None:
    alone[""] = "no daemon"
    share, said = settle(ONE_GPU, "1M")

    assert share == 1
    assert said.startswith("trials do not share a GPU, as CUDA's MPS does not start: no daemon")
    assert "takes GPUs: about" in said


def test_a_search_that_shared_a_gpu_goes_on_where_mps_does_not_start_and_shares_it_later(
    settle: Settle, alone: dict[str, str]
) -> None:
    assert settle(ONE_GPU, "1M")[0] == 0.125
    alone[""] = "no daemon"
    assert settle(ONE_GPU, "1M")[0] == 1
    alone[""] = ""
    assert settle(ONE_GPU, "1M") == (0.125, "")


def test_on_a_cluster_no_trials_share_a_gpu_unasked(settle: Settle) -> None:
    assert settle(ONE_GPU, "1M")[0] in (0, 1)


def test_trials_that_the_study_has_share_a_gpu_take_turns_where_mps_does_not_start(
    settle: Settle, alone: dict[str, str]
) -> None:
    assert settle(ONE_GPU, "1M", gpus_per_trial=0.25) == (0.25, "")
    alone[""] = "no daemon"
    share, said = settle(ONE_GPU, "1M", gpus_per_trial=0.25)
    assert share == 0.25
    assert said.startswith("trials that share a GPU take turns on it, as CUDA's MPS does not start")
