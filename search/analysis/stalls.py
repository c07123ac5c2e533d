"""Trainings that stalled: their loss ended far above that of other seeds of the same shape.

Small models do: with another seed the same shape ends a tenth of a nat lower. A mean over such
seeds would say more of bad luck than of depth, so they are left out of it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from scipy.special import ndtri

from fathom.models.shape import Shape
from fathom.search.analysis.noise import USUAL_NOISE, Repeats
from fathom.search.analysis.rates import Factor, losses_by_seed
from fathom.search.records import UNSCALED, TrialRecord

FAR_ABOVE = 4 * sqrt(2)
"""Noises above the lowest seed of its shape beyond which a training counts as stalled: four
standard errors of the difference of two seeds."""
HUMP = 2
"""Noises above both its neighbours in a bracket of rates or decays beyond which a training counts
as stalled: a bracket is a valley."""
LEAST_NOISE = 0.003
"""Least noise, nats, that is taken from the lower seeds of the shapes."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """The trials that stalled, by name, and the shapes whose two seeds leave it open."""

    stalled: frozenset[str] = frozenset()
    in_doubt: frozenset[Shape] = frozenset()


def find_stalls(records: Sequence[TrialRecord]) -> Stalls:
    """Returns the finished trials that stalled.

    A seed stalled if it lies `FAR_ABOVE` noises above the lowest one of its shape, rate and decay.
    The noise is that between the lower half of the seeds of a shape, the lower median over the
    shapes that have several, averaged in ln with the shape's own: depths may differ in noise. With
    two seeds only, far apart by the median alone, either may be the unusual one, and the shape is
    in doubt. In a bracket of rates or decays, a training stalled that lies `HUMP` noises above both
    its neighbours.
    """
    humps = set(_humps(records, HUMP * _noise(_spreads(_seeds(records)))))
    groups = _seeds([record for record in records if record.spec.trial not in humps])
    spreads = _spreads(groups)
    noise, stalled, in_doubt = _noise(spreads), humps, set()
    for shape, seeds in groups.items():
        lowest, own = seeds[0].loss, max(noise, spreads[shape])
        above = [seed for seed in seeds if seed.loss - lowest > FAR_ABOVE * sqrt(noise * own)]
        stalled.update(trial for seed in above for trial in seed.trials)
        if not above and len(seeds) == 2 and seeds[1].loss - lowest > FAR_ABOVE * noise:
            in_doubt.add(shape)
    return Stalls(frozenset(stalled), frozenset(in_doubt))


def without_stalled(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Returns the records without the trials that stalled."""
    stalled = find_stalls(records).stalled
    return [record for record in records if record.spec.trial not in stalled]


def stalled_by_depth(records: Sequence[TrialRecord]) -> dict[int, tuple[int, int]]:
    """Returns depth -> number of trainings that stalled, and of all that finished, for depths with
    any that stalled."""
    stalled = find_stalls(records).stalled
    lost = Counter(r.spec.shape.depth for r in records if r.spec.trial in stalled)
    trained = Counter(r.spec.shape.depth for r in records if r.loss is not None)
    return {depth: (number, trained[depth]) for depth, number in sorted(lost.items())}


@dataclass(frozen=True, slots=True)
class _Seed:
    """A seed of a shape."""

    loss: float
    """At the study's own rate and decay, or the lowest at others where that is not known; nats."""
    trials: tuple[str, ...]


def _seeds(records: Sequence[TrialRecord]) -> dict[Shape, list[_Seed]]:
    """The seeds of each shape that has several, by loss."""
    names: dict[tuple[Shape, int], list[str]] = defaultdict(list)
    for record in records:
        if record.loss is not None:
            names[record.spec.shape, record.spec.seed].append(record.spec.trial)
    return {
        shape: sorted(
            (
                _Seed(scales.get(UNSCALED, min(scales.values())), tuple(names[shape, seed]))
                for seed, scales in seeds.items()
            ),
            key=lambda seed: (seed.loss, seed.trials),
        )
        for shape, seeds in losses_by_seed(records).items()
        if len(seeds) > 1
    }


def _spreads(groups: Mapping[Shape, Sequence[_Seed]]) -> dict[Shape, float]:
    """Standard deviation between seeds, nats, by the lowest one and the one in the middle, or the
    second: what stalled lies above them. Normal order statistics after Blom (1958)."""
    spreads = {}
    for shape, seeds in groups.items():
        middle = max(2, ceil(len(seeds) / 2))
        low, high = ndtri((np.array([1, middle]) - 0.375) / (len(seeds) + 0.25))
        spreads[shape] = float((seeds[middle - 1].loss - seeds[0].loss) / (high - low))
    return spreads


def _humps(records: Sequence[TrialRecord], height: float) -> Iterator[str]:
    """Yields the trials whose loss is higher by so many nats than both of the nearest lower and the
    nearest higher multiple of the rate, or of the decay, of the same seed."""
    for factor in Factor:
        lines: dict[tuple[Shape, int], list[tuple[float, float, str]]] = defaultdict(list)
        for record in records:
            spec = record.spec
            multiple = float(getattr(spec.scale, factor))
            if record.loss is not None and factor.scale(multiple) == spec.scale:
                lines[spec.shape, spec.seed].append((multiple, record.loss, spec.trial))
        for line in map(sorted, lines.values()):
            for (_, below, _), (_, loss, trial), (_, above, _) in zip(
                line, line[1:], line[2:], strict=False
            ):
                if loss - max(below, above) > height:
                    yield trial


def _noise(spreads: Mapping[Shape, float]) -> float:
    """The noise between seeds by the lower median of the spreads and what is usual, nats."""
    if not spreads:
        return USUAL_NOISE[0]
    measured = float(np.quantile(list(spreads.values()), 0.5, method="lower"))
    return max(LEAST_NOISE, Repeats(measured, len(spreads)).likely_noise)
