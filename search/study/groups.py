"""The groups of a study file: each is a frozen value whose attributes are its keys."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fathom.models.parametrization import Parametrization, Scheme, check_scheme
from fathom.models.shape import Count, Normalization, Positions, Residual, check_loop
from fathom.search.study.types import (
    Few,
    Group,
    Multiple,
    Positive,
    PositiveReal,
    Real,
    Share,
)


class SpaceConfig(Group):
    """Which shapes may be tried."""

    depth: tuple[Few, ...] = Field((1, 64), min_length=2)
    """Fewest and most layers; three numbers and more are the depths themselves: [1, 4, 16]."""
    ff_ratio: tuple[Multiple, Multiple] = (1.0, 8.0)
    """Lowest and highest d_ff / d_model."""
    feed_forward: bool = True
    """Without it every d_ff is 0, attention alone; `ff_ratio` then says nothing."""
    d_model: Positive | None = None
    """One width for all shapes, as in Petty et al. 2023; otherwise every width is tried."""
    head_dim: Positive | None = None
    """Width of a head; d_model adds heads. Without it and `n_heads`: 16, 32 or 64 by budget."""
    n_heads: Positive | None = None
    """Heads at every width, as in Levine et al. 2020; heads widen with d_model. With `head_dim` as
    well, attention is n_heads * head_dim wide at every d_model."""
    d_model_multiple: Positive | None = None
    """d_model is a multiple of this and of what the heads need; by default 8, or 1 below 1M."""
    d_ff_multiple: Positive | None = None
    """d_ff is a multiple of this; by default 8, or 1 when a budget is below 1M."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ascending = sorted(set(self.depth))
        if len(self.depth) > 2 and list(self.depth) != ascending:
            raise ValueError(
                f"`depth` must ascend without repeats, got {list(self.depth)}; use {ascending}"
            )
        for name, (low, *_, high) in (("depth", self.depth), ("ff_ratio", self.ff_ratio)):
            if low > high:
                raise ValueError(f"`{name}` must be [low, high], got [{low}, {high}]; swap them")
        return self

    @property
    def depths(self) -> Sequence[int]:
        """Every depth that may be tried, ascending."""
        if len(self.depth) > 2:
            return self.depth
        return range(self.depth[0], self.depth[1] + 1)

    def check_count(self, count: Count) -> None:
        """Raises `ValueError` where budgets of this count leave other sizes open than the depth."""
        if count not in (Count.HEADS, Count.WIDTH):
            return
        low, high = self.ff_ratio
        if self.feed_forward and low != high:
            raise ValueError(
                f"`space.ff_ratio` must be one ratio with `count: {count}`, got [{low}, {high}]; "
                "for example [4, 4]"
            )
        if (self.d_model is None) != (count is Count.WIDTH):
            rule = "given" if count is Count.HEADS else "left to the budgets"
            raise ValueError(f"`space.d_model` must be {rule} with `count: {count}`")
        if count is Count.HEADS and self.n_heads:
            raise ValueError(f"`space.n_heads` can't be fixed with `count: {count}`; drop it")


class Sampler(StrEnum):
    """How shapes are drawn."""

    CURVE = "curve"
    """Where the curve over depth, as it looks so far, may be lowest."""
    TPE = "tpe"
    GP = "gp"
    RANDOM = "random"
    LADDER = "ladder"
    """Every depth once at one ratio, to the end: the exhaustive answer."""


class StoppingConfig(Group):
    """When a poor trial pauses: successive halving that is fair to depth."""

    enabled: bool = True
    first_rung: Real = Field(0.0625, gt=0.0, lt=1.0)
    """Share of the horizon before which nothing pauses; later rungs follow by `eta`."""
    eta: Real = Field(4.0, ge=1.2, le=1000.0)
    """One in `eta` goes on at a rung, and each next rung comes `eta` times later."""
    median_of: Few = 3
    """Evaluations just before a rung whose median judges a trial, so that no spike does."""
    always_finish: Share = 0.0625
    """Share of trials, drawn at random, that never pause: they audit the stopping."""


class ConfirmConfig(Group):
    """The leading depths, trained to the end with fresh seeds, until the verdict is settled."""

    depths: Positive = 6
    """At most so many: three to begin with, more while they do not enclose the optimum."""
    seeds: Positive = 4
    """At most so many a depth: two to begin with, more while the noise asks for them."""
    rates: tuple[Multiple, ...] = (0.5, 1.0, 2.0)
    """Multiples of the rate tried on the first fresh seed; must contain 1."""

    @model_validator(mode="after")
    def _contains_one(self) -> Self:
        if 1.0 not in self.rates or len(set(self.rates)) != len(self.rates):
            raise ValueError(
                f"`rates` must contain 1 and no value twice, got {list(self.rates)}; "
                "for example [0.5, 1, 2]"
            )
        return self


class ParametrizationConfig(Group):
    """How rates and initialisation follow the shape; the rate is tuned on the base shape."""

    scheme: Scheme = Scheme.COMPLETEP
    base_width: Positive = 256
    base_depth: Positive = 2
    base_head_dim: Positive = 64
    init_std: PositiveReal = 0.02

    def build(self) -> Parametrization:
        """The value that models take."""
        return Parametrization(**dict(self))


class ModelConfig(Group):
    """What all shapes of the study have in common."""

    gated: bool = False
    tied: bool = True
    positions: Positions = Positions.ROTARY
    residual: Residual = Residual.PRE
    """How branches join the stream; all but `pre` need a scheme other than `completep`."""
    norm: Normalization = Normalization.LAYER
    """`layer`, or `rms` as in Llama, which is slower on a CPU."""
    biases: bool = False
    """Of linear maps and layer norms, as in GPT-2."""
    embedding_rank: Positive | None = None
    """The embedding, and the unembedding, is a product of two matrices of this rank."""
    smeared_keys: bool = False
    """Each head mixes every key with the one before it, in a trained proportion."""
    looped: bool = False
    """One block, applied `depth` times: depth then costs no parameters."""
    bidirectional: bool = False
    """Attention to both sides, for objectives that classify; token 0 is padding, never seen."""
    parametrization: ParametrizationConfig = ParametrizationConfig()

    @property
    def options(self) -> dict[str, Any]:
        """What every shape of the study is built with, by the names of `Shape`."""
        return {name: value for name, value in self if name != "parametrization"}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_scheme(self.parametrization.scheme, self.residual)
        check_loop(looped=self.looped, residual=self.residual)
        return self


class Precision(StrEnum):
    """Arithmetic of the forward and backward pass; weights are always float32."""

    AUTO = "auto"
    """bfloat16 where the trial has a GPU, else float32."""
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class TrainConfig(Group):
    """How every trial trains."""

    batch_size: Positive | Literal["auto"] = "auto"
    """Sequences a step; `auto` gives each budget about 2,000 steps."""
    learning_rate: PositiveReal = 1e-3
    """Peak rate on the base shape."""
    warmup: Share = 0.02
    """Share of the horizon."""
    cooldown: Share = 0.2
    """Share of the horizon over which the rate falls to zero, after the last rung."""
    weight_decay: Real = Field(0.1, ge=0.0)
    betas: tuple[Share, Share] = (0.9, 0.95)
    eps: PositiveReal = 1e-12
    grad_clip: PositiveReal = 1.0
    evaluations: Few = 16
    """Evenly spaced evaluations a trial; rungs add their own."""
    patience: Positive | None = None
    """End a trial when its held-out loss has not fallen below its lowest for so many evaluations.

    The weights of the lowest one then count, and so they do at the horizon. Not with `stopping`.
    """
    diagnostics: bool = True
    """Look into the layers from time to time: attention, rank, gradients."""
    precision: Precision = Precision.AUTO
    compile: bool | Literal["auto"] = "auto"
    """Compile training steps with torch.compile, which needs a C compiler on every worker.

    `auto` does it where a trial on a GPU is long enough to win back the time of compiling.
    """


class ResourcesConfig(Group):
    """What a trial gets."""

    cpus_per_trial: Multiple = 1
    """Also the number of threads, rounded down but at least one; with several GPUs, for each."""
    gpus_per_trial: Real | Literal["auto"] = "auto"
    """`auto` is 1 where the cluster has a GPU, else 0; 0.25 packs four trials on one GPU.

    With 2 or more each GPU trains its share of every batch, for shapes that one would train too
    slowly.
    """
    max_concurrent_trials: Positive | Literal["auto"] = "auto"
    """`auto` fills the cluster as it is when the search starts; say it for one that grows."""
    replicas: Positive = 1
    """Train up to so many confirming trials of one shape as one batched model in one worker.

    Seeds and rates that wait at the same moment. For small models on a GPU; a CPU gains little.
    They go on one by one after an interruption or an error, are not compiled, and of one that
    diverges it is not said where that began.
    """

    @field_validator("gpus_per_trial")
    @classmethod
    def _whole_or_a_share(cls, value: float | str) -> float | str:
        if isinstance(value, str) or 0.01 <= value <= 1 or value in range(1025):
            return value
        raise ValueError(
            f"must be a share of a GPU from 0.01 to 1, or a whole number to 1024, got {value:g}"
        )

    @property
    def processes_per_trial(self) -> int:
        """One, or one for each of several GPUs."""
        return 1 if self.gpus_per_trial == "auto" else max(1, int(self.gpus_per_trial))

    @model_validator(mode="after")
    def _one_process_for_replicas(self) -> Self:
        if self.replicas > 1 and self.processes_per_trial > 1:
            raise ValueError(
                "`replicas` must be 1 where a trial has several GPUs, of which small models fill "
                f"none, got {self.replicas} with {self.processes_per_trial} GPUs a trial; drop one"
            )
        return self


class TrackingConfig(Group):
    """Where MLflow keeps the runs, and Optuna its studies."""

    uri: str | None = None
    """Any MLflow tracking URI; by default an SQLite file beside the run folders."""
    optuna: str | None = None
    """A PostgreSQL database of Optuna's own; by default a file in the run folder."""
