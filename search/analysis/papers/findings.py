"""The paper analyses of a study: crossings, required depth, metrics by depth, matched loss."""

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.search.analysis.papers.crossings import Crossings, find_crossings
from fathom.search.analysis.papers.depth_metrics import DepthMetric, find_depth_metrics
from fathom.search.analysis.papers.matched_loss import MatchedComparison, find_matched
from fathom.search.analysis.papers.required_depth import RequiredDepth, find_required_depths
from fathom.search.records import TrialRecord


@dataclass(frozen=True, slots=True)
class PaperFindings:
    """The paper analyses of a study; each is empty where the records allow none."""

    crossings: Crossings | None = None
    required_depths: tuple[RequiredDepth, ...] = ()
    matched: tuple[MatchedComparison, ...] = ()
    depth_metrics: tuple[DepthMetric, ...] = ()


def find_paper_findings(records: Sequence[TrialRecord], *, seed: int) -> PaperFindings:
    """Computes every paper analysis from the records; the same seed gives the same result."""
    return PaperFindings(
        find_crossings(records, seed=seed),
        find_required_depths(records, seed=seed),
        find_matched(records),
        find_depth_metrics(records),
    )
