"""k-hop induction heads: Sanford, Hsu, Telgarsky 2024 (arXiv 2402.09268), Definition 4.1, App. G.1.

A sequence is k, then symbols X of which no two neighbours are equal. The answer at each symbol is
the symbol that k hops lead to; a hop goes from X_i to the symbol after the last earlier X_i:

    find(i) = max({0} u {j <= i : X_(j-1) = X_i}),    hop_k(X)_i = X_(find^k(i)), bottom at 0.

A transformer of floor(log2 k) + 2 layers can do it, and one much shallower can't (Theorem 4.2,
Corollary 4.3). The answer at k itself is blank. The loss is that of all positions, as published;
errors are counted where the answer is a symbol.

Shapes: B batch, N symbols of a sequence, S kinds of symbol.
"""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.objectives.contract import Batch, Model
from fathom.objectives.random_numbers import held_out_draws, training_draws
from fathom.objectives.synthetic.k_hop.keys import HopConfig
from fathom.objectives.synthetic.keys import FIRST
from fathom.objectives.synthetic.objective import CPU, SyntheticObjective
from fathom.objectives.synthetic.scoring import ScoredPart, gain, mean_loss, solved, tally
from fathom.objectives.token_loss import token_losses

BASELINE_TOKENS = 200_000
"""Tokens that the baselines are measured on: 2000 sequences of the published length."""
BASELINE_PART = 10**6
"""Seed of the baselines' sequences, beyond those of the evaluation, which are the hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop(SyntheticObjective):
    """The objective `hop`."""

    keys: HopConfig
    baselines: tuple[float, ...]
    """Error of the best answer from k and the current symbol alone, for k = 1, 2, ..., `hops`."""

    @classmethod
    def prepare(cls, keys: HopConfig) -> Self:
        """The objective with its measured baselines; reads nothing."""
        return cls(keys=keys, baselines=baseline_errors(keys))

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Sequences, each with its own k, uniform from 0 to `hops`."""
        draws = training_draws(self.device, seed=seed, step=step)
        hops_B = torch.randint(
            self.keys.hops + 1, (batch_size,), generator=draws, device=self.device
        )
        return self._batch(hops_B, draws)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats over all positions, as published."""
        return token_losses(model, batch).mean()

    def evaluate(self, model: Model) -> dict[str, float]:
        """The loss over equally many sequences of each k; by k, the error and the gain over the
        baseline."""
        tallies = tally(model, map(self._part, range(self.keys.hops + 1)))
        # No error can be measured where no k-th hop of the evaluation leads to a symbol.
        known = {k: tallies[f"k{k}"] for k in range(self.keys.hops + 1)}
        errors = {k: one.error for k, one in known.items() if one.counted}
        gains = {
            k: gain(errors[k], baseline)
            for k, baseline in enumerate(self.baselines, 1)
            if k in errors and baseline
        }
        return (
            {"loss": mean_loss(tallies.values())}
            | {"solved/k": solved((k, error) for k, error in errors.items() if k)}
            | {f"error/k{k}": error for k, error in errors.items()}
            | {f"gain/k{k}": own for k, own in gains.items()}
        )

    def _part(self, k: int) -> ScoredPart:
        draws = held_out_draws(self.device, k)
        batch = self._batch(torch.full((self.keys.eval_examples,), k, device=self.device), draws)
        answers = batch.targets
        counted = (answers != self.keys.blank) & (answers != self.keys.bottom)
        return ScoredPart(name=f"k{k}", batch=batch, counted=counted)

    def _batch(self, hops_B: Tensor, draws: torch.Generator) -> Batch:
        symbols_BN = draw_symbols(
            (len(hops_B), self.keys.context - 1), symbols=self.keys.symbols, draws=draws
        )
        places_BN = hop_places(symbols_BN, hops_B, symbols=self.keys.symbols, most=self.keys.hops)
        found_BN = symbols_BN.gather(1, places_BN.clamp(min=0)) + FIRST
        answers_BN = found_BN.where(places_BN >= 0, self.keys.bottom)
        blank_B1 = torch.full_like(hops_B[:, None], self.keys.blank)
        prefix_B1 = hops_B[:, None] + self.keys.first_prefix
        return Batch(
            inputs=torch.cat((prefix_B1, symbols_BN + FIRST), 1),
            targets=torch.cat((blank_B1, answers_BN), 1),
        )


def draw_symbols(shape: tuple[int, int], *, symbols: int, draws: torch.Generator) -> Tensor:
    """Uniform symbols (B, N) from 0, no two neighbours equal."""
    device = draws.device
    steps_BN = torch.randint(1, symbols, shape, generator=draws, device=device)
    steps_BN[:, 0] = torch.randint(symbols, shape[:1], generator=draws, device=device)
    return steps_BN.cumsum(1) % symbols


def hop_places(symbols_BN: Tensor, hops_B: Tensor, *, symbols: int, most: int) -> Tensor:
    """Positions (B, N) that k hops, at most `most`, lead to from each position; -1 if to none."""
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


def baseline_errors(keys: HopConfig) -> tuple[float, ...]:
    """Error of the best answer from k and the current symbol alone, for k = 1, 2, ..., `hops`.

    All symbols are alike, so it either repeats the current one or names one of the others. Both
    would be wrong 1 - 1/S of the time if hops were random; but neighbours differ, so one hop never
    leads to the same symbol and two hops often do.
    """
    draws = held_out_draws(CPU, BASELINE_PART)
    length, symbols = keys.context - 1, keys.symbols
    shape = (max(1, BASELINE_TOKENS // length), length)
    symbols_BN = draw_symbols(shape, symbols=symbols, draws=draws)
    return tuple(_baseline_error(symbols_BN, k, symbols) for k in range(1, keys.hops + 1))


def _baseline_error(symbols_BN: Tensor, k: int, symbols: int) -> float:
    hops_B = torch.full((len(symbols_BN),), k)
    places_BN = hop_places(symbols_BN, hops_B, symbols=symbols, most=k)
    answered_BN = places_BN >= 0
    same_BN = symbols_BN.gather(1, places_BN.clamp(min=0)) == symbols_BN
    same = float((same_BN & answered_BN).sum()) / max(1.0, float(answered_BN.sum()))
    return 1 - max(same, (1 - same) / (symbols - 1))
