"""The planned cost of a study: `search/study/planning/plan.py`."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.models.parametrization import OptimizerName
from fathom.objectives.keys import EVAL_CHUNK_TOKENS
from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import parse, study_of
from fathom.search.study.hardware.gpus import CARRY
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler, StoppingConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan import (
    TRIAL_SECONDS,
    BudgetPlan,
    device_hours,
    largest_step,
    plan_study,
    search_hours,
    study_notes,
    vocab_size_of,
)
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.device_speed import Speed
from tests.support.dry_run import MACHINE, study


def plans(config: StudyConfig) -> tuple[BudgetPlan, ...]:
    return plan_study(config, 256, MACHINE)


def test_tokens_and_trials_add_up_without_stopping() -> None:
    config = study(stopping=StoppingConfig(enabled=False))
    for plan in plans(config):
        assert plan.exploring == 10
        assert plan.confirming == 3 * (2 + 2)
        assert plan.rungs == ()
        assert plan.expected_tokens == 20 * plan.budget.tokens


def test_the_time_is_that_of_training_evaluations_and_starts() -> None:
    config = study(stopping=StoppingConfig(enabled=False))
    for plan in plans(config):
        trained = plan.flops / 1e10
        evaluated = 20 * 4 * 131_072 * plan.flops / plan.expected_tokens / 3 / 1e10
        assert plan.hours * 3600 == pytest.approx((trained + evaluated + 20 * TRIAL_SECONDS) / 2)
    both = plans(config)
    slow = replace(MACHINE, start_seconds=36.0)
    assert search_hours(both, slow) == pytest.approx(sum(plan.hours for plan in both) + 0.01)


def test_deep_models_of_a_size_take_longer_where_layers_have_a_cost() -> None:
    (plan, _), machine = plans(study()), replace(MACHINE, speed=Speed(1e10, 1e-3))
    shallow, deep = (next(s for s in plan.shapes if s.depth == depth) for depth in (1, 12))
    seconds = [machine.speed.step_seconds(shape, EVAL_CHUNK_TOKENS) for shape in (shallow, deep)]
    flops = [shape.train_flops_per_token for shape in (shallow, deep)]
    assert seconds[1] / seconds[0] > 1.02 * flops[1] / flops[0]


def test_more_workers_than_trials_are_no_faster() -> None:
    config = study()
    few, many = replace(MACHINE, slots=26), replace(MACHINE, slots=1000)
    for plan, same in zip(plan_study(config, 256, few), plan_study(config, 256, many), strict=True):
        assert plan.exploring + plan.confirming <= 26
        assert plan.hours == same.hours


def test_stopping_saves_tokens_and_a_ladder_takes_every_depth() -> None:
    stopped, whole = study(), study(stopping=StoppingConfig(enabled=False))
    for fewer, more in zip(plans(stopped), plans(whole), strict=True):
        assert fewer.expected_tokens < more.expected_tokens
    for plan in plans(study(sampler=Sampler.LADDER)):
        assert plan.exploring == len(plan.depths)
        assert plan.rungs == ()


def test_rows_far_shorter_than_the_context_and_a_huge_rate_are_noted(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("".join(f"say {n}\t{n} !\n" for n in range(60)))
    keys = {"name": "transduction", "data": str(tmp_path / "rows.tsv")}

    def notes(context: int, rate: float) -> tuple[str, ...]:
        objective = {**keys, "context": context}
        sizes = {"budgets": ["20k"], "train": {"learning_rate": rate}}
        return study_notes(study_of({"study": "rows", "objective": objective, **sizes}))

    padding, high = notes(256, 0.5)
    assert "the longest row has 6 tokens, so 98% of the horizon is padding" in padding
    assert "`objective.context: 6` holds every row" in padding
    assert "`train.learning_rate` is 0.5, far above" in high
    assert notes(8, 0.01) == ()


def test_every_budget_of_the_study_is_planned_with_its_true_error() -> None:
    config = study()
    assert [plan.budget for plan in plans(config)] == list(expand_budgets(config))
    for plan in plans(config):
        errors = [abs(plan.budget.count_error(shape)) for shape in plan.shapes]
        assert plan.worst_count_error == max(errors) <= config.tolerance


def test_the_hours_of_devices_are_those_of_every_trial_at_a_time() -> None:
    planned = plans(study())
    hours = sum(plan.hours for plan in planned)
    assert device_hours(planned, MACHINE) == pytest.approx(2 * hours)
    assert device_hours(planned, replace(MACHINE, slots=4, devices=0.5)) == pytest.approx(2 * hours)


def test_hours_are_paid_of_whole_gpus_and_of_none_without_a_trial() -> None:
    planned = plan_study(study(budgets=(20_000,)), 256, MACHINE)
    hours = search_hours(planned, MACHINE)
    gpu = replace(MACHINE, device="GPU")
    for slots, devices, gpus in ((1, 0.25, 1), (3, 0.3, 1), (4, 0.3, 2), (9, 0.125, 2), (2, 2, 4)):
        there = replace(gpu, slots=slots, devices=devices)
        assert device_hours(planned, there) == pytest.approx(gpus * hours)
    trials = planned[0].exploring + planned[0].confirming
    many = device_hours(planned, replace(gpu, slots=1000))
    assert many == pytest.approx(trials * hours)


def test_a_model_that_fits_in_parts_only_is_planned_so_and_refused_for_muon() -> None:
    several = study().resources.model_copy(update={"gpus_per_trial": 4})
    config = study(resources=several)
    budget = expand_budgets(config)[-1]
    shapes = feasible_shapes(config, budget, 256)
    fits = [
        largest_step(config, budget, shapes, replace(MACHINE, memory=1e8 * 0.8**power))
        for power in range(40)
    ]
    in_parts = [fit for fit in fits if fit.shards and fit.enough]
    assert in_parts
    assert not fits[0].shards
    muon = config.train.model_copy(update={"optimizer": OptimizerName.MUON})
    config = config.model_copy(update={"train": muon})
    machine = replace(MACHINE, memory=in_parts[-1].memory)
    with pytest.raises(PlanError, match=r"`train.optimizer: muon`.* must fit each .* larger GPUs"):
        largest_step(config, budget, shapes, machine)


def test_a_training_that_repeats_its_data_too_often_is_noted(tmp_path: Path) -> None:
    text, ids = tmp_path / "text.txt", tmp_path / "ids.bin"
    text.write_text("0123456789" * 4000)
    np.random.default_rng(0).integers(0, 9, 40_000).astype(np.uint16).tofile(ids)
    language: dict[str, Any] = {"name": "language", "corpus": str(text), "context": 32}
    tokens = {"name": "tokens", "train": str(ids), "vocabulary": 9, "context": 32}

    def notes(objective: dict[str, Any], horizon: str) -> str:
        study = {"study": "s", "objective": objective, "budgets": ["8k", "20k"], "tokens": horizon}
        return " ".join(study_notes(study_of(study)))

    pairs = language | {"tokenizer": "bpe:300"}
    for objective in (language, tokens, pairs):
        assert notes(objective, "140k") == ""
    assert "takes 360k tokens, at least 10 epochs of its data" in notes(language, "360k")
    assert "takes 360k tokens, at least 10 epochs of its data" in notes(pairs, "360k")
    assert "takes 396k tokens, 10 epochs of its data; beyond 4" in notes(tokens, "396k")
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(text.read_bytes(), mtime=0))
    assert notes(language | {"corpus": f"{text}.gz"}, "360k") == "", "its size is not known"


@pytest.mark.parametrize(
    "data",
    [
        "{name: language, corpus: 'runs/data/*.txt'}",
        "{name: tokens, train: runs/data/ids.bin, vocabulary: 9}",
    ],
)
def test_data_that_the_head_of_a_cluster_lacks_are_missed_with_the_command_that_carries_them(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    config = parse(f"study: x\nobjective: {data}\nbudgets: [10k]\ntokens: 10k\n")
    with pytest.raises(PlanError) as elsewhere:
        vocab_size_of(config.objective)
    assert "ray rsync-up" not in str(elsewhere.value)
    (tmp_path / "ray_bootstrap_config.yaml").touch()
    with pytest.raises(PlanError, match="this is the head of a cluster") as on_head:
        vocab_size_of(config.objective)
    assert f"`{CARRY}`" in str(on_head.value)
    assert "\n" not in str(on_head.value)
