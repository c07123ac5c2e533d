"""The sounding: at any size the best depth, and what another depth costs.

At a budget it has the numbers of the report's tables. At other sizes the laws give the best depth,
and costs rise with the square of ln(depth / best), as steeply as at the nearest budgets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, floor, log, log10
from typing import Any

import numpy as np

from fathom.search.analysis.answer.optimum import DepthCost, Optimum
from fathom.search.analysis.laws.compute_law import training_flops
from fathom.search.analysis.laws.law import Prediction, predictions, price, usable
from fathom.search.analysis.laws.weighed_laws import WeighedLaws, law_words
from fathom.search.conclusion.findings import Findings, why_no_law
from fathom.search.formatting import rounded_count
from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.sounding import sounding_chart
from fathom.search.report.words import text
from fathom.search.report.words.latency import BudgetLatency
from fathom.search.report.words.other_depths import cost_text, multiple_text

BEYOND = 10
"""Multiple of the largest budget up to which the law is shown."""
ROUND = (1, 1.5, 2, 3, 4, 5, 6, 8)
"""Leading digits of the round sizes at which the handle stops, besides the budgets."""
MOST_DEPTHS = 13
"""Most depths for which a cost is shown at one size."""
SPREAD = 4.0
"""Factor above and below the best depth that the shown depths span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundedDepth:
    """Cost of a depth at a size, as text; empty where it is not known."""

    depth: int
    nats: str
    compute: str
    milliseconds: str
    """Milliseconds to generate a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeStop:
    """A size at which the handle of the figure stops."""

    size: str
    place: float
    """Position of the stop on the axis of sizes, as a share of its length."""
    best: str
    """The best depth with its 95 % interval."""
    basis: str
    """What the best depth rests on."""
    depths: tuple[SoundedDepth, ...]
    """Depths at this size with their costs, ascending; the best depth is among them, and costs
    nothing."""
    best_index: int
    """Place of the best depth among `depths`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundingValues:
    """The chart that tells the best depth at any size, and the stops of its handle."""

    chart: Chart
    stops: tuple[SizeStop, ...]
    first: int
    """The stop at which the handle begins: the largest budget."""
    note: str
    """Note on the law: why there is none, or what the depths between the budgets rest on."""

    @property
    def as_json(self) -> list[list[Any]]:
        """The stops in the short form that the page's script reads."""
        return [
            [
                *(stop.size, round(stop.place, 4), stop.best, stop.basis, stop.best_index),
                [[d.depth, d.nats, d.compute, d.milliseconds] for d in stop.depths],
            ]
            for stop in self.stops
        ]

    @property
    def rows(self) -> list[dict[str, str]]:
        """A row for each size, as texts by heading, for readers without a script."""
        return [
            {
                "size": stop.size,
                "best depth [95 %]": stop.best,
                "basis": stop.basis,
                "other depths (nats)": "; ".join(
                    f"{each.depth}: {each.nats}" for each in _beside(stop) if each.nats
                ),
            }
            for stop in self.stops
        ]


def _beside(stop: SizeStop) -> list[SoundedDepth]:
    """The depths nearest to half and to twice the best one."""
    best = stop.depths[stop.best_index].depth
    found = []
    for wanted, part in (
        (best / 2, stop.depths[: stop.best_index]),
        (2 * best, stop.depths[stop.best_index + 1 :]),
    ):
        if part:
            found.append(min(part, key=lambda each: abs(log(each.depth / wanted))))
    return found


def sounding(
    found: Findings, latencies: Sequence[BudgetLatency] = (), key: str = "depth-against-budget"
) -> SoundingValues | None:
    """Returns the figure of a study or a table; `key` names it on a page. None where no size has a
    best depth, or where sizes do not count parameters."""
    known = [optimum for optimum in found.optima if optimum.optimal_depth is not None]
    if not known or not found.count.of_parameters:
        return None
    law = found.weighed_laws
    largest = max(optimum.budget for optimum in known) * (BEYOND if law else 1)
    drawn = sounding_chart(found, law, largest, key)
    stops = sorted(
        _Sounded(found, law, drawn, latencies).stops(largest), key=lambda stop: stop.place
    )
    places = [stop.place for stop in stops]
    return SoundingValues(
        chart=drawn,
        stops=tuple(stops),
        first=places.index(drawn.x.place(max(optimum.budget for optimum in known))),
        note=_note(found, law),
    )


def _note(found: Findings, law: WeighedLaws | None) -> str:
    if law is None:
        return f"No law between the sizes: {why_no_law(found.optima)}."
    low, high = map(rounded_count, law.params_range)
    weighed = text.weighed_laws_text(law.weights)
    return (
        f"Measured at the stars. Between them the depth is read from {weighed}, fitted to {low} "
        f"to {high} parameters, dashed beyond, where the interval widens."
    )


class _Sounded:
    """Makes the stops of a figure."""

    def __init__(
        self, found: Findings, law: WeighedLaws | None, drawn: Chart,
        latencies: Sequence[BudgetLatency],
    ) -> None:  # fmt: skip
        self._found, self._law, self._drawn = found, law, drawn
        self._latencies = {each.budget: each for each in latencies if each.is_current}

    def stops(self, largest: float) -> Iterator[SizeStop]:
        """Yields the budgets, and the sizes between them and beyond, in no order."""
        budgets = [o for o in self._found.optima if o.optimal_depth is not None]
        yield from map(self._of_budget, budgets)
        if self._law is not None:
            sizes = [optimum.budget for optimum in budgets]
            for said in predictions(self._law, _between(sizes, largest)):
                yield self._of_law(said)

    def _of_budget(self, optimum: Optimum) -> SizeStop:
        best = optimum.optimal_depth
        assert best is not None, "a stop has a best depth"
        times = self._seconds(optimum.budget)
        shown = {cost.depth: cost for cost in optimum.costs}
        depths = _thinned(sorted({*shown, best}), best)
        return self._stop(
            optimum.budget,
            f"{best}{text.interval(optimum, ' [', ']')}",
            f"measured: {optimum.kind.value}",
            [
                SoundedDepth(
                    depth=depth,
                    nats=cost_text(shown[depth]) if depth in shown else "",
                    compute=self._compute(optimum, shown.get(depth)),
                    milliseconds=f"{1000 * times[depth]:.3g}" if depth in times else "",
                )
                for depth in depths
            ],
            best,
        )

    def _compute(self, optimum: Optimum, cost: DepthCost | None) -> str:
        multiple = self._found.compute_multiple(optimum, cost) if cost else None
        return multiple_text(multiple) if multiple else ""

    def _seconds(self, budget: int) -> dict[int, float]:
        """Depth -> seconds per generated token, at a budget."""
        if budget not in self._latencies:
            return {}
        known = self._latencies[budget].latency.times
        return {times.shape.depth: times.token.seconds for times in known}

    def _of_law(self, said: Prediction) -> SizeStop:
        best, beyond = max(1, round(said.depth)), ""
        interval = ""
        if said.extrapolated:
            beyond = ", beyond what was measured"
        if said.interval:
            interval = " [{:.1f} to {:.1f}]".format(*said.interval)
        return self._stop(
            said.params,
            f"{said.depth:.1f}{interval}",
            f"by {law_words(said.law)}{beyond}",
            [self._by_law(depth, best, said) for depth in _spread(best)],
            best,
        )

    def _by_law(self, depth: int, best: int, said: Prediction) -> SoundedDepth:
        if depth == best or self._curvature is None:
            return SoundedDepth(depth=depth, nats="", compute="", milliseconds="")
        cost = price(depth, said, self._curvature(said.params))
        law, flops = self._found.compute_law, self._flops
        multiple = law.multiple_at(flops(said.params), cost) if law and flops else None
        return SoundedDepth(
            depth=depth,
            nats=cost_text(cost),
            compute=multiple_text(multiple) if multiple else "",
            milliseconds="",
        )

    @cached_property
    def _curvature(self) -> "_OverSizes | None":
        """Nats that a depth costs if it is one unit of ln depth away from the best, by size."""
        known = usable(self._found.optima)
        return _over_sizes(
            [(o.budget, o.curvature) for o in known if o.curvature is not None], grows=False
        )

    @cached_property
    def _flops(self) -> "_OverSizes | None":
        """FLOPs of a trial, by size."""
        known = [(o.budget, training_flops(o)) for o in usable(self._found.optima)]
        return _over_sizes([(size, flops) for size, flops in known if flops], grows=True)

    def _stop(
        self, size: float, best: str, basis: str, depths: Sequence[SoundedDepth], best_depth: int
    ) -> SizeStop:
        return SizeStop(
            size=rounded_count(size),
            place=self._drawn.x.place(size),
            best=best,
            basis=basis,
            depths=tuple(depths),
            best_index=[each.depth for each in depths].index(best_depth),
        )


class _OverSizes:
    """A value as a function of size, interpolated on log scales; beyond the known sizes it is
    constant or continues the trend."""

    def __init__(self, sizes: Sequence[float], values: Sequence[float], *, grows: bool) -> None:
        self._sizes, self._values = np.log(sizes), np.log(values)
        self._slope = float(np.polyfit(self._sizes, self._values, 1)[0]) if grows else 0.0

    def __call__(self, size: float) -> float:
        at = log(size)
        inside = float(np.clip(at, self._sizes[0], self._sizes[-1]))
        beyond = self._slope * (at - inside)
        return exp(float(np.interp(inside, self._sizes, self._values)) + beyond)


def _over_sizes(known: Sequence[tuple[float, float]], *, grows: bool) -> _OverSizes | None:
    if len(known) < (2 if grows else 1):
        return None
    sizes, values = zip(*known, strict=True)
    return _OverSizes(sizes, values, grows=grows)


def _between(budgets: Sequence[int], largest: float) -> list[float]:
    """Round sizes from the smallest budget to the largest size, which is included; sizes whose text
    equals that of a budget are left out."""
    smallest, taken = min(budgets), {rounded_count(size) for size in (*budgets, largest)}
    powers = range(floor(log10(smallest)), ceil(log10(largest)))
    rounded = [digits * 10.0**power for power in powers for digits in ROUND]
    inside = [s for s in rounded if smallest < s < largest and rounded_count(s) not in taken]
    return inside + [largest] * (largest > max(budgets))


def _spread(best: int) -> list[int]:
    """Whole depths around a best one, evenly spread on a log scale."""
    half = MOST_DEPTHS // 2
    factors = [SPREAD ** (i / half) for i in range(-half, half + 1)]
    return sorted({max(1, round(best * factor)) for factor in factors})


def _thinned(depths: Sequence[int], best: int) -> list[int]:
    """All depths if there are at most `MOST_DEPTHS`; otherwise the two ends, the best, and about as
    many depths around it, evenly spread on a log scale."""
    if len(depths) <= MOST_DEPTHS:
        return list(depths)
    wanted = [*_spread(best), depths[0], depths[-1]]
    return sorted({min(depths, key=lambda d: abs(log(d / each))) for each in wanted} | {best})
