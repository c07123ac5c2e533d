"""The languages L_k of alternating blocks: Yang, Cadilhac, Chiang 2025 (arXiv 2506.16055).

A string of L_k is k blocks of a and b in turn, a first: for k = 3, a+ b+ a+. The answer at each
letter says if the last block has begun. Their theory says which depth is enough at every length
without positional encodings (`model: {positions: none}`), hence on strings longer than those of
training; their tables draw the boundary at depth k - 2.

A model that sees the current letter alone gets no whole string of three blocks or more right, so
exact match has no baseline to subtract.

Shapes: B batch, N letters, T = N + 1 tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.token_ids import PAD
from fathom.papers.tasks.alternating_blocks import keys as ids
from fathom.papers.tasks.alternating_blocks.keys import BlocksConfig
from fathom.papers.tasks.objective import SyntheticObjective


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks(SyntheticObjective):
    """The objective `blocks`."""

    keys: BlocksConfig

    @property
    def difficulties(self) -> Sequence[int]:
        """Indices of the ranges of lengths; 0 is the range of training."""
        return range(len(self.keys.ranges))

    def evaluate(self, model: Model) -> dict[str, float]:
        """The loss at the training lengths; error and exact match by range of lengths."""
        tallies = self.tallies(model)
        named = {f"{low}-{high}": tallies[at] for at, (low, high) in enumerate(self.keys.ranges)}
        return (
            {"loss": tallies[0].nats / tallies[0].asked}
            | {f"error/{name}": tally.wrong / tally.counted for name, tally in named.items()}
            | {f"exact_match/{name}": it.exact / it.sequences for name, it in named.items()}
        )

    def draw(self, rows: int, difficulty: int | None, draws: Generator) -> tuple[Batch, Tensor]:
        """Strings (B, T) with uniform lengths in a range, the training range if `difficulty` is
        None, and uniform places of the blocks; and the mask (B, T) of their letters."""
        low, high = self.keys.ranges[difficulty or 0]
        lengths_B1 = torch.randint(low, high + 1, (rows, 1), generator=draws)
        numbers_BN = block_numbers(lengths_B1, high, self.keys.blocks, draws)
        inside_BN = torch.arange(high) < lengths_B1
        letters_BN = torch.where(numbers_BN % 2 == 0, ids.A, ids.B).where(inside_BN, PAD)
        answers_BN = torch.where(numbers_BN == self.keys.blocks - 1, ids.INSIDE, ids.OUTSIDE)
        targets_BT = F.pad(answers_BN.where(inside_BN, IGNORED), (1, 0), value=IGNORED)
        batch = Batch(inputs=F.pad(letters_BN, (1, 0), value=ids.START), targets=targets_BT)
        return batch, targets_BT != IGNORED


def block_numbers(lengths_B1: Tensor, width: int, blocks: int, draws: Generator) -> Tensor:
    """Number of the block of each letter, from 0, (B, width); meaningless after a string's end.

    All choices of the k - 1 places at which a block begins are equally likely.
    """
    shape = (len(lengths_B1), width)
    keys_BN = torch.rand(shape, generator=draws)
    here_N = torch.arange(width)
    keys_BN = keys_BN.where((here_N > 0) & (here_N < lengths_B1), 2.0)
    starts = keys_BN.argsort(1)[:, : blocks - 1]
    begins_BN = torch.zeros(shape, dtype=torch.int64)
    return begins_BN.scatter(1, starts, 1).cumsum(1)
