"""k-hop induction heads: Sanford, Hsu, Telgarsky 2024 (arXiv 2402.09268), Definition 4.1, App. G.1.

A sequence is k, then symbols X of which no two neighbours are equal. The answer at each symbol is
the symbol that k hops lead to; a hop goes from X_i to the symbol after the last earlier X_i:

    find(i) = max({0} u {j <= i : X_(j-1) = X_i}),    hop_k(X)_i = X_(find^k(i)), bottom at 0.

A transformer of floor(log2 k) + 2 layers can do it, and one much shallower can't (Theorem 4.2,
Corollary 4.3). The answer at k itself is blank. The loss is that of all positions, as published;
errors are counted where the answer is a symbol.

Shapes: B batch, N symbols of a sequence, S kinds of symbol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fathom.objectives.contract import Batch, Model
from fathom.objectives.random_numbers import held_out_draws
from fathom.objectives.token_loss import mean_loss
from fathom.papers.tasks.k_hop.keys import HopConfig
from fathom.papers.tasks.keys import FIRST
from fathom.papers.tasks.objective import SyntheticObjective

BASELINE_TOKENS = 200_000
"""Tokens that the baselines are measured on: 2000 sequences of the published length."""
BASELINE_PART = 10**6
"""Seed of the baselines' sequences, beyond the seeds of the evaluation, which are numbers of
hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop(SyntheticObjective):
    """The objective `hop`."""

    keys: HopConfig
    letter = "k"
    has_solved = True

    @classmethod
    def prepare(cls, keys: HopConfig) -> Self:
        """The objective with its measured baselines; reads nothing."""
        return cls(keys=keys, baselines=baseline_errors(keys))

    @property
    def difficulties(self) -> Sequence[int]:
        """The numbers of hops."""
        return range(self.keys.hops + 1)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats over all positions, a scalar, as published."""
        return mean_loss(model, batch)

    def draw(self, rows: int, difficulty: int | None, draws: Generator) -> tuple[Batch, Tensor]:
        """Sequences (B, T) of k = `difficulty`, random if that is None, and the mask (B, T) of
        answers that are symbols."""
        keys = self.keys
        if difficulty is None:
            hops_B = torch.randint(keys.hops + 1, (rows,), generator=draws)
        else:
            hops_B = torch.full((rows,), difficulty)
        symbols_BN = draw_symbols((rows, keys.context - 1), symbols=keys.symbols, draws=draws)
        places_BN = hop_places(symbols_BN, hops_B, symbols=keys.symbols, most=keys.hops)
        found_BN = symbols_BN.gather(1, places_BN.clamp(min=0)) + FIRST
        answers_BN = found_BN.where(places_BN >= 0, keys.bottom)
        prefix_B1 = hops_B[:, None] + keys.first_prefix
        inputs_BT = torch.cat((prefix_B1, symbols_BN + FIRST), 1)
        targets_BT = F.pad(answers_BN, (1, 0), value=keys.blank)
        return Batch(inputs_BT, targets_BT), F.pad(places_BN >= 0, (1, 0))


def draw_symbols(shape: tuple[int, int], *, symbols: int, draws: Generator) -> Tensor:
    """Uniform symbols (B, N) from 0, no two neighbours equal."""
    steps_BN = torch.randint(1, symbols, shape, generator=draws)
    steps_BN[:, 0] = torch.randint(symbols, shape[:1], generator=draws)
    return steps_BN.cumsum(1) % symbols


def hop_places(symbols_BN: Tensor, hops_B: Tensor, *, symbols: int, most: int) -> Tensor:
    """Positions (B, N) to which `hops_B` hops, at most `most`, lead from each position; -1 if to
    none."""
    here_N = torch.arange(symbols_BN.shape[1], device=symbols_BN.device)
    # Last position of each kind of symbol so far; shifted by one, the last position before here.
    seen_BNS = F.one_hot(symbols_BN, symbols).bool()
    last_BNS = here_N[None, :, None].where(seen_BNS, -1).cummax(1).values
    before_BNS = F.pad(last_BNS[:, :-1], (0, 0, 1, 0), value=-1)
    before_BN = before_BNS.gather(2, symbols_BN[:, :, None])[:, :, 0]
    find_BN = torch.where(before_BN >= 0, before_BN + 1, -1)
    places_BN = here_N.expand_as(symbols_BN)
    for hop in range(most):
        next_BN = find_BN.gather(1, places_BN.clamp(min=0)).where(places_BN >= 0, -1)
        places_BN = next_BN.where(hop < hops_B[:, None], places_BN)
    return places_BN


def baseline_errors(keys: HopConfig) -> dict[int, float]:
    """Error of the best answer from k and the current symbol alone, by k = 1, 2, ..., `hops`.

    All symbols are alike, so this answer either repeats the current one or names one of the others.
    Both would be wrong 1 - 1/S of the time if hops were random; but neighbours differ, so one hop
    never leads to the same symbol and two hops often do.
    """
    draws = held_out_draws(BASELINE_PART)
    length, symbols = keys.context - 1, keys.symbols
    shape = (max(1, BASELINE_TOKENS // length), length)
    symbols_BN = draw_symbols(shape, symbols=symbols, draws=draws)
    return {k: _baseline_error(symbols_BN, k, symbols) for k in range(1, keys.hops + 1)}


def _baseline_error(symbols_BN: Tensor, k: int, symbols: int) -> float:
    hops_B = torch.full((len(symbols_BN),), k)
    places_BN = hop_places(symbols_BN, hops_B, symbols=symbols, most=k)
    answered_BN = places_BN >= 0
    same_BN = symbols_BN.gather(1, places_BN.clamp(min=0)) == symbols_BN
    same = float((same_BN & answered_BN).sum()) / max(1.0, float(answered_BN.sum()))
    return 1 - max(same, (1 - same) / (symbols - 1))
