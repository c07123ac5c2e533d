"""How far trials were off their seconds: `search/analysis/spending/measured_seconds.py`."""

from dataclasses import replace

import pytest

from benchmarks.worlds.planted import World, finished, symmetric
from fathom.models.spend import Coin, Spend
from fathom.search.analysis.spending.measured_seconds import measured_seconds
from fathom.search.records import Outcome, TrialRecord

WORLD = World(curve=symmetric(5), noise=0.003)
RECORDS = [finished(WORLD.spec(WORLD.shape(depth), seed=0), final=1.6) for depth in (2, 3, 4)]


def took(record: TrialRecord, seconds: float, device: str = "a core") -> TrialRecord:
    """A trial that was to take 100 s, and took others."""
    last = replace(record.curve[-1], train_seconds=seconds, tokens=record.spec.horizon_tokens)
    spec = replace(record.spec, shared_spend=Spend(100.0, Coin.SECONDS))
    return replace(record, spec=spec, curve=(*record.curve[:-1], last), device=device)


def test_the_median_and_the_furthest_are_told_with_their_signs() -> None:
    seconds = (90.0, 101.0, 103.0)
    found = measured_seconds([took(*pair) for pair in zip(RECORDS, seconds, strict=False)])
    assert found
    assert (found.asked, found.trials, found.median, found.worst) == (100, 3, 101, 90)
    assert found.median_off == pytest.approx(0.01)
    assert found.worst_off == pytest.approx(-0.1)


def test_each_device_is_named_once() -> None:
    pairs = zip(RECORDS, ("b", "a", "a + c"), strict=False)
    found = measured_seconds([took(record, 100.0, device) for record, device in pairs])
    assert found
    assert found.devices == ("a", "b", "c")


def test_a_trial_that_ended_early_does_not_count() -> None:
    whole, other = (took(record, 100.0) for record in RECORDS[:2])
    early = replace(other, spec=replace(other.spec, horizon_tokens=10**9))
    paused = replace(other, outcome=Outcome.STOPPED)
    found = measured_seconds([whole, early, paused])
    assert found
    assert found.trials == 1
    assert measured_seconds([early, paused]) is None


def test_a_study_of_tokens_has_none() -> None:
    assert measured_seconds(RECORDS) is None
    assert measured_seconds([]) is None
