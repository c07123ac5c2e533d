"""Induction: a block of random tokens is repeated, and the model is to continue it.

Elhage et al. 2021, Olsson et al. 2022: two layers do it (one to see the token before, one to find
its earlier copy), one layer does not. Positions alone tell nothing: each sequence has its own
length of block, distance between copies and start.

A sequence is the start, filler, then copies of the block with filler between. A block's tokens all
differ, and none is filler, so the token after an earlier copy is the right answer. Targets are the
tokens of later copies but the first of each copy, which is not predictable.

The baseline counts tokens without their order: it knows that the next token occurred once less
than the current one, and guesses among all such tokens.

Shapes: B batch, N tokens after the start, S symbols, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fathom.objectives.contract import IGNORED, Batch
from fathom.objectives.random_numbers import held_out_draws
from fathom.papers.tasks.induction.keys import FIRST_SYMBOL, START, InductionConfig
from fathom.papers.tasks.objective import SyntheticObjective

BASELINE_SEQUENCES = 256
"""Sequences that the baseline is measured on."""
BASELINE_PART = 10**9
"""Seeds of the baseline's sequences start here, beyond those of the evaluation, which are gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Induction(SyntheticObjective):
    """The objective `induction`."""

    keys: InductionConfig
    letter = "gap"

    @classmethod
    def prepare(cls, keys: InductionConfig) -> Self:
        """The objective with its measured baselines; reads nothing."""
        task = cls(keys=keys)
        return cls(keys=keys, baselines={gap: task._baseline(gap) for gap in task.difficulties})

    @property
    def difficulties(self) -> Sequence[int]:
        """The shortest gap, the middle one and the longest."""
        low, high = self.keys.gap
        return sorted({low, (low + high) // 2, high})

    def _baseline(self, gap: int) -> float:
        draws = held_out_draws(BASELINE_PART + gap)
        return counting_error(self.draw(BASELINE_SEQUENCES, gap, draws)[0], self.vocab_size)

    def draw(self, rows: int, difficulty: int | None, draws: Generator) -> tuple[Batch, Tensor]:
        """Sequences (B, N) with uniform lengths of block and gap, or the gap `difficulty`, and a
        uniform place of the first copy; and the mask (B, N) of the targets asked."""
        gap = self.keys.gap if difficulty is None else (difficulty, difficulty)
        blocks_B1 = self._uniform(rows, *self.keys.block, draws)
        periods_B1 = blocks_B1 + self._uniform(rows, *gap, draws)
        # Two copies fit behind the latest first one.
        room_B1 = self.context - periods_B1 - blocks_B1
        share_B1 = torch.rand(rows, 1, generator=draws)
        firsts_B1 = (share_B1 * room_B1).long()
        after_BN = torch.arange(self.context) - firsts_B1
        within_BN = after_BN % periods_B1
        copied_BN = (after_BN >= 0) & (within_BN < blocks_B1)
        tokens_BN = self._tokens(within_BN, copied_BN, blocks_B1, draws)
        asked_BN = copied_BN & (after_BN >= periods_B1) & (within_BN > 0)
        inputs_BN = F.pad(tokens_BN[:, :-1], (1, 0), value=START)
        return Batch(inputs_BN, targets=tokens_BN.where(asked_BN, IGNORED)), asked_BN

    def _tokens(
        self, within_BN: Tensor, copied_BN: Tensor, blocks_B1: Tensor, draws: Generator
    ) -> Tensor:
        """Token ids (B, N): the first of the shuffled symbols are the block, the others filler."""
        rows = len(blocks_B1)
        keys_BS = torch.rand(rows, self.keys.symbols, generator=draws)
        shuffled_BS = keys_BS.argsort(1) + FIRST_SYMBOL
        share_BN = torch.rand(copied_BN.shape, generator=draws)
        filler_BN = blocks_B1 + (share_BN * (self.keys.symbols - blocks_B1)).long()
        # A share near 1 may round up to the number of symbols.
        filler_BN = filler_BN.clamp(max=self.keys.symbols - 1)
        return shuffled_BS.gather(1, within_BN.where(copied_BN, filler_BN))

    def _uniform(self, rows: int, low: int, high: int, draws: Generator) -> Tensor:
        """Draws uniform whole numbers (B, 1) from `low` to `high`, both included."""
        return torch.randint(low, high + 1, (rows, 1), generator=draws)


def counting_error(batch: Batch, vocab_size: int) -> float:
    """Error of a guess among the symbols that occurred once less than the current token.

    The answer is among them: each copy has each of its tokens once, and the current one already.
    """
    seen_BNV = F.one_hot(batch.inputs, vocab_size).cumsum(1)
    current_BN1 = seen_BNV.gather(2, batch.inputs[:, :, None])
    alike_BNV = (seen_BNV == current_BN1 - 1)[:, :, FIRST_SYMBOL:]
    asked_BN = batch.targets != IGNORED
    choices = alike_BNV.sum(2)[asked_BN]
    return float((1 - 1 / choices).mean())
