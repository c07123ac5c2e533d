"""Whether CPU cores train a study sooner than GPUs: `search/study/planning/devices.py`."""

from typing import Any

import pytest

from fathom.search.study.file.study_file import changed, study_of
from fathom.search.study.hardware.machine import Machine, this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.devices import core_notes, plans_of_auto
from fathom.search.study.planning.plan import BudgetPlan, plan_study
from fathom.search.study.planning.sharing import GPUS

OF_MACHINE = "fathom.search.study.hardware.machine"


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 16 cores and one GPU."""
    monkeypatch.setattr(f"{OF_MACHINE}._gpus", lambda: ("NVIDIA H100 80GB HBM3",))
    monkeypatch.setattr(f"{OF_MACHINE}.os.cpu_count", lambda: 16)
    monkeypatch.setattr(f"{OF_MACHINE}.trials_in_memory", lambda _: 16)


def study(budget: str, **groups: dict[str, Any]) -> StudyConfig:
    sizes = {"budgets": [budget], "count": "non_embedding", "tokens": "600k"}
    objective = {"name": "language", "corpus": "stdlib", "context": 128}
    given = {"train": {"batch_size": 8}, **groups}
    return study_of({"study": "devices", "objective": objective, **sizes, **given})


def planned(config: StudyConfig, gpu: str | None = None) -> tuple[tuple[BudgetPlan, ...], Machine]:
    machine = this_machine(config.resources, config.train, gpu)
    return plan_study(config, 256, machine), machine


def note(config: StudyConfig, gpu: str | None = None) -> str:
    plans, machine = planned(config, gpu)
    return "".join(core_notes(config, plans, machine))


def test_the_plan_of_auto_is_for_the_cores_where_they_train_a_small_model_sooner() -> None:
    plans, machine = planned(study("20k"))
    assert machine.device == "GPU"

    anew, chosen = plans_of_auto(study("20k"), plans, machine)

    assert (chosen.device, chosen.slots) == ("core", 16)
    assert sum(plan.hours for plan in anew) < sum(plan.hours for plan in plans)
    assert [plan.epochs for plan in anew] == [plan.epochs for plan in plans]
    text = chosen.notes[-1]
    assert text.startswith("`gpus_per_trial: auto` takes CPU cores: about ")
    assert "on 16 CPU cores, 16 trials at a time (an estimate), about " in text
    assert "on 1 H100 GPU, 1 trial at a time (by its data sheet); for the others" in text
    assert text.endswith("set `resources.gpus_per_trial: 1`")


def test_the_plan_of_auto_stays_on_the_gpu_where_that_trains_a_large_model_sooner() -> None:
    config = study("100M")
    plans, machine = planned(config)

    assert plans_of_auto(config, plans, machine) == (plans, machine)
    assert not note(config)


def test_a_study_that_asks_for_the_gpu_is_told_of_faster_cores_and_planned_as_it_asks() -> None:
    config = study("20k", resources={"gpus_per_trial": 1})
    plans, machine = planned(config)

    assert plans_of_auto(config, plans, machine) == (plans, machine)
    assert note(config).startswith("CPU cores train this study sooner: about ")
    assert note(config).endswith("; set `resources.gpus_per_trial: 0`")


def test_for_a_gpu_elsewhere_the_plan_says_how_many_cores_are_enough() -> None:
    text = note(study("20k"), "L4")

    assert "cores such as this machine's (an estimate), about " in text
    assert text.endswith("where machines have them, `gpus_per_trial: auto` takes them")
    assert not note(study("100M"), "L4")


def test_nothing_is_said_of_a_training_whose_speed_is_not_known() -> None:
    plain = study("20k")
    train = plain.train.model_copy(update={"command": ("python", "mine.py")})

    assert not note(plain.model_copy(update={"train": train}))


def test_equal_seconds_are_spent_on_the_gpu_which_trains_more_in_them() -> None:
    config = study("20k", train={"batch_size": 8}).model_copy(update={"tokens": None})
    config = StudyConfig.model_validate(config.model_dump() | {"train_seconds": 60.0})
    plans, machine = planned(config)

    assert plans_of_auto(config, plans, machine) == (plans, machine)
    assert not note(config)
    assert not note(config, "L4")


def test_against_a_gpu_for_each_trial_no_number_of_cores_is_enough() -> None:
    assert not note(study("20k", resources={"max_concurrent_trials": 10**9}), "L4")


def test_the_plan_of_auto_shares_the_gpu_where_mps_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.search.study.planning.sharing.mps_may_start", lambda: True)
    config = study("1M")
    plans, machine = planned(config)

    anew, chosen = plans_of_auto(config, plans, machine)

    assert (chosen.devices, chosen.slots) == (0.125, 8)
    assert sum(plan.hours for plan in anew) < 0.75 * sum(plan.hours for plan in plans)
    text = chosen.notes[-1]
    assert text.startswith("`gpus_per_trial: auto` takes GPUs, 8 trials on each: about ")
    assert plans_of_auto(changed(config, {GPUS: 1}), plans, machine) == (plans, machine)
