"""The whole config surface: a strict YAML study file becomes frozen values.

Every key but `study`, `objective` and `budgets` has a default. After `load` nothing checks again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import yaml
from pydantic import Field, ValidationError, model_validator

from fathom.models.shape import PLAIN, Count, Positions
from fathom.search.study.errors import ConfigError, PlanError, Problem, explain
from fathom.search.study.groups import (
    ConfirmConfig,
    ModelConfig,
    ResourcesConfig,
    Sampler,
    SpaceConfig,
    StoppingConfig,
    TrackingConfig,
    TrainConfig,
)
from fathom.search.study.objective_keys import ObjectiveConfig
from fathom.search.study.safe_yaml import YamlError, parse_yaml
from fathom.search.study.source import Source, read_source
from fathom.search.study.types import Group, Multiple, Number, Parameters, Positive, Real, Whole

ONE_SIDED = ("language", "transduction", "hop", "induction", "blocks")
"""Objectives that ask what comes next, or what follows from what came before."""


ONE_BY_ONE = ("transduction", "classification", "hop", "induction", "connectivity", "blocks")
"""Objectives that judge one model at a time."""


class StudyConfig(Group):
    """One study file."""

    study: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit",
        examples=["my-study"],
    )
    """Name of the study and of its run folder."""
    objective: ObjectiveConfig
    """What a shape is judged on: a name, or a group of its keys with the `name` among them."""
    budgets: tuple[Parameters, ...] = Field(min_length=1, examples=[["300k", "1M"]])
    """Parameters, or what `count` says, ascending, for example [300k, 1M]."""
    count: Count = Count.TOTAL
    """What a budget holds: parameters counted in one of three ways, operations, heads, or width."""
    tolerance: Real = Field(0.005, gt=0.0, le=0.05)
    """Largest relative error of a shape's count."""
    tokens: Number | None = Field(None, examples=["10M"])
    """Training horizon of every budget. A step takes `train.batch_size` sequences of the
    objective's `context`, padding included."""
    tokens_per_parameter: Multiple | None = None
    """Training horizon in tokens for each parameter of the budget; 20 unless `tokens` is given."""
    space: SpaceConfig = SpaceConfig()
    trials: Positive = 12
    """Exploring trials a budget, most of them short; `ladder` takes every depth instead."""
    sampler: Sampler = Sampler.CURVE
    stopping: StoppingConfig = StoppingConfig()
    confirm: ConfirmConfig = ConfirmConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    resources: ResourcesConfig = ResourcesConfig()
    tracking: TrackingConfig = TrackingConfig()
    seed: Whole = Field(0, ge=0, lt=2**31)
    """Of everything that is drawn at random."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if list(self.budgets) != sorted(set(self.budgets)):
            raise ValueError(f"`budgets` must ascend without repeats, got {list(self.budgets)}")
        if self.tokens is not None and self.tokens_per_parameter is not None:
            raise ValueError(
                "`tokens` and `tokens_per_parameter` contradict each other, "
                f"got {self.tokens} and {self.tokens_per_parameter}; keep one"
            )
        if not self.count.of_parameters and self.tokens is None:
            raise ValueError(
                f"`tokens` is required with `count: {self.count}`, for its budgets are no "
                "parameters; for example 10M"
            )
        self.space.check_count(self.count)
        head_dim = self.space.head_dim
        if head_dim and head_dim % 2 and self.model.positions is Positions.ROTARY:
            raise ValueError(
                "`space.head_dim` must be even with rotary positions, which turn pairs, "
                f"got {head_dim}; use {head_dim + 1} or `model.positions: learned`"
            )
        if self.model.bidirectional and self.objective.name in ONE_SIDED:
            raise ValueError(
                f"`model.bidirectional` must be false with `objective: {self.objective.name}`, "
                "whose answers the model would see, got true; drop it"
            )
        if self.train.warmup + self.train.cooldown > 1:
            raise ValueError(
                "`train.warmup` and `train.cooldown` must add up to at most 1, "
                f"got {self.train.warmup} + {self.train.cooldown}"
            )
        stops = self.stopping.enabled and self.sampler is not Sampler.LADDER
        if self.train.patience and stops:
            raise ValueError(
                "`train.patience` can't go with stopping, whose rungs judge by the loss of the "
                f"moment and not by the lowest, got {self.train.patience}; add "
                "`stopping: {enabled: false}`"
            )
        if self.objective.pretraining_tokens and stops:
            raise ValueError(
                "`objective.pretraining` can't go with stopping, whose rungs would judge by a loss "
                "that is not trained for yet; add `stopping: {enabled: false}`"
            )
        if self.stopping.enabled and self.stopping.first_rung > 1 - self.train.cooldown:
            raise ValueError(
                "`stopping.first_rung` must come before the cool-down, which starts at "
                f"{1 - self.train.cooldown:g} of the horizon, got {self.stopping.first_rung}; "
                "lower it or `train.cooldown`"
            )
        return self

    @model_validator(mode="after")
    def _replicas_are_plain(self) -> Self:
        """Trials that train as one model take the same steps, and its options are few."""
        if self.resources.replicas == 1:
            return self
        options = self.model.options
        in_the_way = {
            f"model.{name}": options[name] for name in PLAIN if options[name] != PLAIN[name]
        }
        if self.train.patience:
            in_the_way["train.patience"] = self.train.patience
        if self.objective.name in ONE_BY_ONE:
            in_the_way["objective"] = self.objective.name
        for key, value in in_the_way.items():
            raise ValueError(
                f"`resources.replicas` must be 1 with `{key}: {str(value).lower()}`, with which "
                f"trials can't train as one model, got {self.resources.replicas}; drop it"
            )
        return self


def load(path: Path, overrides: Sequence[str] | None = None) -> StudyConfig:
    """Read a study file; `overrides`, such as `train.batch_size=8`, come before what it says.

    Raises:
        ConfigError: when it can't be read, is not a mapping, or values break a rule.
    """
    return _study_of(read_source(path, overrides or ()))


@contextmanager
def placed(path: Path, overrides: Sequence[str] | None = None) -> Iterator[None]:
    """Tell of a `PlanError` with its place in the study file, as `load` does of others."""
    try:
        yield
    except PlanError as error:
        problem = Problem(tuple(error.key.split(".")), str(error))
        raise ConfigError(*read_source(path, overrides or ()).told([problem])) from error


def parse(text: str) -> StudyConfig:
    """The study of a YAML text; raises `ConfigError` as `load` does."""
    try:
        return study_of(parse_yaml(text))
    except YamlError as error:
        raise ConfigError(str(error)) from error


def study_of(values: object) -> StudyConfig:
    """The study of values as YAML gives them; raises `ConfigError` as `load` does."""
    return _study_of(Source(values))


def _study_of(source: Source) -> StudyConfig:
    if not isinstance(source.values, Mapping):
        kind = "empty" if source.values is None else f"a {type(source.values).__name__}"
        raise ConfigError(
            f"{source.name}a study file must be a mapping with `study`, `objective` and "
            f"`budgets`; it is {kind}"
        )
    try:
        return StudyConfig.model_validate(source.values)
    except ValidationError as error:
        raise ConfigError(*source.told(explain(error, StudyConfig))) from error


def dump(config: StudyConfig) -> str:
    """The resolved study as YAML; `parse` reads it back to the same value."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
