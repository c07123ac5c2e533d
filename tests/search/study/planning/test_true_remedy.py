"""Every remedy of a verdict is tried on the plan of its study before it is advised."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from fathom.models.spend import Coin
from fathom.search.analysis.answer.verdict import (
    Advice,
    BestAtEnd,
    BetweenTested,
    Cause,
    Depths,
    Keys,
    Kind,
    Lack,
    Larger,
    MayCostMore,
    MoreTokens,
    NoiseHidesDepth,
    NoiseUnknown,
    NoneFinishedBeyond,
    NoRemedy,
    NothingShallower,
    RatioHidesDepth,
    Remedy,
    Seeds,
    TheseDepths,
    TooFewDepths,
    Verdict,
)
from fathom.search.conclusion.conclude import conclude
from fathom.search.records import CurvePoint, Outcome, Report, TrialRecord
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan_change import plan_change
from fathom.search.study.planning.space import shapes
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.planning.true_remedy import with_true_remedy
from fathom.search.training.assignment import standalone_spec
from fathom.search.words import study_reason
from tests.support.training import record_of

ALL = (1, 2, 3, 4, 6)
"""The depths at which any shape has 10k parameters."""


def study(rest: str = "") -> StudyConfig:
    return parse(f"study: s\nobjective: language\nbudgets: [10k]\ncount: non_embedding\n{rest}")


def trials(config: StudyConfig, ended: Mapping[int, Outcome]) -> list[TrialRecord]:
    """A trial of each depth, with its end."""
    [budget] = expand_budgets(config)
    wide = expand_budgets(study())[0]
    shapes = {shape.depth: shape for shape in feasible_shapes(study(), wide, 256)}
    point = CurvePoint(
        step=1, tokens=budget.tokens, loss=2.0, train_loss=2.0, train_seconds=1.0, time=0.0
    )
    return [
        record_of(
            standalone_spec(f"t{depth}", config, budget, shapes[depth]),
            Report(points=(point,), outcome=outcome),
        )
        for depth, outcome in ended.items()
    ]


def remedy_of(
    cause: Cause, remedy: Remedy, *, rest: str = "", finished: tuple[int, ...] = ALL,
    others: Mapping[int, Outcome] = {},
) -> Remedy | None:  # fmt: skip
    config = study(rest)
    records = trials(config, dict.fromkeys(finished, Outcome.FINISHED) | {**others})
    verdict = Verdict(Kind.INSUFFICIENT, cause, remedy)
    found = with_true_remedy(verdict, config, records)
    assert replace(found, remedy=None) == replace(verdict, remedy=None)
    return found.remedy


def test_where_every_trial_ended_badly_no_change_of_the_plan_is_advised() -> None:
    lost = dict.fromkeys(ALL, Outcome.DIVERGED)
    assert remedy_of(TooFewDepths(()), Advice.MORE_DEPTHS, finished=(), others=lost) is None


def test_a_range_that_holds_every_shape_already_is_not_advised_to_be_widened() -> None:
    deepest = BestAtEnd(6, deeper=True)
    remedy = remedy_of(deepest, Depths(3, 24))
    assert remedy == NoRemedy(Lack.NO_DEEPER, 10_000)
    assert study_reason(Verdict(Kind.EDGE, deepest, remedy)) == (
        "the best depth may be deeper than the deepest tested, 6; no deeper shape meets 10k; drop "
        "this budget"
    )
    assert remedy_of(
        BestAtEnd(2, deeper=False), Depths(1, 4), rest="space: {depth: [2, 9], ff_ratio: [1, 2]}",
        finished=(2, 3, 4),
    ) == NoRemedy(Lack.NO_SHALLOWER, 10_000)  # fmt: skip


def test_a_wider_range_is_advised_where_it_has_depths_beyond_the_tested_ones() -> None:
    narrow = "space: {depth: [1, 3]}"
    remedy = remedy_of(BestAtEnd(3, deeper=True), Depths(1, 12), rest=narrow, finished=(1, 2, 3))
    assert remedy == Depths(1, 6)
    config = study(narrow)
    like = trials(config, {1: Outcome.FINISHED})[0].spec.shape
    change = plan_change(config, 10_000, like, {"space.depth": [1, 6]})
    assert change
    assert change.new_depths == (4, 6)
    shallow = remedy_of(
        BestAtEnd(3, deeper=False), Depths(1, 6), rest="space: {depth: [3, 9]}", finished=(3, 4, 6)
    )
    assert shallow == Depths(1, 6)


def test_depths_that_the_study_has_and_did_not_try_are_asked_for_by_name() -> None:
    remedy = remedy_of(BestAtEnd(3, deeper=True), Depths(1, 12), finished=(1, 2, 3))
    assert remedy == TheseDepths((4, 6), (1, 2, 3))


def test_a_depth_without_a_shape_is_no_remedy() -> None:
    between = BetweenTested((5, 5), 4, 6)
    remedy = remedy_of(between, TheseDepths((5,), ALL))
    assert remedy == NoRemedy(Lack.NO_SUCH_DEPTH, 10_000, (5,))
    assert "no shape of depth 5 meets 10k" in study_reason(Verdict(Kind.EDGE, between, remedy))
    assert remedy_of(
        BetweenTested((3, 5), 2, 6), TheseDepths((5,), (1, 2, 6)), finished=(1, 2, 6)
    ) == TheseDepths((4,), (1, 2, 6))
    assert remedy_of(
        MayCostMore(3, 0.2, (2,)), TheseDepths((4, 5), (1, 2, 3)), finished=(1, 2, 3)
    ) == TheseDepths((4,), (1, 2, 3))
    assert remedy_of(MayCostMore(3, 0.2, (2,)), TheseDepths((5,), ALL)) == Seeds(5)


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (NoiseUnknown(), Seeds(3)),
        (NoiseHidesDepth(0.01), Seeds(4)),
    ],
)
def test_seeds_are_more_than_the_study_allows(cause: Cause, remedy: Remedy) -> None:
    assert remedy_of(cause, remedy, rest="confirm: {seeds: 4}") == Seeds(5)
    assert remedy_of(cause, Seeds(9), rest="confirm: {seeds: 4}") == Seeds(9)


def test_too_few_depths_are_mended_by_what_the_study_lacks() -> None:
    lacking = TooFewDepths((2, 4))

    def found(rest: str = "", **others: Outcome) -> Remedy | None:
        ended = {int(depth.removeprefix("d")): outcome for depth, outcome in others.items()}
        return remedy_of(lacking, Advice.MORE_DEPTHS, rest=rest, finished=(2, 4), others=ended)

    assert found("confirm: {depths: 3}", d6=Outcome.STOPPED) == TheseDepths((6,), (2, 4))
    assert found("confirm: {depths: 3}") == Keys((("confirm.depths", 5),))
    assert found(d6=Outcome.DIVERGED, d1=Outcome.FAILED) is Advice.LOWER_LEARNING_RATE
    assert found("space: {depth: [2, 4]}") == TheseDepths((3,), (2, 4))
    assert found() == TheseDepths((1, 3, 6), (2, 4))


def test_depths_that_were_paused_are_trained_by_a_ladder() -> None:
    cause = NoneFinishedBeyond(3, ((Outcome.STOPPED, 2),))
    paused = {4: Outcome.STOPPED, 6: Outcome.STOPPED}
    remedy = remedy_of(cause, Advice.TRAIN_TO_THE_END, finished=(1, 2, 3), others=paused)
    assert remedy == TheseDepths((4, 6), (1, 2, 3))


def test_more_trials_are_advised_where_shapes_are_left() -> None:
    assert remedy_of(RatioHidesDepth(), Advice.MORE_SHAPES, rest="trials: 2") == Keys(
        (("trials", 4),)
    )
    assert remedy_of(RatioHidesDepth(), Advice.MORE_SHAPES, rest="trials: 60") == NoRemedy(
        Lack.ALL_PLANNED, 10_000, ALL
    )


def test_a_ladder_that_takes_no_more_trials_is_advised_shapes_of_one_ratio() -> None:
    text = "study: s\nobjective: language\nbudgets: [1M]\nsampler: ladder\n"
    config = parse(text)
    [budget] = expand_budgets(config)
    shapes = [s for s in feasible_shapes(config, budget, 256) if 3 < s.ff_ratio < 5]
    spec = standalone_spec("t", config, budget, shapes[0])
    point = CurvePoint(step=1, tokens=1, loss=2.0, train_loss=2.0, train_seconds=1.0, time=0.0)
    record = record_of(spec, Report(points=(point,), outcome=Outcome.FINISHED))
    hidden = Verdict(Kind.INSUFFICIENT, RatioHidesDepth(), Advice.MORE_SHAPES)
    remedy = with_true_remedy(hidden, config, [record]).remedy
    assert isinstance(remedy, Keys)
    [(key, limits)] = remedy.changes
    assert key == "space.ff_ratio"
    assert isinstance(limits, list)
    narrower = parse(f"{text}space: {{ff_ratio: {limits}}}\n")
    depths = {shape.depth for shape in feasible_shapes(narrower, budget, 256)}
    assert len(depths) >= 3
    assert limits[0] < shapes[0].ff_ratio < limits[1]


def test_tokens_are_raised_by_the_key_that_the_study_has() -> None:
    for rest, key in (
        ("tokens: 1M", "tokens"),
        ("tokens_per_parameter: 9", "tokens_per_parameter"),
        ("train_flops: 1e13", "train_flops"),
    ):
        remedy = remedy_of(NoiseHidesDepth(0.1), MoreTokens(90), rest=rest)
        assert remedy == MoreTokens(90, key)


def test_what_changes_no_plan_is_left_as_it_is() -> None:
    larger = Larger(Coin.TOKENS)
    assert remedy_of(NothingShallower(1), larger) == larger
    config = study()
    records = trials(config, {6: Outcome.FINISHED})
    edge = Verdict(Kind.EDGE, BestAtEnd(6, deeper=True), Depths(3, 24))
    other = parse("study: s\nobjective: language\nbudgets: [30k]\ncount: non_embedding\n")
    assert with_true_remedy(edge, other, records) == edge, "a budget of an earlier study"


def test_the_answer_of_a_study_has_the_remedy_that_was_tried() -> None:
    """WikiText at 10k: `edge`, where the range was [1, 64] already."""
    config = study()
    [budget] = expand_budgets(config)
    shapes = {shape.depth: shape for shape in feasible_shapes(config, budget, 256)}
    records = []
    for depth, shape in shapes.items():
        for seed in range(3):
            spec = standalone_spec(f"t{depth}-{seed}", config, budget, shape, seed=seed)
            loss = 3 - 0.3 * math.log(depth) + 0.001 * seed
            point = CurvePoint(
                step=budget.steps, tokens=budget.tokens, loss=loss, train_loss=loss,
                train_seconds=1.0, time=0.0,
            )  # fmt: skip
            records.append(record_of(spec, Report(points=(point,), outcome=Outcome.FINISHED)))

    conclusion = conclude(records, config)

    [optimum] = conclusion.optima
    assert optimum.kind is Kind.EDGE
    assert conclusion.reason(optimum).endswith("no deeper shape meets 10k; drop this budget")


def test_where_a_plan_of_every_depth_is_refused_the_remedy_is_as_the_analysis_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = study("space: {depth: [1, 3]}")
    records = trials(config, dict.fromkeys((1, 2, 3), Outcome.FINISHED))
    planned = feasible_shapes(config, expand_budgets(config)[0], 256)
    monkeypatch.setattr(shapes, "MOST_SHAPES", len(planned))
    verdict = Verdict(Kind.EDGE, BestAtEnd(3, deeper=True), Depths(1, 12))
    assert with_true_remedy(verdict, config, records) == verdict


@pytest.mark.parametrize(
    ("rest", "cause", "remedy", "true"),
    [
        ("confirm: {seeds: 4}", NoiseHidesDepth(0.1), Seeds(3), Seeds(5)),
        (
            "tokens_per_parameter: 20", NoiseHidesDepth(0.1), MoreTokens(40, "tokens"),
            MoreTokens(40, "tokens_per_parameter"),
        ),
        (
            "space: {depth: [1, 9]}", BestAtEnd(3, True), Depths(1, 6),
            TheseDepths((4, 5, 6), (1, 2, 3)),
        ),
        ("space: {depth: [1, 3]}", BestAtEnd(3, True), Depths(1, 6), Depths(1, 6)),
        ("", TooFewDepths((1, 2)), Advice.MORE_DEPTHS, TheseDepths((4,), (1, 2, 3))),
    ],
)  # fmt: skip
def test_of_a_users_own_model_what_needs_no_count_is_tried(
    rest: str, cause: Cause, remedy: Remedy, true: Remedy
) -> None:
    own = f"model: {{build: 'tests.support.own_models:build'}}\n{rest}"
    others = {4: Outcome.STOPPED}
    assert remedy_of(cause, remedy, rest=own, finished=(1, 2, 3), others=others) == true
