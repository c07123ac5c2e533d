"""Trials of longer horizons, which continue from the state that a shorter one has left."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.objectives.contract import Batch
from fathom.search.records import Outcome, Report
from fathom.search.study.keys.config import StudyConfig, parse
from fathom.search.study.planning.budget import (
    constant_until,
    evaluation_steps,
    expand_budgets,
    rung_steps,
    warmup_steps,
)
from fathom.search.study.planning.horizons import horizon_studies
from fathom.search.training.assignment import Assignment
from fathom.search.training.layer_metrics import SEED as DIAGNOSTICS_SEED
from fathom.search.training.trial import RunningTrial
from tests.support.toy import CPU, Successor
from tests.support.training import SPEC

HORIZONS = parse(
    """
study: toy
objective: {name: language, context: 6}
budgets: [4k]
horizons: [12k, 26k, 50k]
train: {batch_size: 40, evaluations: 7, learning_rate: 1e-2, warmup: 0.1}
stopping: {first_rung: 0.2, eta: 2, median_of: 3}
model: {parametrization: {base_width: 16, base_head_dim: 8}}
"""
)
SHORT, MIDDLE, LONG = horizon_studies(HORIZONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording(Successor):
    """An objective that notes the steps that are trained."""

    steps: list[int]

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        if seed != DIAGNOSTICS_SEED:
            self.steps.append(step)
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)


def assigned(folder: Path, config: StudyConfig, trunk: Path | None, **changes: Any) -> Assignment:
    folder.mkdir(exist_ok=True)
    (budget,) = expand_budgets(config)
    spec = replace(SPEC, study=config.study, horizon_tokens=budget.tokens, **changes)
    checkpoint = folder / f"{config.study}.pt"
    return Assignment(config, budget, spec, str(checkpoint), trunk=str(trunk or ""))


def reports(
    folder: Path, config: StudyConfig, trunk: Path | None, objective: Successor | None = None,
    **changes: Any,
) -> Iterator[Report]:  # fmt: skip
    given = assigned(folder, config, trunk, **changes)
    return RunningTrial(given, objective or Successor(), CPU).reports()


def without_clock(report: Report) -> dict[str, Any]:
    """The report as values, but for the clock and for the tokens that were taken over."""
    values = asdict(report) | {"setup_seconds": 0, "taken_over": 0}
    for point in values["points"]:
        del point["train_seconds"], point["time"]
        for name in ("flop_utilisation", "generation_seconds", "compile_seconds"):
            point["metrics"].pop(name, None)
    return values


def judged(found: list[Report]) -> list[dict[str, Any]]:
    """The reports at rungs and at the end."""
    return [without_clock(report) for report in found if report.rung or report.outcome]


def branch(config: StudyConfig) -> int:
    (budget,) = expand_budgets(config)
    return constant_until(config, budget)


def test_a_longer_trial_ends_as_without_a_trunk_and_takes_the_shared_steps_over(
    tmp_path: Path,
) -> None:
    trunk, steps = tmp_path / "trunk.pt", list[int]()
    for config in (SHORT, MIDDLE, LONG):
        steps.clear()
        found = [*reports(tmp_path / "with", config, trunk, Recording(steps=steps))]
        alone = [*reports(tmp_path / "alone", config, None)]

        assert judged(found) == judged(alone)
        shorter = {SHORT: 0, MIDDLE: branch(SHORT), LONG: branch(MIDDLE)}[config]
        assert min(steps) == shorter, "the steps before are not taken again"
        assert found[-1].taken_over == shorter * 240


def test_evaluations_of_all_horizons_lie_before_the_cool_down_of_the_shortest() -> None:
    """Else the test above would show nothing."""
    for config in (MIDDLE, LONG):
        (budget,) = expand_budgets(config)
        (short,) = expand_budgets(SHORT)
        own = set(evaluation_steps(SHORT, short))
        early = {step for step in evaluation_steps(config, budget) if step <= branch(SHORT)}

        assert early - own
        assert warmup_steps(config, budget) == warmup_steps(SHORT, short) == 5
    (budget,) = expand_budgets(MIDDLE)
    assert min(rung_steps(MIDDLE, budget)) < branch(SHORT)


def test_a_trial_that_pauses_at_a_rung_it_took_over_resumes_as_without_a_trunk(
    tmp_path: Path,
) -> None:
    trunk = tmp_path / "trunk.pt"
    list(reports(tmp_path, SHORT, trunk))

    paused = next(reports(tmp_path / "with", MIDDLE, trunk))
    assert paused.rung
    assert paused.saved
    trunk.unlink()
    alone = [*reports(tmp_path / "alone", MIDDLE, None)]
    assert without_clock(paused) | {"saved": True} == judged(alone)[0]
    resumed = [*reports(tmp_path / "with", MIDDLE, None)]

    assert judged(resumed)[1:] == judged(alone)[1:]
    assert resumed[-1].taken_over == branch(SHORT) * 240


def test_a_trial_that_paused_at_a_rung_leaves_a_trunk_of_that_step(tmp_path: Path) -> None:
    trunk = tmp_path / "trunk.pt"
    rung = next(report for report in reports(tmp_path, SHORT, trunk) if report.rung)

    found = [*reports(tmp_path / "with", LONG, trunk)]

    assert rung.rung
    assert found[-1].taken_over == rung.rung[0]
    assert judged(found) == judged([*reports(tmp_path / "alone", LONG, None)])


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"learning_rate": 5e-3}, {"decay_scale": 4.0}], ids=str
)
def test_a_trunk_of_another_training_is_not_used(tmp_path: Path, changes: Any) -> None:
    trunk = tmp_path / "trunk.pt"
    list(reports(tmp_path, SHORT, trunk))

    found = [*reports(tmp_path / "with", MIDDLE, trunk, **changes)]

    assert found[-1].outcome is Outcome.FINISHED
    assert not found[-1].taken_over


@pytest.mark.filterwarnings("ignore:.*damaged")
@pytest.mark.parametrize("damage", ["torn", "foreign", "pipe", "missing", "other content"])
def test_a_trunk_that_cannot_be_read_is_no_error(tmp_path: Path, damage: str) -> None:
    trunk = tmp_path / "trunk.pt"
    list(reports(tmp_path, SHORT, trunk))
    content = trunk.read_bytes()
    trunk.unlink()
    match damage:
        case "torn":
            trunk.write_bytes(content[: len(content) // 2])
        case "foreign":
            trunk.write_text("no checkpoint")
        case "pipe":
            os.mkfifo(trunk)
        case "other content":
            trunk.write_bytes(content)
            state = torch.load(trunk, weights_only=True)
            state["training"]["model"].popitem()
            torch.save(state, trunk)

    found = [*reports(tmp_path / "with", MIDDLE, trunk)]

    assert judged(found) == judged([*reports(tmp_path / "alone", MIDDLE, None)])
    assert not found[-1].taken_over


def test_an_interrupted_trial_leaves_the_trunk_that_it_would_have_left(tmp_path: Path) -> None:
    """Its measurements for longer horizons are saved with it."""
    trunk = tmp_path / "trunk.pt"
    first = next(reports(tmp_path, SHORT, trunk))  # saved at its first rung
    assert first.rung
    trunk.unlink()
    list(reports(tmp_path, SHORT, trunk))

    found = [*reports(tmp_path / "with", LONG, trunk)]

    assert found[-1].taken_over == branch(SHORT) * 240
    assert judged(found) == judged([*reports(tmp_path / "alone", LONG, None)])
