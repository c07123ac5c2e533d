"""The languages L_k of alternating blocks: Yang, Cadilhac, Chiang 2025 (arXiv 2506.16055).

A string of L_k is k blocks of a and b in turn, a first: for k = 3, a+ b+ a+. The answer at each
letter says if the last block has begun. Their theory says which depth does it at every length
without positional encodings (`model: {positions: none}`), hence on strings longer than those of
training; their tables draw the boundary at depth k - 2.

A model that sees the current letter alone gets no whole string of three blocks or more right, so
exact match has no baseline to subtract.

Shapes: B batch, N letters.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.random_numbers import held_out_draws, training_draws
from fathom.objectives.synthetic.alternating_blocks.keys import (
    INSIDE,
    OUTSIDE,
    START,
    A,
    B,
    BlocksConfig,
)
from fathom.objectives.synthetic.objective import SyntheticObjective
from fathom.objectives.synthetic.scoring import ScoredPart, tally
from fathom.objectives.token_ids import PAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks(SyntheticObjective):
    """The objective `blocks`."""

    keys: BlocksConfig

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Strings with uniform training lengths and uniform places of the blocks."""
        draws = training_draws(self.device, seed=seed, step=step)
        return self._batch(batch_size, self.keys.train_lengths, draws)

    def evaluate(self, model: Model) -> dict[str, float]:
        """The loss at the training lengths; error and exact match by range of lengths."""
        ranges = self.keys.ranges
        tallies = tally(model, map(self._part, range(len(ranges)), ranges))
        trained = next(iter(tallies.values()))
        return (
            {"loss": trained.nats / trained.asked}
            | {f"error/{name}": one.error for name, one in tallies.items()}
            | {f"exact_match/{name}": one.exact_match for name, one in tallies.items()}
        )

    def _part(self, number: int, lengths: tuple[int, int]) -> ScoredPart:
        batch = self._batch(self.keys.eval_examples, lengths, held_out_draws(self.device, number))
        name = f"{lengths[0]}-{lengths[1]}"
        return ScoredPart(name=name, batch=batch, counted=batch.targets != IGNORED)

    def _batch(self, rows: int, lengths: tuple[int, int], draws: torch.Generator) -> Batch:
        low, high = lengths
        device = self.device
        lengths_B1 = torch.randint(low, high + 1, (rows, 1), generator=draws, device=device)
        numbers_BN = block_numbers(lengths_B1, high, self.keys.blocks, draws)
        inside_BN = torch.arange(high, device=device) < lengths_B1
        letters_BN = torch.where(numbers_BN % 2 == 0, A, B).where(inside_BN, PAD)
        answers_BN = torch.where(numbers_BN == self.keys.blocks - 1, INSIDE, OUTSIDE)
        return Batch(
            inputs=F.pad(letters_BN, (1, 0), value=START),
            targets=F.pad(answers_BN.where(inside_BN, IGNORED), (1, 0), value=IGNORED),
        )


def block_numbers(lengths_B1: Tensor, width: int, blocks: int, draws: torch.Generator) -> Tensor:
    """Number of the block of each letter, from 0, (B, width); meaningless after a string's end.

    All choices of the k - 1 places at which a block begins are equally likely.
    """
    shape = (len(lengths_B1), width)
    keys_BN = torch.rand(shape, generator=draws, device=draws.device)
    here_N = torch.arange(width, device=draws.device)
    keys_BN = keys_BN.where((here_N > 0) & (here_N < lengths_B1), 2.0)
    starts = keys_BN.argsort(1)[:, : blocks - 1]
    begins_BN = torch.zeros(shape, dtype=torch.int64, device=draws.device)
    return begins_BN.scatter(1, starts, 1).cumsum(1)
