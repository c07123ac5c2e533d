"""Functions from a shape to a model, as a user might write them: one that is right, and mistakes.

A token sees the mean of the features before it, so that no attention is needed.
"""

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.parametrization import ForwardScales
from fathom.models.shape import Shape

number = 5
counter = itertools.count()
SHAPE = Shape(depth=2, d_model=16, d_ff=24, n_heads=1, head_dim=16, vocab_size=31, context=12)


class Means(nn.Module):
    """Tokens to logits; `hidden` is the width of the feed-forward branches."""

    def __init__(
        self, depth: int, d_model: int, hidden: int, vocab_size: int, residual: float = 1.0
    ) -> None:
        super().__init__()
        self.residual = residual
        self.tokens = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.tokens.weight, std=0.1)
        self.up = nn.ModuleList(nn.Linear(d_model, hidden) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(hidden, d_model) for _ in range(depth))
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for up, down in zip(self.up, self.down, strict=True):
            count = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
            x = x + self.residual * down(F.gelu(up(x.cumsum(1) / count)))
        logits: Tensor = self.head(x)
        return logits


def build(*, depth: int, d_model: int, d_ff: int, vocab_size: int, context: int) -> nn.Module:
    return Means(depth, d_model, d_ff, vocab_size)


def scaled(
    *, depth: int, d_model: int, d_ff: int, vocab_size: int, scales: ForwardScales
) -> nn.Module:
    return Means(depth, d_model, d_ff, vocab_size, scales.residual)


def anything(**sizes: Any) -> nn.Module:
    return Means(sizes["depth"], sizes["d_model"], sizes["d_ff"], sizes["vocab_size"])


def with_heads(*, depth: int, d_model: int, d_ff: int, n_heads: int, vocab_size: int) -> nn.Module:
    """A model whose size follows the number of heads as well."""
    model = Means(depth, d_model, d_ff, vocab_size)
    model.gates = nn.ParameterList(torch.zeros(n_heads, d_model) for _ in range(depth))
    return model


def no_feed_forward(*, depth: int, d_model: int, vocab_size: int) -> nn.Module:
    return Means(depth, d_model, d_model, vocab_size)


def idle_d_ff(*, depth: int, d_model: int, d_ff: int, vocab_size: int) -> nn.Module:
    return Means(depth, d_model, d_model, vocab_size)


def idle_anything(**sizes: Any) -> nn.Module:
    return Means(sizes["depth"], sizes["d_model"], sizes["d_model"], sizes["vocab_size"])


def seeded(*, depth: int, d_model: int, d_ff: int, vocab_size: int) -> nn.Module:
    torch.manual_seed(0)
    return Means(depth, d_model, d_ff, vocab_size)


def no_width(*, depth: int, d_ff: int, vocab_size: int) -> nn.Module:
    return Means(depth, 8, d_ff, vocab_size)


def foreign(*, depth: int, d_model: int, d_ff: int, vocab_size: int, rope: int) -> nn.Module:
    return Means(depth, d_model, d_ff, vocab_size)


def a_list(**sizes: Any) -> Any:
    return [sizes]


def raising(**sizes: Any) -> nn.Module:
    raise KeyError("hidden\nsize")


def frozen(**sizes: Any) -> nn.Module:
    return anything(**sizes).requires_grad_(False)


def deep_is_more(**sizes: Any) -> nn.Module:
    """A model of more parameters than its first depths would show."""
    extra = 7 if sizes["depth"] > 3 else 0
    return Means(sizes["depth"], sizes["d_model"], sizes["d_ff"] + extra, sizes["vocab_size"])


def quadratic(**sizes: Any) -> nn.Module:
    return Means(sizes["depth"] ** 2, sizes["d_model"], sizes["d_ff"], sizes["vocab_size"])


def rounding(**sizes: Any) -> nn.Module:
    hidden = -(-sizes["d_ff"] // 16) * 16
    return Means(sizes["depth"], sizes["d_model"], hidden, sizes["vocab_size"])


class Narrow(Means):
    """Lacks the last token of the vocabulary."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens)[..., :-1]


def narrow_logits(**sizes: Any) -> nn.Module:
    return Narrow(sizes["depth"], sizes["d_model"], sizes["d_ff"], sizes["vocab_size"])


class ReturnsPair(Means):
    """Returns a tuple."""

    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens), None


def a_pair(*, depth: int, d_model: int, d_ff: int, vocab_size: int) -> nn.Module:
    return ReturnsPair(depth, d_model, d_ff, vocab_size)


def not_a_number(**sizes: Any) -> nn.Module:
    model = anything(**sizes)
    nn.init.constant_(model.get_parameter("up.0.weight"), float("nan"))
    return model


def half(**sizes: Any) -> nn.Module:
    return anything(**sizes).bfloat16()


def on_meta(**sizes: Any) -> nn.Module:
    return anything(**sizes).to("meta")


def unseeded(**sizes: Any) -> nn.Module:
    model = anything(**sizes)
    nn.init.constant_(model.get_parameter("up.0.weight"), 0.01 * next(counter))
    return model


def idle(**sizes: Any) -> nn.Module:
    model = anything(**sizes)
    model.spare = nn.Parameter(torch.zeros(3))
    return model


class Foreseeing(Means):
    """Sees the whole sequence."""

    def forward(self, tokens: Tensor) -> Tensor:
        everywhere: Tensor = self.tokens(tokens).mean((1, 2), keepdim=True)
        return super().forward(tokens) + everywhere


def foreseeing(*, depth: int, d_model: int, d_ff: int, vocab_size: int) -> nn.Module:
    return Foreseeing(depth, d_model, d_ff, vocab_size)


class Fragile(Means):
    """Can't be called."""

    def forward(self, tokens: Tensor) -> Tensor:
        raise RuntimeError("no kernel")


def fragile(*, depth: int, d_model: int, d_ff: int, vocab_size: int) -> nn.Module:
    return Fragile(depth, d_model, d_ff, vocab_size)


class _Leaving(Means):
    """Ends the process when it is called."""

    def forward(self, tokens: Tensor) -> Tensor:
        raise SystemExit("no kernel")


def leaving(*, depth: int, d_model: int, d_ff: int, vocab_size: int) -> nn.Module:
    return _Leaving(depth, d_model, d_ff, vocab_size)


def exiting(**sizes: Any) -> nn.Module:
    raise SystemExit("no GPU")


class Halt(BaseException):
    """An exception that is no `Exception`."""


def stopping(**sizes: Any) -> nn.Module:
    raise Halt("no GPU")


def lazy(**sizes: Any) -> nn.Module:
    model = anything(**sizes)
    model.spare = nn.LazyLinear(3)
    return model


class _Looped(nn.Module):
    """One block that is used `depth` times."""

    def __init__(self, depth: int, d_model: int, vocab_size: int) -> None:
        super().__init__()
        self.depth, self.tokens = depth, nn.Embedding(vocab_size, d_model)
        self.block, self.head = nn.Linear(d_model, d_model), nn.Linear(d_model, vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.tokens(tokens)
        for _ in range(self.depth):
            hidden = hidden + self.block(hidden)
        logits: Tensor = self.head(hidden)
        return logits


def looped(*, depth: int, d_model: int, vocab_size: int) -> nn.Module:
    return _Looped(depth, d_model, vocab_size)


class _NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        return logits.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise RuntimeError("no backward")


class _Stubborn(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = _NoBackward.apply(self.inner(tokens))  # type: ignore[no-untyped-call]
        return logits


def stubborn(*, depth: int, d_model: int, d_ff: int, vocab_size: int, context: int) -> nn.Module:
    sizes = {"depth": depth, "d_model": d_model, "d_ff": d_ff}
    return _Stubborn(build(**sizes, vocab_size=vocab_size, context=context))
