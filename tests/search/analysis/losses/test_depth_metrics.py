"""Exact match and accuracy at each depth: which metrics, of which trials."""

from fathom.search.analysis.losses.depth_metrics import find_depth_metrics
from fathom.search.records import TrialRecord
from tests.support.papers import measured_trial


def ended(depth: int, seed: int, **splits: float) -> TrialRecord:
    """A finished trial with this exact match on each split."""
    return measured_trial(depth, seed, {f"exact_match/{name}/all": v for name, v in splits.items()})


def test_the_last_values_of_every_trial_stand_by_depth() -> None:
    records = [ended(4, 0, gen=0.5), ended(2, 0, gen=0.25), ended(4, 1, gen=0.75)]

    [found] = find_depth_metrics(records)

    assert (found.kind, found.split, found.name) == ("exact_match", "gen", "exact_match/gen/all")
    assert {d: sorted(each) for d, each in found.values.items()} == {2: [0.25], 4: [0.5, 0.75]}


def test_categories_and_other_metrics_are_left_out() -> None:
    metrics = {"exact_match/gen/case": 0.1, "bits_per_byte": 1.0, "accuracy/test": 0.5}

    [metric] = find_depth_metrics([measured_trial(2, 0, metrics)])

    assert metric.name == "accuracy/test"


def test_scores_of_translations_stand_by_their_way_of_decoding() -> None:
    metrics = {"bleu/beam": 12.5, "bleu/greedy": 11.0, "chrf/beam": 30.0}
    found = find_depth_metrics([measured_trial(2, 0, metrics)])
    assert [(match.kind, match.split, match.is_score) for match in found] == [
        ("bleu", "beam", True), ("bleu", "greedy", True), ("chrf", "beam", True),
    ]  # fmt: skip


def test_a_metric_that_some_trials_lack_is_left_out() -> None:
    assert not find_depth_metrics([ended(2, 0, gen=0.5), ended(4, 0, other=0.5)])
    assert not find_depth_metrics([])


def test_nothing_is_learned_only_where_every_trial_has_zero() -> None:
    zero = [ended(depth, 0, gen=0.0, dev=0.0) for depth in (2, 4)]

    dev, gen = find_depth_metrics([*zero, ended(8, 0, gen=0.0, dev=0.1)])

    assert all(metric.nothing_learned for metric in find_depth_metrics(zero))
    assert (dev.nothing_learned, gen.nothing_learned) == (False, True)
