"""Induction: a block of random tokens comes again and again, and is to be continued.

Elhage et al. 2021, Olsson et al. 2022: two layers do it (one to see the token before, one to find
where that was), one layer does not. What a position alone would tell is taken away: each sequence
has its own length of block, distance between copies and start.

What can be had without order is subtracted as well: whoever only counts knows that the next token
was seen once less than the current one, and guesses between all such.

A sequence is `start`, filler, then copies of the block with filler between; a block's tokens all
differ, and none is filler, so that what followed a token last time is what follows it now. Asked
is each token of a later copy but the first, which nothing foretells.

Shapes: B batch, N tokens after the start, S symbols.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.random_numbers import held_out_draws, training_draws
from fathom.objectives.synthetic.scoring import ScoredPart, gain, mean_loss, tally
from fathom.objectives.synthetic.sizes import INDUCTION_START, induction_vocabulary
from fathom.objectives.token_loss import masked_loss

BASELINE_SEQUENCES = 256
BASELINE_PART = 10**9
"""Their numbers' place beside those of the evaluation's parts, which are the gaps."""
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Induction:
    """Fresh sequences, drawn on the device."""

    symbols: int
    block: tuple[int, int]
    gap: tuple[int, int]
    context: int
    eval_examples: int
    baselines: Mapping[int, float] = field(default_factory=dict)
    """By gap, the error of whoever counts but has no order."""
    device: torch.device = CPU

    @classmethod
    def prepare(
        cls,
        *,
        symbols: int,
        block: Sequence[int],
        gap: Sequence[int],
        context: int,
        eval_examples: int,
    ) -> Self:
        """Measures the baselines; reads nothing."""
        task = cls(
            symbols=symbols,
            block=(block[0], block[1]),
            gap=(gap[0], gap[1]),
            context=context,
            eval_examples=eval_examples,
        )
        baselines = {own: task._baseline(own) for own in task._gaps()}
        return dataclasses.replace(task, baselines=baselines)

    @property
    def vocab_size(self) -> int:
        """Symbols, the start and padding."""
        return induction_vocabulary(self.symbols)

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The same, drawing on the device."""
        return dataclasses.replace(self, device=device)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Lengths of blocks and gaps and the place of the first copy are uniform."""
        draws = training_draws(self.device, seed=seed, step=step)
        return self._batch(batch_size, draws, self.gap)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats for each token that earlier ones foretell."""
        return masked_loss(model, batch)

    def evaluate(self, model: Model) -> dict[str, float]:
        """Loss; error, and the baseline's errors that are gone, by the length of the gap."""
        tallies = tally(model, map(self._part, self._gaps()))
        errors = {gap: tallies[f"gap{gap}"].error for gap in self._gaps()}
        return (
            {"loss": mean_loss(tallies.values())}
            | {f"error/gap{gap}": error for gap, error in errors.items()}
            | {
                f"gain/gap{gap}": gain(errors[gap], baseline)
                for gap, baseline in self.baselines.items()
                if baseline
            }
        )

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Nothing: every evaluation is complete."""
        return {}

    def _gaps(self) -> list[int]:
        """The shortest gap, the middle and the longest."""
        low, high = self.gap
        return sorted({low, (low + high) // 2, high})

    def _part(self, gap: int) -> ScoredPart:
        batch = self._batch(self.eval_examples, held_out_draws(self.device, gap), (gap, gap))
        return ScoredPart(name=f"gap{gap}", batch=batch, counted=batch.targets != IGNORED)

    def _baseline(self, gap: int) -> float:
        draws = held_out_draws(CPU, BASELINE_PART + gap)
        return counting_error(self._batch(BASELINE_SEQUENCES, draws, (gap, gap)), self.vocab_size)

    def _batch(self, rows: int, draws: torch.Generator, gap: tuple[int, int]) -> Batch:
        blocks_B1 = self._uniform(rows, *self.block, draws)
        periods_B1 = blocks_B1 + self._uniform(rows, *gap, draws)
        # Two copies fit behind the latest first one.
        room_B1 = self.context - periods_B1 - blocks_B1
        share_B1 = torch.rand(rows, 1, generator=draws, device=draws.device)
        firsts_B1 = (share_B1 * room_B1).long()
        after_BN = torch.arange(self.context, device=self.device) - firsts_B1
        within_BN = after_BN % periods_B1
        copied_BN = (after_BN >= 0) & (within_BN < blocks_B1)
        tokens_BN = self._tokens(within_BN, copied_BN, blocks_B1, draws)
        asked_BN = copied_BN & (after_BN >= periods_B1) & (within_BN > 0)
        return Batch(
            inputs=F.pad(tokens_BN[:, :-1], (1, 0), value=INDUCTION_START),
            targets=tokens_BN.where(asked_BN, IGNORED),
        )

    def _tokens(
        self, within_BN: Tensor, copied_BN: Tensor, blocks_B1: Tensor, draws: torch.Generator
    ) -> Tensor:
        """The first of the shuffled symbols are the block, in order; the others are filler."""
        rows = len(blocks_B1)
        keys_BS = torch.rand(rows, self.symbols, generator=draws, device=self.device)
        shuffled_BS = keys_BS.argsort(1) + INDUCTION_START + 1
        share_BN = torch.rand(copied_BN.shape, generator=draws, device=self.device)
        filler_BN = blocks_B1 + (share_BN * (self.symbols - blocks_B1)).long()
        # A share near 1 may round up to the number of symbols.
        filler_BN = filler_BN.clamp(max=self.symbols - 1)
        return shuffled_BS.gather(1, within_BN.where(copied_BN, filler_BN))

    def _uniform(self, rows: int, low: int, high: int, draws: torch.Generator) -> Tensor:
        """Whole numbers from `low` to `high`, both included, (B, 1)."""
        return torch.randint(low, high + 1, (rows, 1), generator=draws, device=self.device)


def counting_error(batch: Batch, vocab_size: int) -> float:
    """Error of a guess between all symbols that were seen once less than the current token.

    The answer is among them: a copy repeats each of its tokens once, and the current one by now.
    """
    seen_BNV = F.one_hot(batch.inputs, vocab_size).cumsum(1)
    current_BN1 = seen_BNV.gather(2, batch.inputs[:, :, None])
    alike_BNV = (seen_BNV == current_BN1 - 1)[:, :, INDUCTION_START + 1 :]
    asked_BN = batch.targets != IGNORED
    choices = alike_BNV.sum(2)[asked_BN]
    return float((1 - 1 / choices).mean())
