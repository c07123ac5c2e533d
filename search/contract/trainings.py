"""The next trainings for a question with their sizes and prices, in the form that programs read."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from fathom.models.shape import Shape
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.scaled_shape import FLOPS_OF_A_PARAMETER
from fathom.search.analysis.token_law import TOKENS
from fathom.search.conclusion.findings import SIZES, Findings
from fathom.search.contract.reply import Brings, NextTraining, Price, Sizes
from fathom.search.records import TrialRecord
from fathom.search.scheduling.offers import Offer
from fathom.search.tables.sizes import SizedShape


def next_trainings(
    findings: Findings, optimum: Optimum, noise: float | None
) -> tuple[NextTraining, ...]:
    """The next trainings for an answer; none where it is settled or none helps. `noise` between
    seeds, nats, if it was stated."""
    prices = _Prices(optimum, findings.records_of(optimum.budget))
    return tuple(prices.training(offer) for offer in findings.offers(optimum, noise))


def sizes_of(shape: Shape, known: Sequence[str] = SIZES) -> Sizes:
    """The `known` sizes of a shape in the form that programs read; the others are null."""
    return Sizes.model_validate(dict.fromkeys(SIZES) | {n: getattr(shape, n) for n in known})


@dataclass(frozen=True)
class _Prices:
    """Prices of trainings for an answer, by the trials of its budget."""

    optimum: Optimum
    records: Sequence[TrialRecord]

    def training(self, offer: Offer) -> NextTraining:
        choice, tokens = offer.training, self._tokens(offer.training.shape)
        # A table need not say the other sizes.
        known = ("depth", "d_model") if isinstance(choice.shape, SizedShape) else SIZES
        return NextTraining(
            shape=sizes_of(choice.shape, known),
            seed=choice.seed,
            rate_scale=choice.rate_scale,
            decay_scale=choice.decay_scale,
            tokens=tokens if self.optimum.horizon_unit else None,
            price=Price(
                flops=self._flops(choice.shape, tokens), seconds=self._seconds(choice.shape)
            ),
            brings=Brings(text=offer.brings, doubt_left=offer.doubt_left),
        )

    def _tokens(self, shape: Shape) -> int | None:
        """What a training of a shape takes; None where it trains for seconds, untimed."""
        if self.optimum.seconds_to_spend is not None:
            specs = (record.spec for record in self.records)
            return next((spec.horizon_tokens for spec in specs if spec.shape == shape), None)
        flops = self.optimum.flops_to_spend
        return self.optimum.tokens if flops is None else round(flops / shape.train_flops_per_token)

    def _flops(self, shape: Shape, tokens: int | None) -> float | None:
        """Operations of a training; None where they are not known."""
        known = self.optimum
        if known.flops_to_spend is not None or tokens is None:
            return known.flops_to_spend
        if not isinstance(shape, SizedShape):
            return shape.train_flops_per_token * tokens
        of_tokens = known.count.of_parameters and known.horizon_unit == TOKENS
        return FLOPS_OF_A_PARAMETER * known.budget * tokens if of_tokens else None

    def _seconds(self, shape: Shape) -> float | None:
        """Seconds that finished trainings of the nearest depth took, in the median; else those that
        all trainings spend."""
        took = defaultdict(list)
        for record in self.records:
            if record.loss is not None and record.curve:
                took[record.spec.shape.depth].append(record.curve[-1].train_seconds)
        near = min(took, key=lambda depth: abs(log(depth / shape.depth)), default=None)
        return (median(took[near]) or None) if near else self.optimum.seconds_to_spend
