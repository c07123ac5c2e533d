"""A rival on the simulated cluster: its package asks for shapes and is told losses.

The rules are the same for all rivals and favour them: every suggestion is a shape of the budget,
so none is rejected; a repeated shape is trained with the next seed; when all its seeds have been
tried, the known losses are reported again for no tokens, and it continues from there.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from benchmarks.simulate.clock import Start
from benchmarks.worlds.known import Known
from fathom.models.shape import Shape


class Reading(StrEnum):
    """Rule by which a user reads the best depth; diverged trials never count."""

    LAST = "last"
    """Depth of the trial with the lowest last loss, at any evaluation."""
    BEST = "best"
    """Depth of the trial with the lowest loss at any time."""
    FURTHEST = "furthest"
    """Depth of the trial with the lowest loss among those with the most evaluations."""
    SEEDS = "seeds"
    """Depth of the shape with the lowest mean over seeds among trials with the most evaluations."""
    ABREAST = "abreast"
    """Depth of the shape with the lowest mean over seeds at the last evaluation that all have."""


class Grid:
    """The shapes of a budget as whole numbers: a rank of depth, a rank of ratio.

    The gentlest form of rejection: all of the rectangle is feasible, and no depth is rarer than
    another, as it would be for someone who draws depth and width and keeps what meets the budget.
    """

    def __init__(self, known: Known, *, depth_only: bool = False) -> None:
        rows = [
            sorted((s for s in known.shapes if s.depth == depth), key=lambda s: s.ff_ratio)
            for depth in known.depths
        ]
        if depth_only:
            rows = [[row[len(row) // 2]] for row in rows]
        self.rows = tuple(map(tuple, rows))
        self.depths = len(self.rows)
        self.ratios = max(len(row) for row in self.rows)
        self.seeds = known.seeds
        self.shapes = tuple(shape for row in self.rows for shape in row)

    def shape(self, depth: int, ratio: int = 0) -> Shape:
        """Returns the shape at these ranks; where a depth has few ratios, each fills several."""
        row = self.rows[depth]
        return row[ratio * len(row) // self.ratios]

    def ranks(self, shape: Shape) -> dict[str, int]:
        """Returns the ranks of a shape, the first where several ranks of ratio stand for it."""
        row = next(row for row in self.rows if shape in row)
        ratio = -(-row.index(shape) * self.ratios // len(row))
        ranks = {"depth": self.rows.index(row), "ratio": ratio}
        return {name: ranks[name] for name in self.sides}

    @property
    def sides(self) -> dict[str, int]:
        """Number of ranks of each variable that has more than one."""
        return {"depth": self.depths} | ({"ratio": self.ratios} if self.ratios > 1 else {})


@dataclass(frozen=True, slots=True)
class Asked:
    """A trial that a package wants; a handle that it used before resumes that trial."""

    handle: str
    shape: Shape


class Package(Protocol):
    """A search package behind one interface, driven as its documentation says."""

    def ask(self) -> Asked | None:
        """Returns the trial to train next; None when there is none now."""

    def tell(self, handle: str, level: int, loss: float) -> bool:
        """Report the loss after `level` evaluations; False when the trial stops or pauses."""

    def fail(self, handle: str, loss: float) -> None:
        """Ends a trial that diverged as if it had this loss, the worst so far."""


Build = Callable[[Grid, int, int], Package]
"""Builds a package from the shapes, the number of evaluations of a whole trial, and a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A package at one setting."""

    name: str
    build: Build
    reading: Reading = Reading.LAST
    depth_only: bool = False
    """True if it searches the middle ratio of each depth instead of all shapes."""
    levels: int = 100
    """Evaluations of a whole trial, as far as the table has them."""
    patience: int = 100
    """Suggestions in a row that only repeat what is known, after which a search has ended."""
    suggestions: int = 1000
    """Suggestions in all, after which a search ends with what it has found: patience begins again
    with anything new, while each suggestion may cost its package more than the one before.
    """
    share: float = 1.0
    """Share of the repetitions that it takes part in; below 1 where a suggestion takes seconds."""


def over_depth(contender: Contender) -> Contender:
    """Returns the same contender with the ratio fixed beforehand, searching depth alone."""
    return replace(contender, name=f"{contender.name} over depth", depth_only=True)


@dataclass(slots=True)
class Track:
    """One shape with one seed, and the losses reported for it."""

    name: str
    shape: Shape
    seed: int
    handle: str = ""
    """Handle of the package's trial that trains it now."""
    busy: bool = False
    losses: list[float] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        """True if it can be an answer: its last loss is finite."""
        return bool(self.losses) and math.isfinite(self.losses[-1])


class Rival:
    """A package as a searcher of the simulated cluster."""

    def __init__(self, known: Known, contender: Contender, seed: int) -> None:
        first = float(known.tokens[0]) / known.horizon
        # 1e-9: a table's first evaluation may well be a hundredth of its last, to rounding.
        levels = max(2, min(contender.levels, int(1 / first + 1e-9)))
        self.shares = [(i + 1) / levels for i in range(levels)]
        self._seeds = known.seeds
        self._package = contender.build(Grid(known, depth_only=contender.depth_only), levels, seed)
        self._reading, self._patience = contender.reading, contender.patience
        self._left = contender.suggestions
        self._tracks: dict[str, Track] = {}
        self._handles: dict[str, Track] = {}
        self._drawn: Counter[Shape] = Counter()
        self._heard: Counter[str] = Counter()
        self._worst = 0.0

    def start(self) -> Start | None:
        """Returns the next trial whose losses are not all known."""
        for _ in range(min(self._patience, self._left)):
            asked = self._package.ask()
            if asked is None:
                return None
            self._left -= 1
            track = self._track(asked)
            if self._recalled(track):
                track.busy = True
                return Start(track.name, track.shape, track.seed)
        self._left = 0
        return None

    def report(self, trial: str, index: int, loss: float) -> bool:
        """Passes a loss to the package; False when the trial stops or pauses."""
        track = self._tracks[trial]
        track.losses.append(loss)
        track.busy = self._told(track.handle, index + 1, loss)
        return track.busy

    def answer(self) -> int | None:
        """The depth that a user of the package would report now."""
        return read(self._tracks.values(), self._reading)

    def _track(self, asked: Asked) -> Track:
        track = self._handles.get(asked.handle)
        if track is None or track.busy:
            track = self._placed(asked.shape)
        track.handle = asked.handle
        self._handles[asked.handle] = track
        return track

    def _placed(self, shape: Shape) -> Track:
        number = self._drawn[shape]
        self._drawn[shape] += 1
        seed = number % self._seeds
        name = f"{shape.depth}-{shape.d_model}-{shape.d_ff}-{seed}"
        if name in self._tracks and self._tracks[name].busy:
            name = f"{name}-{number}"
        return self._tracks.setdefault(name, Track(name, shape, seed))

    def _recalled(self, track: Track) -> bool:
        """True if the trial continues after the package is told all of its known losses."""
        return all(
            self._told(track.handle, index + 1, loss) for index, loss in enumerate(track.losses)
        )

    def _told(self, handle: str, level: int, loss: float) -> bool:
        if level <= self._heard[handle]:
            return True
        self._heard[handle] = level
        if not math.isfinite(loss):
            self._package.fail(handle, self._worst)
            return False
        self._worst = max(self._worst, loss)
        return self._package.tell(handle, level, loss) and level < len(self.shares)


def read(tracks: Iterable[Track], reading: Reading) -> int | None:
    """The depth of the best trial by one rule of reading."""
    fine = [track for track in tracks if track.fine]
    if not fine:
        return None
    if reading is Reading.ABREAST:
        common = min(len(track.losses) for track in fine)
        return _lowest_mean(fine, common - 1).depth
    if reading in (Reading.FURTHEST, Reading.SEEDS):
        furthest = max(len(track.losses) for track in fine)
        fine = [track for track in fine if len(track.losses) == furthest]
    if reading is Reading.SEEDS:
        return _lowest_mean(fine, -1).depth
    if reading is Reading.BEST:
        return min(fine, key=lambda track: min(track.losses)).shape.depth
    return min(fine, key=lambda track: track.losses[-1]).shape.depth


def _lowest_mean(tracks: Iterable[Track], index: int) -> Shape:
    losses: dict[Shape, list[float]] = {}
    for track in tracks:
        losses.setdefault(track.shape, []).append(track.losses[index])
    return min(losses, key=lambda shape: sum(losses[shape]) / len(losses[shape]))
