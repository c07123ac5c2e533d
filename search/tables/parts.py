"""Tests whether the best depth differs between parts of a table, such as corpora or families."""

from collections.abc import Sequence
from itertools import combinations
from math import log

import numpy as np

from fathom.search.analysis.answer.depth_difference import depth_ratio, ln_ratios
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import format_count

CONFIDENCE = 0.95
"""Probability that the intervals of all pairs hold at once."""


def differences(parts: Sequence[Findings], width: float, noise: float | None) -> list[str]:
    """Notes on parts whose best depths differ, at sizes equal within `width`, or that none are
    shown to differ; empty unless two parts have a best depth inside their ranges. `noise` between
    seeds, nats, is None if not stated."""
    located = [
        (part, optimum, posterior)
        for part in parts for optimum in part.optima
        if isinstance(optimum, Located) and optimum.kind is not Kind.EDGE
        and (posterior := find_with_posterior(
            part.records_of(optimum.budget), seed=part.seed, noise=noise, trained=False
        )[1])
    ]  # fmt: skip
    pairs = [
        (one, other) for one, other in combinations(located, 2)
        if one[0].part_text != other[0].part_text
        and abs(log(one[1].budget / other[1].budget)) <= 2 * width
    ]  # fmt: skip
    said = []
    for (part, optimum, one), (other, _, two) in pairs:
        draws = ln_ratios(one, two, np.random.default_rng(part.seed))
        ratio = depth_ratio(draws, 1 - (1 - CONFIDENCE) / len(pairs))
        if ratio.is_settled:
            said.append(
                f"at {format_count(optimum.budget)}, the best depth of {other.part_text} is "
                f"{ratio.ratio:.2f} times that of {part.part_text} [{ratio.low:.2f} to "
                f"{ratio.high:.2f}]"
            )
    return said or ["the best depths of these parts are not shown to differ"] * bool(pairs)
