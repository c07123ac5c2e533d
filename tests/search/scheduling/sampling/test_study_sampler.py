"""The sampler's use of Optuna: `search/scheduling/sampling/study_sampler.py`."""

import math
import statistics
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial

from fathom.models.shape import Shape
from fathom.search.records import Outcome, Stage, TrialRecord, in_order_of_names
from fathom.search.scheduling.optuna.optuna_studies import open_file
from fathom.search.scheduling.sampling.study_sampler import ShapeSampler, ladder_shapes
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.groups import Sampler
from tests.support.dry_run import Simulation, optuna_trials, scheduler, study

FIRST_DRAWN = [
    (5, 24, 118), (2, 40, 169), (12, 16, 71), (4, 28, 121), (1, 56, 244), (8, 20, 84), (3, 32, 143)
]  # fmt: skip
"""Depth, d_model and d_ff of the first shapes of a budget, by seed 0."""


def sampler(path: Path, kind: Sampler, trials: int = 12) -> ShapeSampler:
    search = scheduler(study(sampler=kind, trials=trials), path)
    return search.budgets[40_000].sampler


def distance_of_later_draws(path: Path, kind: Sampler) -> float:
    """Mean distance, in ln depth, of the later half of the draws of three searches from depth 4."""
    distances = []
    for seed in range(3):
        search = scheduler(study(sampler=kind, trials=24, seed=seed), path / f"{kind}-{seed}")
        Simulation(search).run()
        explored = [r.spec for r in search.records if r.spec.stage is Stage.EXPLORE]
        later = [spec for spec in explored if int(spec.trial[-3:]) >= 12]
        distances += [abs(math.log(spec.shape.depth / 4)) for spec in later]
    return statistics.fmean(distances)


@pytest.mark.siege
def test_samplers_that_learn_draw_nearer_to_the_planted_depth_than_a_random_one(
    tmp_path: Path,
) -> None:
    at_random = distance_of_later_draws(tmp_path, Sampler.RANDOM)
    assert distance_of_later_draws(tmp_path, Sampler.GP) < 0.85 * at_random
    # It keeps to the depths that were tried first, whose ratios run out.
    assert distance_of_later_draws(tmp_path, Sampler.CURVE) < 0.95 * at_random


def test_the_first_draws_are_the_seeds_alone(tmp_path: Path) -> None:
    search = scheduler(study(trials=18), tmp_path)
    begun = [spec for _ in range(14) if (spec := search.next_trial())]
    shapes = [spec.shape for spec in begun if spec.budget == 40_000]
    assert [(shape.depth, shape.d_model, shape.d_ff) for shape in shapes] == FIRST_DRAWN


@pytest.mark.parametrize("kind", [Sampler.CURVE, Sampler.TPE, Sampler.LADDER])
def test_each_exploring_shape_came_out_of_the_ask_of_an_optuna_sampler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Sampler
) -> None:
    asked: list[tuple[str, int, float]] = []
    ask = optuna.Study.ask

    def noted(study: optuna.Study, *arguments: Any) -> optuna.Trial:
        trial = ask(study, *arguments)
        asked.append((str(study.sampler), trial.params["depth"], trial.params["ff_ratio"]))
        return trial

    monkeypatch.setattr(optuna.Study, "ask", noted)
    search = scheduler(study(sampler=kind, budgets=(40_000,)), tmp_path)
    Simulation(search).run()
    explored = in_order_of_names(r for r in search.records if r.spec.stage is Stage.EXPLORE)
    assert len(asked) == len(explored)
    for record, (_, depth, ratio) in zip(explored, asked, strict=True):
        assert record.spec.shape.depth == depth
        # What Optuna's own samplers draw is snapped to a shape of the depth that has a near ratio.
        assert record.spec.shape.ff_ratio == ratio or kind is Sampler.TPE
    if kind is Sampler.CURVE:
        assert {name for name, *_ in asked} == {"DepthSampler"}


def test_a_draw_sees_forecasts_and_trials_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[list[FrozenTrial]] = []
    ask = optuna.Study.ask

    def noted(study: optuna.Study, *arguments: Any) -> optuna.Trial:
        shown.append(study.get_trials())
        return ask(study, *arguments)

    search = scheduler(study(trials=18, budgets=(40_000,)), tmp_path)
    monkeypatch.setattr(optuna.Study, "ask", noted)
    Simulation(search, slots=4).run()
    assert [len(trials) for trials in shown] == list(range(18)), "a study knows its earlier trials"
    # As soon as the first seven have come to a rung, there are virtual workers for all others.
    states = [[trial.state.name for trial in trials] for trials in shown]
    assert states[:7] == [["RUNNING"] * number for number in range(7)]
    assert states[7:] == [["COMPLETE"] * 7 + ["RUNNING"] * more for more in range(11)]
    known = [trial for trials in shown for trial in trials if trial.state.name == "COMPLETE"]
    values = [trial.value for trial in known]
    assert all(value is not None and 1.9 < value < 2.8 for value in values), "at the horizon"
    assert all(trial.user_attrs["variance"] > 0 for trial in known)


NAMED = {"sampler": "optuna.samplers.NSGAIISampler", "sampler_options": {"population_size": 4}}


def test_a_sampler_named_by_its_import_path_draws_by_a_seed_and_learns(tmp_path: Path) -> None:
    def drawn(path: Path, slots: int, **changes: object) -> list[Shape]:
        config = study(trials=16, trials_together=4, budgets=(40_000,), **NAMED | changes)
        search = scheduler(config, path)
        Simulation(search, slots=slots, seed=slots).run(events=20)
        search = scheduler(config, path)  # as after a kill
        Simulation(search, slots=slots, seed=slots).run()
        explored = in_order_of_names(r for r in search.records if r.spec.stage is Stage.EXPLORE)
        return [record.spec.shape for record in explored]

    shapes = drawn(tmp_path / "1", 1)
    assert len(shapes) == 16
    assert drawn(tmp_path / "5", 5) == shapes
    assert drawn(tmp_path / "other", 5, seed=1) != shapes


def test_a_sampler_that_fails_in_a_search_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> float:
        raise IndexError("no more\nideas")

    search = scheduler(study(trials_together=4, **NAMED), tmp_path)
    workers = Simulation(search)
    workers.run(events=2)
    monkeypatch.setattr(optuna.samplers.NSGAIISampler, "infer_relative_search_space", fails)
    with pytest.raises(PlanError, match=r"NSGAIISampler must draw .* IndexError: no more ideas;"):
        workers.run()


def test_a_sampler_that_keeps_its_state_with_its_trials_goes_through_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NSGA-II counts generations by attributes of the trials that it drew."""
    generations: list[object] = []
    ask = optuna.Study.ask

    def noted(study: optuna.Study, *arguments: Any) -> optuna.Trial:
        trial = ask(study, *arguments)
        generations.append(study.trials[-1].system_attrs.get("NSGAIISampler:generation"))
        return trial

    monkeypatch.setattr(optuna.Study, "ask", noted)
    config = study(trials=12, trials_together=4, budgets=(40_000,), **NAMED)
    Simulation(scheduler(config, tmp_path)).run()
    assert generations[-1] == 2, "the third generation of four"


def test_the_first_draws_span_the_range_of_depths(tmp_path: Path) -> None:
    asked = sampler(tmp_path, Sampler.TPE)
    depths = [asked.draw(index, []).depth for index in range(6)]
    assert len(set(depths)) == 6
    assert min(depths) <= 2
    assert max(depths) >= 9


def test_each_budget_has_a_study_with_the_shapes_that_were_built(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run()
    storage = open_file(search.folder.optuna)
    assert set(optuna.get_all_study_names(storage)) == {"simulated/20k", "simulated/40k"}
    for params, budget in search.budgets.items():
        built = {r.spec.trial: r.spec.shape for r in budget.ended}
        for trial in optuna_trials(search, params):
            name = trial.user_attrs["trial"]
            assert name.startswith(budget.budget.label)
            assert trial.params == {
                key: getattr(built[name], key) for key in ("depth", "d_model", "ff_ratio")
            }


def test_a_diverged_trial_has_no_value_in_optuna_which_ranks_it_last(tmp_path: Path) -> None:
    search = scheduler(study(trials=16), tmp_path)

    def explodes(spec: object, share: float) -> float:
        return math.nan if share > 0.04 else 1.0  # the lowest losses of all, until it blows up

    Simulation(search, explodes).run(events=40)
    for params in search.budgets:
        trials = optuna_trials(search, params)
        diverged = [t for t in trials if t.user_attrs["outcome"] == Outcome.DIVERGED]
        assert all(t.state is optuna.trial.TrialState.PRUNED for t in diverged)
        assert all(not t.intermediate_values for t in diverged)
        assert diverged
        assert not any(t.state is optuna.trial.TrialState.COMPLETE for t in trials)


def test_a_failed_trial_teaches_nothing_and_is_not_left_running(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    spec = search.next_trial()
    assert spec is not None
    search.end(spec.trial, Outcome.OUT_OF_MEMORY, "too large")
    (trial,) = optuna_trials(search, spec.budget)
    assert trial.state is optuna.trial.TrialState.FAIL
    record: TrialRecord = search.records[0]
    assert record.outcome is Outcome.OUT_OF_MEMORY


def test_a_ladder_has_one_shape_a_depth_near_the_middle_ratio(tmp_path: Path) -> None:
    shapes = scheduler(study(), tmp_path).budgets[40_000].shapes
    rungs = ladder_shapes(shapes)
    assert [s.depth for s in rungs] == sorted({s.depth for s in shapes})
    middle = math.sqrt(min(s.ff_ratio for s in shapes) * max(s.ff_ratio for s in shapes))
    for rung in rungs:
        same = [s for s in shapes if s.depth == rung.depth]
        assert rung == min(same, key=lambda s: abs(math.log(s.ff_ratio / middle)))
