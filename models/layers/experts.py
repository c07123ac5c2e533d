"""Mixture of experts: feed-forward networks of which each token uses a few (Shazeer et al. 2017).

Standard library only, as `shape.py` is.
"""

from dataclasses import dataclass
from typing import Literal

from fathom.models.options import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Experts of a shape, each a feed-forward network with a hidden width of `d_ff`.

    Raises:
        ValueError: when a number is out of range.
    """

    number: int
    """Experts of a layer that a router chooses from."""
    top_k: int
    """Experts that a token is routed to."""
    shared: int = 0
    """Further experts that every token uses (Dai et al. 2024)."""
    every: int = 1
    """Every n-th layer has experts, beginning with the n-th; other layers have one network."""
    balance: float | Literal["bias"] = 0.01
    """Coefficient of the loss that balances the load of experts (Fedus et al. 2022), or `bias`: no
    loss, but biases on the choice of experts that follow the load (Wang et al. 2024,
    DeepSeek-V3)."""

    def __post_init__(self) -> None:
        least = {"number": 1, "top_k": 1, "shared": 0, "every": 1}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ValueError(f"`{name}` must be at least {low}, got {getattr(self, name)}")
        if self.top_k > self.number:
            got = f"{self.top_k} of {self.number}"
            raise OptionError("top_k", f"must be at most `number`, got {got}; lower it")

    @property
    def active(self) -> int:
        """Experts that a token uses, shared ones included."""
        return self.top_k + self.shared

    @property
    def has_bias(self) -> bool:
        """True if the choice of experts is balanced by biases."""
        return self.balance == "bias"
