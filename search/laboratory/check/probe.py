"""Trains small shapes briefly, by the search's own training loop, to compare learning rates and
weight decays.

The shapes have the study's options: heads, gates, positions, tied weights, parametrization.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from fathom.models.parametrization import BASE_FF_RATIO
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.search.laboratory.check.decays import DecayPoint, DecaySweep, Repeated
from fathom.search.laboratory.check.rate_sweep import RatePoint, Sweep, sweep
from fathom.search.records import HOPELESS_NATS, derive_seed
from fathom.search.study.file.study_file import changed
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import default_head_dim
from fathom.search.study.planning.space.shape_counter import recipe_of
from fathom.search.study.planning.space.shape_space import ShapeLimits
from fathom.search.training.loop import train
from fathom.search.training.state import Training, TrainPlan

LARGEST_HEAD_DIM = 16
MOST_HEADS = 4
"""Largest number of heads: as many as in large models would be too narrow at width 32."""

Watch = Callable[[Shape, RatePoint | DecayPoint], None]
"""Function called with each shape and its losses at a rate or decay, once these trainings ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Length and size of the short trainings. The limits in `check/check.py` were measured at the
    defaults."""

    steps: int = 250
    tokens_per_step: int = 512
    context: int = 128
    """Largest context; the study's own if it is shorter."""
    eval_tokens: int = 16_384
    """Largest number of tokens per evaluation; the study's own if it is smaller."""
    seeds: int = 2
    warmup: float = 0.25
    """Least share of the steps for warm-up; the study's share if larger. The usual 0.02 would be 5
    steps; verdicts on the quickstart are the same with both, see benchmarks/RESULTS.md."""
    depths: tuple[int, int] = (2, 8)
    """Depths of the base shape and of the deep shape."""
    width: int = 32
    """Width of the base shape, rounded up to what the heads need."""
    widening: int = 4
    """Width of the wide shape as a multiple of the base shape's."""


PROBE = Probe()


class ProbeSize(NamedTuple):
    """The size of a small shape."""

    depth: int
    """Number of layers; with an encoder, of the decoder alone."""
    widening: int = 1
    """Width as a multiple of the base shape's."""
    encoder_depth: int = 0


def probe_shape(
    config: StudyConfig, size: ProbeSize, *, vocab_size: int, context: int, probe: Probe = PROBE
) -> Shape:
    """A small shape with the study's model options; its heads follow the width as in the study."""
    space = config.space
    group = config.model.attention.queries_per_key * config.model.groups
    fewest = group * max(1, MOST_HEADS // group)
    heads = {"space.n_heads": space.n_heads and min(space.n_heads, fewest)}
    if space.head_dim or not space.n_heads:
        head_dim = space.head_dim or default_head_dim(min(config.budgets))
        heads["space.head_dim"] = min(head_dim, math.lcm(LARGEST_HEAD_DIM, config.model.groups))
    small = ShapeLimits.of(changed(config, heads), vocab_size)
    step = small.heads_step
    d_model = size.widening * step * math.ceil(probe.width / step)
    d_ff = BASE_FF_RATIO * d_model if space.feed_forward else 0
    depth, encoder = size.depth + size.encoder_depth, size.encoder_depth
    shape = replace(small.shape(depth, d_model, d_ff, encoder_depth=encoder), context=context)
    return small.counter.exactly(shape) if small.counter else shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Prober:
    """Trains small shapes at several learning rates and weight decays on one objective."""

    config: StudyConfig
    objective: Objective
    device: torch.device
    watch: Watch
    probe: Probe = PROBE

    def sweep(self, size: ProbeSize, *, centre: int) -> Sweep:
        """Sweep of the learning rates of one shape, starting at the log2 factor `centre`."""
        shape = probe_shape(
            self.config,
            size,
            vocab_size=self.objective.vocab_size,
            context=self.objective.context,
            probe=self.probe,
        )
        return sweep(shape, lambda log2_factor: self._point(shape, log2_factor), centre=centre)

    def _point(self, shape: Shape, log2_factor: int) -> RatePoint:
        objective = self.objective
        losses = self._losses(shape, self._plan(log2_factor), objective, objective.chance_loss)
        point = RatePoint(log2_factor=log2_factor, losses=losses)
        self.watch(shape, point)
        return point

    def decays(
        self, found: Sweep, decays: Sequence[float], *, epochs: float, steps: int
    ) -> DecaySweep:
        """Sweep of weight decays of the shape of `found` at its best rate. The data are repeated
        for `epochs`, and decays are scaled to shrink weights by as much as in a training of `steps`
        steps."""
        plan, probe = self._plan(found.lowest.log2_factor), self.probe
        repeated = Repeated(self.objective, max(1, round(probe.steps / epochs)))
        points = []
        for decay in decays:
            decayed = replace(plan, weight_decay=decay * steps / probe.steps)
            # What was learnt by heart may be worse than a guess, and decay is what may prevent it.
            most = self.objective.chance_loss + HOPELESS_NATS
            losses = self._losses(found.shape, decayed, repeated, most)
            points.append(DecayPoint(decay=decay, losses=losses))
            self.watch(found.shape, points[-1])
        return DecaySweep(shape=found.shape, points=tuple(points))

    def _losses(
        self, shape: Shape, plan: TrainPlan, objective: Objective, most: float
    ) -> tuple[float, ...]:
        """Final held-out loss of each seed, at most `most`."""
        seeds = range(self.probe.seeds)
        return tuple(min(self._loss(shape, plan, objective, seed), most) for seed in seeds)

    def _loss(self, shape: Shape, plan: TrainPlan, objective: Objective, number: int) -> float:
        """Final held-out loss; infinite if the training diverged."""
        # The same seed at every shape and rate: the same text in the same order.
        seed = derive_seed(self.config.seed, "check", number)
        recipe = recipe_of(self.config.model)
        training = Training(shape, recipe, plan, seed=seed, device=self.device)
        *_, last = train(training, objective)
        return math.inf if last.diverged else last.loss

    def _plan(self, log2_factor: int) -> TrainPlan:
        settings, probe = self.config.train, self.probe
        return TrainPlan(
            steps=probe.steps,
            batch_size=max(1, probe.tokens_per_step // self.objective.context),
            learning_rate=settings.learning_rate * 2.0**log2_factor,
            warmup_steps=max(1, round(max(settings.warmup, probe.warmup) * probe.steps)),
            cooldown_steps=round(settings.cooldown * probe.steps),
            **settings.of_steps,
            evaluation_steps=(probe.steps,),
            bfloat16=False,
        )
