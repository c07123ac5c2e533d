"""A budget's best shape in the form that a framework builds: as the first fitting architecture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fathom.models.options import Normalization
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.search.export.architectures import Architecture
from fathom.search.export.best import BestShape
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, expand_budgets

NORM_EPS = 1e-5
"""Epsilon of norms: the same as in `models/network/blocks.py`, which needs torch; a test compares
them."""
ROTARY_BASE = 10_000.0
"""Base of rotary positions: the same as in `models/network/transformer.py`, which needs torch; a
test compares them."""

Files = dict[str, str | bytes]
"""Name of a file in the folder -> its content."""


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """A budget's best shape in the form that a framework builds."""

    best: BestShape
    shape: Shape
    """The searched shape, perhaps with RMSNorm in place of layer norm."""
    architecture: Architecture
    centred: bool
    """True if weights are centred, so that they add no mean to the residual stream.

    RMSNorm then computes the same as the layer norm of the search (Ashkboos et al. 2024,
    arXiv 2401.15024, section 3.1).
    """
    with_weights: bool

    @property
    def config(self) -> StudyConfig:
        """The study that found the shape; if there are weights, with the settings of their
        training."""
        return self.best.config

    @cached_property
    def budget(self) -> Budget:
        """The budget of the shape, with its horizon."""
        budgets = expand_budgets(self.config)
        budget = next(budget for budget in budgets if budget.params == self.best.budget)
        return budget.of_shape(self.best.shape)

    @property
    def name(self) -> str:
        """Names of study and budget together, for example `tiny-20k`."""
        return f"{self.config.study}-{self.budget.label}"


def fit(
    best: BestShape,
    name: str,
    architectures: Sequence[Architecture],
    *,
    nearest: bool,
    weights: bool,
) -> ExportedModel:
    """Returns the shape in the first architecture that can have it; `name` is the format's.

    If an architecture lacks only the bias-free layer norm, RMSNorm takes its place. With weights
    and separate embedding and unembedding matrices, this computes the same; otherwise it is another
    model, without weights, and only if `nearest` asks for it.

    Raises:
        ConfigError: if there is none; the message names the obstacles.
    """

    def built(architecture: Architecture, shape: Shape, *, centred: bool = False) -> ExportedModel:
        return ExportedModel(
            best=best, shape=shape, architecture=architecture, centred=centred, with_weights=weights
        )

    _check_own_model(best, name, weights=weights)
    if exact := _first(architectures, best.shape):
        return built(exact, best.shape)
    rms = replace(best.shape, norm=Normalization.RMS)
    other = None if best.shape.norm_biases else _first(architectures, rms)
    if other is None:
        raise ConfigError(_refusal(name, architectures, best.shape))
    if weights and best.shape.tied:
        raise ConfigError(
            f"`--format {name}` has no `model.norm: layer` without biases, and weights can't be "
            "converted to RMSNorm with `model.tied: true`; leave `--weights` out, or search with "
            "`model.norm: rms`"
        )
    if not (weights or nearest):
        raise ConfigError(
            f"`--format {name}` has no `model.norm: layer` without biases; add `--nearest` to use "
            "RMSNorm instead, with as many parameters, or search with `model.norm: rms`"
        )
    return built(other, rms, centred=weights)


def _check_own_model(best: BestShape, name: str, *, weights: bool) -> None:
    """Raises `ConfigError` for a model, or for weights, that no format can have."""
    if best.config.train.command:
        raise ConfigError(
            f"`--format {name}` is for Fathom's own model, and `train.command` trained this shape; "
            "`fathom export` without `--format` gives the command for it, and `fathom train` runs "
            "it"
        )
    if best.config.model.build:
        raise ConfigError(
            f"`--format {name}` is for Fathom's own model, and this shape is of "
            f"{best.config.model.build}; `fathom train` leaves its weights as that module's own "
            "`state_dict`, which your code can save in any format"
        )
    scheme = best.config.model.parametrization.scheme
    if weights and best.shape.post_norm and scheme is not Scheme.STANDARD:
        raise ConfigError(
            f"`--format {name}` can't scale the logits after a post-norm, as "
            f"`parametrization.scheme: {scheme.value}` does; leave `--weights` out, or search "
            "with `standard`"
        )


def _first(architectures: Sequence[Architecture], shape: Shape) -> Architecture | None:
    return next((known for known in architectures if not known.obstacles(shape)), None)


def _refusal(name: str, architectures: Sequence[Architecture], shape: Shape) -> str:

    def distance(known: Architecture) -> tuple[bool, bool, int]:
        other = bool(known.encoder) != bool(shape.encoder_depth)
        other |= bool(known.state_spaces) != bool(shape.state_space)
        return other, known.experts != bool(shape.experts), len(known.obstacles(shape))

    closest = min(architectures, key=distance)
    return (
        f"`--format {name}` can't express {', '.join(closest.obstacles(shape))}: its closest model "
        f"is {closest.name}; `fathom train` trains the shape as it is"
    )
