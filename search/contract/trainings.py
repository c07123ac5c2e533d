"""The next trainings for a question with their sizes and prices, in the form that programs read."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import median

from fathom.models.shape import Shape
from fathom.models.spend import OTHER_COINS, Coin
from fathom.search.analysis.compute_law import training_flops
from fathom.search.analysis.optimum import Optimum
from fathom.search.conclusion.findings import Findings
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


@dataclass(frozen=True)
class _Prices:
    """Prices of trainings for an answer, by the trials of its budget."""

    optimum: Optimum
    records: Sequence[TrialRecord]

    def training(self, offer: Offer) -> NextTraining:
        choice, tokens = offer.training, self._tokens(offer.training.shape)
        return NextTraining(
            shape=_sizes(choice.shape),
            seed=choice.seed,
            rate_scale=choice.rate_scale,
            decay_scale=choice.decay_scale,
            tokens=tokens if self.optimum.spend.coin else None,
            price=Price(
                flops=self._flops(choice.shape, tokens), seconds=self._seconds(choice.shape)
            ),
            brings=Brings(text=offer.brings, doubt_left=offer.doubt_left),
        )

    def _tokens(self, shape: Shape) -> int | None:
        """What a training of a shape takes; None where it trains for seconds, untimed."""
        spend = self.optimum.spend
        if spend.coin not in OTHER_COINS:
            return self.optimum.tokens
        if spend.coin.of_a_token:
            return round(spend.amount / spend.coin.of_a_token(shape))
        specs = (record.spec for record in self.records)
        return next((spec.horizon_tokens for spec in specs if spec.shape == shape), None)

    def _flops(self, shape: Shape, tokens: int | None) -> float | None:
        """Operations of a training; None where they are not known."""
        if isinstance(shape, SizedShape) or self.optimum.spend.coin is Coin.FLOPS:
            return training_flops(replace(self.optimum, shape=None))
        return None if tokens is None else shape.train_flops_per_token * tokens

    def _seconds(self, shape: Shape) -> float | None:
        """Seconds that finished trainings of the nearest depth took, in the median; else those that
        all trainings spend."""
        took = defaultdict(list)
        for record in self.records:
            if record.loss is not None:
                took[record.spec.shape.depth].append(record.train_seconds)
        near = min(took, key=lambda depth: abs(log(depth / shape.depth)), default=None)
        if near:
            return median(took[near]) or None
        spend = self.optimum.spend
        return spend.amount if spend.coin is Coin.SECONDS else None


def _sizes(shape: Shape) -> Sizes:
    """The sizes of a shape; of a table's, which need not say the others, depth and width."""
    if isinstance(shape, SizedShape):
        return Sizes(depth=shape.depth, d_model=shape.d_model)
    return Sizes.model_validate(shape)
