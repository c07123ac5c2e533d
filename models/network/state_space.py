"""The mixer of a state-space layer, Mamba-2 (Dao & Gu 2024, arXiv 2405.21060), in plain PyTorch.

Each head keeps a state, a matrix (P, S). A token multiplies it by a decay exp(-exp(A_log) * dt),
adds the outer product of its input, times dt, and its writing vector, and reads it by its reading
vector. The scan computes the same in chunks: products with a triangle of decays inside a chunk, as
in attention, and the recurrence between chunks.

Shapes: B batch, T time, N = B * T, D d_model, H heads, P head width, I = H * P, S state,
R = I + 2 S, C chunks, Q tokens of a chunk, W tokens of the convolution, U = T + W - 1.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.layers.state_space import CHUNK
from fathom.models.network.attention import full_precision
from fathom.models.network.decoding_cache import LayerCache
from fathom.models.shape import Shape

LARGEST_DECAY = 16.0
"""Initial decay rates are between 1 and this."""
STEP_SIZES = 1e-3, 0.1
"""Smallest and largest initial step size."""

STATE_VECTORS = ("conv", "A_log", "dt_bias", "D")
"""Names, without `.weight`, of a mixer's weights other than the matrices of its maps and its
norm's."""


class StateSpaceMixer(nn.Module):
    """Mixes tokens by a recurrence, (N, D) to (N, D); a token sees itself and those before it.

    The rows of `state_in` are gates (I), inputs (I), writing (S) and reading vectors (S), and step
    sizes (H). `eps` is that of the norm before the last map.
    """

    def __init__(self, shape: Shape, eps: float) -> None:
        super().__init__()
        space = shape.state_space
        assert space is not None
        rows = space.rows(shape.d_attention, shape.n_heads)
        self.inner, _, self.state, _, heads = rows
        self.head_dim = shape.head_dim
        mixed = space.convolved(shape.d_attention)
        self.state_in = nn.Linear(shape.d_model, sum(rows), bias=False)
        self.state_out = nn.Linear(self.inner, shape.d_model, bias=False)
        self.conv = nn.Conv1d(mixed, mixed, space.conv, groups=mixed)
        self.A_log, self.dt_bias, self.D = (nn.Parameter(torch.empty(heads)) for _ in range(3))
        self.norm = nn.RMSNorm(self.inner, eps)

    def forward(self, x_ND: Tensor, T: int, *_: Any) -> Tensor:
        """Outputs (N, D); the arguments after T are for attention and ignored."""
        return self._mixed(x_ND, T, None)

    def cached(self, x_ND: Tensor, T: int, _turns: Any, _mask: Any, kept: LayerCache) -> Tensor:
        """Outputs (N, D) of T new tokens a sequence, which go on from the state in `kept` and
        change it; rotations and mask are for attention."""
        return self._mixed(x_ND, T, kept)

    def _mixed(self, x_ND: Tensor, T: int, kept: LayerCache | None) -> Tensor:
        """Outputs (N, D), after the tokens in `kept` if it is given."""
        inner, S = self.inner, self.state
        parts_BTF = self.state_in(x_ND).view(-1, T, self.state_in.out_features)
        gate_BTI, mixed_BTR, dt_BTH = parts_BTF.split_with_sizes(
            [inner, inner + 2 * S, len(self.D)], -1
        )
        before_BUR = F.pad(mixed_BTR, (0, 0, self.conv.kernel_size[0] - 1, 0))
        if kept is not None:
            if kept.inputs is not None:
                before_BUR[:, :-T] = kept.inputs
            kept.inputs = before_BUR[:, T:].clone()
        mixed_BTR = F.silu(convolved(before_BUR, self.conv))
        x_BTI, write_BTS, read_BTS = mixed_BTR.split_with_sizes([inner, S, S], -1)
        x_BTHP = of_heads(x_BTI, self.head_dim)
        dt_BTH = F.softplus(dt_BTH + self.dt_bias)
        decay_BTH = dt_BTH * -self.A_log.exp()
        y_BTHP = scan(x_BTHP * dt_BTH[..., None], decay_BTH, write_BTS, read_BTS, kept=kept)
        y_BTHP = torch.addcmul(y_BTHP, x_BTHP, self.D[:, None])
        y_BTI = self.norm(y_BTHP.flatten(2) * F.silu(gate_BTI))
        out_ND: Tensor = self.state_out(y_BTI.flatten(0, 1))
        return out_ND


def of_heads(x_XI: Tensor, P: int) -> Tensor:
    """The features (..., I) of all heads, split by head: (..., H, P)."""
    return x_XI.view(*x_XI.shape[:-1], -1, P)


def convolved(x_BUR: Tensor, conv: nn.Conv1d) -> Tensor:
    """The convolution over each token and the W - 1 before it, (B, T, R), as a sum over these
    tokens: where features are the last dimension, this is faster on a CPU than PyTorch's."""
    T, sum_BTR = x_BUR.shape[1] - conv.kernel_size[0] + 1, conv.bias
    assert sum_BTR is not None
    for offset, weight_R in enumerate(conv.weight[:, 0].unbind(1)):
        sum_BTR = torch.addcmul(sum_BTR, x_BUR[:, offset : offset + T], weight_R)
    return sum_BTR.to(x_BUR.dtype)


def scan(
    x_BTHP: Tensor, decay_BTH: Tensor, write_BTS: Tensor, read_BTS: Tensor,
    *, kept: LayerCache | None = None,
) -> Tensor:  # fmt: skip
    """Outputs of the recurrence, (B, T, H, P): the states as each token reads them.

    At each token a head's state, which begins as 0, is multiplied by exp(decay), then gets the
    outer product of `x` and `write`; `read` multiplies it. A last chunk that is not full is padded
    by tokens that change no state. With `kept`, states go on from its state, which is replaced by
    the state after the last token.
    """
    T, P = x_BTHP.shape[1], x_BTHP.shape[-1]
    Q = min(T, CHUNK)

    def chunks(x_BTX: Tensor) -> Tensor:
        padded = F.pad(x_BTX, (0, 0, 0, -T % Q)) if T % Q else x_BTX
        return padded.view(len(padded), -1, Q, padded.shape[-1])

    x_BCQI, write_BCQS, read_BCQS = map(chunks, (x_BTHP.flatten(2), write_BTS, read_BTS))
    since_BCHQ = chunks(decay_BTH).mT.cumsum(-1)
    x_BCHQP = of_heads(x_BCQI, P).transpose(2, 3)
    seen_BCQQ = read_BCQS @ write_BCQS.mT
    inside_BCHQP = (between(since_BCHQ) * seen_BCQQ[:, :, None]) @ x_BCHQP
    left_BCHQ = (since_BCHQ[..., -1:] - since_BCHQ).exp()
    added_BCIS = (x_BCHQP * left_BCHQ[..., None]).transpose(2, 3).flatten(3).mT @ write_BCQS
    if kept is None:
        first_BCIS = _first_states(added_BCIS, since_BCHQ[..., -1])
    else:
        states_BCIS = _states(added_BCIS, since_BCHQ[..., -1], kept.state)
        first_BCIS, kept.state = states_BCIS[:, :-1].to(x_BTHP.dtype), states_BCIS[:, -1].clone()
    before_BCQI = read_BCQS @ first_BCIS.mT
    before_BCHQP = of_heads(before_BCQI, P).transpose(2, 3)
    y_BCHQP = torch.addcmul(inside_BCHQP, before_BCHQP, since_BCHQ.exp()[..., None])
    return y_BCHQP.transpose(2, 3).flatten(1, 2)[:, :T]


def between(since_XQ: Tensor) -> Tensor:
    """Decays (..., Q, Q) from the token that writes, the last index, to the token that reads; 0 if
    the reading token comes first. `since` are running sums of the decays' logarithms."""
    Q = since_XQ.shape[-1]
    later_QQ = torch.ones(Q, Q, dtype=torch.bool, device=since_XQ.device).triu(1)
    return (since_XQ[..., :, None] - since_XQ[..., None, :]).masked_fill(later_QQ, -math.inf).exp()


def _first_states(added_BCIS: Tensor, decay_BCH: Tensor) -> Tensor:
    """The states before each chunk, (B, C, I, S), from what each chunk adds and the factor by which
    it decays states."""
    with full_precision(added_BCIS):
        since_BHC = decay_BCH.transpose(1, 2).cumsum(-1)
        # Of what chunk z added, until the end of chunk c, and so the beginning of c + 1.
        decays_BHCC = F.pad(between(since_BHC), (0, 0, 1, -1))
        added_BCHX = added_BCIS.reshape(*decay_BCH.shape, -1)
        first_BHCX = decays_BHCC @ added_BCHX.transpose(1, 2).to(decays_BHCC.dtype)
    return first_BHCX.transpose(1, 2).reshape(added_BCIS.shape)


def _states(added_BCIS: Tensor, decay_BCH: Tensor, state_BIS: Tensor | None) -> Tensor:
    """The states before each chunk and after the last, (B, C + 1, I, S), in float32; `state_BIS` is
    the state before the first, 0 if it is None."""
    if state_BIS is None:
        state_BIS = torch.zeros_like(added_BCIS[:, 0], dtype=torch.float32)
    # It counts as what a chunk before the first adds, and the end as an empty chunk.
    added_BCIS = torch.cat((state_BIS[:, None], F.pad(added_BCIS, (0, 0, 0, 0, 0, 1))), 1)
    return _first_states(added_BCIS, F.pad(decay_BCH.float(), (0, 0, 1, 1)))[:, 1:]


def first_values(name: str, uniform: Tensor) -> Tensor:
    """Initial values of a mixer's vector by the end of its name, from draws between 0 and 1: decay
    rates, step sizes and skips as in Mamba-2, the convolution as PyTorch's own."""
    match name.rpartition(".")[2]:
        case "A_log":
            return (1 + (LARGEST_DECAY - 1) * uniform).log()
        case "dt_bias":
            low, high = STEP_SIZES
            dt: Tensor = low * (high / low) ** uniform
            return dt + (-torch.expm1(-dt)).log()  # whose softplus is dt
        case "D":
            return torch.ones_like(uniform)
    return (2 * uniform - 1) / math.sqrt(uniform.shape[-1])
