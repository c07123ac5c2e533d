"""Graph connectivity: are two vertices joined? After Sanford, Hsu, Telgarsky 2024, Section 3.

A graph is two paths of D edges each, all vertices with random names, the edges in random order and
direction. The question names an end of one path and then, in random order, the D other vertices of
that path and D of the other path, all but one end. The answer at each of them says if it is joined
to the end that the question names.

With two tokens an edge, its two vertices, a model must learn which tokens belong together before
any answer is possible, and small models do not. With one token, an id for each pair of vertices,
they do; the end that is asked about then always has the same name, and no question names it.

Each joined vertex, d edges away, has a counterpart on the other path, d edges from the end that is
left out. The two have the same degree and the same surroundings within d/2 edges, and so have the
two ends: only following a path from both ends tells them apart.

D is the diameter, uniform up to the largest, and the difficulty: errors are counted at the vertex
that is D edges away and at its counterpart. The nearer ones give a model something to learn first.
O(log D) layers can do it (Corollary 3.3).

Shapes: B batch, V vertices, E edges of both paths, Q vertices asked, T time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from fathom.objectives.contract import IGNORED, Batch
from fathom.objectives.token_ids import PAD
from fathom.papers.tasks.connectivity import keys as ids
from fathom.papers.tasks.connectivity.keys import ConnectivityConfig
from fathom.papers.tasks.objective import SyntheticObjective

BASELINE = 0.5
"""Error of a guess, and of any answer from the surroundings within D/2 edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connectivity(SyntheticObjective):
    """The objective `connectivity`."""

    keys: ConnectivityConfig

    letter = "d"
    has_solved = True

    @classmethod
    def prepare(cls, keys: ConnectivityConfig) -> Self:
        """The objective on the CPU; reads nothing."""
        baselines = dict.fromkeys(range(1, keys.diameter + 1), BASELINE)
        return cls(keys=keys, baselines=baselines)

    @property
    def difficulties(self) -> Sequence[int]:
        """The diameters."""
        return range(1, self.keys.diameter + 1)

    def draw(self, rows: int, difficulty: int | None, draws: Generator) -> tuple[Batch, Tensor]:
        """Graphs (B, T) with their questions, of the diameter `difficulty` or, if it is None, of
        uniform ones; and the mask (B, T) of the vertices at that distance."""
        if difficulty is None:
            edges_B = torch.randint(1, self.keys.diameter + 1, (rows,), generator=draws)
        else:
            edges_B = torch.full((rows,), difficulty)
        batch, away_BT = self._batch(edges_B, draws)
        return batch, away_BT == edges_B[:, None]

    def _batch(self, edges_B: Tensor, draws: Generator) -> tuple[Batch, Tensor]:
        """Graphs with their questions; and at each token the distance, in edges, of the vertex
        asked there or of its counterpart, (B, T), 0 where none is asked."""
        names_BV = self._names(len(edges_B), draws)
        ends_BE2 = self._edges(names_BV, edges_B, draws)
        asked_BQ, away_BQ, joined_BQ = self._asked(names_BV, edges_B, draws)
        inputs_BT = torch.full((len(edges_B), self.context), PAD)
        at_B1 = 2 * self.keys.edge_tokens * edges_B[:, None]
        if self.keys.edge_tokens == 2:
            inputs_BT[:, : ends_BE2[0].numel()] = ends_BE2.flatten(1)
            first_B2 = torch.stack((torch.full_like(edges_B, ids.QUESTION), names_BV[:, 0]), 1)
            inputs_BT.scatter_(1, at_B1 + torch.arange(2), first_B2)
        else:
            inputs_BT[:, : ends_BE2.shape[1]] = self._pairs(ends_BE2)
        asked_at_B1 = at_B1 + self.keys.question_tokens
        places_BQ = asked_at_B1 + torch.arange(asked_BQ.shape[1])
        inputs_BT.scatter_(1, places_BQ, asked_BQ)
        answers_BQ = torch.where(joined_BQ, ids.YES, ids.NO).where(away_BQ > 0, IGNORED)
        targets_BT = torch.full_like(inputs_BT, IGNORED).scatter(1, places_BQ, answers_BQ)
        away_BT = torch.zeros_like(inputs_BT).scatter(1, places_BQ, away_BQ)
        return Batch(inputs_BT, targets_BT), away_BT

    def _names(self, rows: int, draws: Generator) -> Tensor:
        """Token ids of the vertices, (B, V): of one path in order, then of the other. The first is
        the end asked about; if no question names it, it has the first id."""
        vertices = self.keys.vertices
        keys_BV = torch.rand(rows, vertices, generator=draws)
        if self.keys.edge_tokens == 1:
            keys_BV[:, 0] = -1.0
        return keys_BV.argsort(1) + ids.FIRST_VERTEX

    def _pairs(self, ends_BE2: Tensor) -> Tensor:
        """Token id of each edge in either direction, (B, E), counted as 01, 02, 12, 03, ..."""
        low_BE, high_BE = (ends_BE2 - ids.FIRST_VERTEX).aminmax(dim=2)
        first_pair = ids.FIRST_VERTEX + self.keys.vertices
        pairs_BE = first_pair + high_BE * (high_BE - 1) // 2 + low_BE
        return pairs_BE.masked_fill(ends_BE2[:, :, 0] == PAD, PAD)

    def _edges(self, names_BV: Tensor, edges_B: Tensor, draws: Generator) -> Tensor:
        """Both ends of each edge (B, E, 2), in random order and direction; then padding."""
        rows, longest = len(names_BV), self.keys.diameter
        step_E = torch.arange(longest).repeat(2)
        from_E = step_E + (longest + 1) * (torch.arange(2 * longest) // longest)
        ends_BE2 = torch.stack((names_BV[:, from_E], names_BV[:, from_E + 1]), 2)
        flipped_BE = torch.rand(rows, 2 * longest, generator=draws) < 0.5
        ends_BE2 = ends_BE2.flip(2).where(flipped_BE[:, :, None], ends_BE2)
        missing_BE = step_E >= edges_B[:, None]
        ends_BE2 = ends_BE2.masked_fill(missing_BE[:, :, None], PAD)
        keys_BE = torch.rand(rows, 2 * longest, generator=draws)
        order_BE = (keys_BE + missing_BE).argsort(1)
        return ends_BE2.gather(1, order_BE[:, :, None].expand_as(ends_BE2))

    def _asked(
        self, names_BV: Tensor, edges_B: Tensor, draws: Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The vertices asked, their distances, and True if joined; all (B, Q), padded at the
        end."""
        longest = self.keys.diameter
        away_Q = torch.arange(1, longest + 1).repeat(2)
        joined_Q = torch.arange(2 * longest) < longest
        names_BQ = names_BV[:, away_Q + (longest + 1) * ~joined_Q]
        missing_BQ = away_Q > edges_B[:, None]
        keys_BQ = torch.rand(names_BQ.shape, generator=draws)
        order_BQ = (keys_BQ + missing_BQ).argsort(1)
        return (
            names_BQ.masked_fill(missing_BQ, PAD).gather(1, order_BQ),
            away_Q.expand_as(names_BQ).masked_fill(missing_BQ, 0).gather(1, order_BQ),
            joined_Q.expand_as(names_BQ).gather(1, order_BQ),
        )
