"""The groups of a study file: each is a frozen value whose attributes are its keys."""

import os
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from operator import not_
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fathom.models.group_penalty import GroupNorm, GroupPenalty, SizedPart
from fathom.models.parametrization import OptimizerName
from fathom.models.shape import Count
from fathom.objectives.keys import (
    Few,
    Group,
    Multiple,
    Parameters,
    Positive,
    PositiveReal,
    Real,
    RuleError,
    Share,
    short,
)
from fathom.objectives.user_code import PLACE_PATTERN
from fathom.search.analysis.losses.rung_value import MEDIAN_OF
from fathom.search.formatting import format_count
from fathom.search.study.keys.command import OF_A_COMMAND, WITHOUT_EFFECT, check_command

TOKENS_PER_PARAMETER = 20.0
"""Default training tokens per parameter (Hoffmann et al. 2022)."""
STEP_FACTOR, STEP_EXPONENT = 0.58, 0.571
"""The best batch for a horizon of D tokens is 0.58 D^0.571 tokens, nearly regardless of the model's
size (Li et al. 2025, Step Law, arXiv 2503.04715)."""
FEWEST_STEPS = 2000
"""Fewest steps of a training under `batch_size: auto`; with fewer but larger steps, small models
learn too little."""
SPLIT_PATTERN = r"^[1-9][0-9]{0,2}-[1-9][0-9]{0,2}$"
"""Pattern of `split`: layers of the encoder to layers of the decoder."""
HEAD_DIMS = {16: 10_000_000, 32: 100_000_000}
"""Default widths of a head, each with the budget below which it is the default; small budgets then
have more widths to choose from."""
LARGEST_HEAD_DIM = 64
"""Default width of a head for larger budgets."""
MULTIPLE = 8
"""Default divisor of all widths, which suits hardware."""
COARSE_FROM = 1_000_000
"""Smallest budget at which `MULTIPLE` is not too coarse; for smaller ones every width is tried."""
_MULTIPLES = f"{MULTIPLE} for budgets of {format_count(COARSE_FROM)} or more, 1 for smaller ones"


def encoder_layers(split: str, depth: int) -> int:
    """The number of encoder layers that splits `depth` layers most nearly as `split` says; 0 if a
    stack would have no layer, or if two numbers are equally near.

    >>> [encoder_layers("1-1", depth) for depth in (1, 2, 3, 4)]
    [0, 1, 0, 2]
    >>> [encoder_layers("12-1", depth) for depth in (6, 7, 13, 20)]
    [0, 6, 12, 18]
    """
    encoder, decoder = map(int, split.split("-"))
    whole, rest = divmod(encoder * depth, encoder + decoder)
    if 2 * rest == encoder + decoder:
        return 0
    layers = whole + (2 * rest > encoder + decoder)
    return layers if layers < depth else 0


def default_head_dim(smallest_budget: int) -> int:
    """Default width of a head in a study with this smallest budget."""
    fitting = (width for width, below in HEAD_DIMS.items() if smallest_budget < below)
    return next(fitting, LARGEST_HEAD_DIM)


def default_multiple(budget: int) -> int:
    """Default divisor of the widths of a budget's shapes."""
    return MULTIPLE if budget >= COARSE_FROM else 1


def _head_dims() -> str:
    below = [f"{width} if it is below {format_count(most)}" for width, most in HEAD_DIMS.items()]
    text = f"{', '.join(below)}, else {LARGEST_HEAD_DIM}"
    return text.replace("it is", "the smallest budget is", 1)


class SpaceConfig(Group):
    """Limits on the shapes that may be tried."""

    depth: tuple[Few, ...] = Field((1, 64), min_length=2)
    """Fewest and most layers. Three or more numbers are a list of the depths: [1, 4, 16]."""
    ff_ratio: tuple[Multiple, Multiple] = (1.0, 8.0)
    """Lowest and highest ratio of d_ff to d_model."""
    params: tuple[Parameters, Parameters] | None = Field(
        None, exclude_if=not_, examples=[["1M", "30M"]]
    )
    """Parameters of the smallest and of the largest model, such as [1M, 30M], where `count` leaves
    the size free."""
    split: str | None = Field(
        None,
        pattern=SPLIT_PATTERN,
        description="layers of the encoder to layers of the decoder, such as 1-1 or 12-1",
        examples=["1-1"],
        exclude_if=not_,
    )
    """Layers of the encoder to layers of the decoder, such as 1-1 or 12-1, for objectives with
    sources; `depth` then counts both. Each depth is split into the whole numbers of layers nearest
    to this ratio."""
    feed_forward: bool = True
    """Feed-forward branches; without them every layer is attention alone, and `ff_ratio` is
    unused."""
    d_model: Positive | None = None
    """Width of all shapes, as in Petty et al. 2023. By default widths vary."""
    head_dim: Positive | None = Field(
        None,
        description="Width of a head; wider shapes have more heads. If `n_heads` is not set "
        f"either: {_head_dims()}.",
    )
    n_heads: Positive | None = None
    """Number of heads at every width, as in Levine et al. 2020; wider shapes have wider heads. With
    `head_dim` as well, attention is n_heads * head_dim wide at every d_model."""
    d_model_multiple: Positive | None = Field(
        None,
        description="d_model is a multiple of this number and of the width that the heads need. "
        f"By default {_MULTIPLES}.",
    )
    d_ff_multiple: Positive | None = Field(
        None, description=f"d_ff is a multiple of this number. By default {_MULTIPLES}."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ascending = sorted(set(self.depth))
        if len(self.depth) > 2 and list(self.depth) != ascending:
            raise RuleError(
                "depth", f"must ascend without repeats, got {list(self.depth)}; use {ascending}"
            )
        for name, (low, *_, high) in (("depth", self.depth), ("ff_ratio", self.ff_ratio)):
            if low > high:
                raise RuleError(name, f"must be [low, high], got [{low}, {high}]; swap them")
        return self

    @cached_property  # read for each of many thousand shapes
    def depths(self) -> Sequence[int]:
        """The depths that may be tried, ascending."""
        depths: Sequence[int] = self.depth
        if len(self.depth) == 2:
            depths = range(self.depth[0], self.depth[1] + 1)
        return [depth for depth in depths if self.encoder_depth(depth)] if self.split else depths

    @property
    def heads_differ(self) -> bool:
        """True if the heads of wider shapes are wider."""
        return self.n_heads is not None and self.head_dim is None

    def encoder_depth(self, depth: int) -> int:
        """Number of encoder layers at a depth; 0 without an encoder, or if the depth can't be split
        so."""
        return encoder_layers(self.split, depth) if self.split else 0

    def check_count(self, count: Count) -> None:
        """Raises `ValueError` if these limits do not suit budgets of this count."""
        if self.params and not count.frees_size:
            text = "goes with `count: train_flops` or `train_seconds` alone; drop it"
            raise RuleError("space.params", text)
        if count not in (Count.HEADS, Count.WIDTH):
            return
        low, high = self.ff_ratio
        if self.feed_forward and low != high:
            raise RuleError(
                "space.ff_ratio",
                f"must be one ratio with `count: {count}`, got [{low}, {high}]; for example [4, 4]",
            )
        if (self.d_model is None) != (count is Count.WIDTH):
            rule = "given, such as 64" if count is Count.HEADS else "left to the budgets; drop it"
            raise RuleError("space.d_model", f"with `count: {count}` must be {rule}")
        if count is Count.HEADS and self.n_heads:
            raise RuleError("space.n_heads", f"can't be fixed with `count: {count}`; drop it")


class Sampler(StrEnum):
    """Method that chooses the shapes of exploring trials."""

    CURVE = "curve"
    """Depths where the curve of loss against depth, fitted so far, may be lowest."""
    TPE = "tpe"
    """Optuna's tree-structured Parzen estimator."""
    GP = "gp"
    """Optuna's Gaussian process."""
    RANDOM = "random"
    """Shapes at random."""
    LADDER = "ladder"
    """Every depth once at one ratio, trained to the end: an exhaustive search."""


class StoppingMethod(StrEnum):
    """Rule by which a paused trial is promoted."""

    ASHA = "asha"
    """A trial is promoted as soon as it is among the best at its rung: fewer workers stand idle."""
    SYNCHRONOUS = "synchronous"
    """A trial is promoted once no more trials can come to its rung: fewer tokens."""


SamplerClass = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
"""Import path of a class of Optuna's or of the user's own."""


class StoppingConfig(Group):
    """Early stopping of poor trials by asynchronous successive halving (ASHA), with forecasts that
    do not favour any depth."""

    enabled: bool = True
    """Pause poor trials early."""
    rule: StoppingMethod = StoppingMethod.ASHA
    """Rule that promotes paused trials: `asha`, as soon as a trial is among the best that have come
    to its rung, or `synchronous`, once all trials have come."""
    first_rung: Real = Field(0.125, gt=0.0, lt=1.0)
    """Share of the training tokens at the first rung; no trial pauses earlier. By default it comes
    no later than the cool-down."""
    eta: Real = Field(2.5, ge=1.2, le=1000.0)
    """One in `eta` of the trials that have come to a rung is promoted, and at the end also those
    too close to the best to tell apart; each rung comes `eta` times later than the one before."""
    median_of: Few = MEDIAN_OF
    """Number of evaluations just before a rung whose median loss ranks the trials, which removes
    spikes."""
    always_finish: Share = 0.0625
    """Share of trials, chosen at random, that are never paused, to audit early stopping."""


DECAYS = "[0.25, 1, 4]"
"""A usual bracket of weight decays for a study: the best ones differ by factors of four."""


class ConfirmConfig(Group):
    """Confirming stage: whole trainings, chosen to tell most about the best depth, until its
    interval is narrow."""

    depths: Positive = 8
    """Largest number of depths that are trained to the end: the best ones so far, then those that
    narrow the interval most, and the answer itself."""
    seeds: Positive = 4
    """Largest number of trainings of a depth: the best ones are repeated until the noise between
    seeds is known."""
    together: Positive = 1
    """Fewest new trainings of a budget that are decided together, from the same results, unless
    fewer are worth it. A larger number keeps more workers busy, but the last trainings may tell
    little. The number of real workers does not change the decisions."""
    rates: tuple[Multiple, ...] = (0.5, 1.0, 2.0)
    """Multiples of the learning rate tried at the outermost depths in question, and between these
    if their best rates differ, or if no rate is known to carry over (a trainer of your own, or a
    model without roles); must contain 1."""
    decays: tuple[Multiple, ...] = (1.0,)
    """Multiples of the weight decay, tried like `rates`, for trainings that repeat their data,
    where the best decay differs by shape. For example [0.25, 1, 4]; must contain 1."""

    @model_validator(mode="after")
    def _contain_one(self) -> Self:
        for name, example in (("rates", "[0.5, 1, 2]"), ("decays", DECAYS)):
            multiples = getattr(self, name)
            if 1.0 not in multiples or len(set(multiples)) != len(multiples):
                raise RuleError(
                    name,
                    f"must contain 1 and no value twice, got {list(multiples)}; "
                    f"for example {example}",
                )
        return self


class Precision(StrEnum):
    """Number format of the forward and backward pass; weights are always float32."""

    AUTO = "auto"
    """bfloat16 if the trial has a GPU that computes in it, else float32."""
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class AutoSizingConfig(Group):
    """Proximal steps that delete parts of a model while it trains (Murray et al. 2019)."""

    norm: GroupNorm = GroupNorm.L21
    """Penalty of a group of weights: `l21`, the root of its sum of squares, or `linf1`, its largest
    magnitude."""
    strength: Real = Field(0.0, ge=0.0, le=10.0)
    """Amount that each step takes off a group, relative to the amount that it would add if every
    weight moved by its learning rate, for example 0.1. 0 is no auto-sizing."""
    share: Real = Field(0.5, gt=0.0, le=1.0)
    """Share of the training, from its start, with the penalty. After it, weights that are zero stay
    zero, and the others train freely; 1 penalises to the end, as Murray et al. do."""
    parts: tuple[SizedPart, ...] = Field(
        (SizedPart.NEURONS, SizedPart.HEADS, SizedPart.BRANCHES), min_length=1
    )
    """Parts that may be deleted: `neurons` of feed-forward branches, `attention_rows` (features of
    queries, keys and values), whole `heads`, whole residual `branches`."""

    @property
    def penalty(self) -> GroupPenalty | None:
        """The penalty of a training; None without auto-sizing."""
        if not self.strength:
            return None
        return GroupPenalty(
            norm=self.norm, strength=self.strength, parts=self.parts, share=self.share
        )


class TrainConfig(Group):
    """Training settings of every trial."""

    command: tuple[str, ...] | None = Field(None, min_length=1)
    """Command that trains a trial in Fathom's place: a program and its arguments, with placeholders
    such as {depth}, {d_model} and {folder}. It prints its losses as lines of JSON."""
    parser: str | None = Field(
        None,
        pattern=PLACE_PATTERN,
        description="the place of a function, such as `my_package.log:parse`",
    )
    """Function of your own that reads a line of the command, such as `my_package.log:parse`."""
    silence: Positive = 1800
    """Seconds without a line after which the command has failed."""
    batch_size: Positive | Literal["auto"] = Field(
        "auto",
        description=f"Sequences per step. `auto` follows the Step Law, {STEP_FACTOR:g} "
        f"D^{STEP_EXPONENT:g} tokens for a horizon of D, with at least about {FEWEST_STEPS:,} "
        "steps.",
    )
    optimizer: OptimizerName = OptimizerName.ADAMW
    """Optimizer: `adamw`, or `muon` for the matrices of attention and feed-forward with AdamW for
    all other weights. Both take the same rate and decay."""
    learning_rate: Real = Field(1e-3, gt=0.0, le=1.0)
    """Peak learning rate of the base shape."""
    warmup: Share = 0.02
    """Share of the training tokens over which the learning rate rises from zero."""
    cooldown: Share = 0.2
    """Share of the training tokens, at the end, over which the learning rate falls to zero."""
    weight_decay: Real = Field(0.1, ge=0.0)
    """Weight decay of AdamW."""
    betas: tuple[Share, Share] = (0.9, 0.95)
    """Decay rates of AdamW's two moment estimates."""
    eps: PositiveReal = 1e-12
    """Epsilon of AdamW."""
    grad_clip: PositiveReal = 1.0
    """Largest norm of the gradient; larger gradients are scaled down to it."""
    dropout: Share = Field(0.0, exclude_if=not_)
    """Share of the embeddings and of each branch's output that is set to zero in training."""
    label_smoothing: Share = Field(0.0, exclude_if=not_)
    """Share of each target that the training loss, and no held-out loss, spreads over the
    vocabulary."""
    evaluations: Few = 16
    """Number of evenly spaced evaluations of a trial; rungs add their own."""
    patience: Positive | None = None
    """Number of evaluations without a new lowest held-out loss after which a trial ends.

    The trial's result is then that of its lowest evaluation, also if it trains to the end. It can't
    be combined with `stopping`.
    """
    auto_sizing: AutoSizingConfig = AutoSizingConfig()
    """Deletes neurons, heads and branches as the model trains, so that its sizes are a result of
    one training. Budgets are then sizes of models before training."""
    diagnostics: bool = True
    """Measure the layers at some evaluations: attention, rank, gradients."""
    precision: Precision = Precision.AUTO
    """Number format of the forward and backward pass."""
    compile: bool | Literal["auto", "graph"] = "auto"
    """Compile training steps with torch.compile, which needs a C compiler and Python's headers on
    every worker.

    `graph` compiles nothing: a GPU replays all launches of a step as one CUDA graph. `auto` uses
    such a graph on a GPU for models so small that launches may take most of a step; it compiles,
    small models as well, if the trial is long enough to save more time than compiling takes.
    """
    deterministic: bool = False
    """Use only kernels that give the same bits every time, so that a trial can be repeated exactly
    on the same type and number of GPUs; on a GPU it is slower. On a CPU trials always repeat."""

    @property
    def of_steps(self) -> dict[str, Any]:
        """Settings of a training that do not depend on its rates and its length, by their names in
        `TrainPlan`."""
        names = ("weight_decay", "betas", "eps", "optimizer", "grad_clip", "dropout")
        return {name: getattr(self, name) for name in (*names, "label_smoothing")}

    @field_validator("command")
    @classmethod
    def _check_placeholders(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None:
            check_command(value)
        return value

    @model_validator(mode="after")
    def _check_keys_of_a_command(self) -> Self:
        names: Sequence[str] = OF_A_COMMAND
        rule = "has no effect without `command`"
        if self.command:
            names, rule = WITHOUT_EFFECT, "has no effect on `command`, which trains by itself"
        for name in names:
            if getattr(self, name) != type(self).model_fields[name].default:
                value = self.model_dump(mode="json", include={name}, exclude_unset=True)[name]
                raise RuleError(name, f"{rule}, got {short(value)}; drop it")
        return self


class ResourcesConfig(Group):
    """Resources per trial."""

    cpus_per_trial: Multiple = 1
    """CPU cores per trial, or per GPU if it has several; also its number of threads (rounded down,
    at least one)."""
    gpus_per_trial: Real | Literal["auto"] = "auto"
    """GPUs per trial; 0.25 packs four trials on one GPU, and `fathom plan` says where that would
    pay.

    `auto` is 0 without a GPU in the cluster. With GPUs it is 1; 0 where the CPU cores would train
    the study's trials sooner; or, on this machine alone, a share where small trials can use one GPU
    together by CUDA's MPS. A resumed run keeps the choice with which it began.

    With 2 or more, each GPU trains its share of every batch, for shapes that are too slow on one.
    """
    max_concurrent_trials: Positive | Literal["auto"] = "auto"
    """Largest number of trials that run at the same time; `auto` fills the cluster that is there at
    the start, or the cores and the memory of this machine.

    Set it if the cluster grows later.
    """
    secrets: tuple[str, ...] = ()
    """Environment variables with credentials that workers on this machine see, such as
    `WANDB_API_KEY`, for a command or code of your own.

    Other variables whose names suggest a key, a token or a password, or whose values are addresses
    with one, are hidden from workers. On a cluster each node has variables of its own.
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
        """Number of processes of a trial: one for each GPU, and at least one."""
        return 1 if self.gpus_per_trial == "auto" else max(1, int(self.gpus_per_trial))

    @property
    def threads(self) -> int:
        """Number of CPU threads of a process that trains, at most the cores of this machine."""
        return max(1, min(int(self.cpus_per_trial), os.cpu_count() or 1))

    def gpus_of_trial(self, gpus: float) -> float:
        """Number of GPUs of each trial on a machine or cluster that has `gpus` of them."""
        if self.gpus_per_trial == "auto":
            return 1.0 if gpus >= 1 else 0.0
        return self.gpus_per_trial

    def trials_at_once(self, cpus: float, gpus: float) -> int:
        """Number of trials that fit a machine or cluster with `cpus` CPUs and `gpus` GPUs."""
        if self.max_concurrent_trials != "auto":
            return self.max_concurrent_trials
        slots = cpus / (self.cpus_per_trial * self.processes_per_trial)
        if of_trial := self.gpus_of_trial(gpus):
            slots = min(slots, gpus / of_trial)
        return max(1, int(slots))


class TrackingConfig(Group):
    """Place where MLflow keeps the runs."""

    uri: str | None = None
    """MLflow tracking URI. By default an SQLite file beside the run folders."""
