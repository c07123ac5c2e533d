"""Compares a ladder of models with a law of the best depth: finds models at unsuitable depths, and
the error that they cause in a line through the ladder's losses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.laws.law import Prediction, price

OFF = 1.5
"""Factor between a model's depth and the law's from which on the depth counts as off, for a law
without intervals."""
FEWEST_RUNGS = 3
"""Fewest sizes to estimate the error of a line."""
BEYOND = 10
"""Multiple of the largest size at which the line through the ladder is read."""
WIDTH_STEPS = (128, 64, 8, 1)
"""Candidate steps of widths: widths of a new ladder are multiples of the first step that divides
all widths of the given one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRung:
    """A model of a ladder."""

    name: str
    params: int
    depth: int
    d_model: int | None
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRung:
    """A model of a ladder with the law's prediction for its size."""

    rung: LadderRung
    prediction: Prediction | None
    """None where the law has no depth of at least 1 at this size."""
    cost: float | None
    """Expected loss above that of the best depth, nats; None where the cost of depths is not
    known."""
    cost_interval: tuple[float, float] | None
    """Least and most cost, nats, if the best depth is anywhere in the law's interval; the least is
    0 for a depth inside."""

    @property
    def factor(self) -> float | None:
        """Depth of the model divided by the law's depth; None where the law has none."""
        return self.rung.depth / self.prediction.depth if self.prediction else None

    @property
    def is_off(self) -> bool:
        """True if the depth lies outside the law's interval or, without an interval, is a factor of
        `OFF` away, and its cost is not known to be within the width of a plateau."""
        found = self.prediction
        if found is None:
            return False
        if found.interval is None:
            away = not 1 / OFF < self.rung.depth / found.depth < OFF
        else:
            away = not found.interval[0] <= self.rung.depth <= found.interval[1]
        return away and (self.cost is None or self.cost > PLATEAU_WIDTH)


def check_rung(
    rung: LadderRung, prediction: Prediction | None, curvature: float | None
) -> CheckedRung:
    """A model compared with a law's prediction; `curvature` is the cost, nats, of a unit of ln
    depth away from the best."""
    if prediction is None or curvature is None:
        return CheckedRung(rung=rung, prediction=prediction, cost=None, cost_interval=None)
    cost = price(rung.depth, prediction, curvature)
    return CheckedRung(
        rung=rung,
        prediction=prediction,
        cost=cost.nats,
        cost_interval=cost.interval if prediction.interval else None,
    )


def bend(checked: Sequence[CheckedRung]) -> float | None:
    """Nats by which a line through the losses over ln parameters is too high at `BEYOND` times the
    largest model, only because of the models' depths; None with fewer than three sizes of known
    cost."""
    known = [(log(each.rung.params), each.cost) for each in checked if each.cost is not None]
    if len({size for size, _ in known}) < FEWEST_RUNGS:
        return None
    sizes, costs = np.array(known).T
    slope, level = np.polyfit(sizes, costs, 1)
    return float(level + slope * (sizes.max() + log(BEYOND)))


def ladder_by_law(checked: Sequence[CheckedRung]) -> list[LadderRung | None]:
    """The models at the law's depths, with widths that keep the parameters of their layers or, if a
    model has no width, all its parameters; None for a model for which the law has no depth."""
    widths = [each.rung.d_model for each in checked if each.rung.d_model]
    step = next(step for step in WIDTH_STEPS if not any(width % step for width in widths))
    return [_by_law(each.rung, each.prediction, step) for each in checked]


def _by_law(rung: LadderRung, prediction: Prediction | None, step: int) -> LadderRung | None:
    if prediction is None:
        return None
    depth = max(1, round(prediction.depth))
    in_layers = rung.depth * rung.d_model**2 if rung.d_model else rung.params / 12
    width = step * max(1, round(sqrt(in_layers / depth) / step))
    return replace(rung, depth=depth, d_model=width)
