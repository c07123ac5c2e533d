"""Exact match, accuracy, BLEU and chrF at each depth, at the end of training."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.search.analysis.losses.metric_trials import metric_trials
from fathom.search.records import TrialRecord, by_budget

NAMED = re.compile(r"(?P<kind>exact_match|accuracy|bleu|chrf)/(?P<split>[^/]+)(/all)?")
"""Pattern of the name of a metric of a whole split, such as `exact_match/gen/all`."""
SCORES = ("bleu", "chrf")
"""Metrics of translations, from 0 to 100, each measured for several ways of decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthMetric:
    """One metric of a split at each depth of a budget; higher is better."""

    budget: int
    name: str
    """The metric, such as `exact_match/gen/all`."""
    kind: str
    """`exact_match`, `accuracy`, `bleu` or `chrf`."""
    split: str
    """The split; for a score, the way of decoding: `beam` or `greedy`."""
    values: Mapping[int, tuple[float, ...]]
    """Depth, ascending -> last value of each trial that represents the depth (`metric_trials`)."""

    @property
    def is_score(self) -> bool:
        """True for a score from 0 to 100, False for a share from 0 to 1."""
        return self.kind in SCORES

    @property
    def nothing_learned(self) -> bool:
        """True if the metric is 0 in every trial, so that depths can't be compared by it."""
        return not any(value for values in self.values.values() for value in values)


def find_depth_metrics(records: Sequence[TrialRecord]) -> tuple[DepthMetric, ...]:
    """Returns the metrics that every trial of a budget measured, in order of budget and name."""
    found: list[DepthMetric] = []
    for budget, of_budget in by_budget(records).items():
        trials = metric_trials(of_budget)
        ends = {depth: [r.curve[-1].metrics for r in each] for depth, each in trials.items()}
        measured = [set(metrics) for each in ends.values() for metrics in each]
        for name in sorted(set.intersection(*measured)) if measured else ():
            if match := NAMED.fullmatch(name):
                values = {d: tuple(m[name] for m in each) for d, each in ends.items()}
                parts = match.groupdict()
                found.append(DepthMetric(budget=budget, name=name, values=values, **parts))
    return tuple(found)
