"""A study as one frozen, validated value.

All keys except `study`, `objective` and `budgets` have defaults.
"""

import math
from collections.abc import Mapping
from operator import not_
from typing import Any, Self

from pydantic import Field, model_validator

from fathom.models.options import Positions, Residual, check_multiple
from fathom.models.parametrization import OptimizerName
from fathom.models.shape import Count, check_options
from fathom.models.spend import OTHER_COINS, Coin, Spend
from fathom.objectives.keys import (
    MOST_PARAMETERS,
    Amount,
    Flops,
    Group,
    Horizon,
    Multiple,
    Number,
    Positive,
    Real,
    RuleError,
    Whole,
    parse_duration,
    short,
)
from fathom.objectives.user_objective import UserObjectiveConfig, is_plain
from fathom.search.study.keys.free_size import check_free_size
from fathom.search.study.keys.groups import (
    TOKENS_PER_PARAMETER,
    ConfirmConfig,
    ResourcesConfig,
    Sampler,
    SamplerClass,
    SpaceConfig,
    StoppingConfig,
    TrackingConfig,
    TrainConfig,
)
from fathom.search.study.keys.horizons import check_horizon_of, check_horizons
from fathom.search.study.keys.model_group import ModelConfig
from fathom.search.study.keys.objective_choice import ObjectiveChoice
from fathom.search.study.keys.spending import AMOUNTS, check_coin, check_one_amount

MOST_SECONDS = 1e8
"""Most seconds of a training, three years."""


class StudyConfig(Group):
    """A study: its question, and all settings of its search."""

    study: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit",
        examples=["my-study"],
    )
    """Name of the study and of its run folder, runs/NAME."""
    objective: ObjectiveChoice
    """Task that shapes are trained and evaluated on: a name, or a group with a `name` and its
    keys."""
    budgets: tuple[Amount, ...] = Field(min_length=1, max_length=50, examples=[["300k", "1M"]])
    """Sizes to compare shapes at, ascending, at most 50: parameters, or the unit of `count`; for
    example [300k, 1M]."""
    count: Count = Count.TOTAL
    """Unit of the budgets: parameters counted in one of four ways, operations, heads, or width.
    With `train_flops` they are operations of a whole training, such as [1e12, 3e12], and with
    `train_seconds` its seconds, such as [20s, 5min]: the best size, within `space.params`, is
    searched together with the best depth."""
    tolerance: Real = Field(0.005, gt=0.0, le=0.05)
    """Largest relative difference between a shape's size and its budget."""
    tokens: Number | None = Field(None, examples=["10M"])
    """Training tokens of a trial, for every budget. Each step takes `train.batch_size` sequences of
    the objective's `context`, padding included."""
    tokens_per_parameter: Multiple | None = Field(
        None,
        description="Training tokens of a trial per parameter of its budget; "
        f"{TOKENS_PER_PARAMETER:g} unless `tokens` is given.",
    )
    train_flops: Flops | None = Field(None, exclude_if=not_, examples=["1e15"])
    """Floating-point operations that a training may spend, for every shape, in place of `tokens`.
    Each shape takes as many whole steps as they pay for, so that cheaper shapes see more tokens; at
    rungs, trials that have spent equal shares are compared. Evaluations are not counted."""
    train_seconds: Real | None = Field(
        None, ge=1.0, le=MOST_SECONDS, exclude_if=not_, examples=[600]
    )
    """Seconds of training steps of a trial on its device, for every shape, in place of `tokens`.
    Before its first trial, `fathom run` times the steps of each depth; numbers of tokens follow.
    Evaluations and compiling are not counted."""
    horizons: tuple[Horizon, ...] | None = Field(
        None, min_length=2, max_length=8, exclude_if=not_, examples=[[5, 20, 80]]
    )
    """Several horizons, each searched by itself, in place of `tokens`: 2 to 8, ascending, all of
    them tokens per parameter, such as [5, 20, 80], or all of them tokens, such as [10M, 40M]; a
    number from 10k on is tokens."""
    horizon_of: tuple[Horizon, ...] | None = Field(
        None, min_length=2, max_length=8, exclude_if=not_
    )
    """All horizons of the study of which this study is a part; Fathom writes this key. Warm-up and
    `batch_size: auto` are those of the shortest horizon, so that trainings of all horizons begin
    alike."""
    space: SpaceConfig = SpaceConfig()
    trials: Positive = 9
    """Exploring trials per budget, most of them short. The sampler `ladder` tries every depth
    instead."""
    trials_together: Positive = 16
    """Virtual workers of each budget: results are used in the order in which so many workers of
    equal speed would bring them, so that any number of real workers gives the same trials. More
    virtual workers let more real ones explore a budget at once."""
    sampler: Sampler | SamplerClass = Field(
        Sampler.CURVE,
        description="Optuna sampler that draws the shapes of exploring trials: `curve` is "
        "Fathom's DepthSampler; an import path such as "
        "`optuna.samplers.CmaEsSampler` names any other.",
        examples=["optuna.samplers.CmaEsSampler"],
    )
    sampler_options: dict[str, Any] = Field({}, exclude_if=not_, examples=[{"sigma0": 0.5}])
    """Constructor arguments of a sampler that is named by its import path; Fathom gives `seed` if
    the constructor takes one."""
    stopping: StoppingConfig = StoppingConfig()
    confirm: ConfirmConfig = ConfirmConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    resources: ResourcesConfig = ResourcesConfig()
    tracking: TrackingConfig = TrackingConfig()
    seed: Whole = Field(0, ge=0, lt=2**31)
    """Random seed of the study."""

    @property
    def own_sampler(self) -> str | None:
        """Import path of the class that draws shapes; None if the sampler is Fathom's own."""
        return None if isinstance(self.sampler, Sampler) else self.sampler

    @property
    def own_code(self) -> tuple[str, ...]:
        """Places of the user's own code that the study names: objective, model and parser."""
        is_users = isinstance(self.objective, UserObjectiveConfig)
        places = (self.objective.name if is_users else None, self.model.build, self.train.parser)
        return tuple(filter(None, places))

    @property
    def length_key(self) -> str:
        """The key that sets the length of a training; `tokens` if no key does."""
        if self.count.frees_size:
            return "budgets"
        return next((key for key in AMOUNTS if getattr(self, key) is not None), "tokens")

    def shared_spend(self, budget: int) -> Spend | None:
        """The spend of every training of a budget; None if it is in tokens, whose number follows
        from the budget."""
        if coin := Coin.of_budgets(self.count):
            return Spend(float(budget), coin)
        amounts = ((getattr(self, coin.key), coin) for coin in OTHER_COINS)
        return next((Spend(amount, coin) for amount, coin in amounts if amount is not None), None)

    @property
    def coin(self) -> Coin:
        """Unit in which all trainings of a budget spend the same amount: tokens, FLOPs or
        seconds."""
        spend = self.shared_spend(self.budgets[0])
        return spend.coin if spend else Coin.TOKENS

    @property
    def plain_rates(self) -> bool:
        """True if no known parametrization carries a learning rate over shapes."""
        return self.model.plain_rates or self.train.command is not None

    @property
    def not_decoded(self) -> str:
        """The key by which the study's models are not Fathom's own decoder, which adds a token at a
        time; empty if there is none."""
        keys = {
            "train.command": self.train.command,
            "model.build": self.model.build,
            "model.bidirectional": self.model.bidirectional,
            "space.split": self.space.split,
        }
        return next((key for key, is_set in keys.items() if is_set), "")

    @property
    def prunes(self) -> bool:
        """True if poor trials pause at rungs; with the sampler `ladder` none does."""
        return self.stopping.enabled and self.sampler is not Sampler.LADDER

    @model_validator(mode="before")
    @classmethod
    def _read_durations(cls, values: Any) -> Any:
        """Returns the values with durations, such as 5min, as numbers of seconds."""
        budgets = values.get("budgets") if isinstance(values, Mapping) else None
        if not isinstance(budgets, list):
            return values
        seconds = [*map(parse_duration, budgets)]
        if seconds != budgets and values.get("count") != Count.TRAIN_SECONDS:
            rule = "are durations with `count: train_seconds` alone"
            raise RuleError("budgets", f"{rule}, got {short(budgets)}; set that `count`")
        return {**values, "budgets": seconds}

    @model_validator(mode="after")
    def _check_budgets(self) -> Self:
        if list(self.budgets) != sorted(set(self.budgets)):
            raise RuleError("budgets", f"must ascend without repeats, got {list(self.budgets)}")
        most = MOST_SECONDS if self.count is Count.TRAIN_SECONDS else MOST_PARAMETERS
        if self.count is not Count.TRAIN_FLOPS and self.budgets[-1] > most:
            timed = " seconds; set `count: train_flops` for operations"
            unit = timed * (self.count is Count.TRAIN_SECONDS)
            got = f"must be at most {most:g}, got {self.budgets[-1]:g}{unit}"
            raise RuleError("budgets", got)
        check_one_amount({name: getattr(self, name) for name in AMOUNTS})
        given = self.tokens or self.coin is not Coin.TOKENS or self.horizons
        if not (self.count.of_parameters or given):
            raise RuleError(
                "tokens",
                f"is required with `count: {self.count}`, whose budgets are not "
                "parameters; for example 10M",
            )
        self.space.check_count(self.count)
        if self.study.lower().startswith(("mlflow.db", "mlartifacts")):
            raise RuleError(
                "study",
                "must not be the name of a file that MLflow keeps beside the run folders, "
                f"got {self.study}; choose another, such as {self.study.replace('.', '-')}-study",
            )
        return self

    @model_validator(mode="after")
    def _check_free_size(self) -> Self:
        if not self.count.frees_size:
            return self
        others = {
            f"`{key}`, as its budgets say what a training spends; drop it": getattr(self, key)
            for key in (*AMOUNTS, "horizons")
        }
        check_free_size(
            self.count,
            params=self.space.params,
            trials=self.trials,
            others={
                **{other: amount is not None for other, amount in others.items()},
                f"`sampler: {self.sampler}`, which draws no sizes; use `curve`": (
                    self.sampler is not Sampler.CURVE
                ),
                "`space.d_model`, by which the depth decides the size; drop it": (
                    self.space.d_model is not None
                ),
                "`confirm.rates` of your own, which are compared at one size; drop them": (
                    self.confirm.rates not in ((1.0,), ConfirmConfig().rates)
                ),
                "several `confirm.decays`, which are compared at one size; drop them": (
                    len(self.confirm.decays) > 1
                ),
            },
            whole=self.confirm.depths * self.confirm.seeds,
        )
        return self

    @model_validator(mode="after")
    def _check_sampler_options(self) -> Self:
        options = self.sampler_options
        # The ladder may take the place of any sampler, as a remedy proposes.
        if options and not self.own_sampler and self.sampler is not Sampler.LADDER:
            raise RuleError(
                "sampler_options",
                f"needs a `sampler` that is named by its import path, got {self.sampler}; drop one",
            )
        if "seed" in options:
            raise RuleError("sampler_options", "must leave out `seed`, the study's own; drop it")
        if key := next((key for key, value in options.items() if not is_plain(value)), None):
            raise RuleError(
                f"sampler_options.{key}",
                f"must be text, a number, true or false, or lists and groups of them, "
                f"got {short(options[key])}; write a date in quotes",
            )
        return self

    @model_validator(mode="after")
    def _check_horizons(self) -> Self:
        own = self.tokens if self.tokens is not None else self.tokens_per_parameter
        if self.horizons:
            check_horizons(
                self.study,
                self.horizons,
                {name: getattr(self, name) for name in (*AMOUNTS, "horizon_of")},
                of_parameters=self.count.of_parameters,
            )
        if self.horizon_of:
            check_horizon_of(self.horizon_of, own)
        return self

    @model_validator(mode="after")
    def _check_coin(self) -> Self:
        check_coin(
            self.coin,
            count=self.count,
            batch_size=self.train.batch_size,
            command=self.train.command is not None,
            pretrains=self.objective.pretraining_tokens > 0,
            processes=self.resources.processes_per_trial,
        )
        return self

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        head_dim = self.space.head_dim
        rotary = self.model.positions is Positions.ROTARY and not self.model.build
        if head_dim and head_dim % 2 and rotary:
            raise RuleError(
                "space.head_dim",
                "must be even with rotary positions, which rotate pairs of "
                f"features, got {head_dim}; use {head_dim + 1} or `model.positions: learned`",
            )
        if self.space.n_heads:
            per_key = self.model.attention.queries_per_key
            heads = {"n_heads": self.space.n_heads}
            check_multiple("queries_per_key", per_key, heads, unit=" heads")
            d_kv = self.space.n_heads // per_key * (head_dim or 0)
            if d_kv % self.model.groups:
                raise RuleError(
                    "model.groups",
                    f"must divide the width of all keys, which the heads of `space` make {d_kv}, "
                    f"got {self.model.groups}; use {math.gcd(d_kv, self.model.groups)}",
                )
        if self.model.bidirectional and not self.objective.bidirectional:
            raise RuleError(
                "model.bidirectional",
                f"must be false with `objective: {self.objective.name}`, "
                "because the model would see the answers, got true; drop it",
            )
        return self

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        """Refuses a split without sources, and sources without a split."""
        space, is_users = self.space, isinstance(self.objective, UserObjectiveConfig)
        if space.split is None:
            if self.objective.has_sources:
                raise RuleError(
                    "space.split",
                    f"is needed with `objective: {self.objective.name}`, whose "
                    "sources an encoder reads; for example 1-1",
                )
            return self
        if not (self.objective.has_sources or is_users):
            raise RuleError(
                "space.split",
                f"needs an objective with sources, which {self.objective.name} lacks; drop it",
            )
        if self.count is Count.HEADS or self.model.build:
            key = "model.build" if self.model.build else "count: heads"
            raise RuleError("space.split", f"does not go with `{key}`; drop one")
        if not space.depths:
            raise RuleError(
                "space.depth",
                f"must hold a depth at which the split {space.split} leaves a layer for both "
                f"encoder and decoder, got {list(space.depth)}; widen it",
            )
        return self

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        """Refuses keys that don't go with an encoder, with experts or with state-space layers."""
        check_options(self.model.options, encoder=self.space.split is not None)
        if experts := self.model.experts:
            others = {
                "model.residual: admin": self.model.residual is Residual.ADMIN,
                "space.feed_forward: false": not self.space.feed_forward,
                "resources.gpus_per_trial` above 1 and `balance: bias": experts.balance == "bias"
                and self.resources.processes_per_trial > 1,
            }
            self._refuse_beside("model.experts", others)
        if self.model.state_space:
            self._refuse_beside("model.state_space", {"count: heads": self.count is Count.HEADS})
        return self

    def _refuse_beside(self, kind: str, others: Mapping[str, bool]) -> None:
        """Raises `RuleError` if, beside `kind`, a key is set that only dense layers have, or one
        that `others` maps to True."""
        compiles = self.train.compile
        others = {
            **others,
            "space.split": self.space.split is not None,
            "train.auto_sizing": self.train.auto_sizing.strength > 0,
            f"train.compile: {str(compiles).lower()}": compiles not in ("auto", False),
        }
        if other := next((key for key, is_set in others.items() if is_set), None):
            raise RuleError(kind, f"does not go with `{other}`; drop one")

    @model_validator(mode="after")
    def _check_own_model(self) -> Self:
        """Refuses keys that don't go with a model of the user's own."""
        if self.model.build is None:
            return self
        if self.count not in (Count.TOTAL, Count.NON_EMBEDDING):
            raise RuleError(
                "count",
                "must be total or non_embedding with `model.build`, since only the parameters "
                f"of your model are counted, got {self.count}; use one of the two",
            )
        if self.train.optimizer is OptimizerName.MUON and not self.model.roles:
            raise RuleError(
                "train.optimizer",
                "needs `model.roles` with `model.build`: roles say which "
                "weights are matrices of the blocks; give them, or use `adamw`",
                value="muon",
            )
        return self

    @model_validator(mode="after")
    def _check_auto_sizing(self) -> Self:
        """Refuses auto-sizing with settings that its proximal steps are not defined for."""
        model, optimizer = self.model, self.train.optimizer
        rules = (
            (not model.build, "Fathom's own model, whose neurons and heads it knows",
             f"`model.build: {model.build}`"),
            (optimizer is OptimizerName.ADAMW,
             "`train.optimizer: adamw`, which moves each weight by its rate", optimizer),
            (model.groups == 1, "whole matrices", f"`model.groups: {model.groups}`"),
            (model.residual is not Residual.NONE,
             "skip connections, without which no branch can be deleted", "`model.residual: none`"),
        )  # fmt: skip
        for is_met, needed, got in rules:
            if self.train.auto_sizing.strength and not is_met:
                text = f"needs {needed}, got {got}; drop one"
                raise RuleError("train.auto_sizing.strength", text)
        return self

    @model_validator(mode="after")
    def _check_decays(self) -> Self:
        """Refuses decays so large that they leave nothing of a weight, and multiples of a decay
        that is 0."""
        train, confirm = self.train, self.confirm
        bracketed = (
            (train.weight_decay, train.learning_rate * max(confirm.rates)),
            (train.weight_decay * max(confirm.decays), train.learning_rate),
        )
        for decay, rate in bracketed:
            if decay * rate >= 1:
                raise RuleError(
                    "train.weight_decay",
                    "must be below 1 / learning rate, since each step takes the product of both "
                    f"from every weight, got {decay:g} with a rate of {rate:g}; the usual is 0.1",
                )
        if len(confirm.decays) > 1 and (train.command or not train.weight_decay):
            why, remedy = "is 0", "drop it, or set a decay above 0"
            if train.command:
                why, remedy = "`train.command` never gets", "drop it"
            raise RuleError(
                "confirm.decays",
                f"multiplies `train.weight_decay`, which {why}, got {list(confirm.decays)}; "
                f"{remedy}",
            )
        return self

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        train = self.train
        highest = train.learning_rate * max(self.confirm.rates)
        if highest > 1:
            raise RuleError(
                "train.learning_rate",
                "times the largest of `confirm.rates` must be at most 1, got "
                f"{train.learning_rate:g} times {max(self.confirm.rates):g}; lower it",
            )
        if train.warmup + train.cooldown > 1:
            raise RuleError(
                "train.warmup",
                "and `train.cooldown` must add up to at most 1, "
                f"got {train.warmup} + {train.cooldown}",
            )
        if train.patience and self.prunes:
            raise RuleError(
                "train.patience",
                "can't be combined with stopping, which ranks trials by their current loss and not "
                f"by their lowest, got {train.patience}; add `stopping: {{enabled: false}}`",
            )
        if self.objective.pretraining_tokens and self.prunes:
            raise RuleError(
                "objective.pretraining",
                "can't be combined with stopping, which would rank trials "
                "by a loss that they are not yet trained on; add `stopping: {enabled: false}`",
            )
        chosen = self.stopping.first_rung != StoppingConfig().first_rung
        if self.prunes and chosen and self.stopping.first_rung > 1 - train.cooldown:
            raise RuleError(
                "stopping.first_rung",
                f"must come before the cool-down, which starts at {1 - train.cooldown:g} of the "
                f"training tokens, got {self.stopping.first_rung}; lower it or `train.cooldown`",
            )
        return self

    @model_validator(mode="after")
    def _check_command(self) -> Self:
        """Refuses a command without `objective: external`, and that objective without a command."""
        external = self.objective.of_command
        if self.train.command and not external:
            raise RuleError(
                "objective",
                "must be `external` with `train.command`, which has its own data, got "
                f"{self.objective.name}; write for example `objective: {{name: external, "
                "vocabulary: 50257, context: 1024}`",
            )
        if external and not self.train.command:
            raise RuleError(
                "train.command",
                "is needed with `objective: external`, whose data only it reads; "
                "add it, or choose another objective",
            )
        return self
