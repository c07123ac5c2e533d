"""Chooses each shape's runs at the best values of their settings, and corrects for the choice.

The lowest of several noisy losses is too low by chance: the more so, the more values a shape had
and the closer their losses are.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from scipy.special import ndtr

from fathom.search.analysis.losses.noise import Repeats, pooled
from fathom.search.formatting import ranges
from fathom.search.tables.runs import Run

STEPS = 2001
"""Number of losses at which the distribution of the minimum is evaluated."""
REACH = 8.0
"""Standard errors on either side of the losses between which the minimum is integrated."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run and its loss at the horizon; None if it has none there."""

    run: Run
    loss: float | None
    price: float = 0.0
    """Nats by which the loss is expected to be too low because it was chosen as the lowest; also
    the standard error of that correction."""

    @property
    def unlucky_loss(self) -> float | None:
        """The loss, corrected for the luck of having been chosen as the lowest."""
        return None if self.loss is None else self.loss + self.price


def shape_means(chosen: Sequence[EndedRun]) -> tuple[list[Run], list[float], list[int]]:
    """For each shape with a loss: one run, the mean over seeds of `unlucky_loss`, and the number of
    seeds."""
    shapes: dict[object, list[EndedRun]] = defaultdict(list)
    for ended in chosen:
        if ended.loss is not None:
            shapes[ended.run.sized_shape].append(ended)
    runs = [seeds[0].run for seeds in shapes.values()]
    losses = [float(np.mean([ended.unlucky_loss for ended in seeds])) for seeds in shapes.values()]
    return runs, losses, [len(seeds) for seeds in shapes.values()]


_Values = dict[object, list[list[EndedRun]]]
"""Values of the settings -> the runs at each learning rate."""


def choose(ended: Sequence[EndedRun], *, rates: bool, noise: float) -> list[EndedRun]:
    """The runs at the best values of their settings, shape by shape, by mean loss.

    The best learning rate is chosen only if `rates`; otherwise all rates are kept, for the estimate
    of the depths. `noise` between seeds is in nats. A run without a loss is kept only if no run of
    its shape has a loss.
    """
    groups = _groups(ended)
    shapes: dict[object, _Values] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        run = group[0].run
        values = (*run.settings.values(), run.learning_rate if rates else None)
        shapes[run.sized_shape][values].append(group)
    return [run for values in shapes.values() for run in _best(values, noise)]


def swept_notes(runs: Iterable[Run]) -> Iterator[str]:
    """Yields a note on depths whose best learning rate is the lowest of several rates, and a note
    on depths where it is the highest."""
    losses: dict[tuple[int, object], dict[float, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in runs:
        if run.learning_rate:
            loss = inf if run.diverged or not len(run.losses) else float(run.losses[-1])
            losses[run.depth, run.sized_shape][run.learning_rate].append(loss)
    best: list[tuple[int, float, list[float]]] = []
    for (depth, _), of_rates in losses.items():
        means = {rate: float(np.mean(of_rate)) for rate, of_rate in of_rates.items()}
        if len(means) > 1 and min(means.values()) < inf:
            best.append((depth, min(means, key=lambda rate: means[rate]), list(means)))
    for extreme, end, beyond in ((min, "lowest", "lower"), (max, "highest", "higher")):
        if found := {depth for depth, rate, rates in best if rate == extreme(rates)}:
            yield (
                f"of the learning rates of depth {ranges(sorted(found))} the {end} is best: a "
                f"{beyond} one may be better, and change which depth is best"
            )


def noise_of(ended: Sequence[EndedRun]) -> float:
    """The noise between seeds, nats: measured by runs that differ only in the seed, combined with
    the usual noise."""
    return _repeats(ended).likely_noise


def _repeats(ended: Sequence[EndedRun]) -> Repeats:
    groups = ([run.loss for run in group if run.loss is not None] for group in _groups(ended))
    return pooled(groups)


def measured_noise(ended: Sequence[EndedRun]) -> float:
    """The noise between seeds, nats, measured by runs that differ only in the seed; 0 if none
    do."""
    return _repeats(ended).noise


def expected_gain(losses: Sequence[float], errors: Sequence[float]) -> float:
    """Nats by which the lowest of these losses is expected to be too low by chance, given their
    errors (parametric bootstrap)."""
    if len(losses) < 2:
        return 0.0
    levels, widths = np.array(losses), np.array(errors)
    lowest, reach = levels.min(), REACH * widths.max()
    at = np.linspace(lowest - reach, lowest + reach, STEPS)
    above = np.prod(ndtr((levels[:, None] - at) / widths[:, None]), axis=0)
    return float(lowest - (at[0] + np.trapezoid(above, at)))


def _groups(ended: Sequence[EndedRun]) -> list[list[EndedRun]]:
    """Groups of runs that agree in all but the seed; a seed with several runs counts once, at their
    mean loss."""
    seeds: dict[object, dict[int, list[EndedRun]]] = defaultdict(lambda: defaultdict(list))
    for trained in ended:
        run = trained.run
        key = (run.sized_shape, run.learning_rate, *run.settings.items())
        seeds[key][run.seed].append(trained)
    return [[_mean(runs) for runs in of_seed.values()] for of_seed in seeds.values()]


def _mean(runs: Sequence[EndedRun]) -> EndedRun:
    """The first run with a loss, at the mean loss of all that have one."""
    finished = [run for run in runs if run.loss is not None]
    if not finished:
        return runs[0]
    return EndedRun(finished[0].run, float(np.mean([run.loss for run in finished])))


def _best(values: _Values, noise: float) -> list[EndedRun]:
    """The runs at the values with the lowest mean loss; their `price` is the part of their lead,
    nats, that is due to chance."""
    means: dict[object, float] = {}
    errors: dict[object, float] = {}
    for value, of_rates in values.items():
        for group in of_rates:
            losses = [run.loss for run in group if run.loss is not None]
            if losses and float(np.mean(losses)) < means.get(value, inf):
                means[value] = float(np.mean(losses))
                errors[value] = noise / sqrt(len(losses))
    if not means:
        return [run for of_rates in values.values() for group in of_rates for run in group]
    best = min(means, key=lambda value: means[value])
    gain = expected_gain(list(means.values()), list(errors.values()))
    return [
        EndedRun(ended.run, ended.loss, gain)
        for value, of_rates in values.items()
        for group in of_rates
        for ended in group
        if value == best
    ]
