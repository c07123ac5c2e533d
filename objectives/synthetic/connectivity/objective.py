"""Graph connectivity: are two vertices joined? After Sanford, Hsu, Telgarsky 2024, Section 3.

A graph is two paths of D edges each, all vertices with random names, the edges in random order and
direction. The question names an end of one path, then in random order the D other vertices of that
path and D of the other path, all but one end; the answer at each is whether it is joined to the
first.

With two tokens an edge, its ends, a model must find what belongs together before it has learnt
anything, and small ones do not begin. With one, an id for each pair of vertices, they do; the end
that is asked about then always has the same name, and the question does not name it.

So each vertex that is joined, d edges away, has a counterpart that is not, d edges from the
end that is left out; the two are alike in degree and in all that lies within d/2 edges of them and
of the first vertex: only following a path from both ends tells them apart.

D is the diameter, uniform up to the largest, and the difficulty: errors count at the vertex that is
D edges away and its counterpart. The nearer ones are what a model can begin with. O(log D) layers
can do it (Corollary 3.3); whoever does not follow is wrong half of the time.

Shapes: B batch, V vertices, E edges of both paths, Q vertices asked, T time.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.random_numbers import held_out_draws, training_draws
from fathom.objectives.synthetic.scoring import ScoredPart, gain, mean_loss, solved, tally
from fathom.objectives.synthetic.sizes import (
    FIRST_VERTEX,
    NO,
    PAD,
    QUESTION,
    YES,
    connectivity_context,
    connectivity_question,
    connectivity_vertices,
    connectivity_vocabulary,
)
from fathom.objectives.token_loss import masked_loss

BASELINE = 0.5
"""Error of a guess, and of every answer from what lies within D/2 edges."""
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connectivity:
    """Fresh graphs, drawn on the device."""

    diameter: int
    edge_tokens: int
    eval_examples: int
    device: torch.device = CPU

    @classmethod
    def prepare(cls, *, diameter: int, edge_tokens: int, eval_examples: int) -> Self:
        """Reads nothing."""
        return cls(diameter=diameter, edge_tokens=edge_tokens, eval_examples=eval_examples)

    @property
    def vocab_size(self) -> int:
        """Padding, two answers, the question, the vertices and perhaps their pairs."""
        return connectivity_vocabulary(self.diameter, self.edge_tokens)

    @property
    def context(self) -> int:
        """The largest graph and the question."""
        return connectivity_context(self.diameter, self.edge_tokens)

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
        edges_B = torch.randint(
            1, self.diameter + 1, (batch_size,), generator=draws, device=self.device
        )
        return self._batch(edges_B, draws)[0]

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats of the answers."""
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

    def _part(self, diameter: int) -> ScoredPart:
        draws = held_out_draws(self.device, diameter)
        edges_B = torch.full((self.eval_examples,), diameter, device=self.device)
        batch, away_BT = self._batch(edges_B, draws)
        return ScoredPart(name=f"d{diameter}", batch=batch, counted=away_BT == diameter)

    def _batch(self, edges_B: Tensor, draws: torch.Generator) -> tuple[Batch, Tensor]:
        """Graphs with their questions; how far away the vertex asked at each token is, (B, T),
        or its counterpart, and 0 where none is asked."""
        names_BV = self._names(len(edges_B), draws)
        ends_BE2 = self._edges(names_BV, edges_B, draws)
        asked_BQ, away_BQ, joined_BQ = self._asked(names_BV, edges_B, draws)
        inputs_BT = torch.full((len(edges_B), self.context), PAD, device=self.device)
        at_B1 = 2 * self.edge_tokens * edges_B[:, None]
        if self.edge_tokens == 2:
            inputs_BT[:, : ends_BE2[0].numel()] = ends_BE2.flatten(1)
            first_B2 = torch.stack((torch.full_like(edges_B, QUESTION), names_BV[:, 0]), 1)
            inputs_BT.scatter_(1, at_B1 + torch.arange(2, device=self.device), first_B2)
        else:
            inputs_BT[:, : ends_BE2.shape[1]] = self._pairs(ends_BE2)
        asked_at_B1 = at_B1 + connectivity_question(self.edge_tokens)
        places_BQ = asked_at_B1 + torch.arange(asked_BQ.shape[1], device=self.device)
        inputs_BT.scatter_(1, places_BQ, asked_BQ)
        answers_BQ = torch.where(joined_BQ, YES, NO).where(away_BQ > 0, IGNORED)
        targets_BT = torch.full_like(inputs_BT, IGNORED).scatter(1, places_BQ, answers_BQ)
        away_BT = torch.zeros_like(inputs_BT).scatter(1, places_BQ, away_BQ)
        return Batch(inputs_BT, targets_BT), away_BT

    def _names(self, rows: int, draws: torch.Generator) -> Tensor:
        """A name for each vertex: first those of one path in order, then those of the other. It is
        always the first that is asked about; where nothing says so, it has the first name."""
        vertices = connectivity_vertices(self.diameter)
        keys_BV = torch.rand(rows, vertices, generator=draws, device=self.device)
        if self.edge_tokens == 1:
            keys_BV[:, 0] = -1.0
        return keys_BV.argsort(1) + FIRST_VERTEX

    def _pairs(self, ends_BE2: Tensor) -> Tensor:
        """The id of each edge, whichever way it goes, (B, E): 01, 02, 12, 03, and so on."""
        low_BE, high_BE = (ends_BE2 - FIRST_VERTEX).aminmax(dim=2)
        first_pair = FIRST_VERTEX + connectivity_vertices(self.diameter)
        pairs_BE = first_pair + high_BE * (high_BE - 1) // 2 + low_BE
        return pairs_BE.masked_fill(ends_BE2[:, :, 0] == PAD, PAD)

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

    def _asked(
        self, names_BV: Tensor, edges_B: Tensor, draws: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The vertices that are asked, how far away, and whether joined: (B, Q), then padding."""
        longest = self.diameter
        away_Q = torch.arange(1, longest + 1, device=self.device).repeat(2)
        joined_Q = torch.arange(2 * longest, device=self.device) < longest
        names_BQ = names_BV[:, away_Q + (longest + 1) * ~joined_Q]
        missing_BQ = away_Q > edges_B[:, None]
        keys_BQ = torch.rand(names_BQ.shape, generator=draws, device=self.device)
        order_BQ = (keys_BQ + missing_BQ).argsort(1)
        return (
            names_BQ.masked_fill(missing_BQ, PAD).gather(1, order_BQ),
            away_Q.expand_as(names_BQ).masked_fill(missing_BQ, 0).gather(1, order_BQ),
            joined_Q.expand_as(names_BQ).gather(1, order_BQ),
        )
