"""What a study's records say beyond the best depth of each budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.search.analysis.papers.crossings import Crossings, find_crossings
from fathom.search.analysis.papers.matched_loss import MatchedComparison, find_matched
from fathom.search.analysis.papers.required_depth import RequiredDepth, find_required_depths
from fathom.search.records import TrialRecord


@dataclass(frozen=True, slots=True)
class PaperFindings:
    """Each is empty where the records hold nothing of the kind."""

    crossings: Crossings | None = None
    required_depths: tuple[RequiredDepth, ...] = ()
    matched: tuple[MatchedComparison, ...] = ()


def find_paper_findings(records: Sequence[TrialRecord], *, seed: int) -> PaperFindings:
    """From the records alone; the same for the same seed."""
    return PaperFindings(
        find_crossings(records, seed=seed),
        find_required_depths(records, seed=seed),
        find_matched(records),
    )
