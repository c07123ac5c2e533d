"""Weight decays that `fathom check` compares where trainings repeat their data."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.console import Console

from fathom.models.shape import Shape
from fathom.objectives.prepare import prepare
from fathom.search.laboratory.check.check import CheckResult, check_study
from fathom.search.laboratory.check.decays import (
    DecayCheck,
    DecayPoint,
    DecaySweep,
    Repeated,
    decays_to_compare,
)
from fathom.search.laboratory.check.output import check_reply, decay_reason, follow, print_check
from fathom.search.laboratory.check.probe import Probe, Prober, ProbeSize, probe_shape
from fathom.search.laboratory.check.rate_sweep import RatePoint, Sweep
from fathom.search.study.planning.budget import expand_budgets
from tests.support.contract import printed_values
from tests.support.repeated import repeating_study
from tests.support.reporting import printed
from tests.support.toy import CPU, Successor

SHALLOW = Shape(depth=2, d_model=32, d_ff=128, n_heads=2, head_dim=16, vocab_size=8, context=6)
SHORT = Probe(steps=100, depths=(1, 2), seeds=1)


@pytest.mark.parametrize(("length", "best"), [(500, 40.0), (1500, 2.5)])
def test_the_shorter_a_text_is_the_stronger_is_the_decay_that_suits_both_depths(
    tmp_path: Path, length: int, best: float
) -> None:
    """Twelve trainings of a tenth of a second to half a second: a study's 10 is too little over
    115 epochs, and too much over 38."""
    config = repeating_study(tmp_path, length=length)
    objective = prepare(config.objective).to(CPU)
    prober = Prober(
        config=config, objective=objective, device=CPU, watch=lambda *_: None, probe=SHORT
    )
    (budget,) = expand_budgets(config)
    epochs = budget.tokens / config.objective.most_train_tokens()

    def compared(depth: int) -> DecaySweep:
        shape = probe_shape(
            config, ProbeSize(depth), vocab_size=objective.vocab_size, context=32, probe=SHORT
        )
        found = Sweep(shape=shape, points=(RatePoint(log2_factor=0, losses=(1.0,)),))
        return prober.decays(found, decays_to_compare(10.0), epochs=epochs, steps=budget.steps)

    shallow, deep = (compared(depth) for depth in SHORT.depths)
    check = DecayCheck(
        own=10.0, epochs=epochs, shallow=shallow, deep=deep, guess=objective.chance_loss
    )
    assert check.common == best
    assert check.one_suits_both
    assert not check.own_suits_both
    assert check.cost(10.0) > 0.1
    assert f"set `train.weight_decay: {best:g}`" in decay_reason(check)


def test_a_check_of_data_that_repeat_compares_decays_and_of_others_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "fathom.search.laboratory.check.check.coordinate_check"
    monkeypatch.setattr(place, lambda config, axis: None)
    short = Probe(steps=4, tokens_per_step=48, seeds=1, width=8, depths=(1, 4), widening=2)
    config = repeating_study(tmp_path)
    results: list[CheckResult] = []

    def checked(console: Console) -> None:
        results.append(check_study(config, follow(console), short))

    lines = printed(checked)
    (result,) = results
    entry = printed_values(check_reply(result))["checked"]["decays"]
    assert [sweep["shape"]["depth"] for sweep in entry["sweeps"]] == [1, 4]
    assert [point["decay"] for point in entry["sweeps"][1]["points"]] == [0.25, 1, 4]
    assert lines.count(" decay 0.25") == 2
    assert "weight decay: of 0.25, 1, 4, over 229.8 epochs" in printed(partial(print_check, result))

    once = repeating_study(tmp_path, length=100_000)
    assert check_study(once, lambda *_: None, short).decays is None


def test_a_repeated_objective_gives_its_first_batches_again() -> None:
    repeated = Repeated(Successor(), 3)
    batches = [repeated.batch(seed=1, step=step, batch_size=4).inputs for step in range(7)]
    assert torch.equal(batches[0], batches[3])
    assert torch.equal(batches[1], batches[4])
    assert not torch.equal(batches[0], batches[1])


def planted(shallow: tuple[float, ...], deep: tuple[float, ...], own: float = 0.1) -> DecayCheck:
    """A check with these mean losses of both depths at the decays compared; seeds agree."""

    def sweep(depth: int, losses: tuple[float, ...]) -> DecaySweep:
        points = (
            DecayPoint(decay=decay, losses=(loss, loss))
            for decay, loss in zip(decays_to_compare(own), losses, strict=True)
        )
        return DecaySweep(shape=replace(SHALLOW, depth=depth), points=tuple(points))

    return DecayCheck(own=own, epochs=9, shallow=sweep(2, shallow), deep=sweep(8, deep), guess=2.0)


def test_depths_that_want_different_decays_are_told_what_the_best_common_one_costs() -> None:
    check = planted((1.50, 1.55, 1.70), (1.70, 1.54, 1.50))
    assert (check.common, check.one_suits_both) == (0.1, False)
    assert check.cost(0.1) == pytest.approx(0.05)
    said = decay_reason(check)
    assert "0.025 is best for depth 2, d_model 32 and 0.4 is best for depth 8" in said
    assert "costs one of them 0.050 nats" in said
    assert "`confirm.decays: [0.25, 1, 4]`" in said


def test_a_decay_that_costs_less_than_a_plateau_is_wide_suits_both() -> None:
    check = planted((1.502, 1.50, 1.6), (1.6, 1.503, 1.50))
    assert check.own_suits_both
    assert "0.1 suits both depths, at most 0.003 nats" in decay_reason(check)


def test_shapes_that_learnt_nothing_say_nothing_of_decays() -> None:
    check = planted((3.0, 3.0, 3.0), (3.0, 3.0, 3.0))
    assert not check.one_suits_both
    assert "none learnt more than a guess" in decay_reason(check)


def test_a_study_without_decay_is_compared_with_the_usual_one() -> None:
    check = planted((1.5, 1.4), (1.5, 1.4), own=0.0)
    assert check.decays == (0.0, 0.1)
    assert "set `train.weight_decay: 0.1` and check again" in decay_reason(check)
    assert "suits both" in decay_reason(planted((1.4, 1.5), (1.4, 1.5), own=0.0))
