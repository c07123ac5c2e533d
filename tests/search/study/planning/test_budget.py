"""Budgets: counts as people write them, horizons in whole steps, rungs."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.models.shape import Count, Shape
from fathom.objectives.keys import parse_count
from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, evaluation_steps, expand_budgets, rung_steps

SHAPE = Shape(depth=2, d_model=16, d_ff=64, n_heads=2, head_dim=8, vocab_size=32, context=8)


def study(text: str = "", *, objective: str = "{name: language, context: 64}") -> StudyConfig:
    return parse(f"study: s\nobjective: {objective}\n" + (text or "budgets: [1M]"))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("300k", 300_000), ("1.5M", 1_500_000), ("2B", 2 * 10**9), ("0.001T", 10**9),
        ("1e6", 10**6), ("3.5e+2k", 350_000), (" 12 m ", 12_000_000), ("1_000", 1000), (7, 7),
        (5e5, 500_000), (999_999_999_999_999_999, 999_999_999_999_999_999),
    ],
)  # fmt: skip
def test_a_count_is_read_as_people_write_it(text: object, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize(
    "wrong",
    ["", "k", "1kk", "-5", "1,000", "0", 0, -1, 1e19, "1e999", True, None, [1], "half", "1.5",
     2.5, "0.0001k", math.nan, math.inf, "0x10", "\u0661k"],
)  # fmt: skip
def test_an_invalid_count_is_refused_with_the_value(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        parse_count(wrong)
    assert repr(wrong) in str(caught.value)


def test_two_budgets_of_a_study_never_share_a_label() -> None:
    close = expand_budgets(study("budgets: [1000000, 1000001, 1000100, 1.001M]"))
    assert [budget.label for budget in close] == ["1M", "1000001", "1000100", "1.001M"]


@pytest.mark.parametrize("tokens", [512, 513, 100_000])
def test_a_horizon_is_rounded_up_to_whole_steps(tokens: int) -> None:
    config = study(f"budgets: [1M]\ntokens: {tokens}\ntrain: {{batch_size: 8}}")
    (budget,) = expand_budgets(config)
    assert budget.tokens_per_step == 8 * 64
    assert budget.steps == math.ceil(tokens / 512)
    assert tokens <= budget.tokens < tokens + 512


ROWS = "{name: transduction, context: 10, pretraining: {tokens: 500}}"
PRETRAINED = "stopping: {enabled: false}\nbudgets: [1k]\ntrain: {batch_size: 1}\ntokens: "
SHARED = "budgets: [1M]\ntrain: {batch_size: 6}\nresources: {gpus_per_trial: "


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            study("budgets: [1M]\ntokens: 511\ntrain: {batch_size: 8}"),
            r"`tokens` must be at least one step, 8 seq.* got 5",
        ),
        (study(SHARED + "4}"), "6 sequences for 4 GPUs at budget 1M"),
        (
            study(PRETRAINED + "500", objective=ROWS),
            r"fewer than the horizon has, got 500 of 500 .* 1k",
        ),
    ],
    ids=["shorter than a step", "GPUs that can't share a batch", "no tokens for the rows"],
)
def test_a_horizon_that_can_not_be_trained_is_refused(config: StudyConfig, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        expand_budgets(config)


def test_a_batch_is_shared_and_pre_training_leaves_the_rows_the_rest() -> None:
    assert expand_budgets(study(SHARED + "3}"))[0].batch_size == 6
    assert expand_budgets(study(PRETRAINED + "510", objective=ROWS))[0].steps == 51


def test_the_horizon_is_twenty_tokens_a_parameter_unless_said_otherwise() -> None:
    (default,) = expand_budgets(study("budgets: [1M]"))
    (longer,) = expand_budgets(study("budgets: [1M]\ntokens_per_parameter: 100"))
    assert default.tokens == pytest.approx(20e6, rel=0.001)
    assert longer.tokens == pytest.approx(100e6, rel=0.001)


@pytest.mark.parametrize("params", ["10k", "300k", "500k"])
def test_an_automatic_batch_leaves_a_small_budget_about_two_thousand_steps(params: str) -> None:
    (budget,) = expand_budgets(study(f"budgets: [{params}]"))
    assert math.log2(budget.batch_size).is_integer()
    assert budget.steps <= 2000 * 2**0.5 + 1
    assert budget.batch_size == 1 or budget.steps >= 2000 / 2**0.5 - 1


@pytest.mark.parametrize(
    ("tokens", "published"), [("100M", 21_500), ("2B", 119_000), ("20B", 442_000), ("100B", 1.11e6)]
)
def test_an_automatic_batch_follows_the_step_law_at_long_horizons(
    tokens: str, published: float
) -> None:
    (budget,) = expand_budgets(study(f"budgets: [1B]\ntokens: {tokens}"))
    assert math.log2(budget.batch_size).is_integer()
    assert published / 2**0.51 <= budget.tokens_per_step <= published * 2**0.51


def test_the_error_of_a_count_is_relative_and_signed() -> None:
    (budget,) = expand_budgets(study(f"budgets: [{SHAPE.params_total}]\ncount: total"))
    assert budget.count is Count.TOTAL
    assert budget.count_error(SHAPE) == 0
    (budget,) = expand_budgets(study(f"budgets: [{2 * SHAPE.params_total}]\ncount: total"))
    assert budget.count_error(SHAPE) == pytest.approx(-0.5)


def rungs_of(text: str) -> tuple[tuple[int, ...], int]:
    config = study(f"budgets: [1M]\n{text}")
    (budget,) = expand_budgets(config)
    return rung_steps(config, budget), budget.steps


def test_rungs_are_spaced_by_eta_and_lie_before_the_cool_down() -> None:
    rungs, steps = rungs_of("tokens: 64000\ntrain: {batch_size: 1}\nstopping: {first_rung: 0.1}")
    assert steps == 1000
    assert rungs == (100, 250, 625)
    rungs, _ = rungs_of(
        "tokens: 64000\ntrain: {batch_size: 1, cooldown: 0.376}\nstopping: {first_rung: 0.1}"
    )
    assert rungs == (100, 250)


def test_the_default_first_rung_comes_no_later_than_the_cool_down() -> None:
    rungs, _ = rungs_of("tokens: 64000\ntrain: {batch_size: 1, cooldown: 0.9}")
    assert rungs == (100,)


@pytest.mark.parametrize("wish", ["stopping: {enabled: false}", "sampler: ladder"])
def test_without_stopping_there_are_no_rungs(wish: str) -> None:
    assert rungs_of(wish)[0] == ()


SETTINGS = st.fixed_dictionaries(
    {
        "steps": st.integers(1, 3000),
        "cooldown": st.floats(0, 0.6),
        "first_rung": st.floats(0.001, 0.39),
        "eta": st.floats(1.2, 5),
        "evaluations": st.integers(1, 50),
        "median_of": st.integers(1, 7),
    }
)


def study_of(settings: dict[str, float]) -> tuple[StudyConfig, Budget]:
    config = study(
        f"budgets: [1M]\ntokens: {64 * settings['steps']}\n"
        f"train: {{batch_size: 1, warmup: 0, cooldown: {settings['cooldown']:.6f}, "
        f"evaluations: {settings['evaluations']}}}\n"
        f"stopping: {{first_rung: {settings['first_rung']:.6f}, eta: {settings['eta']:.6f}, "
        f"median_of: {settings['median_of']}}}"
    )
    return config, expand_budgets(config)[0]


@given(SETTINGS)
def test_rungs_are_whole_ascending_and_before_the_rate_falls(settings: dict[str, float]) -> None:
    config, budget = study_of(settings)
    rungs, first = rung_steps(config, budget), config.stopping.first_rung
    assert all(isinstance(rung, int) and rung >= 1 for rung in rungs)
    assert all(a < b for a, b in itertools.pairwise(rungs))
    # The last step of the constant rate, as the training loop has it.
    assert all(rung <= budget.steps - round(budget.steps * config.train.cooldown) for rung in rungs)
    assert budget.steps not in rungs
    for rung in rungs[1:]:  # a whole power of eta after the first, to the rounding of steps
        power = round(math.log(rung / (budget.steps * first), config.stopping.eta))
        assert abs(rung - budget.steps * first * config.stopping.eta**power) <= 0.6 + 0.01 * rung


@given(SETTINGS)
def test_evaluations_hold_the_rungs_and_the_end_and_a_median_before_each_rung(
    settings: dict[str, float],
) -> None:
    config, budget = study_of(settings)
    steps = evaluation_steps(config, budget)
    rungs = rung_steps(config, budget)
    assert all(a < b for a, b in itertools.pairwise(steps))
    assert steps[0] >= 1
    assert steps[-1] == budget.steps
    assert set(rungs) <= set(steps)
    median_of, gap = config.stopping.median_of, max(1, budget.steps // 100)
    for rung in rungs:
        recent = [step for step in steps if step <= rung][-median_of:]
        assert len(recent) == median_of or rung < median_of * gap
        assert recent[0] >= rung - (median_of - 1) * gap or len(recent) < median_of
