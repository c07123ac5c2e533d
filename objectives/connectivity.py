"""Graph connectivity: are two vertices joined? After Sanford, Hsu, Telgarsky 2024, Section 3.

A graph is two paths of D edges each, all vertices with random names, the edges in random order and
direction. The question names an end of one path and either its other end or an end of the other
path. Both are as likely, and given D the two cases are alike in size, in every degree, and in all
that lies within D/2 edges of either vertex: only following a path to its middle from both ends
tells them apart. D is the diameter, uniform up to the largest, and the difficulty; with O(log D)
layers it can be done (Corollary 3.3). Whoever does not follow is wrong half of the time.

Shapes: B batch, D largest diameter, V vertices, E edges of both paths, T time.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from objectives.draws import held_out_draws, training_draws
from objectives.generated import Part, gain, mean_loss, solved, tally
from objectives.objective import IGNORED, Batch, Model
from objectives.sizes import (
    FIRST_VERTEX,
    NO,
    PAD,
    QUESTION,
    YES,
    connectivity_context,
    connectivity_vertices,
    connectivity_vocabulary,
)
from objectives.token_loss import masked_loss

BASELINE = 0.5
"""Error of a guess, and of every answer from what lies within D/2 edges."""
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connectivity:
    """Fresh graphs, drawn on the device."""

    diameter: int
    eval_examples: int
    device: torch.device = CPU

    @classmethod
    def prepare(cls, *, diameter: int, eval_examples: int) -> Self:
        """Reads nothing."""
        return cls(diameter=diameter, eval_examples=eval_examples)

    @property
    def vocab_size(self) -> int:
        """Padding, two answers, the question and the vertices."""
        return connectivity_vocabulary(self.diameter)

    @property
    def context(self) -> int:
        """The largest graph and the question."""
        return connectivity_context(self.diameter)

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The same, drawing on the device."""
        return dataclasses.replace(self, device=device)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Graphs of every diameter alike."""
        draws = training_draws(self.device, seed=seed, step=step)
        shape = (batch_size,)
        edges_B = torch.randint(1, self.diameter + 1, shape, generator=draws, device=self.device)
        joined_B = torch.rand(shape, generator=draws, device=self.device) < 0.5
        return self._batch(edges_B, joined_B, draws)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats of the answers, one a graph."""
        return masked_loss(model, batch)

    def evaluate(self, model: Model) -> dict[str, float]:
        """Loss; for each diameter the error, and the share of a guess's errors that are gone."""
        tallies = tally(model, map(self._part, range(1, self.diameter + 1)))
        errors = {name: one.error for name, one in tallies.items()}
        return (
            {
                "loss": mean_loss(tallies.values()),
                "solved/d": solved(enumerate(errors.values(), 1)),
            }
            | {f"error/{name}": error for name, error in errors.items()}
            | {f"gain/{name}": gain(error, BASELINE) for name, error in errors.items()}
        )

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Nothing: every evaluation is complete."""
        return {}

    def _part(self, diameter: int) -> Part:
        """As many graphs that are joined as not."""
        draws = held_out_draws(self.device, diameter)
        joined_B = torch.arange(self.eval_examples, device=self.device) % 2 == 0
        edges_B = torch.full_like(joined_B, diameter, dtype=torch.int64)
        batch = self._batch(edges_B, joined_B, draws)
        return Part(name=f"d{diameter}", batch=batch, counted=batch.targets != IGNORED)

    def _batch(self, edges_B: Tensor, joined_B: Tensor, draws: torch.Generator) -> Batch:
        """The graphs' edges, then the question; the answer is asked at the last token."""
        names_BV = self._names(len(edges_B), draws)
        ends_BE2 = self._edges(names_BV, edges_B, draws)
        first_B, second_B = self._question(names_BV, edges_B, joined_B, draws)
        inputs_BT = torch.full((len(edges_B), self.context), PAD, device=self.device)
        inputs_BT[:, :-3] = ends_BE2.flatten(1)
        at_B1 = 4 * edges_B[:, None]
        question_B3 = torch.stack((torch.full_like(first_B, QUESTION), first_B, second_B), 1)
        inputs_BT.scatter_(1, at_B1 + torch.arange(3, device=self.device), question_B3)
        answers_B1 = torch.where(joined_B, YES, NO)[:, None]
        targets_BT = torch.full_like(inputs_BT, IGNORED)
        return Batch(inputs_BT, targets_BT.scatter(1, at_B1 + 2, answers_B1))

    def _names(self, rows: int, draws: torch.Generator) -> Tensor:
        """A name for each vertex: first those of one path in order, then those of the other."""
        vertices = connectivity_vertices(self.diameter)
        keys_BV = torch.rand(rows, vertices, generator=draws, device=self.device)
        return keys_BV.argsort(1) + FIRST_VERTEX

    def _edges(self, names_BV: Tensor, edges_B: Tensor, draws: torch.Generator) -> Tensor:
        """Both ends of each edge (B, E, 2), in random order and direction; then padding."""
        rows, longest = len(names_BV), self.diameter
        step_E = torch.arange(longest, device=self.device).repeat(2)
        from_E = step_E + (longest + 1) * (torch.arange(2 * longest, device=self.device) // longest)
        ends_BE2 = torch.stack((names_BV[:, from_E], names_BV[:, from_E + 1]), 2)
        flipped_BE = torch.rand(rows, 2 * longest, generator=draws, device=self.device) < 0.5
        ends_BE2 = ends_BE2.flip(2).where(flipped_BE[:, :, None], ends_BE2)
        missing_BE = step_E >= edges_B[:, None]
        ends_BE2 = ends_BE2.masked_fill(missing_BE[:, :, None], PAD)
        keys_BE = torch.rand(rows, 2 * longest, generator=draws, device=self.device)
        order_BE = (keys_BE + missing_BE).argsort(1)
        return ends_BE2.gather(1, order_BE[:, :, None].expand_as(ends_BE2))

    def _question(
        self, names_BV: Tensor, edges_B: Tensor, joined_B: Tensor, draws: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The names of an end of a path, and of its other end or an end of the other path."""
        coins_3B = torch.rand(3, len(edges_B), generator=draws, device=self.device) < 0.5
        path_B, end_B, other_end_B = coins_3B
        second_path_B = path_B ^ ~joined_B
        second_end_B = torch.where(joined_B, ~end_B, other_end_B)

        def name(path_B: Tensor, end_B: Tensor) -> Tensor:
            at_B = path_B * (self.diameter + 1) + end_B * edges_B
            return names_BV.gather(1, at_B[:, None])[:, 0]

        return name(path_B, end_B), name(second_path_B, second_end_B)
