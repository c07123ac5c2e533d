"""The line that advises to share GPUs: `search/study/planning/sharing.py`."""

from typing import Any

import pytest

from fathom.search.study.file.study_file import study_of
from fathom.search.study.hardware import fit
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import plan_study
from fathom.search.study.planning.sharing import sharing_notes


def study(budget: str, resources: dict[str, Any] | None = None) -> StudyConfig:
    sizes = {"budgets": [budget], "count": "non_embedding", "tokens_per_parameter": 20}
    objective = {"name": "language", "context": 256}
    return study_of(
        {"study": "shared", "objective": objective, **sizes, "resources": resources or {}}
    )


def note(config: StudyConfig, gpu: str | None) -> str:
    machine = this_machine(config.resources, config.train, gpu)
    return "".join(sharing_notes(config, plan_study(config, 256, machine), machine, gpu))


def test_a_model_whose_step_is_its_launches_is_advised_to_share_a_gpu() -> None:
    text = note(study("1M"), "H200")

    assert "`resources: {gpus_per_trial: 0.125}` 8 share each" in text
    assert "CUDA's MPS" in text


def test_where_auto_shares_the_gpus_of_this_machine_that_is_said_and_nothing_advised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fathom.search.study.hardware.machine._gpus", lambda: ("NVIDIA H200",))
    monkeypatch.setattr("fathom.search.study.hardware.machine.os.cpu_count", lambda: 16)
    monkeypatch.setattr("fathom.search.study.hardware.machine.trials_in_memory", lambda _: 16)
    monkeypatch.setattr("fathom.search.study.planning.sharing.mps_may_start", lambda: True)

    assert note(study("1M"), None).startswith("8 trials share each GPU by CUDA's MPS: about ")


def test_the_trials_at_a_time_grow_with_those_on_each_gpu() -> None:
    config = study("1M", {"gpus_per_trial": 1, "max_concurrent_trials": 2})

    assert "gpus_per_trial: 0.125, max_concurrent_trials: 16" in note(config, "H200")


def test_no_more_share_a_gpu_than_fit_its_memory_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit, "USABLE_OF_GPU", 0.02)  # an eighth of it is 350 MB

    assert "gpus_per_trial: 0.5}` 2 share each" in note(study("1M"), "H200")


@pytest.mark.parametrize(
    ("config", "gpu"),
    [
        (study("100M"), "H200"),  # whose steps are work
        (study("1M"), "L4"),  # whose memory is slow
        (study("1M", {"gpus_per_trial": 0.5}), "H200"),
        (study("1M", {"gpus_per_trial": 2}), "H200"),
        (study("1M", {"gpus_per_trial": 0}), None),
    ],
    ids=["large", "slow memory", "shared", "several", "none"],
)
def test_there_is_no_advice_where_it_would_not_help(config: StudyConfig, gpu: str | None) -> None:
    assert not note(config, gpu)
