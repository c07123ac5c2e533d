"""Checks that one learning rate suits shapes of every depth and width. Needs neither Ray nor
MLflow.

The check has two parts. The coordinate check measures how far activations change in the first
steps, over sizes that can be trained for a few steps only. The sweep finds the best rate of a base
shape, a deep one and a wide one by short trainings on the study's own data. A rate carries over if
both pass.

Where the study's trainings repeat their data, the base shape and the deep one are trained at other
weight decays as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean

from fathom.models.measure.coordinates import Coordinates, OptimizerSettings, coordinates, slope
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.prepare import prepare
from fathom.search.laboratory.check.decays import DecayCheck, decays_to_compare
from fathom.search.laboratory.check.probe import PROBE, Probe, Prober, ProbeSize, Watch, probe_shape
from fathom.search.laboratory.check.rate_sweep import Sweep
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.free_size import check_one_size
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training.device import local_device

EXPONENT_LIMIT = 0.45
"""Largest absolute exponent of an activation's change over the size that counts as no trend.
Schemes under which one rate suits all sizes stay well below it and others well above, with any
heads, positions, gates, tied weights and rate: `python -m benchmarks.answers.trained.carrying
--coordinates`."""
RATE_LIMIT = 0.5
"""Largest shift of the best log2 learning rate per doubling of a size at which one rate suits all:
after two doublings, the best rate is still within x0.5 to x2, as tried in the confirmation stage.
Measured by `python -m benchmarks.answers.trained.carrying`."""
COORDINATE_STEPS = 6
COORDINATE_SEEDS = (0, 1)
COORDINATE_VOCABULARY, COORDINATE_CONTEXT = 64, 16


class SizeAxis(StrEnum):
    """The axes over which the best learning rate should stay the same."""

    DEPTH = "depth"
    WIDTH = "width"
    ENCODER_DEPTH = "encoder depth"
    DECODER_DEPTH = "decoder depth"

    def size_of(self, shape: Shape) -> int:
        """Size of a shape along this axis."""
        sizes = {SizeAxis.WIDTH: shape.d_model, SizeAxis.ENCODER_DEPTH: shape.encoder_depth}
        return sizes.get(self, shape.decoder_depth)

    def sizes(
        self, depths: Sequence[int], widenings: Sequence[int], *, two_stacks: bool
    ) -> list[ProbeSize]:
        """Sizes along this axis, first that of the base shape; all else is equal to the base
        shape."""
        near = depths[0]
        encoder = near if two_stacks else 0
        match self:
            case SizeAxis.WIDTH:
                return [ProbeSize(near, widening, encoder) for widening in widenings]
            case SizeAxis.ENCODER_DEPTH:
                return [ProbeSize(near, 1, depth) for depth in depths]
        return [ProbeSize(depth, 1, encoder) for depth in depths]


ONE_STACK = (SizeAxis.DEPTH, SizeAxis.WIDTH)
TWO_STACKS = (SizeAxis.ENCODER_DEPTH, SizeAxis.DECODER_DEPTH, SizeAxis.WIDTH)
"""Axes of a model with an encoder."""
COORDINATE_DEPTHS, COORDINATE_WIDENINGS = (2, 4, 16, 64), (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateCheck:
    """Coordinate check along one axis: exponents of the activations' changes in the first steps."""

    sizes: tuple[int, ...]
    exponents: Coordinates
    """Activation -> exponent of its change over the size, averaged over steps; 0 means no trend."""

    @property
    def largest(self) -> tuple[str, float]:
        """The activation with the largest absolute exponent, and its exponent."""
        named = {f.name: float(getattr(self.exponents, f.name)) for f in fields(self.exponents)}
        return max(named.items(), key=lambda item: abs(item[1]))

    @property
    def flat(self) -> bool:
        """True if no activation's exponent exceeds the limit."""
        return abs(self.largest[1]) <= EXPONENT_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCheck:
    """Result of the check on one axis: depth or width."""

    axis: SizeAxis
    coordinates: CoordinateCheck | None
    """None for a model of the user's own, whose activations are not known by name."""
    base: Sweep
    far: Sweep

    @property
    def sizes(self) -> tuple[int, int]:
        """Sizes of the two trained shapes along the axis."""
        return self.axis.size_of(self.base.shape), self.axis.size_of(self.far.shape)

    @property
    def log2_shift(self) -> float:
        """Shift of the best log2 learning rate per doubling of the axis."""
        return (self.far.best_log2_factor - self.base.best_log2_factor) / self._doublings

    @property
    def error(self) -> float:
        """Standard error of the shift, from the seeds."""
        return math.hypot(self.base.error, self.far.error) / self._doublings

    @property
    def rate_stays(self) -> bool:
        """True if both best rates are enclosed and close enough to each other."""
        known = self.base.enclosed and self.far.enclosed
        return known and abs(self.log2_shift) <= RATE_LIMIT

    @property
    def carries_over(self) -> bool:
        """True if both parts of the check pass on this axis."""
        return self.rate_stays and (self.coordinates is None or self.coordinates.flat)

    @property
    def _doublings(self) -> float:
        near, far = self.sizes
        return math.log2(far / near)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of the check of a study."""

    config: StudyConfig
    probe: Probe
    axes: tuple[AxisCheck, ...]
    study_sizes: dict[SizeAxis, tuple[int, int]]
    """Axis -> smallest and largest size of the study's shapes."""
    decays: DecayCheck | None = None
    """Weight decays compared on the base shape and the deep shape; None unless a training is known
    to repeat its data."""

    @property
    def base(self) -> Sweep:
        """Learning rates tried on the base shape."""
        return self.axes[0].base

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Learning rates tried on the base shape, the deep one and the wide one."""
        return self.base, *(axis.far for axis in self.axes)

    @property
    def carries_over(self) -> bool:
        """True if one learning rate suits shapes of all sizes."""
        return all(axis.carries_over for axis in self.axes)

    @property
    def best_rate(self) -> float:
        """Best learning rate of the base shape."""
        return self.config.train.learning_rate * 2**self.base.best_log2_factor

    @property
    def rate_fits(self) -> bool:
        """True if the study's learning rate is within a factor of 2 of the base shape's best."""
        return self.base.enclosed and abs(self.base.best_log2_factor) <= 1


def scheme_of(config: StudyConfig) -> Scheme | None:
    """Rules of scaling of a study; None where all weights have its rate."""
    return None if config.model.plain_rates else config.model.parametrization.scheme


def check_study(
    config: StudyConfig, watch: Watch, probe: Probe = PROBE, cache: Path | None = None
) -> CheckResult:
    """The result of both parts of the check, on the study's own data; `cache` is a folder for its
    tokens.

    Raises:
        ValueError: when the text can't be read or a budget has too few shapes.
    """
    keys = config.objective.for_probe(context=probe.context, eval_tokens=probe.eval_tokens)
    return check_on(config, prepare(keys, cache), watch, probe)


def check_on(
    config: StudyConfig, objective: Objective, watch: Watch, probe: Probe = PROBE
) -> CheckResult:
    """The result of both parts of the check, on a prepared objective.

    Raises:
        ConfigError: if the budgets of the study leave the size free.
    """
    check_one_size(config.count, "fathom check")
    budgets, vocab_size = expand_budgets(config), objective.vocab_size
    shapes = [shape for budget in budgets for shape in feasible_shapes(config, budget, vocab_size)]
    axes = TWO_STACKS if config.space.split else ONE_STACK
    sizes = {axis: sorted(map(axis.size_of, shapes)) for axis in axes}
    device = local_device(config.resources)
    prober = Prober(
        config=config, objective=objective.to(device), device=device, watch=watch, probe=probe
    )
    ends = {
        axis: axis.sizes(probe.depths, (1, probe.widening), two_stacks=bool(config.space.split))
        for axis in axes
    }
    base = prober.sweep(ends[SizeAxis.WIDTH][0], centre=0)
    centre = base.lowest.log2_factor
    far = {axis: prober.sweep(sizes[-1], centre=centre) for axis, sizes in ends.items()}
    return CheckResult(
        config=config,
        probe=probe,
        axes=tuple(
            AxisCheck(
                axis=axis,
                coordinates=None if config.model.build else coordinate_check(config, axis),
                base=base,
                far=sweep,
            )
            for axis, sweep in far.items()
        ),
        study_sizes={axis: (least, most) for axis, (least, *_, most) in sizes.items()},
        decays=_decay_check(
            prober, base, far[SizeAxis.DECODER_DEPTH if config.space.split else SizeAxis.DEPTH]
        ),
    )


def _decay_check(prober: Prober, shallow: Sweep, deep: Sweep) -> DecayCheck | None:
    """The comparison of weight decays; None unless a training is known to repeat its data."""
    config, longest = prober.config, expand_budgets(prober.config)[-1]
    if config.coin.timed:
        return None  # on how many tokens they train is known once steps are measured
    epochs = config.objective.epochs_at_least(longest.tokens)
    if epochs is None or epochs <= 1:
        return None
    own = config.train.weight_decay
    shallow_sweep, deep_sweep = (
        prober.decays(sweep, decays_to_compare(own), epochs=epochs, steps=longest.steps)
        for sweep in (shallow, deep)
    )
    return DecayCheck(
        own=own, epochs=epochs, shallow=shallow_sweep, deep=deep_sweep,
        guess=prober.objective.chance_loss,
    )  # fmt: skip


def coordinate_check(config: StudyConfig, axis: SizeAxis) -> CoordinateCheck:
    """Result of the coordinate check along one axis, at the study's learning rate."""
    train = config.train
    settings = OptimizerSettings(
        learning_rate=train.learning_rate,
        name=train.optimizer,
        weight_decay=train.weight_decay,
        betas=train.betas,
        eps=train.eps,
    )
    found: dict[int, tuple[Coordinates, ...]] = {}
    two_stacks = bool(config.space.split)
    for size in axis.sizes(COORDINATE_DEPTHS, COORDINATE_WIDENINGS, two_stacks=two_stacks):
        shape = probe_shape(
            config, size, vocab_size=COORDINATE_VOCABULARY, context=COORDINATE_CONTEXT
        )
        if shape.source_vocab_size:
            shape = replace(shape, source_vocab_size=COORDINATE_VOCABULARY)
        found[axis.size_of(shape)] = coordinates(
            shape,
            config.model.parametrization.build(),
            settings,
            steps=COORDINATE_STEPS,
            seeds=COORDINATE_SEEDS,
            of_encoder=axis is SizeAxis.ENCODER_DEPTH,
        )
    return CoordinateCheck(sizes=tuple(found), exponents=_exponents(found))


def _exponents(found: dict[int, tuple[Coordinates, ...]]) -> Coordinates:
    """Exponent of each activation's change over the size, averaged over steps."""

    def exponent(name: str) -> float:
        return fmean(
            slope(list(found), [getattr(changes[step], name) for changes in found.values()])
            for step in range(1, COORDINATE_STEPS + 1)
        )

    return Coordinates(**{field.name: exponent(field.name) for field in fields(Coordinates)})
