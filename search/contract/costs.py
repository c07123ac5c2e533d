"""What other depths cost, in nats and as a multiple of compute."""

from collections.abc import Iterator, Sequence

import numpy as np

from fathom.search.analysis.depth_estimates import Array
from fathom.search.analysis.loss_law import LossLaw, fit_loss_law, is_determined
from fathom.search.analysis.optimum import Located, Optimum
from fathom.search.analysis.token_law import TOKENS
from fathom.search.conclusion.findings import Findings
from fathom.search.conclusion.token_laws import PartLaw
from fathom.search.contract.reply import StatedCost


def loss_law_of(findings: Findings, laws: Sequence[PartLaw]) -> LossLaw | None:
    """The law of loss over sizes and tokens of these findings; None where none was fitted, or its
    exponents are not determined."""
    known = next((law for law in laws if dict(law.part) == dict(findings.part)), None)
    law = fit_loss_law(known.losses) if known else None
    if law and is_determined(law.alpha_interval) and is_determined(law.beta_interval):
        return law
    return None


def depth_costs(optimum: Optimum, law: LossLaw | None) -> Iterator[StatedCost]:
    """Yields what each other depth costs, ascending; nothing with fewer than three depths."""
    counted = optimum.count.of_parameters and optimum.horizon_unit == TOKENS
    for cost in optimum.costs if isinstance(optimum, Located) else ():
        low, high = cost.interval
        compute = None
        if law and counted:
            compute = multiples_of_compute(law, optimum, np.array([low, cost.nats, high]))
        yield StatedCost(
            depth=cost.depth,
            nats=cost.nats,
            nats_interval=cost.interval,
            compute=compute[1] if compute else None,
            compute_interval=(compute[0], compute[2]) if compute else None,
        )


def multiples_of_compute(
    law: LossLaw, optimum: Optimum, nats: Array
) -> tuple[float, float, float] | None:
    """The multiples of compute that make up for the low end, the middle and the high end of a loss
    above the best, (3,): the ends are those of 95 % of what the law may be as well.

    Of compute that is spent well, the loss above the floor falls as `C^-g`, g = alpha beta / (alpha
    + beta). None where a draw of the law has the budget at its floor.
    """
    draws = np.vstack([law.constants[None], law.draws])
    floor, alpha, beta = np.exp(draws[:, 0]), draws[:, 3], draws[:, 4]
    size, tokens = np.array([float(optimum.budget)]), np.array([float(optimum.tokens)])
    above = law.loss(draws, size, tokens)[:, 0] - floor
    if above.min() <= 0:
        return None
    shares = np.maximum(0.0, 1 + nats[None] / above[:, None])
    multiples = shares ** ((alpha + beta) / (alpha * beta))[:, None]
    low, high = np.quantile(multiples[1:, 0], 0.025), np.quantile(multiples[1:, 2], 0.975)
    return float(low), float(multiples[0, 1]), float(high)
