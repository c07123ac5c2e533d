"""A user's own function from a shape to a model, with the roles of its weights; imports no torch.

The function takes those of `SIZES` that it needs, by name; `scales` are the multipliers that the
parametrization needs in a forward pass.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from fathom.models.parametrization import Parametrization, Role, Scheme, forward_scales
from fathom.models.shape import Shape

SIZES = ("depth", "d_model", "d_ff", "n_heads", "head_dim", "vocab_size", "context")
"""Arguments that a model function may take, with the names that a shape gives them."""
REQUIRED = ("depth", "d_model", "vocab_size")
"""Arguments without which a model can't have a given shape."""
SCALES = "scales"
"""Argument with the `ForwardScales`, for a function whose weights have roles."""


class OwnModelError(ValueError):
    """A user's own model that can't be searched; the message is one line."""


@dataclass(frozen=True, slots=True)
class OwnRecipe:
    """A user's function that builds models, and how their weights are initialised and trained."""

    place: str
    function: Callable[..., Any]
    roles: tuple[tuple[str, Role], ...] | None
    """Patterns of weights' names with their roles; the first that matches counts. Without patterns,
    weights stay as the function draws them and have plain rates."""
    parametrization: Parametrization

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function, by name."""
        try:
            return inspect.signature(self.function).parameters
        except (TypeError, ValueError) as error:
            raise OwnModelError(f"{self.place} must be a function, got {error}") from None

    def takes(self, name: str) -> bool:
        """True if the function takes an argument of this name, by itself or among keyword
        arguments."""
        variadic = inspect.Parameter.VAR_KEYWORD
        return self.names(name) or any(
            parameter.kind is variadic for parameter in self.parameters.values()
        )

    def names(self, name: str) -> bool:
        """True if the function has an argument of this very name."""
        return name in self.parameters

    def check(self) -> None:
        """Raises `OwnModelError` if the function can't be given a shape."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        offered = (*SIZES, SCALES) if self.roles else SIZES
        foreign = [
            name
            for name, parameter in self.parameters.items()
            if parameter.default is inspect.Parameter.empty
            and parameter.kind not in variadic
            and not (name in offered and parameter.kind in kinds)
        ]
        lacking = [name for name in REQUIRED if not self.takes(name)]
        if foreign or lacking:
            fault = f"asks for {foreign[0]}" if foreign else f"does not take {lacking[0]}"
            raise OwnModelError(
                f"{self.place} must take {', '.join(REQUIRED)} by name and may take "
                f"{', '.join(name for name in offered if name not in REQUIRED)}, but it {fault}"
            )
        scheme = self.parametrization.scheme
        if self.roles and scheme is not Scheme.STANDARD and not self.takes(SCALES):
            raise OwnModelError(
                f"{self.place} must take `{SCALES}`, the multipliers of the forward pass, with "
                f"`model.roles` and `scheme: {scheme.value}`; take it, or use "
                "`model.parametrization: {scheme: standard}`"
            )

    def arguments(self, shape: Shape) -> dict[str, Any]:
        """The arguments with which the function is called for a shape."""
        offered = {name: getattr(shape, name) for name in SIZES}
        if self.roles:
            offered[SCALES] = forward_scales(self.parametrization, shape)
        return {name: value for name, value in offered.items() if self.takes(name)}

    def role_of(self, name: str) -> Role | None:
        """The role of a weight by its name in the user's module; None without roles.

        Raises:
            OwnModelError: if no pattern matches.
        """
        if self.roles is None:
            return None
        for pattern, role in self.roles:
            if fnmatchcase(name, pattern):
                return role
        raise OwnModelError(
            f"`model.roles` must have a pattern for every weight of {self.place}, and none "
            f"matches {name}; add one, such as `'*': norm` as the last"
        )


Recipe = Parametrization | OwnRecipe
"""Type of what models are built by: the rules of the built-in model, or a user's function."""
