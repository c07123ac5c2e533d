"""The public sampler of depths in studies of anybody's own: `sampling/depth_sampler.py`."""

import math
from collections import Counter
from collections.abc import Callable

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase, SingleOnlySamplerTestCase
from optuna.trial import Trial, TrialState

from fathom import DepthSampler

PLANTED = 8


def loss_of(depth: int) -> float:
    """A loss in nats that is lowest at the planted depth."""
    return 2.0 + 0.1 * math.log(depth / PLANTED) ** 2


def searched(sampler: BaseSampler, trials: int = 24, **study: object) -> optuna.Study:
    """A plain study whose objective is lowest at the planted depth."""

    def objective(trial: Trial) -> float:
        depth = trial.suggest_int("depth", 1, 64, log=True)
        ratio = trial.suggest_float("ff_ratio", 1.0, 8.0, log=True)
        trial.suggest_categorical("activation", ["relu", "gelu"])
        return loss_of(depth) + 0.002 * math.log(ratio / 3) ** 2

    found = optuna.create_study(sampler=sampler, **study)  # type: ignore[arg-type]
    found.optimize(objective, trials)
    return found


def depths_of(study: optuna.Study) -> list[int]:
    return [trial.params["depth"] for trial in study.trials]


class TestOptunasOwnSamplerTests(BasicSamplerTestCase, SingleOnlySamplerTestCase):
    """Those for relative sampling do not apply: no parameter is drawn together with others."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return DepthSampler


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_depth_is_found_in_a_plain_study(seed: int) -> None:
    study = searched(DepthSampler(seed=seed))

    assert abs(math.log(study.best_params["depth"] / PLANTED)) < 0.2
    later = [math.log(depth / PLANTED) for depth in depths_of(study)[7:]]
    assert all(abs(off) < 1 for off in later), "the first seven have shown where it lies"


def test_the_first_depths_span_the_range_in_a_few_steps() -> None:
    depths = depths_of(searched(DepthSampler(seed=1), 7))

    assert sorted(depths) == [1, 2, 4, 8, 16, 32, 64]
    assert max(depths[:3]) / min(depths[:3]) >= 8


def test_draws_are_a_function_of_the_seed_and_of_the_trials_so_far() -> None:
    whole = depths_of(searched(DepthSampler(seed=3), 12))
    half = searched(DepthSampler(seed=3), 9)
    half.sampler = DepthSampler(seed=3)  # as after a kill
    for _ in range(3):
        trial = half.ask()
        half.tell(trial, loss_of(trial.suggest_int("depth", 1, 64, log=True)))

    assert depths_of(half)[:10] == whole[:10]
    assert depths_of(searched(DepthSampler(seed=4), 12)) != whole
    ratios = [
        [trial.params["ff_ratio"] for trial in searched(DepthSampler(), 3).trials] for _ in range(2)
    ]
    assert ratios[0] != ratios[1], "without a seed each study draws its own"


def test_a_study_that_maximizes_finds_the_same_depth() -> None:
    study = optuna.create_study(sampler=DepthSampler(seed=0), direction="maximize")
    study.optimize(lambda trial: -loss_of(trial.suggest_int("depth", 1, 64, log=True)), 16)

    assert depths_of(study) == depths_of(_minimized())


def _minimized() -> optuna.Study:
    study = optuna.create_study(sampler=DepthSampler(seed=0))
    study.optimize(lambda trial: loss_of(trial.suggest_int("depth", 1, 64, log=True)), 16)
    return study


def test_the_depth_may_have_another_name_and_be_a_choice() -> None:
    choices = [2, 4, 8, 16, 32]
    study = optuna.create_study(sampler=DepthSampler(seed=0, depth="n_layer"))
    study.optimize(lambda t: loss_of(t.suggest_categorical("n_layer", choices)), 15)
    drawn = Counter(trial.params["n_layer"] for trial in study.trials)

    assert set(drawn) == set(choices)
    assert drawn.most_common(1)[0][0] == PLANTED


@pytest.mark.parametrize(
    "suggest",
    [
        lambda trial: trial.suggest_int("depth", 0, 8),
        lambda trial: trial.suggest_float("depth", 1, 8),
        lambda trial: trial.suggest_categorical("depth", ["shallow", "deep"]),
    ],
)
def test_depths_that_are_no_whole_numbers_are_refused(suggest: Callable[[Trial], object]) -> None:
    study = optuna.create_study(sampler=DepthSampler())
    with pytest.raises(
        ValueError, match="`depth`, the depth, must be whole numbers from 1 on, got"
    ):
        suggest(study.ask())
    with pytest.raises(ValueError, match="`n_startup_trials` must be at least 1, got 0"):
        DepthSampler(n_startup_trials=0)


def test_trials_that_were_stopped_early_count_by_a_forecast_that_is_fair_to_deep_models() -> None:
    """At the first step losses rise with depth; the trials that go on show how far they fall."""

    def told(*, stops: bool) -> list[int]:
        study = optuna.create_study(sampler=DepthSampler(seed=0))
        for number in range(20):
            trial = study.ask()
            depth = trial.suggest_int("depth", 1, 64, log=True)
            steps = (1, 4, 16, 64) if number % 3 == 0 or not stops else (1, 4)
            for step in steps:
                trial.report(
                    loss_of(depth) + (0.5 + 0.05 * math.log(depth)) / math.sqrt(step), step
                )
            last = study.trials[-1].intermediate_values[steps[-1]]
            study.tell(
                trial, last if number % 2 else None, None if number % 2 else TrialState.PRUNED
            )
        return depths_of(study)[7:]

    for depths in (told(stops=False), told(stops=True)):
        assert abs(sum(math.log(depth / PLANTED) for depth in depths) / len(depths)) < 0.5


def test_failed_trials_and_losses_that_are_no_numbers_count_for_nothing() -> None:
    study = optuna.create_study(sampler=DepthSampler(seed=0))
    for number in range(20):
        trial = study.ask()
        depth = trial.suggest_int("depth", 1, 64, log=True)
        if depth > 16:
            trial.report(math.nan, 1)
            study.tell(trial, state=TrialState.PRUNED if number % 2 else TrialState.FAIL)
        else:
            study.tell(trial, loss_of(depth))

    assert all(4 <= depth <= 16 for depth in depths_of(study)[7:])
