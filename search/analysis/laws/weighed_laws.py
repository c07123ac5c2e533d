"""The best depth at a size by both laws of depth, weighted by how well each fits the budgets.

One law's interval ignores the chance that the other law is true: if the logarithmic law fits a
little better but the power law is true, its interval is wrong at large sizes. At 10 to 100 times
the largest of three to five budgets the interval of the law that fits best held the best depth in
59 to 81 % of planted studies, and the mixture's interval in 95 to 98 %
(`tests/search/analysis/laws/test_weighed_laws.py` has a smaller run).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from scipy.optimize import brentq
from scipy.special import ndtr, softmax

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import (
    Law,
    Prediction,
    check_params,
    checked_depth,
    laws_with_evidence,
)

TAILS = 0.025, 0.5, 0.975
"""Quantiles of a prediction: the low end of its 95 % interval, the median, and the high end."""
FURTHEST = 12.0
"""Standard deviations from a law's mean within which every quantile of `TAILS` is searched."""


@dataclass(frozen=True, slots=True)
class WeighedLaw:
    """A law, its probability among the laws, and its prediction at one size."""

    law: Law
    weight: float
    mean: float
    """ln of the best depth at the size asked for."""
    variance: float
    """Variance of `mean`, including the scatter of budgets about the law."""


def law_names(weights: Mapping[str, float]) -> str:
    """The names of laws as one text, the likeliest first.

    >>> law_names({"logarithmic": 0.38, "power": 0.62})
    'power and logarithmic'
    """
    return " and ".join(sorted(weights, key=lambda name: -weights[name]))


def law_words(name: str) -> str:
    """The words for a prediction's laws in a sentence.

    >>> law_words("power"), law_words("power and logarithmic")
    ('the power law', 'the power and logarithmic laws')
    """
    return f"the {name} law{'s' if ' and ' in name else ''}"


@dataclass(frozen=True, slots=True)
class WeighedLaws:
    """The laws of depth that fit the budgets of a study, with their probabilities."""

    laws: tuple[Law, ...]
    """The laws, at least one, by ascending error on left-out budgets."""
    weights: dict[str, float]
    """Name of a law -> its probability among the laws."""

    @property
    def name(self) -> str:
        """The names of the laws as one text, the likeliest first, as in `Prediction.law`."""
        return law_names(self.weights)

    @property
    def params_range(self) -> tuple[int, int]:
        """Smallest and largest budget that the laws were fitted to."""
        return self.laws[0].params_range

    def at(self, params: float) -> tuple[WeighedLaw, ...]:
        """Each law with its prediction of the best depth at a size."""
        found = ((law, *law.depth_at(params)) for law in self.laws)
        return tuple(
            WeighedLaw(law, self.weights[law.name], log(depth), variance)
            for law, depth, variance in found
        )

    def predict(self, params: float, tokens: float | None = None) -> Prediction:
        """The median of the best depth at a size, with its 95 % interval, whatever the `tokens`.

        Raises:
            ValueError: when the best depth would be below 1 there.
        """
        check_params(params)
        laws, (smallest, largest) = self.at(params), self.params_range
        low, middle, high = (_quantile(laws, share) for share in TAILS)
        depth = checked_depth(middle, params, law_words(self.name))
        return Prediction(
            params=params,
            law=self.name,
            depth=depth,
            d_model=sqrt(params / (12 * depth)),
            interval=(max(1.0, low), max(1.0, high)),
            extrapolated=not smallest <= params <= largest,
        )


def weigh_laws(optima: Sequence[Optimum]) -> WeighedLaws | None:
    """The laws that fit the optima of the budgets; None if no law fits, for example with fewer than
    three usable budgets."""
    evidence = laws_with_evidence(optima)
    if not evidence:
        return None
    shares = softmax(list(evidence.values())).tolist()
    weights = {law.name: share for law, share in zip(evidence, shares, strict=True)}
    return WeighedLaws(tuple(evidence), weights)


def _quantile(laws: Sequence[WeighedLaw], share: float) -> float:
    """The depth below which the best depth lies with probability `share`."""
    ends = [each.mean + side * FURTHEST * sqrt(each.variance) for each in laws for side in (-1, 1)]

    def excess(log_depth: float) -> float:
        below = (each.weight * ndtr((log_depth - each.mean) / sqrt(each.variance)) for each in laws)
        return float(sum(below)) - share

    return exp(float(brentq(excess, min(ends), max(ends))))
