"""Errors by difficulty of the objectives with generated data.

Shapes: B batch, T time, P parts.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fathom.objectives.contract import Batch, Model
from fathom.objectives.token_loss import answers

EVAL_CHUNK_TOKENS = 8192
"""Tokens evaluated at once; bounds the logits, the largest tensor of an evaluation."""
SOLVED_ERROR = 0.05
"""Share of errors up to which a difficulty counts as solved, as in Sanford et al. 2024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPart:
    """The evaluation's sequences of one difficulty."""

    name: str
    batch: Batch
    counted: Tensor
    """True where an error counts, (B, T); other targets count for the loss alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Sums of a model's loss and errors over one part of an evaluation."""

    nats: float
    asked: float
    wrong: float
    counted: float
    exact: float
    """Number of sequences without an error."""
    sequences: float

    @property
    def error(self) -> float:
        """Share of the counted answers that are wrong."""
        return self.wrong / self.counted

    @property
    def exact_match(self) -> float:
        """Share of the sequences without an error."""
        return self.exact / self.sequences


@torch.no_grad()
def tally(model: Model, parts: Iterable[ScoredPart]) -> dict[str, Tally]:
    """The tally of each part by name, with one synchronisation with the device."""
    names, sums = [], []
    for part in parts:
        names.append(part.name)
        sums.append(torch.stack([_sums(model, *chunk) for chunk in _chunks(part)]).sum(0))
    return {
        name: Tally(
            nats=nats, asked=asked, wrong=wrong, counted=counted, exact=exact, sequences=sequences
        )
        for name, (nats, asked, wrong, counted, exact, sequences) in zip(
            names, torch.stack(sums).tolist(), strict=True
        )
    }


def mean_loss(tallies: Iterable[Tally]) -> float:
    """Mean loss over the targets of all parts, in nats."""
    every = tuple(tallies)
    return math.fsum(one.nats for one in every) / math.fsum(one.asked for one in every)


def gain(error: float, baseline: float) -> float:
    """Share of the baseline's errors that are gone: 1 is perfect, 0 no better than the baseline."""
    return 1 - error / baseline


def solved(errors: Iterable[tuple[int, float]]) -> float:
    """The last of the ascending difficulties up to which all are solved; 0 if the first is not."""
    last = 0
    for difficulty, error in errors:
        if error > SOLVED_ERROR:
            break
        last = difficulty
    return float(last)


def _chunks(part: ScoredPart) -> Iterator[tuple[Batch, Tensor]]:
    inputs, targets = part.batch
    rows = max(1, EVAL_CHUNK_TOKENS // inputs.shape[1])
    for at in range(0, len(inputs), rows):
        some = slice(at, at + rows)
        yield Batch(inputs[some], targets[some]), part.counted[some]


def _sums(model: Model, batch: Batch, counted_BT: Tensor) -> Tensor:
    """Fields of a `Tally` in order, (6,)."""
    losses_BT, asked_BT, right_BT = answers(model, batch)
    wrong_BT = counted_BT & ~right_BT
    sums = (
        *(losses_BT.sum(), asked_BT.sum(), wrong_BT.sum(), counted_BT.sum()),
        (~wrong_BT.any(1)).sum(),
        torch.tensor(len(counted_BT), device=losses_BT.device),
    )
    return torch.stack([one.double() for one in sums])
