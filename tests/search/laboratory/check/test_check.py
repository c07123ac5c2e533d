"""The check that a rate carries over: coordinate check, short trainings, verdict and text."""

import json
import math
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
import torch

from fathom.models.measure.coordinates import Coordinates
from fathom.models.options import Positions, Residual
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.search.laboratory.check.check import (
    ONE_STACK,
    TWO_STACKS,
    AxisCheck,
    CheckResult,
    CoordinateCheck,
    SizeAxis,
    check_on,
    check_study,
    coordinate_check,
)
from fathom.search.laboratory.check.decays import DecayPoint
from fathom.search.laboratory.check.output import (
    check_reply,
    print_check,
    print_opening,
    rate_text,
    reason,
    scope,
)
from fathom.search.laboratory.check.probe import PROBE, Probe, Prober, ProbeSize, Watch, probe_shape
from fathom.search.laboratory.check.rate_sweep import RatePoint, Sweep
from fathom.search.study.file.study_file import changed, parse
from fathom.search.study.keys.config import StudyConfig
from tests.support.command_line import fathom
from tests.support.contract import printed_values, valid
from tests.support.places import ROOT
from tests.support.reporting import printed
from tests.support.reversal import Reversal
from tests.support.toy import Successor

CPU = torch.device("cpu")
SHORT = Probe(steps=24, tokens_per_step=48, seeds=2, width=8, depths=(1, 4), widening=2)
SHORTER = replace(SHORT, steps=4, seeds=1)
BASE = Shape(depth=2, d_model=32, d_ff=128, n_heads=2, head_dim=16, vocab_size=8, context=6)


def study(
    scheme: Scheme = Scheme.COMPLETEP, *, space: str = "n_heads: 2", rate: str = "4e-3",
    objective: str = "{name: language, context: 32}",
) -> StudyConfig:  # fmt: skip
    return parse(f"""
study: fair
objective: {objective}
budgets: [20k, 40k]
count: non_embedding
space: {{{space}}}
model: {{parametrization: {{scheme: {scheme.value}, base_width: 64, init_std: 0.04}}}}
train: {{learning_rate: {rate}}}
""")


# The coordinate check.


@cache
def checked(scheme: Scheme, axis: SizeAxis) -> CoordinateCheck:
    return coordinate_check(study(scheme), axis)


def two_stacks(scheme: Scheme) -> StudyConfig:
    reversal = "{name: 'tests.support.reversal:Reversal', context: 8}"
    return study(scheme, objective=reversal, space="split: 1-1, depth: [1, 12], n_heads: 2")


@pytest.mark.parametrize("axis", ONE_STACK)
def test_the_coordinate_check_is_flat_over_both_axes_under_completep(axis: SizeAxis) -> None:
    assert checked(Scheme.COMPLETEP, axis).flat


@pytest.mark.drill
def test_it_is_flat_over_width_with_heads_of_a_fixed_width_too() -> None:
    assert coordinate_check(study(space="head_dim: 16"), SizeAxis.WIDTH).flat


@pytest.mark.drill
@pytest.mark.parametrize("residual", [Residual.ADMIN, Residual.DEEPNORM, Residual.NONE])
def test_they_are_flat_over_width_under_mup_with_other_residuals(residual: Residual) -> None:
    config = study(Scheme.MUP)
    model = config.model.model_copy(update={"residual": residual})
    found = coordinate_check(config.model_copy(update={"model": model}), SizeAxis.WIDTH)
    assert found.sizes == checked(Scheme.MUP, SizeAxis.WIDTH).sizes
    assert found.flat


def test_they_are_flat_over_width_but_not_over_depth_under_mup() -> None:
    assert checked(Scheme.MUP, SizeAxis.WIDTH).flat
    over_depth = checked(Scheme.MUP, SizeAxis.DEPTH)
    assert not over_depth.flat
    assert over_depth.largest[0] == "stream"


@pytest.mark.parametrize(
    "axis", [SizeAxis.WIDTH, pytest.param(SizeAxis.DEPTH, marks=pytest.mark.drill)]
)
def test_they_are_flat_over_neither_under_the_standard_scheme(axis: SizeAxis) -> None:
    assert not checked(Scheme.STANDARD, axis).flat


@pytest.mark.drill
@pytest.mark.parametrize("axis", TWO_STACKS)
def test_they_are_flat_over_both_depths_of_two_stacks_under_completep(axis: SizeAxis) -> None:
    found = coordinate_check(two_stacks(Scheme.COMPLETEP), axis)
    assert len(found.sizes) == 4
    assert found.flat, found.exponents


@pytest.mark.drill
@pytest.mark.parametrize("axis", [SizeAxis.ENCODER_DEPTH, SizeAxis.DECODER_DEPTH])
def test_they_are_flat_over_neither_depth_of_two_stacks_under_mup(axis: SizeAxis) -> None:
    assert not coordinate_check(two_stacks(Scheme.MUP), axis).flat


@pytest.mark.parametrize("sign", [1, -1])
def test_changes_that_grow_or_vanish_with_size_are_not_flat(sign: int) -> None:
    exponents = Coordinates(stream=0.1, features=sign * 0.7, logits=0.0)
    told = CoordinateCheck(sizes=(2, 64), exponents=exponents)
    assert not told.flat
    assert told.largest == ("features", sign * 0.7)


# The shapes that are trained.


def probes(config: StudyConfig) -> list[Shape]:
    """The base shape, and one four times as wide."""
    sizes = (ProbeSize(2, 1), ProbeSize(2, 4))
    return [probe_shape(config, size, vocab_size=8, context=6) for size in sizes]


@pytest.mark.parametrize(
    ("space", "heads"),
    [("n_heads: 2", (2, 16)), ("head_dim: 64", (2, 16)), ("n_heads: 12", (4, 8))],
)
def test_heads_are_of_the_studys_layout_and_small(space: str, heads: tuple[int, int]) -> None:
    config = study(space=space)
    base, wide = probes(config)
    assert (base.n_heads, base.head_dim) == heads
    assert (base.d_model, wide.d_model) == (32, 128)
    fixed = "n_heads" if "n_heads" in space else "head_dim"
    assert getattr(wide, fixed) == getattr(base, fixed)
    assert wide.d_attention == wide.d_model


@pytest.mark.parametrize(
    "space", ["n_heads: 2", "head_dim: 24", "n_heads: 1, head_dim: 48", "n_heads: 16, head_dim: 6"]
)
def test_widths_are_of_whole_groups(space: str) -> None:
    config = changed(study(space=space), {"model.groups": 3})
    for shape in probes(config):
        assert shape.groups == 3
        assert shape.d_model >= 32


@pytest.mark.parametrize("head_dim", [6, 10, 14, 48])
def test_a_width_that_heads_do_not_divide_is_rounded_up(head_dim: int) -> None:
    shape, _ = probes(study(space=f"head_dim: {head_dim}"))
    assert shape.d_attention == shape.d_model >= 32


def test_the_studys_gates_positions_and_tied_weights_are_kept() -> None:
    kept = {"model.gated": True, "model.tied": False, "model.positions": "learned"}
    shape, _ = probes(changed(study(), kept))
    assert (shape.gated, shape.tied, shape.positions) == (True, False, Positions.LEARNED)


def test_heads_that_are_fixed_twice_do_not_follow_the_width_and_no_branch_is_added() -> None:
    config = study(space="n_heads: 2, head_dim: 12, feed_forward: false")
    base, wide = probes(config)
    assert (base.d_model, wide.d_model) == (32, 128)
    assert (base.n_heads, base.head_dim) == (wide.n_heads, wide.head_dim) == (2, 12)
    assert base.d_ff == wide.d_ff == 0


# Real trainings, short ones.


def quiet(_: Shape, __: RatePoint | DecayPoint) -> None:
    """Nobody watches."""


def prober(objective: Successor, *, rate: str = "4e-3", watch: Watch = quiet) -> Prober:
    return Prober(
        config=study(rate=rate), objective=objective, device=CPU, watch=watch, probe=SHORT
    )


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """No coordinate check: nothing is known of activations."""
    place = "fathom.search.laboratory.check.check.coordinate_check"
    monkeypatch.setattr(place, lambda config, axis: None)


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(
    "objective",
    [
        "{name: hop, hops: 1, context: 12}",
        "{name: transduction, data: rows.tsv, dev: dev.tsv, context: 6}",
    ],
)
def test_any_objective_can_be_checked(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.tsv").write_text("a b\tb a\nb a\ta b\n")
    (tmp_path / "dev.tsv").write_text("a a\ta a\n")

    result = check_study(study(objective=objective), quiet, SHORTER)

    assert all(math.isfinite(loss) for point in result.base.points for loss in point.losses)


@pytest.mark.usefixtures("unmeasured")
def test_a_text_that_was_cut_before_is_not_cut_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"line {n} of {n * n}\n" for n in range(600)))
    config = study(objective=f"{{name: language, corpus: {text}, tokenizer: 'bpe:270'}}")
    cache = tmp_path / "runs" / ".tokens"
    first = check_study(config, quiet, SHORTER, cache)
    monkeypatch.setattr("fathom.objectives.text.language.cache.encode", None)
    assert check_study(config, quiet, SHORTER, cache) == first


@pytest.mark.usefixtures("unmeasured")
def test_a_check_of_two_stacks_sweeps_each_depth_and_the_width() -> None:
    short = replace(SHORTER, tokens_per_step=16, depths=(1, 2))
    result = check_on(two_stacks(Scheme.COMPLETEP), Reversal(), quiet, short)
    sizes = [(sweep.shape.encoder_depth, sweep.shape.decoder_depth) for sweep in result.sweeps]
    assert sizes == [(1, 1), (2, 1), (1, 2), (1, 1)]
    assert result.sweeps[3].shape.d_model == 2 * result.base.shape.d_model
    assert [
        axis["axis"] for axis in printed_values(check_reply(result))["checked"]["axes"]
    ] == list(map(str, TWO_STACKS))
    assert "depth x width 1-1 x 8, 2-1 x 8, 1-2 x 8, 1-1 x 16" in scope(result)


def test_one_rate_is_judged_by_short_trainings_of_a_users_own_model() -> None:
    config = parse("""
study: mine
objective: {name: language, context: 32}
budgets: [20k]
space: {depth: [1, 8], n_heads: 2}
model: {build: "tests.support.own_models:build"}
""")
    result = check_on(config, Successor(), quiet, SHORT)
    said = printed(partial(print_opening, config, SHORT)) + printed(partial(print_check, result))

    assert all(axis.coordinates is None for axis in result.axes)
    assert [axis.carries_over for axis in result.axes] == [axis.rate_stays for axis in result.axes]
    values = printed_values(check_reply(result))["checked"]
    assert values["scheme"] is None
    assert values["axes"][0]["coordinates"] is None
    assert all(sweep.shape.own_counts for sweep in result.sweeps)
    assert "under the same rate for all weights" in said
    assert "was not checked" in said


def test_a_base_a_deep_and_a_wide_shape_are_trained_and_every_rate_is_told() -> None:
    seen: list[tuple[Shape, RatePoint | DecayPoint]] = []
    result = check_on(study(), Successor(), lambda *told: seen.append(told), SHORT)
    depth, width = result.axes
    assert (depth.sizes, width.sizes) == ((1, 4), (8, 16))
    assert depth.base == width.base == result.base
    told = [(sweep.shape, point) for sweep in result.sweeps for point in sweep.points]
    assert sorted(map(str, seen)) == sorted(map(str, told))
    assert all(len(point.losses) == SHORT.seeds for _, point in told)


def test_the_trainings_learn_and_give_the_same_losses_each_time() -> None:
    first, again = (prober(Successor()).sweep(ProbeSize(1), centre=0) for _ in range(2))
    assert first == again
    assert first.lowest.loss < 0.9 * Successor().chance_loss


def test_the_rates_are_multiples_of_the_studys_own() -> None:
    whole = prober(Successor()).sweep(ProbeSize(1), centre=1)
    half = prober(Successor(), rate="2e-3").sweep(ProbeSize(1), centre=2)
    losses = [{p.log2_factor: p.losses for p in found.points} for found in (whole, half)]
    assert all(losses[1][factor + 1] == losses[0][factor] for factor in (0, 1, 2))


def test_a_diverged_training_has_the_chance_loss() -> None:
    broken = Successor(fault=lambda loss: loss + 9)
    found = prober(broken).sweep(ProbeSize(1), centre=0)
    assert {loss for point in found.points for loss in point.losses} == {broken.chance_loss}


# The verdict, on planted sweeps.


def planted(shape: Shape, best: float, *, bend: float = 0.1, reach: int = 4) -> Sweep:
    points = tuple(
        RatePoint(log2_factor=log2_factor, losses=(2 + bend * (log2_factor - best) ** 2,) * 2)
        for log2_factor in range(-reach, reach + 1)
    )
    return Sweep(shape=shape, points=points)


FLAT = CoordinateCheck(sizes=(2, 64), exponents=Coordinates(stream=0.1, features=0.0, logits=-0.3))
STEEP = CoordinateCheck(sizes=(2, 64), exponents=Coordinates(stream=1.1, features=0.0, logits=-0.3))


def axis_check(
    *,
    base: float = 0.0,
    far: float = 0.0,
    coordinates: CoordinateCheck = FLAT,
    axis: SizeAxis = SizeAxis.DEPTH,
) -> AxisCheck:
    shape = replace(BASE, depth=8) if axis is SizeAxis.DEPTH else replace(BASE, d_model=128)
    return AxisCheck(
        axis=axis, coordinates=coordinates, base=planted(BASE, base), far=planted(shape, far)
    )


def result_of(*axes: AxisCheck) -> CheckResult:
    return CheckResult(
        config=study(Scheme.STANDARD),
        probe=PROBE,
        axes=axes,
        study_sizes={SizeAxis.DEPTH: (1, 100), SizeAxis.WIDTH: (12, 112)},
    )


@pytest.mark.parametrize("far", [-0.9, 0.0, 0.9])
def test_a_best_rate_that_stays_carries_over(far: float) -> None:
    checked_axis = axis_check(far=far)
    assert checked_axis.carries_over
    assert checked_axis.log2_shift == pytest.approx(far / 2)
    assert "per doubling" in reason(checked_axis, Scheme.COMPLETEP)


@pytest.mark.parametrize("axis", ONE_STACK)
@pytest.mark.parametrize("far", [-1.4, 1.4])
def test_a_best_rate_that_shifts_does_not_carry_over_and_the_reason_has_factor_limit_and_remedy(
    far: float, axis: SizeAxis
) -> None:
    checked_axis = axis_check(far=far, axis=axis)
    assert not checked_axis.carries_over
    words = reason(checked_axis, Scheme.STANDARD)
    parts = f"x{2 ** (far / 2):.2f} per doubling", "x1.4 allowed", "scheme: completep"
    assert all(part in words for part in (*parts, axis.value)), words


@pytest.mark.parametrize(
    ("axis", "scheme", "words", "not_said"),
    [
        (axis_check(coordinates=STEEP), Scheme.MUP, "depth^1.10", "best rate goes"),
        (axis_check(far=9), Scheme.STANDARD, "above x16", "allowed either way"),
        (axis_check(far=3), Scheme.COMPLETEP, "allowed either way", "completep"),
    ],
    ids=["activations that grow", "a best rate not enclosed", "completep is its own remedy"],
)
def test_each_fault_of_an_axis_is_its_reason(
    axis: AxisCheck, scheme: Scheme, words: str, not_said: str
) -> None:
    assert not axis.carries_over
    assert words in (said := reason(axis, scheme))
    assert not_said not in said


@pytest.mark.parametrize(("base", "fits"), [(0.0, True), (-0.9, True), (1.5, False), (-2.0, False)])
def test_the_studys_rate_is_judged_on_the_base_shape(base: float, fits: bool) -> None:
    result = result_of(axis_check(base=base, far=base))
    assert result.rate_fits is fits
    assert result.best_rate == pytest.approx(4e-3 * 2**base)
    assert (f"learning_rate: {4e-3 * 2**base:.2g}" in rate_text(result)) is not fits


def test_a_result_has_advice_scope_and_a_verdict_of_all_axes() -> None:
    words = rate_text(result_of(axis_check(base=2.0, far=-2.0)))
    assert "no one rate suits every shape" in words
    assert "learning_rate" not in words
    words = scope(result_of(axis_check(), axis_check(axis=SizeAxis.WIDTH)))
    assert "depth goes from 1 to 100, which beyond 8 rests on the coordinate check alone" in words
    assert "beyond 64 on nothing" in words
    assert words.endswith("width goes from 12 to 112")
    good, bad = axis_check(), axis_check(far=3)
    assert result_of(good, good).carries_over
    assert not result_of(good, bad).carries_over
    said = printed_values(check_reply(result_of(good, bad)))["checked"]
    assert [entry["carries_over"] for entry in said["axes"]] == [True, False]
    assert "above x16" in rate_text(result_of(axis_check(base=9)))


# The verb.


@pytest.mark.drill
def test_the_verb_prints_json_for_programs_progress_for_people_and_its_status_is_the_verdict() -> (
    None
):
    done = fathom("check", ROOT / "configs" / "tiny.yaml", "--steps", "8", "--json")
    told = valid(json.loads(done.stdout))["checked"]
    assert done.returncode == (0 if told["carries_over"] else 1), done.stderr
    assert {entry["axis"] for entry in told["axes"]} == {"depth", "width"}
    assert done.stderr.count(" loss ") == sum(len(sweep["points"]) for sweep in told["sweeps"])
