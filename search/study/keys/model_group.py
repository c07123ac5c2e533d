"""The group `model` of a study file: options that all shapes share."""

from functools import cached_property
from operator import not_
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.models.options import (
    Activation,
    Normalization,
    Positions,
    Residual,
    check_activation,
    check_loop,
)
from fathom.models.parametrization import Parametrization, Role, Scheme, check_scheme
from fathom.models.shape import DEFAULTS
from fathom.objectives.keys import Few, Group, Positive, PositiveReal, Real, RuleError, Whole
from fathom.objectives.user_code import PLACE_PATTERN


class ParametrizationConfig(Group):
    """Scaling of learning rates and initialisation with the shape; rates are given for the base
    shape."""

    scheme: Scheme = Scheme.COMPLETEP
    """Rules of scaling."""
    base_width: Positive = 256
    """d_model of the base shape."""
    base_depth: Positive = 2
    """Depth of the base shape."""
    base_head_dim: Positive = 64
    """Head width of the base shape."""
    init_std: PositiveReal = 0.02
    """Standard deviation of initial weights at the base shape."""

    def build(self) -> Parametrization:
        """The parametrization that models are built with."""
        return Parametrization(**dict(self))


class AttentionConfig(Group):
    """Options of attention."""

    queries_per_key: Positive = 1
    """Number of heads that share one head of keys and values: grouped-query attention. The number
    of heads is a multiple of it."""
    qk_norm: bool = False
    """RMS norms with gains on each head's queries and keys, as in Qwen3."""


class FeedForwardConfig(Group):
    """Options of the feed-forward branches."""

    activation: Activation = Activation.GELU
    """Function of the branches' hidden features, `gelu` or squared ReLU; gated branches have
    SiLU."""


class ExpertsConfig(Group):
    """Experts in place of feed-forward networks, each of them `d_ff` wide: `space.ff_ratio` is the
    ratio of an expert's width to d_model."""

    number: Few = 8
    """Experts of a layer that a router chooses from."""
    top_k: Few = 2
    """Experts that each token is routed to."""
    shared: Whole = Field(0, ge=0, le=1000)
    """Further experts that every token uses."""
    every: Few = 1
    """Every n-th layer has experts, and the others one feed-forward network of the same width."""
    balance: Annotated[Real, Field(ge=0.0, le=100.0)] | Literal["bias"] = 0.01
    """Coefficient of the loss that balances the load of experts; `bias` balances it without a loss,
    by biases that only the choice of experts sees, and scores experts by sigmoids, as DeepSeek-V3
    does."""

    @model_validator(mode="after")
    def _chooses_some(self) -> Self:
        self.build()
        return self

    def build(self) -> Experts:
        """The experts of a shape."""
        return Experts(**dict(self))


class StateSpaceConfig(Group):
    """State-space layers (Mamba-2) among those with attention. With either mixer, one layer is one
    block, a mixer of tokens and a feed-forward network, so that depth counts the same as in a dense
    model. Heads of a state space are as wide as those of attention."""

    pattern: Annotated[str, Field(max_length=1000, examples=["MMMA", "M"])] = "MMMA"
    """Mixers of the layers in turn, M for state spaces and A for attention, repeated over the
    depth: by default one layer in four has attention."""
    state: Few = 64
    """Numbers in the state of each feature of a head."""
    expand: Few = 2
    """Width of all state-space heads together, divided by the width of all attention heads."""
    conv: Few = 4
    """Tokens that the convolution before the recurrence sees."""

    @model_validator(mode="after")
    def _has_mixers(self) -> Self:
        self.build()
        return self

    def build(self) -> StateSpace:
        """The state-space layers of a shape."""
        return StateSpace(**dict(self))


class ModelConfig(Group):
    """Architecture options shared by all shapes of the study."""

    build: str | None = Field(
        None,
        pattern=PLACE_PATTERN,
        description="the place of a function from a shape to a model, such as "
        "`my_package.my_model:build`",
        examples=["my_package.my_model:build"],
    )
    """Place of your own function that makes a model from a shape, such as
    `my_package.my_model:build`; it replaces all keys below except `roles` and `parametrization`."""
    roles: dict[str, Role] | None = None
    """Roles of weights in the parametrization, by patterns of the weights' names, for a model of
    your own; without this key its weights stay as built and have plain rates."""
    gated: bool = False
    """Gated feed-forward branches (SwiGLU)."""
    tied: bool = True
    """The unembedding shares the embedding's weights."""
    tied_source: bool = Field(True, exclude_if=bool)
    """The encoder shares the decoder's embedding, if the objective has one vocabulary for both."""
    positions: Positions = Positions.ROTARY
    """Encoding of positions."""
    residual: Residual = Residual.PRE
    """Placement of norms and residual connections; all but `pre` need a scheme other than
    `completep`."""
    norm: Normalization = Normalization.RMS
    """`rms` norm, as in Llama, or `layer` norm. No other framework has layer norms without biases
    in a model with rotary positions."""
    biases: bool = False
    """Biases in linear maps and layer norms, as in GPT-2."""
    embedding_rank: Positive | None = None
    """Rank of the embedding and the unembedding, each a product of two matrices. By default
    full."""
    smeared_keys: bool = False
    """Each head mixes every key with the previous one, in a trained proportion."""
    looped: bool = False
    """One block is applied `depth` times, so that depth costs no parameters."""
    bidirectional: bool = False
    """Attention to both sides, for objectives that classify. Token 0 is padding and is masked."""
    groups: Few = Field(1, exclude_if=(1).__eq__, examples=[4])
    """Number of diagonal blocks in every matrix of a layer; all widths are multiples of it. Outputs
    are shuffled, so that features of all blocks mix. By default matrices are whole."""
    experts: ExpertsConfig | None = Field(None, exclude_if=not_)
    """Experts in place of feed-forward networks; by default the model is dense."""
    state_space: StateSpaceConfig | None = Field(None, exclude_if=not_)
    """State-space layers among those with attention; by default all layers have attention."""
    attention: AttentionConfig = AttentionConfig()
    feed_forward: FeedForwardConfig = FeedForwardConfig()
    parametrization: ParametrizationConfig = ParametrizationConfig()

    @cached_property  # read for each of many thousand shapes
    def options(self) -> dict[str, Any]:
        """Arguments of `Shape` that all shapes of the study share, by name."""
        options = {name: value for name, value in self if name in DEFAULTS}
        if self.build:  # its positions are its own, and so is what they ask of heads
            options["positions"] = Positions.NONE
        options["experts"] = self.experts and self.experts.build()
        options["state_space"] = self.state_space and self.state_space.build()
        return options | dict(self.attention) | dict(self.feed_forward)

    @property
    def is_eager(self) -> bool:
        """True if steps are neither compiled nor recorded unless a study asks for it: a user's own
        model, experts, or layers of two kinds."""
        return bool(self.build or self.experts or self.state_space)

    @property
    def layer_meaning(self) -> str:
        """Meaning of a layer in words, if the study has state-space layers; otherwise empty."""
        meaning = (
            "one block, a mixer of tokens and its feed-forward network, as in a dense model; the "
            "mixer of an M is a state space, that of an A attention"
        )
        return meaning if self.state_space else ""

    @property
    def plain_rates(self) -> bool:
        """True for a user's own model without roles: all its weights have the study's learning rate
        at every shape, so that no rate is known to suit all depths."""
        return self.build is not None and self.roles is None

    @model_validator(mode="after")
    def _build_alone(self) -> Self:
        """Refuses keys of the built-in model in addition to a function of the user's."""
        if self.build is None:
            if self.roles is not None:
                raise RuleError("roles", "must go with `build`, got roles alone; drop them")
            return self
        open_keys = {"build", "roles"} | ({"parametrization"} if self.roles else set())
        for name, field in type(self).model_fields.items():
            if name not in open_keys and getattr(self, name) != field.default:
                remedy = "give `roles` or drop it" if name == "parametrization" else "drop one"
                raise RuleError(
                    "build", f"excludes `{name}`, which the function never gets; {remedy}"
                )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_scheme(self.parametrization.scheme, self.residual)
        check_loop(looped=self.looped, residual=self.residual)
        check_activation(gated=self.gated, activation=self.feed_forward.activation)
        return self
