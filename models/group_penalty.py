"""The penalty of auto-sizing: a norm, a strength and groups of weights. Standard library only."""

from dataclasses import dataclass
from enum import StrEnum

BY_LAYER = "by_layer/"
"""Prefix of metrics that are of one layer each."""


class GroupNorm(StrEnum):
    """Norms of a group of weights; the penalty is their sum over groups."""

    L21 = "l21"
    """Root of the sum of squares: every weight of a group shrinks by one factor."""
    LINF1 = "linf1"
    """Largest magnitude: only the largest weights of a group shrink."""


class SizedPart(StrEnum):
    """Parts of a model that auto-sizing may remove, each a kind of group."""

    NEURONS = "neurons"
    """A hidden neuron of a feed-forward branch: its input row, or rows if gated, and biases."""
    ATTENTION_ROWS = "attention_rows"
    """A feature of a query, a key or a value: its input row and bias."""
    HEADS = "heads"
    """A head of keys and values: all input rows and biases of it and of its queries."""
    BRANCHES = "branches"
    """A residual branch: all weights and biases of attention, or of feed-forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPenalty:
    """The penalty of auto-sizing (Murray et al. 2019, arXiv 1910.06717)."""

    norm: GroupNorm
    strength: float
    """Amount that a step takes off a group, as a multiple of the norm of a step in which every
    weight of the group moves by its learning rate. So it means the same for groups of any size."""
    parts: tuple[SizedPart, ...]
    share: float = 1.0
    """Share of the steps, from the first, that penalise; in later steps weights that are zero stay
    zero."""
