"""Kinds of planted worlds on which a search is replayed: the usual ones, and harder ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.answers.planted.coverage import one_hump
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import Curve, asymmetric, symmetric

RATIOS = (2.0, 4.0, 8.0)
SEEDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldKind:
    """Ranges from which a world is drawn, where they differ from those of
    `benchmarks.answers.planted.coverage`."""

    best: tuple[float, float] = (3, 12)
    """Shallowest and deepest best depth."""
    curvature: tuple[float, float] = (0.03, 0.15)
    """Lowest and highest curvature, in nats for each squared unit of ln depth."""
    depths: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    noise: float = 1.0
    """Multiple of the noise between seeds."""
    slow_start: float = 1.0
    """Factor on the lag of deep models (`World.slow_start`)."""
    slow_from: float = 1.0
    """Depth beyond which the lag grows."""
    spikes: float = 0.03
    divergence: float = 0.2


KINDS = {
    "usual": WorldKind(),
    "loud": WorldKind(noise=2.0),
    "sharp": WorldKind(curvature=(0.15, 0.6)),
    "shallow": WorldKind(curvature=(0.01, 0.03)),
    "best-near-1": WorldKind(best=(1.3, 2.5)),
    "best-near-32": WorldKind(best=(14, 26)),
    "late-crossing": WorldKind(slow_start=4.0),
    "late-when-deep": WorldKind(slow_start=4.0, slow_from=6.0),
    "few-depths": WorldKind(depths=(2, 4, 8, 16, 32)),
    "diverging": WorldKind(spikes=0.1, divergence=0.8),
}


def planted(seed: int, kind: str = "usual") -> Known:
    """Draws a planted budget with one best depth, with noise, crossings, spikes and divergence."""
    chosen = KINDS[kind]
    generator = np.random.default_rng([seed, 4])
    sides = [(2.0, 0.6), (0.6, 2.0), (1.0, 1.0)][seed % 3]

    def tilted(depth: float, curvature: float) -> Curve:
        if sides == (1.0, 1.0):
            return symmetric(depth, curvature)
        return asymmetric(depth, *sides, 2 * curvature)

    found = one_hump(tilted, best=chosen.best, curvature=chosen.curvature)(generator).world
    world = replace(
        found,
        fall=generator.uniform(0.3, 0.8),
        noise=chosen.noise * found.noise,
        slow_start=chosen.slow_start * found.slow_start,
        slow_from=chosen.slow_from,
        spikes=chosen.spikes,
        divergence=chosen.divergence,
    )
    return planted_budget(world, generator, depths=chosen.depths, ratios=RATIOS, seeds=SEEDS)
