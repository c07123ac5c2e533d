"""The languages L_k of alternating blocks: Yang, Cadilhac, Chiang 2025 (arXiv 2506.16055).

A string of L_k is k blocks of a and b in turn, a first: for k = 3, a+ b+ a+. The answer at each
letter is whether the last block has begun. Their theory says what depth does it at every length,
without positional encodings (`model: {positions: none}`), hence on strings longer than training
saw; their tables draw the boundary at depth k - 2.

Who sees the current letter alone gets no whole string of three blocks or more right, so exact
match has nothing to subtract.

Shapes: B batch, N letters.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.random_numbers import held_out_draws, training_draws
from fathom.objectives.synthetic.scoring import ScoredPart, tally
from fathom.objectives.synthetic.sizes import (
    BLOCKS_START,
    BLOCKS_VOCABULARY,
    INSIDE,
    OUTSIDE,
    PAD,
    A,
    B,
    blocks_context,
)
from fathom.objectives.token_loss import masked_loss

CPU = torch.device("cpu")
Lengths = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Fresh strings, drawn on the device."""

    blocks: int
    train_lengths: Lengths
    test_lengths: tuple[Lengths, ...]
    eval_examples: int
    device: torch.device = CPU

    @classmethod
    def prepare(
        cls,
        *,
        blocks: int,
        train_lengths: Sequence[int],
        test_lengths: Sequence[Sequence[int]],
        eval_examples: int,
    ) -> Self:
        """Reads nothing."""
        return cls(
            blocks=blocks,
            train_lengths=(train_lengths[0], train_lengths[1]),
            test_lengths=tuple((low, high) for low, high in test_lengths),
            eval_examples=eval_examples,
        )

    @property
    def vocab_size(self) -> int:
        """Padding, the start, two letters and two answers."""
        return BLOCKS_VOCABULARY

    @property
    def context(self) -> int:
        """The start and the longest string of any range."""
        return blocks_context(self.train_lengths, self.test_lengths)

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The same, drawing on the device."""
        return dataclasses.replace(self, device=device)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Strings of training lengths, which are uniform, with uniform places of the blocks."""
        draws = training_draws(self.device, seed=seed, step=step)
        return self._batch(batch_size, self.train_lengths, draws)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats for each letter."""
        return masked_loss(model, batch)

    def evaluate(self, model: Model) -> dict[str, float]:
        """Loss at the training lengths; error and exact match in each range of lengths."""
        ranges = (self.train_lengths, *self.test_lengths)
        tallies = tally(model, map(self._part, range(len(ranges)), ranges))
        trained = next(iter(tallies.values()))
        return (
            {"loss": trained.nats / trained.asked}
            | {f"error/{name}": one.error for name, one in tallies.items()}
            | {f"exact_match/{name}": one.exact_match for name, one in tallies.items()}
        )

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Nothing: every evaluation is complete."""
        return {}

    def _part(self, number: int, lengths: Lengths) -> ScoredPart:
        batch = self._batch(self.eval_examples, lengths, held_out_draws(self.device, number))
        name = f"{lengths[0]}-{lengths[1]}"
        return ScoredPart(name=name, batch=batch, counted=batch.targets != IGNORED)

    def _batch(self, rows: int, lengths: Lengths, draws: torch.Generator) -> Batch:
        low, high = lengths
        device = self.device
        lengths_B1 = torch.randint(low, high + 1, (rows, 1), generator=draws, device=device)
        numbers_BN = block_numbers(lengths_B1, high, self.blocks, draws)
        inside_BN = torch.arange(high, device=device) < lengths_B1
        letters_BN = torch.where(numbers_BN % 2 == 0, A, B).where(inside_BN, PAD)
        answers_BN = torch.where(numbers_BN == self.blocks - 1, INSIDE, OUTSIDE)
        return Batch(
            inputs=F.pad(letters_BN, (1, 0), value=BLOCKS_START),
            targets=F.pad(answers_BN.where(inside_BN, IGNORED), (1, 0), value=IGNORED),
        )


def block_numbers(lengths_B1: Tensor, width: int, blocks: int, draws: torch.Generator) -> Tensor:
    """Which block each letter is in, from 0, (B, width); after a string's end without meaning.

    Every way to choose the k - 1 places where a new block begins is as likely as any other.
    """
    shape = (len(lengths_B1), width)
    keys_BN = torch.rand(shape, generator=draws, device=draws.device)
    here_N = torch.arange(width, device=draws.device)
    keys_BN = keys_BN.where((here_N > 0) & (here_N < lengths_B1), 2.0)
    starts = keys_BN.argsort(1)[:, : blocks - 1]
    begins_BN = torch.zeros(shape, dtype=torch.int64, device=draws.device)
    return begins_BN.scatter(1, starts, 1).cumsum(1)
