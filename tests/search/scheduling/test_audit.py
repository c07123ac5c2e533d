"""Stopping that was fair, unfair to depth, costly, or too rarely checked to say."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.worlds.planted import World, shallower_is_better, symmetric
from fathom.search.analysis.losses.noise import Repeats
from fathom.search.records import Stage, TrialRecord
from fathom.search.scheduling.audit import RungAudit, later_first_rung
from fathom.search.scheduling.auditing import _kendall_tau, _spearman_rho, audit_stopping
from fathom.search.scheduling.halving import HalvingRule
from tests.support.simulated import confirm, cut, explore

DEPTHS = (1, 2, 3, 4, 6, 8)
HALF = HalvingRule(eta=2)
QUARTER = HalvingRule(eta=4)


def audited(records: list[TrialRecord], rule: HalvingRule = QUARTER) -> tuple[RungAudit, ...]:
    return audit_stopping(records, rule)


def finished_trials(slow_start: float, noise: float = 0.001) -> list[TrialRecord]:
    world = World(curve=symmetric(6, 0.1), noise=noise, slow_start=slow_start)
    return confirm(world, DEPTHS, np.random.default_rng(0))


def late_bloomers(bias: float) -> list[TrialRecord]:
    """After the first rung a trial gains so much at once for each unit of ln depth.

    That reverses the order, and nothing before it can predict it.
    """
    world = World(curve=shallower_is_better(bias / 2), noise=0.001, slow_start=0.0)
    records = []
    for record in confirm(world, DEPTHS, np.random.default_rng(0)):
        first, gain = min(record.rungs), bias * np.log(record.spec.shape.depth)
        curve = tuple(
            replace(p, loss=p.loss - gain) if p.tokens > first else p for p in record.curve
        )
        rungs = {t: loss - gain * (t > first) for t, loss in record.rungs.items()}
        records.append(replace(record, curve=curve, rungs=rungs))
    return records


def with_one_stopped(records: list[TrialRecord]) -> list[TrialRecord]:
    """The given records and one of a trial stopped at the first rung."""
    first = min(records[0].rungs)
    other = replace(records[0].spec, trial="another", stage=Stage.EXPLORE)
    return [*records, cut(replace(records[0], spec=other), first)]


def explored(values: list[tuple[float, float]], exempt: set[int]) -> list[TrialRecord]:
    """Trials that come to a rung one after the other with the first value and end at the second.

    They are not stopped, whether exempt or not.
    """
    world = World(curve=symmetric(3))
    records = []
    for index, (here, end) in enumerate(values):
        shape = world.shape(3 + index)
        spec = replace(world.spec(shape, seed=index), prunable=index not in exempt)
        run = world.record(spec, np.random.default_rng(index))
        points = tuple(replace(point, time=point.time + index) for point in run.curve)
        rung = world.rung_tokens[0]
        early = tuple(
            replace(p, loss=here + 1 - p.tokens / rung) for p in points if p.tokens <= rung
        )
        late = tuple(replace(p, loss=end) for p in points if p.tokens > rung)
        records.append(replace(run, curve=early + late, rungs={rung: here}))
    return records


def test_the_correlation_of_pairs_that_differ_is_kendalls() -> None:
    assert _spearman_rho(np.arange(4.0), np.ones(4)) == 0
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 12))
    tau, pairs = _kendall_tau(x, y, apart=0.0)
    assert tau == pytest.approx(stats.kendalltau(x, y).statistic)
    assert pairs == 66
    near = np.array([0.0, 0.1, 5.0])
    assert _kendall_tau(np.array([2.0, 1.0, 3.0]), near, apart=1.0) == (1.0, 2)
    assert _kendall_tau(near, np.ones(3), apart=0.0) == (None, 0)


def test_curves_that_do_not_cross_are_trusted() -> None:
    for audit in audited(finished_trials(slow_start=0.0)):
        assert audit.finished == 3 * len(DEPTHS), "trials at other rates are not compared"
        assert audit.trusted
        assert audit.rank_correlation == pytest.approx(1)
        assert audit.depth_bias == 0
        assert audit.place_of_best == 1
        assert not audit.failed
        assert "no depth bias" in audit.sentence
        assert "first_rung" not in audit.sentence


def test_a_depth_bias_within_chance_is_told_with_its_figure() -> None:
    audit = shuffled(noise=0.0)
    told = replace(audit, rank_correlation=0.9, depth_bias=0.4)
    assert not told.is_biased
    assert "depth bias +0.40, which is within chance" in told.sentence
    alike = replace(told, depth_bias=None)
    assert "depth bias" not in alike.sentence


def test_slow_deep_models_are_noticed_and_the_remedy_is_named() -> None:
    early, late = audited(with_one_stopped(late_bloomers(bias=0.15)))
    assert early.rung < late.rung
    assert early.failed
    assert early.depth_bias is not None
    assert early.depth_bias > 0.5
    assert early.place_of_best is not None
    assert early.place_of_best > 1
    assert "deep trials were ranked too low" in early.sentence
    assert "set `stopping.first_rung: 0.5`" in early.sentence
    assert "`fathom run --extend`" in early.sentence
    assert early.rank_correlation is not None
    assert late.rank_correlation is not None
    assert late.rank_correlation > early.rank_correlation


def test_a_rung_that_forecasts_slow_models_well_has_no_depth_bias() -> None:
    early = audited(with_one_stopped(finished_trials(slow_start=0.1)))[0]
    assert early.trusted
    assert not early.is_biased


def test_a_biased_rung_that_stopped_no_trial_did_no_harm() -> None:
    early, late = audited(late_bloomers(bias=0.15))
    assert early.trusted is False
    assert not early.failed
    assert not late.failed
    assert "no trial was stopped here" in early.sentence
    assert later_first_rung((early, late)) is None
    other_way, _ = audited(late_bloomers(bias=-0.15))
    assert other_way.trusted is False
    assert "shallow trials were ranked too low" in other_way.sentence


def shuffled(noise: float) -> RungAudit:
    """Four depths, three seeds of each, whose order at the rung is drawn at random."""
    generator = np.random.default_rng(1)
    world = World(curve=symmetric(3, 0.1), noise=noise)
    records = [
        replace(run, rungs={5_000_000: float(generator.normal())})
        for run in confirm(world, (2, 3, 4, 6), generator, seeds=3, rates=(1.0,))
    ]
    (audit,) = audited(records)
    return audit


def test_a_low_rank_correlation_without_a_depth_bias_is_not_trusted() -> None:
    audit = shuffled(noise=0.001)
    assert not audit.is_biased
    assert audit.trusted is False
    assert "which is low" in audit.sentence
    assert audit.why in audit.sentence


def test_no_rung_fails_for_an_order_that_is_mostly_chance() -> None:
    """If final losses differ as little as seeds do, any rung disagrees with the end."""
    audit = shuffled(noise=0.2)
    assert audit.pairs < 15
    assert audit.rank_correlation is None
    assert audit.trusted is None
    assert "pairs of trials that differ by more than seed noise in the end: " in audit.sentence
    assert "always_finish" not in audit.sentence


@pytest.mark.parametrize(
    ("number", "words", "key"),
    [
        (0, "no trial finished", "trials"),  # with the stopped one there are too few as well
        (1, "1 trial finished", "trials"),
        (5, "5 trials finished", "stopping.always_finish"),
    ],
)
def test_too_few_finished_trials_say_so_and_which_key_gives_more(
    number: int, words: str, key: str
) -> None:
    at_the_rate = [r for r in finished_trials(slow_start=0.0) if r.spec.rate_scale == 1]
    records = with_one_stopped(at_the_rate)
    audit = audited([*records[:number], records[-1]])[0]
    assert audit.finished == number
    assert audit.trusted is audit.rank_correlation is audit.depth_bias is None
    assert not audit.failed
    assert f"{words}, too few to compare" in audit.sentence
    assert f"raise `{key}`" in audit.sentence


def test_the_audit_lists_stopped_trials_and_depths() -> None:
    generator = np.random.default_rng(0)
    world = World(curve=symmetric(3))
    first, second = world.rung_tokens
    runs = confirm(world, (2, 3, 4, 8), generator)
    records = [cut(run, first) if run.spec.shape.depth == 8 else run for run in runs]
    records += [cut(run, second) for run in confirm(world, (2,), generator)]
    early, late = audited(records)
    assert (early.stopped, early.stopped_depths, early.cut_depths) == (5, (8,), (8,))
    assert (late.stopped, late.stopped_depths, late.cut_depths) == (5, (2,), ())
    assert "no trial of depth 8 was promoted" in early.sentence


def test_every_stopped_trial_is_counted_once() -> None:
    world = World(curve=symmetric(3))
    records = explore(world, DEPTHS, np.random.default_rng(0))
    stopped = sum(audit.stopped for audit in audited(records))
    assert stopped == sum(record.outcome == "stopped" for record in records)
    assert audited([]) == ()


def rung_where(values: list[tuple[float, float]], exempt: set[int]) -> RungAudit:
    (audit,) = audited(explored(values, exempt), HALF)
    return audit


@pytest.mark.parametrize(
    ("ends", "exempt", "counts", "regret", "words"),
    [
        (
            *((1.5, 1.6, 1.4, 1.45), {2, 3}, (2, 2), 0.1),
            "2 of 2 audit trials, at a regret of 0.1000 nats against the best promoted trial",
        ),
        ((1.5, 1.6, 1.55, 1.7), {0, 2, 3}, (3, 2), 0.0, "none ended ahead of the best promoted"),
        ((1.5, 1.6), set(), (0, 0), None, "no audit trial reached the rung"),
    ],
)
def test_regret_is_the_lead_of_a_pruned_audit_trial_over_the_best_promoted_one(
    ends: Sequence[float],
    exempt: set[int],
    counts: tuple[int, int],
    regret: float | None,
    words: str,
) -> None:
    audit = rung_where([(2.0 + place / 10, end) for place, end in enumerate(ends)], exempt)
    assert (audit.audit_trials, audit.audit_trials_pruned) == counts
    assert audit.regret == pytest.approx(regret)
    assert audit.is_costly == (regret == pytest.approx(0.1))
    assert audit.trusted is (False if audit.is_costly else None)
    assert words in audit.sentence


def test_regret_within_the_noise_of_seeds_counts_as_chance() -> None:
    """Two single losses differ by more than 1.96 x sqrt(2) x noise in one case of twenty."""

    def regretted(regret: float, noise: float) -> bool:
        records = explored([(2.0, 1.5), (2.1, 1.6), (2.2, 1.5 - regret)], exempt={2})
        pair = explored([(2.0, 1.7), (2.1, 1.7 + noise * 2**0.5)], exempt=set())
        twice = replace(pair[0].spec, trial="again", seed=9, rate_scale=2.0)
        pair = [replace(run, spec=replace(twice, trial=f"{i}")) for i, run in enumerate(pair * 3)]
        (audit,) = audited([*records, *pair], HALF)
        assert audit.regret == pytest.approx(regret)
        return audit.is_costly

    chance = 1.96 * 2**0.5
    for noise in (0.01, 0.05):
        # Three pairs around a common mean: 3 x noise^2 over 5 degrees of freedom.
        measured = Repeats(noise * (3 / 5) ** 0.5, 5).likely_noise
        assert not regretted(0.95 * chance * measured, noise)
        assert regretted(1.05 * chance * measured, noise)


def test_regret_narrower_than_a_plateau_does_not_matter() -> None:
    (audit, *_) = audited(finished_trials(slow_start=0.0))
    assert not replace(audit, regret=0.0049, noise=1e-4).is_costly
    assert replace(audit, regret=0.0051, noise=1e-4).is_costly


def test_the_rule_is_independent_of_the_order_of_arrival() -> None:
    """The last of three would have been stopped, also where it was the first to come."""
    for values in ([(2.9, 1.9), (2.1, 1.6), (2.2, 1.5)], [(2.1, 1.6), (2.2, 1.5), (2.9, 1.9)]):
        worst = values.index((2.9, 1.9))
        assert rung_where(values, exempt={worst}).audit_trials_pruned == 1
        assert rung_where(values, exempt={values.index((2.1, 1.6))}).audit_trials_pruned == 0


def test_confirmation_trials_are_not_part_of_the_audit() -> None:
    records = explored([(2.0, 1.5), (2.1, 1.6), (2.2, 1.3)], exempt={2})
    confirming = replace(records[2].spec, stage=Stage.CONFIRM, trial="confirming")
    (audit,) = audited([*records[:2], replace(records[2], spec=confirming)], HALF)
    assert (audit.audit_trials, audit.audit_trials_pruned) == (0, 0)


def test_the_first_rung_moves_behind_the_last_that_failed_or_to_the_horizon() -> None:
    def rungs(*failed: bool) -> list[RungAudit]:
        (audit, *_) = audited(with_one_stopped(late_bloomers(bias=0.15)))
        tokens = range(100, 100 * len(failed) + 100, 100)
        last = max(t for t, f in zip(tokens, failed, strict=True) if f)
        later = min((t for t in tokens if t > last), default=None)
        return [
            replace(audit, rung=t, horizon=1000, later=later, stopped=int(f))
            for t, f in zip(tokens, failed, strict=True)
        ]

    assert later_first_rung(rungs(True, False, False)) == 200
    assert later_first_rung(rungs(True, False, True, False)) == 400
    assert later_first_rung(rungs(True, True)) == 1000
    assert "`stopping.first_rung: 0.4`" in rungs(True, False, True, False)[0].sentence
    assert "`stopping.enabled: false`" in rungs(True, True)[0].sentence
