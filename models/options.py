"""Options of a transformer, and the rules on which of them go together."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any


class Positions(StrEnum):
    """Positional encodings."""

    NONE = "none"
    LEARNED = "learned"
    ROTARY = "rotary"


class Normalization(StrEnum):
    """Norms of a token's features, before the gain."""

    LAYER = "layer"
    """Layer norm: subtracts the mean, divides by the standard deviation (Ba et al. 2016)."""
    RMS = "rms"
    """RMS norm: divides by the root mean square, without a bias (Zhang & Sennrich 2019)."""


class Residual(StrEnum):
    """Ways in which a branch f joins the residual stream x, with the place of its norm."""

    PRE = "pre"
    """x + f(norm(x)), and a norm behind the last block."""
    POST = "post"
    """norm(x + f(x)) (Vaswani et al. 2017), and a norm behind the embedding, as in BERT."""
    ADMIN = "admin"
    """norm(omega * x + f(x)); the trained vector omega starts from variances of branches, measured
    in one forward pass (Liu et al. 2020)."""
    ADMIN_CLOSED = "admin_closed"
    """norm(omega * x + f(x)); omega starts from a closed form of the depth (admin-torch)."""
    DEEPNORM = "deepnorm"
    """norm(alpha * x + f(x)), and weights that start smaller (Wang et al. 2022)."""
    NONE = "none"
    """f(norm(x)): no skip connection, for ablations (Dong et al. 2021)."""


class Activation(StrEnum):
    """Functions of the hidden features of feed-forward branches without gates."""

    GELU = "gelu"
    RELU2 = "relu2"
    """Squared ReLU (So et al. 2021)."""


class OptionError(ValueError):
    """An option whose value breaks a rule; the message is the option's name, then the rule."""

    def __init__(self, key: str, rule: str, *, value: str = "") -> None:
        """`key` is the option's key in its group of a study; the message quotes `value` if the rule
        concerns this value alone."""
        self.key = key
        self.rest = f"{f': {value}' if value else ''}` {rule}"
        super().__init__(f"`{key}{self.rest}")


def check_loop(*, looped: bool, residual: Residual) -> None:
    """Raises `ValueError` for `looped` layers with `residual: admin`.

    Admin profiles each layer; looped layers share one block.
    """
    if looped and residual is Residual.ADMIN:
        raise OptionError(
            "residual",
            "profiles every layer, and `looped` layers share one block; "
            f"use `residual: {Residual.ADMIN_CLOSED}` or `{Residual.DEEPNORM}`",
            value="admin",
        )


class ModelPart(StrEnum):
    """Parts of a model that lack some options, as errors call them."""

    ENCODER = "an encoder"
    EXPERTS = "`model.experts`"
    STATE_SPACE = "`model.state_space`"
    STATES_ALONE = "`model.state_space.pattern: {pattern}`, which has no attention"
    """State-space layers alone, without any layer of attention."""


def option(
    default: Any, *lacked_by: ModelPart, key: str = "", rare: bool = False, fused: bool = False
) -> Any:
    """Declares an option of `Shape` with its default, the only value it may have with the parts of
    a model that lack it.

    `key` is its key in the group `model` of a study if it has another name there. Records have a
    `rare` option only if it differs from its default. `fused` is True if the block of
    `fused_block.py` has the option, or if it is outside the blocks.
    """
    about = {"key": key, "lacked_by": lacked_by, "rare": rare, "fused": fused}
    return field(default=default, metadata=about)


def check_activation(*, gated: bool, activation: Activation) -> None:
    """Raises `ValueError` for an `activation` other than GELU in `gated` feed-forward branches."""
    if gated and activation is not Activation.GELU:
        raise OptionError(
            "feed_forward.activation",
            "is for branches without gates, since gated ones use SiLU; drop one of the two",
            value=activation,
        )


def check_multiple(of: str, number: int, sizes: Mapping[str, int], *, unit: str = "") -> None:
    """Raises `ValueError` if one of `sizes`, by name, is not a multiple of the option `of`, which
    is `number`; `unit` follows the size that the message advises."""
    for name, size in sizes.items():
        if size % number:
            nearest = max(1, size // number) * number
            raise OptionError(
                name, f"must be a multiple of `{of}`, got {size} and {number}; use {nearest}{unit}"
            )
