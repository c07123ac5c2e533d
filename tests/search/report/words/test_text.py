"""The text of the report: the answer in a line, its certainty, and its caveats."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.worlds.planted import World, finished, flat
from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.models.shape import Count, OwnCounts
from fathom.models.spend import Coin, Spend
from fathom.models.unit import NATS
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import BestSize, Optimum
from fathom.search.analysis.answer.verdict import Kind, NothingShallower, Verdict
from fathom.search.analysis.laws.law import fit_laws
from fathom.search.analysis.laws.null_laws import fit_null_laws
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.conclusion.findings import shape_row
from fathom.search.formatting import rounded_count
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.report.pages.page import page as page_of
from fathom.search.report.terminal.answer_tables import print_answers
from fathom.search.report.words.caveats import unsupported
from fathom.search.report.words.certainty import certainty
from fathom.search.report.words.text import (
    advice,
    answer,
    answer_row,
    depths_not_ruled_out,
    law_text,
    next_steps,
    null_law_text,
    null_laws_text,
    shape_text,
    summary,
)
from tests.support.optima import UNTRAINED, not_located, verdict
from tests.support.repeated import repeating_study
from tests.support.reporting import (
    BUDGETS,
    CONFIG,
    Optima,
    Records,
    of_budget,
    page_on,
    printed,
    visible,
)
from tests.support.training import SHAPE


def test_the_answer_is_one_line_with_all_that_the_optimum_depends_on(optima: Optima) -> None:
    planted = replace(
        optima[1], budget=10_000_000, tokens=200_000_000, optimal_depth=7, interval=(6, 8),
        plateau=(5, 6, 7, 8, 9), verdict=verdict(Kind.IDENTIFIED),
    )  # fmt: skip

    where, found = "10M parameters, 200M tokens, total count", "depth 7 [6-8], not ruled out 6-7, 9"
    assert answer(planted) == f"{where}: {found}, identified"
    assert depths_not_ruled_out(replace(planted, plateau=(7,))) == "7"
    rounded = answer(replace(planted, tokens=600_064, interval=(7, 7)))
    assert rounded.startswith("10M parameters, 600k tokens, total count: depth 7 [7], ")
    assert "no depth yet" in answer(not_located(planted, None))
    assert "count: depth 4, " in answer(not_located(planted, 4))


def test_the_headline_names_each_depth_once_with_its_sizes(optima: Optima) -> None:
    one, two, three = (
        replace(optima[1], budget=budget, optimal_depth=depth, verdict=verdict(Kind.PLATEAU))
        for budget, depth in ((10_000, 1), (20_000, 2), (40_000, 2))
    )
    assert (
        summary([one, two, three]) == "Train depth 1 at 10k and depth 2 at 20k and 40k parameters."
    )
    open_yet = replace(three, verdict=verdict(Kind.EDGE))
    assert summary([one, open_yet]) == (
        "Train depth 1 at 10k parameters. 40k: edge; depth 2 is the best estimate."
    )
    alike = replace(open_yet, budget=80_000)
    assert summary([open_yet, alike]) == "40k and 80k: edge; depth 2 is the best estimate."


def test_the_headline_rounds_a_size_as_the_text_below_does(optima: Optima) -> None:
    shape = replace(SHAPE, own_counts=OwnCounts(total=49_923, non_embedding=40_000, saved_bytes=0))
    size = BestSize(
        spend=Spend(12.0, Coin.SECONDS), unit=NATS, sizes=(20_000, 90_000), size=49_900, loss=2.0,
        interval=None, plateau=None, verdict=verdict(Kind.IDENTIFIED), costs=(), noise=0.004,
    )  # fmt: skip
    free = replace(
        optima[1], budget=12, count=Count.TRAIN_SECONDS, shape=shape, best_size=size,
        optimal_depth=4, verdict=verdict(Kind.PLATEAU),
    )  # fmt: skip
    assert summary([free]) == "Train depth 4 of 49.9k parameters at 12 seconds."


def test_the_advice_says_how_sure_it_is(optima: Optima) -> None:
    sure = replace(
        optima[1], optimal_depth=7, interval=(6, 8), probabilities=((7, 0.914), (6, 0.08))
    )
    assert (
        advice(sure) == "Train depth 7: best with 91\u00a0% probability (95\u00a0% interval: 6-8)."
    )
    open_yet = replace(sure, verdict=verdict(Kind.INSUFFICIENT))
    said = "Not settled: depth 7 is the best estimate (95\u00a0% interval: 6-8)."
    assert advice(open_yet) == said
    assert advice(not_located(open_yet, None)) == "Not settled: no trial has finished."
    shallowest = replace(
        sure, optimal_depth=1, interval=(1, 1), verdict=Verdict(Kind.EDGE, NothingShallower(1))
    )
    said = "Depth 1 is best (95\u00a0% interval: 1); no shallower model exists."
    assert advice(shallowest) == said
    assert "edge; depth 1 is best, and no shallower model exists." in summary([shallowest])


def test_the_report_says_what_the_data_do_not_show(study: Records, optima: Optima) -> None:
    edge = replace(optima[0], verdict=verdict(Kind.EDGE))
    short = replace(optima[1], verdict=verdict(Kind.INSUFFICIENT))

    found = concluded(study, (edge, short, *optima[2:]))
    vars(found)["audits"] = {}  # as if too few trials had ended to compare a rung with

    limits = unsupported(found)

    assert "300k: that the best depth lies inside the range that was tried." in limits
    assert any("none of their trials finished" in limit for limit in limits)
    assert any("stopping early was fair" in limit for limit in limits)
    assert any(limit.startswith("Law: any line from size to depth") for limit in limits)


def concluded(records: Sequence[TrialRecord], optima: tuple[Optimum, ...]) -> Conclusion:
    return Conclusion(config=CONFIG, records=tuple(records), optima=optima)


def limits_of(optimum: Optimum, records: Sequence[TrialRecord] = ()) -> list[str]:
    limits = unsupported(concluded(records, (optimum,)))
    return [limit for limit in limits if not limit.startswith(("Law", "Weight decay"))]


def test_data_that_repeat_at_one_weight_decay_are_a_doubt_until_others_were_bracketed(
    tmp_path: Path,
) -> None:
    world = World(curve=flat, budget=60_000, count=Count.NON_EMBEDDING, horizon=200_000)
    records = [
        finished(world.spec(world.shape(depth), seed=0), 1.6 + 0.1 * depth) for depth in (1, 2, 4)
    ]
    other = finished(replace(records[0].spec, trial="other", decay_scale=4.0), 1.6)
    config = repeating_study(tmp_path)

    found = conclude(records, config)

    (doubt,) = [limit for limit in unsupported(found) if limit.startswith("Weight decay: ")]
    assert "trainings of 60k take up to 229.6 epochs" in doubt
    assert "`confirm.decays: [0.25, 1, 4]`" in doubt
    assert "epochs of their data. The best weight" in printed(partial(print_answers, found))
    bracketed = conclude([*records, other], config)
    assert not any("Weight decay" in limit for limit in unsupported(bracketed))
    Path(config.objective.settings()["corpus"]).unlink()
    assert conclude(records, config).repeats_at_one_decay == {}, "the data are elsewhere"


def test_depths_that_cannot_be_told_from_the_best_are_named(optima: Optima) -> None:
    flat = replace(optima[1], optimal_depth=5, plateau=(3, 4, 5, 6, 8), probabilities=())

    assert (
        "1M: that depth 5 is better by 0.005 nats than depths 3-4, 6; they can't be told apart."
    ) in limits_of(flat)
    assert (
        "1M: that depth 5 is better by 0.005 nats than depth 6; they can't be told apart."
    ) in limits_of(replace(flat, plateau=(5, 6)))
    assert (
        "1M: that depth 5 is better by 0.005 nats than depths 4, 6; they can't be told apart."
    ) in limits_of(replace(flat, plateau=(5, 6), probabilities=((5, 0.9), (4, 0.1))))
    assert limits_of(replace(flat, optimal_depth=4, interval=(3, 5), plateau=(4,))) == []


def test_families_that_disagree_are_a_doubt_about_the_model(optima: Optima) -> None:
    doubtful = limits_of(replace(optima[1], family_disagreement=1.6))
    assert any("a factor of 1.60 apart" in limit for limit in doubtful)
    assert not any("apart." in x and "factor" in x for x in limits_of(optima[1]))


def test_the_next_steps_name_the_largest_settled_budget(study: Records, optima: Optima) -> None:
    *settled, largest = optima
    found = concluded(study, (*settled, replace(largest, verdict=verdict(Kind.INSUFFICIENT))))
    unsettled = concluded(study, (replace(largest, verdict=verdict(Kind.EDGE)),))

    assert next_steps(found, "runs/my study") == [
        "fathom train 'runs/my study' --params 1M",
        "fathom export 'runs/my study' --params 1M",
    ]
    assert "fathom train best.yaml --params 1M" in visible(page_of(found, ()))
    assert next_steps(unsettled, "runs/x") == []
    assert "What next No budget is settled; its line above says what to do." in visible(
        page_of(unsettled, ())
    )


def test_an_interval_that_ends_at_a_tested_end_is_a_caveat(optima: Optima) -> None:
    tested = [estimate.depth for estimate in optima[1].depths]
    cut = replace(optima[1], interval=(3, tested[-1]), verdict=verdict(Kind.PLATEAU))

    assert any(f"the interval ends at {tested[-1]} because" in limit for limit in limits_of(cut))
    assert answer(optima[1]).endswith(", identified")
    assert not any("the interval ends at" in limit for limit in limits_of(optima[1]))
    at_one = replace(optima[0], interval=(1, 3))
    assert optima[0].depths[0].depth == 1
    assert not any("the interval ends" in x for x in limits_of(at_one)), "no model is shallower"


def test_noise_from_few_repeats_is_reported_as_assumed(study: Records) -> None:
    of_these = of_budget(study, BUDGETS[2])
    first = min(r.spec.seed for r in of_these if r.spec.stage is Stage.CONFIRM)
    once = [r for r in of_these if r.spec.stage is Stage.EXPLORE or r.spec.seed == first]
    finished = [r for r in of_these if r.outcome is Outcome.FINISHED]
    assert len(once) < len(of_these)

    [optimum] = find_optima(once, seed=0)

    said = "how far seeds differ; no repeated trial measured it, and 0.0060 nats are assumed."
    assert any(said in limit for limit in limits_of(optimum, once))
    assert not any("seeds differ" in limit for limit in limits_of(optimum, finished))


def test_a_depth_that_was_not_trained_and_may_be_better_is_named(optima: Optima) -> None:
    known = replace(optima[1], optimal_depth=4, costs=(UNTRAINED,))
    sentence = (
        "depth 5 was not trained to the end, and is expected to be better than depth 4 by 0.0040 "
        "nats (95 %: -0.0010 to 0.0090)"
    )
    about = "the loss of the best depth itself, which the curve gives"
    assert f"1M: {about}; {sentence}." in limits_of(known)
    assert not any("not trained to the end" in limit for limit in limits_of(optima[1]))
    of_table = replace(optima[1], optimal_depth=5)
    assert any(f"{about}; no trial of depth 5 was" in limit for limit in limits_of(of_table))


def test_the_certainty_of_a_depth_stands_beside_it(optima: Optima) -> None:
    known = replace(
        optima[1], curve_minimum=4.6, curve_minimum_interval=(4.0, 5.25), plateau=(3, 4, 5),
        family_disagreement=1.3, share_without_minimum=0.025, noise=0.0031, params_slope=-0.21,
        best_ff_ratio=3.24,
    )  # fmt: skip

    words = "; ".join(certainty(known).values())

    for fact in (
        *("4.60 layers, 95 % interval 4.00 to 5.25", "the shallowest of those not ruled out, 3-4"),
        *("factor of 1.30", "2.5 %", "0.0031 nats", "-0.210 nats for each unit of ln parameters"),
        "3.2, among those that finished",
    ):
        assert fact in words
    beyond = certainty(replace(known, verdict=verdict(Kind.EDGE)))
    assert "may lie beyond" in beyond["Lowest point of the curve"]
    assert certainty(replace(known, depths=())) == {}


def test_the_laws_are_reported_with_their_test_and_their_scatter(optima: Optima) -> None:
    law = fit_laws(optima)[0]

    assert "fitted to 3 budgets from 300k to 3M" in law_text(law)
    assert "Predicting each budget from the others, it misses the depth by" in law_text(law)
    assert "by a factor of 1.11" in law_text(replace(law, scatter=0.1))
    assert "it can't be fitted" in law_text(replace(law, leave_one_out_error=None))
    assert "of which 1 only say on which side" in law_text(replace(law, bounds=1))


def test_a_shape_of_two_stacks_says_how_many_layers_each_has(optima: Optima) -> None:
    (shape, *_) = [optimum.shape for optimum in optima if optimum.shape and optimum.shape.depth > 1]

    assert shape_text(shape).startswith(f"depth {shape.depth}, ")
    two = replace(shape, encoder_depth=shape.depth - 1)
    assert shape_text(two).startswith(f"depth {shape.depth} ({shape.depth - 1}-1), ")
    hybrid = replace(shape, depth=7, state_space=StateSpace(pattern="MMA"))
    assert shape_text(hybrid).startswith("depth 7 (5 M + 2 A), ")
    assert f"d_model {shape.d_model:,}, " in shape_text(shape)
    grouped = replace(shape, d_model=1024, d_ff=1024, groups=4)
    assert ", d_model 1,024 in 4 groups, " in shape_text(grouped)


def test_a_shape_with_experts_says_how_much_of_it_a_token_uses(optima: Optima) -> None:
    ((optimum, dense), *_) = [(optimum, optimum.shape) for optimum in optima if optimum.shape]
    assert "active" not in str(answer_row(optimum))
    sparse = replace(dense, experts=Experts(number=4, top_k=2))
    text = str(answer_row(replace(optimum, shape=sparse)))
    assert f"{rounded_count(sparse.params_active)} of {rounded_count(sparse.params_total)}" in text
    assert f"{sparse.params_active:,}" in text
    assert sparse.params_active > dense.params_active
    assert list(shape_row(sparse))[:-1] == list(shape_row(dense)) == list(shape_row(None))


def test_null_laws_are_reported_beside_the_law_and_named_where_they_predict_as_well(
    study: Records, optima: Optima
) -> None:
    laws, null = fit_laws(optima), fit_null_laws(optima)

    said = null_laws_text(laws, null)

    assert "the same depth (" in said
    assert "params^(1/3) by a factor of" in said
    assert "the same aspect ratio (d_model = " in said
    uncounted = replace(null[0], name="cube root", whole_layers=True)
    assert null_law_text(uncounted).endswith("params^(1/3), which is the same aspect ratio")
    best = replace(null[0], leave_one_out_error=0.0)
    assert f"So {null_law_text(best)} predicts as well" in null_laws_text(laws, (best,))
    untested = replace(laws[0], leave_one_out_error=None)
    assert "A law with two constants can't be tested." in null_laws_text((untested,), null)
    found = concluded(study, optima)
    vars(found)["null_laws"] = (best,)
    assert any("predicts better than" in limit for limit in unsupported(found))


def test_predictions_of_a_law_beyond_the_budgets_are_marked(study: Records, optima: Optima) -> None:
    laws = fit_laws(optima)

    words = visible(page_on(study))

    assert words.count(", extrapolated") == 2 * (1 + len(laws)), (
        "at 3 and 10 times the largest budget"
    )
    for law in laws:
        for size in (*BUDGETS, 3 * BUDGETS[-1], 10 * BUDGETS[-1]):
            said = law.predict(size)
            assert said.interval
            assert f"{said.depth:.1f} [{said.interval[0]:.1f} to {said.interval[1]:.1f}]" in words


def test_a_law_of_few_budgets_has_an_uncertain_scatter(study: Records, optima: Optima) -> None:
    limits = unsupported(concluded(study, optima))

    assert any("how far best depths scatter about it; 3 budgets say" in limit for limit in limits)
    assert "Law: the depth below 300k or above 3M parameters; that is extrapolation." in limits


def test_the_next_steps_name_seconds_as_such(study: Records, optima: Optima) -> None:
    timed = replace(
        optima[1], budget=12, count=Count.TRAIN_SECONDS, verdict=verdict(Kind.IDENTIFIED)
    )
    steps = next_steps(concluded(study, (timed,)), "runs/x")
    assert steps[1] == "fathom export runs/x --params 12s"
