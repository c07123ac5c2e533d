"""State-space layers: a recurrence over tokens in place of attention (Mamba-2, Dao & Gu 2024).

A layer is a block: a mixer of tokens and, unless `d_ff` is 0, a feed-forward network. A state-space
layer differs from a dense layer in its mixer alone, so that depth means the same for both. Standard
library only, as `shape.py` is.
"""

from dataclasses import dataclass

from fathom.models.options import OptionError

CHUNK = 64
"""Number of tokens of a chunk; one triangle of decays mixes the tokens of a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpace:
    """State-space layers of a shape, and their places among the layers with attention.

    A mixer has `expand` times as many heads as attention, of the same width, and one group: all of
    its heads share the vectors that write to a state and read it.

    Raises:
        ValueError: when a number is out of range or the pattern has another letter.
    """

    pattern: str = "MMMA"
    """Mixers of the layers in turn, repeated over the depth: M for state spaces, A for
    attention."""
    state: int = 64
    """Numbers in the state of each feature of a head."""
    expand: int = 2
    """Width of all state-space heads together, divided by the width of all attention heads."""
    conv: int = 4
    """Tokens that the convolution before the recurrence sees."""

    def __post_init__(self) -> None:
        for name in ("state", "expand", "conv"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        if not self.pattern or set(self.pattern) - {"M", "A"}:
            raise OptionError(
                "pattern",
                "must be letters M (state space) and A (attention), such as MMMA; correct it",
                value=self.pattern,
            )

    def at(self, index: int) -> bool:
        """True if the layer `index`, from 0, has a state-space mixer."""
        return self.pattern[index % len(self.pattern)] == "M"

    def layers(self, depth: int) -> int:
        """Number of state-space layers of a model of `depth` layers."""
        whole, rest = divmod(depth, len(self.pattern))
        return whole * self.pattern.count("M") + self.pattern[:rest].count("M")

    def rows(self, d_attention: int, n_heads: int) -> tuple[int, ...]:
        """Rows of the first matrix: gates, inputs, the vectors that write to the state and read it,
        and the step sizes of the heads. Attention has `n_heads` heads, together `d_attention` wide.
        """
        inner = self.expand * d_attention
        return inner, inner, self.state, self.state, self.expand * n_heads

    def matrices(self, d_model: int, d_attention: int, n_heads: int) -> int:
        """Weights of the two matrices of a mixer."""
        return d_model * (sum(self.rows(d_attention, n_heads)) + self.expand * d_attention)

    def convolved(self, d_attention: int) -> int:
        """Features that the convolution mixes over tokens: inputs, and the vectors that write to
        the state and read it."""
        return self.expand * d_attention + 2 * self.state

    def vectors(self, d_attention: int, n_heads: int) -> int:
        """Weights of a mixer apart from its matrices and its norm's gain: the convolution with its
        biases, and a decay, a step size and a skip of each head."""
        return (self.conv + 1) * self.convolved(d_attention) + 3 * self.expand * n_heads

    def flops(self, d_attention: int) -> int:
        """Operations of a mixer for a token, apart from its matrix products: the convolution, and
        two products with the state, which the token writes to and reads. The count is of the
        recurrence; the actual scan in chunks takes more."""
        scan = 4 * self.expand * d_attention * self.state
        return scan + 2 * self.conv * self.convolved(d_attention)

    def cached(self, d_attention: int) -> tuple[int, int]:
        """Two counts of numbers that a mixer keeps for a sequence of any length while it decodes:
        those of its state, in float32, and inputs of the convolution, in the type of products."""
        state = self.expand * d_attention * self.state
        return state, (self.conv - 1) * self.convolved(d_attention)

    def kept(self, d_attention: int, n_heads: int, *, context: int) -> tuple[float, float]:
        """Two counts of numbers that a mixer keeps per token for the backward pass: those in
        float32, and those in the type of products. They are of the maps, the convolution, the norm
        and the scan, whose last chunk is padded."""
        inner, _, state, _, heads = self.rows(d_attention, n_heads)
        Q = min(CHUNK, context)
        padded = -(-context // Q) * Q / context
        between = inner * state / Q
        exact = 3 * inner + 2 * heads + 1 + padded * (inner + heads * (Q + 2) + between)
        rounded = padded * (3 * inner + (heads + 1) * Q + between + 2 * state * (padded > 1))
        maps = 4 * inner + 2 * state + heads + 3 * self.convolved(d_attention)
        return exact, maps + rounded
