"""Base of the objectives with generated data: batches, and errors and gains by difficulty.

Shapes: B batch, T time.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Generator, Tensor

from fathom.objectives.arrays import sent
from fathom.objectives.contract import Batch, Model
from fathom.objectives.keys import eval_chunk_tokens
from fathom.objectives.random_numbers import held_out_draws, training_draws
from fathom.objectives.token_loss import answers, masked_loss, processes_of
from fathom.papers.tasks.keys import SyntheticConfig

CPU = torch.device("cpu")
SOLVED_ERROR = 0.05
"""Share of errors up to which a difficulty counts as solved, as in Sanford et al. 2024."""


class Tally(NamedTuple):
    """Sums of a model's loss and errors over the evaluation's sequences of one difficulty."""

    nats: float
    asked: float
    wrong: float
    counted: float
    exact: float
    """Number of sequences without an error."""
    sequences: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticObjective(ABC):
    """Base of objectives that draw sequences, each with a whole number as its difficulty.

    Sequences are drawn on the host, so that every device trains on the same ones, and then moved.
    """

    letter: ClassVar[str]
    """Beginning of the difficulties' names in metrics."""
    has_solved: ClassVar[bool] = False
    """True if the evaluation reports the largest difficulty up to which all are solved."""

    keys: SyntheticConfig
    baselines: Mapping[int, float] = field(default_factory=dict)
    """Error of a shortcut at each difficulty for which it is known."""
    device: torch.device = CPU

    @classmethod
    def prepare(cls, keys: Any) -> Self:
        """The objective on the CPU; reads nothing."""
        return cls(keys=keys)

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.keys.vocab_size()

    @property
    def context(self) -> int:
        """Tokens of the longest sequence."""
        return self.keys.context

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess over all token ids, in nats."""
        return math.log(self.vocab_size)

    @property
    @abstractmethod
    def difficulties(self) -> Sequence[int]:
        """Difficulties of the evaluation; each number is also the seed of its sequences."""

    @abstractmethod
    def draw(self, rows: int, difficulty: int | None, draws: Generator) -> tuple[Batch, Tensor]:
        """Sequences of a difficulty, or as in training if it is None; and the mask (B, T) of the
        targets whose errors count. Other targets count only for the loss."""

    def to(self, device: torch.device) -> Self:
        """The objective, with its batches on the device."""
        return dataclasses.replace(self, device=device)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Sequences of mixed difficulties."""
        batch, _ = self.draw(batch_size, None, training_draws(seed=seed, step=step))
        return Batch(sent(batch.inputs, self.device), sent(batch.targets, self.device))

    def held_out(self, difficulty: int) -> tuple[Batch, Tensor]:
        """The evaluation's sequences of a difficulty, and the mask (B, T) of counted targets."""
        batch, counted_BT = self.draw(
            self.keys.eval_examples, difficulty, held_out_draws(difficulty)
        )
        placed = Batch(batch.inputs.to(self.device), batch.targets.to(self.device))
        return placed, counted_BT.to(self.device)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats over the targets that are not `IGNORED`, a scalar."""
        return masked_loss(model, batch)

    def evaluate(self, model: Model) -> dict[str, float]:
        """The loss over all difficulties; by difficulty, the error and the gain over a baseline."""
        tallies = self.tallies(model)
        errors = {at: tally.wrong / tally.counted for at, tally in tallies.items() if tally.counted}
        gains = {
            at: 1 - errors[at] / baseline
            for at, baseline in self.baselines.items()
            if at in errors and baseline
        }
        nats = math.fsum(tally.nats for tally in tallies.values())
        return (
            {"loss": nats / math.fsum(tally.asked for tally in tallies.values())}
            | ({f"solved/{self.letter}": solved(errors)} if self.has_solved else {})
            | {f"error/{self.letter}{at}": error for at, error in errors.items()}
            | {f"gain/{self.letter}{at}": gain for at, gain in gains.items()}
        )

    @torch.no_grad()
    def tallies(self, model: Model) -> dict[int, Tally]:
        """The tally of each difficulty; a single process waits for the device once."""
        tokens = eval_chunk_tokens(self.vocab_size)
        sums = [_sums(model, *self.held_out(at), tokens) for at in self.difficulties]
        every = torch.stack(sums).tolist()
        return {at: Tally(*found) for at, found in zip(self.difficulties, every, strict=True)}

    def final_metrics(self, model: Model) -> dict[str, float]:
        """An empty dict, since every evaluation is complete."""
        return {}


def solved(errors: Mapping[int, float]) -> float:
    """Largest difficulty that is solved with all smaller ones, except 0; 0 if none is. `errors`
    ascends in difficulty."""
    last = 0
    for difficulty, error in errors.items():
        if difficulty and error > SOLVED_ERROR:
            break
        last = difficulty
    return float(last)


def _sums(model: Model, batch: Batch, counted: Tensor, tokens_at_once: int) -> Tensor:
    """Fields of a `Tally` in order, (6,)."""
    rows = max(1, tokens_at_once // counted.shape[1]) * processes_of(model)
    parts = (torch.split(tensor, rows) for tensor in (batch.inputs, batch.targets, counted))
    chunks = zip(*parts, strict=True)
    return torch.stack([_sums_of_chunk(model, *chunk) for chunk in chunks]).sum(0)


def _sums_of_chunk(model: Model, inputs: Tensor, targets: Tensor, counted_BT: Tensor) -> Tensor:
    losses_BT, asked_BT, right_BT = answers(model, Batch(inputs, targets))
    wrong_BT = counted_BT & ~right_BT
    sums = (
        *(losses_BT.sum(), asked_BT.sum(), wrong_BT.sum(), counted_BT.sum()),
        (~wrong_BT.any(1)).sum(),
        torch.tensor(len(counted_BT), device=losses_BT.device),
    )
    return torch.stack([count.double() for count in sums])
