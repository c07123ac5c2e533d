"""The next trainings for a question, with their sizes and prices, for `--json`."""

from fathom.models.shape import Shape
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.conclusion.findings import Findings
from fathom.search.contract.reply import ExpectedGain, NextTraining, Price, Sizes
from fathom.search.scheduling.offers import Offer
from fathom.search.tables.grouped.sizes import SizedShape


def next_trainings(
    findings: Findings, optimum: Optimum, noise: float | None
) -> tuple[NextTraining, ...]:
    """The next trainings for an answer; empty if it is settled, or no training helps. `noise`
    between seeds is None if not stated."""
    return tuple(_training(offer, optimum) for offer in findings.offers(optimum, noise))


def _training(offer: Offer, optimum: Optimum) -> NextTraining:
    choice, costs = offer.training, offer.costs(optimum)
    return NextTraining(
        shape=_sizes(choice.shape),
        seed=choice.seed,
        rate_scale=choice.rate_scale,
        decay_scale=choice.decay_scale,
        tokens=costs.tokens,
        price=Price(flops=costs.flops, seconds=costs.seconds),
        brings=ExpectedGain(text=offer.brings, doubt_left=offer.doubt_left),
    )


def _sizes(shape: Shape) -> Sizes:
    """The sizes of a shape; for a table's shape only depth and width, as others may be assumed."""
    if isinstance(shape, SizedShape):
        return Sizes(depth=shape.depth, d_model=shape.d_model)
    return Sizes.model_validate(shape)
