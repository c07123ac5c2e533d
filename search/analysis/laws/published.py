"""Published recommendations: a law of depth, a law of size, and a rule of thumb for size."""

from dataclasses import dataclass
from math import exp

import numpy as np

from fathom.search.analysis.laws.law import (
    LOGARITHMIC,
    Prediction,
    check_params,
    checked_depth,
    depth_and_slopes,
)

LEVINE = "levine2020"
LEVINE_A, LEVINE_B = 5.039, 0.0555
LEVINE_DEPTHS = (6, 48)
"""Constants of arXiv 2006.12467 and the depths that they were fitted on."""
TRILLION_NOTE = "At 1T the published constants give depth 95; the authors' own blog says 92."

TOKENS_OF_A_RULE = 20
"""Tokens per parameter of the rule of thumb attributed to Hoffmann et al. 2022."""
CHINCHILLA = (406.4, 0.34, 410.7, 0.28)
"""A, alpha, B and beta of `E + A N^-alpha + B D^-beta`, by approach 3 of arXiv 2203.15556."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A model of Brown et al. 2020 (GPT-3) as it was trained."""

    name: str
    depth: int | None
    """Depth as trained; None where no model of that size was trained."""
    d_model: int | None
    params: float
    """Parameters without embeddings: `12 * depth * d_model**2` to three digits, as sizes are
    quoted."""


def _gpt3(name: str, depth: int, d_model: int) -> Trained:
    size = float(f"{12 * depth * d_model**2:.3g}")
    return Trained(name=name, depth=depth, d_model=d_model, params=size)


GPT3 = (
    _gpt3("125M", 12, 768),
    _gpt3("350M", 24, 1024),
    _gpt3("760M", 24, 1536),
    _gpt3("1.3B", 24, 2048),
    _gpt3("2.7B", 32, 2560),
    _gpt3("6.7B", 32, 4096),
    _gpt3("13B", 40, 5140),
    _gpt3("175B", 96, 12288),
    Trained(name="1T", depth=None, d_model=None, params=1e12),
)
"""The sizes of GPT-3 by their usual names, and one larger size."""


class Levine2020:
    """The published logarithmic law, over parameters without embeddings."""

    def predict(self, params: float, tokens: float | None = None) -> Prediction:
        """The published depth and width for a number of parameters, whatever the `tokens`.

        >>> found = Levine2020().predict(175e9)
        >>> round(found.depth, 1), found.extrapolated
        (80.5, True)

        Raises:
            ValueError: below about 0.32M parameters, where the law has no depth of at least 1.
        """
        check_params(params)
        line = np.array([LEVINE_A, LEVINE_B])
        depth = float(depth_and_slopes(LOGARITHMIC, line, np.array([params]))[0][0])
        found = checked_depth(depth, params, "the law of Levine et al. 2020")
        low, high = LEVINE_DEPTHS
        return Prediction(
            params=params,
            law=LEVINE,
            depth=found,
            d_model=exp(LEVINE_A + LEVINE_B * found),
            interval=None,
            extrapolated=not low <= found <= high,
        )


def published_sizes(flops: float) -> dict[str, float]:
    """Name of a published rule -> the parameters that it chooses for so many FLOPs, at 6 for each
    parameter and token.

    >>> {name: f"{size:.3g}" for name, size in published_sizes(5.88e23).items()}
    {'20 tokens a parameter': '7e+10', 'Hoffmann et al. 2022': '3.25e+10'}
    """
    a, alpha, b, beta = CHINCHILLA
    balance = (alpha * a / (beta * b)) ** (1 / (alpha + beta))
    return {
        f"{TOKENS_OF_A_RULE} tokens a parameter": (flops / 6 / TOKENS_OF_A_RULE) ** 0.5,
        "Hoffmann et al. 2022": balance * (flops / 6) ** (beta / (alpha + beta)),
    }
