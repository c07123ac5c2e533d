"""The best size and depth of a budget whose size is free, from the loss over both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fathom.models.spend import Spend
from fathom.search.analysis.answer.located import ENOUGH_DEPTHS, located, with_tokens_of_shape
from fathom.search.analysis.answer.optimum import BestSize, Located, Optimum
from fathom.search.analysis.curve.posterior import DRAWS
from fathom.search.analysis.surface.surface import Profile, SizeSurface, find_surface
from fathom.search.records import TrialRecord


@dataclass(frozen=True, kw_only=True)
class JointAnswer:
    """The answer of a budget whose size is free, with the optima and the surface behind it."""

    optimum: Located
    """The best depth when each depth has its best size; it also holds the best size."""
    by_size: Located
    """The best size when each size has its best depth; its "depths" are indices of sizes."""
    surface: SizeSurface


def find_tuned(
    records: Sequence[TrialRecord], *, seed: int, draws: int = DRAWS, noise: float | None = None
) -> JointAnswer | None:
    """The best size and depth of the only budget of the records; None with too few finished depths
    or sizes."""
    generator = np.random.default_rng([seed, records[0].spec.budget])
    surface = find_surface(records, generator, noise=noise, draws=draws)
    if surface is None:
        return None
    depth, size = surface.by_depth, surface.by_size
    if min(len(depth.estimates.depths), len(size.estimates.depths)) < ENOUGH_DEPTHS:
        return None
    of_depths = _of_profile(records, depth, depth.possible)
    # A size between trained ones may be named, which no depth may: its shape is to be exported.
    of_sizes = _of_profile(_standing(records, surface), size, size.posterior.depths)
    sizes = [r.spec.shape.params_total for r in records if r.loss is not None]
    best = best_size_of(of_sizes, of_depths.spend, surface.size_at, (min(sizes), max(sizes)))
    ends = (of_sizes.plateau[0], of_sizes.plateau[-1])
    best = replace(
        best, interval=surface.ends_of(of_sizes.interval), plateau=surface.ends_of(ends),
        region=surface.region,
    )  # fmt: skip
    optimum = with_tokens_of_shape(replace(of_depths, best_size=best), records)
    assert isinstance(optimum, Located), "it was"
    return JointAnswer(optimum=optimum, by_size=of_sizes, surface=surface)


def _of_profile(
    records: Sequence[TrialRecord], profile: Profile, possible: NDArray[np.int64]
) -> Located:
    """The optimum over depths, or indices of sizes, by a profile of the surface; the answer is one
    of the `possible` values."""
    posterior = profile.posterior
    return located(records, profile.estimates, posterior.points, posterior, possible)


def _standing(records: Sequence[TrialRecord], surface: SizeSurface) -> list[TrialRecord]:
    """The records with the index of each shape's size in place of its depth."""
    shapes = {record.spec.shape: surface.place_of(record.spec.shape) for record in records}
    specs = [
        replace(r.spec, shape=replace(r.spec.shape, depth=shapes[r.spec.shape])) for r in records
    ]
    return [replace(record, spec=spec) for record, spec in zip(records, specs, strict=True)]


def best_size_of(
    found: Optimum, spend: Spend, size_of: Callable[[float], int], sizes: tuple[int, int]
) -> BestSize:
    """The best size, from an optimum over indices of sizes in place of depths; `size_of` maps an
    index to its size."""
    ends = (found.interval, (found.plateau[0], found.plateau[-1])) if found.interval else None
    best = found.optimal_depth
    tried = [cost.depth for cost in found.costs]
    beside = {
        min(tried, key=lambda place: abs(place - best * factor))
        for factor in (sqrt(0.5), sqrt(2))
        if best and tried and tried[0] <= round(best * factor) <= tried[-1]
    }
    costs = [replace(cost, depth=size_of(cost.depth)) for cost in found.costs
             if cost.depth in beside]  # fmt: skip
    return BestSize(
        spend=spend,
        unit=found.unit,
        sizes=sizes,
        size=size_of(best) if best else None,
        loss=found.loss,
        interval=None if ends is None else (size_of(ends[0][0]), size_of(ends[0][1])),
        plateau=None if ends is None else (size_of(ends[1][0]), size_of(ends[1][1])),
        verdict=found.verdict,
        costs=tuple(costs),
        noise=found.noise,
    )
