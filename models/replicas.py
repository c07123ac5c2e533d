"""Several transformers of one shape as one model: every weight has a leading replica dimension.

A small model cannot fill a GPU, and several beside each other can when each product of matrices is
one batched product over all of them. The mathematics is that of `models/network`; only
where a weight meets activations does it differ. Gains of norms are multiplied into the matrix that
follows, for all layers at once, as weights are smaller than activations.

Shapes: R replicas, B batch, T time, N = B * T, L layers, D d_model, H heads, K head dimension,
A = H * K, F d_ff, V vocabulary, P = K / 2 pairs that rotary positions turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.network.attention import attend
from fathom.models.network.blocks import ACTIVATIONS, NORM_EPS
from fathom.models.network.transformer import Transformer, rotary_table
from fathom.models.options import PLAIN, Normalization, Positions
from fathom.models.parametrization import Parametrization, forward_scales
from fathom.models.shape import Shape


@dataclass(frozen=True, slots=True)
class Slot:
    """Place of a single model's weight among the stacked ones."""

    field: str
    """Name of the weight without the number of its block."""
    layer: int | None

    @classmethod
    def of(cls, name: str) -> "Slot":
        """The slot of a name in a single model's `state_dict`."""
        if not name.startswith("blocks."):
            return cls(name, None)
        _, layer, field = name.split(".", 2)
        return cls(field, int(layer))

    def of_replica(self, stacked: Mapping[str, Tensor], replica: int) -> Tensor:
        """A view of one replica's weight, sized as in a single model."""
        weight = stacked[self.field][replica]
        weight = weight if self.layer is None else weight[self.layer]
        return weight.mT if is_map(self.field) else weight


def is_map(field: str) -> bool:
    """True if the stacked weight is kept as (in, out), the order in which it is multiplied."""
    return field.endswith((".into.weight", ".out.weight"))


class Replicas(nn.Module):
    """Several models of one shape: tokens (R * B, T), replica by replica, to logits (R * B, T, V).

    Raises:
        ValueError: for an option of the shape that only a single model has.
    """

    offset_R1: Tensor
    rotary: Tensor | None

    def __init__(
        self, shape: Shape, parametrization: Parametrization, count: int, device: torch.device
    ) -> None:
        super().__init__()
        _refuse_options(shape)
        self.shape, self.count = shape, count
        self.scales = forward_scales(parametrization, shape)
        with torch.device("meta"):
            single = dict(Transformer(shape, parametrization).named_parameters())
        self.slots = {name: Slot.of(name) for name in single}
        for field, size in _sizes(single).items():
            weight = nn.Parameter(torch.empty((count, *size), device=device))
            self.register_parameter(_attribute(field), weight)
        offset_R1 = torch.arange(count, device=device)[:, None] * shape.vocab_size
        self.register_buffer("offset_R1", offset_R1, persistent=False)
        rotary = rotary_table(shape, device) if shape.positions is Positions.ROTARY else None
        self.register_buffer("rotary", rotary, persistent=False)

    @property
    def stacked(self) -> dict[str, nn.Parameter]:
        """All weights by field, (R, L, ...) in the blocks and (R, ...) outside them."""
        fields = dict.fromkeys(slot.field for slot in self.slots.values())
        return {field: self.get_parameter(_attribute(field)) for field in fields}

    def state_of(
        self, replica: int, stacked: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Copies of one replica's weights, or of its part of other tensors stacked like them, by
        the names of a single model's `state_dict`."""
        found = self.stacked if stacked is None else stacked
        return {
            name: slot.of_replica(found, replica)
            .detach()
            .clone(memory_format=torch.contiguous_format)
            for name, slot in self.slots.items()
        }

    @torch.no_grad()
    def load_state_of(
        self,
        replica: int,
        state: Mapping[str, Tensor],
        stacked: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Loads a single model's tensors into one replica's weights, or its part of others."""
        found = self.stacked if stacked is None else stacked
        for name, slot in self.slots.items():
            slot.of_replica(found, replica).copy_(state[name])

    def forward(self, tokens_BT: Tensor) -> Tensor:
        T = tokens_BT.shape[1]
        weights = self.stacked
        x_RND = self._embed(tokens_BT)
        turns_2TJP2 = None if self.rotary is None else self.rotary[:, :T]
        into_L, out_L = _maps(weights, "attention", x_RND.device)
        feed_forward = zip(*_maps(weights, "feed_forward", x_RND.device), strict=True)
        residual = self.scales.residual
        for own in zip(into_L, out_L, self._head_gains(weights), strict=True):
            branch_RND = self._attend(self._normed(x_RND), *own, turns_2TJP2, T)
            x_RND = torch.add(x_RND, branch_RND, alpha=residual)
            if self.shape.d_ff:
                branch_RND = self._feed_forward(self._normed(x_RND), *next(feed_forward))
                x_RND = torch.add(x_RND, branch_RND, alpha=residual)
        logits_RNV = torch.bmm(self._normed(x_RND), self._head(weights))
        return logits_RNV.view(*tokens_BT.shape, -1)

    def _embed(self, tokens_BT: Tensor) -> Tensor:
        tokens_RN = tokens_BT.reshape(self.count, -1) + self.offset_R1
        x_RND = F.embedding(tokens_RN, self.stacked["embedding.weight"].flatten(0, 1))
        if self.shape.positions is not Positions.LEARNED:
            return x_RND
        T = tokens_BT.shape[1]
        positions_RTD: Tensor = self.stacked["positions"][:, :T]
        x_RBTD = x_RND.view(self.count, -1, T, self.shape.d_model) + positions_RTD[:, None]
        return x_RBTD.view_as(x_RND)

    def _normed(self, x_RND: Tensor) -> Tensor:
        """The normed stream (R, N, D) without the gain, which the next matrix contains."""
        norm = F.layer_norm if self.shape.norm is Normalization.LAYER else F.rms_norm
        return norm(x_RND, x_RND.shape[-1:], eps=NORM_EPS)

    def _attend(
        self,
        x_RND: Tensor,
        into_RDG: Tensor,
        out_RAD: Tensor,
        gain_RJK: Tensor | None,
        turns_2TJP2: Tensor | None,
        T: int,
    ) -> Tensor:
        shape, heads, width = self.shape, self.shape.n_heads, self.shape.head_dim
        qkv_BTGK = torch.bmm(x_RND, into_RDG).view(-1, T, heads + 2 * shape.kv_heads, width)
        if gain_RJK is not None:
            qkv_BTGK = self._normed_heads(qkv_BTGK, gain_RJK)
        y_BTHK = attend(qkv_BTGK, shape.kv_heads, turns_2TJP2, self.scales.attention)
        return torch.bmm(y_BTHK.reshape(self.count, -1, heads * width), out_RAD)

    def _head_gains(self, weights: Mapping[str, Tensor]) -> Sequence[Tensor | None]:
        """Gains of the norms of queries and keys in each layer, (R, J, K); None without norms."""
        shape = self.shape
        if not shape.qk_norm:
            return (None,) * shape.depth
        gains_RLHK = [
            weights[f"attention.{part}_norm.weight"][:, :, None].expand(-1, -1, heads, -1)
            for part, heads in (("q", shape.n_heads), ("k", shape.kv_heads))
        ]
        return torch.cat(gains_RLHK, dim=2).unbind(1)

    def _normed_heads(self, qkv_BTGK: Tensor, gain_RJK: Tensor) -> Tensor:
        J = gain_RJK.shape[1]
        normed_BTJK = F.rms_norm(qkv_BTGK[:, :, :J], qkv_BTGK.shape[-1:], eps=NORM_EPS)
        gain_BJK = gain_RJK.to(normed_BTJK.dtype).repeat_interleave(len(qkv_BTGK) // self.count, 0)
        return torch.cat((normed_BTJK * gain_BJK[:, None], qkv_BTGK[:, :, J:]), dim=2)

    def _feed_forward(self, x_RND: Tensor, into_RDF: Tensor, out_RFD: Tensor) -> Tensor:
        hidden_RNF = torch.bmm(x_RND, into_RDF)
        if self.shape.gated:
            gate_RNF, value_RNF = hidden_RNF.chunk(2, dim=-1)
            return torch.bmm(F.silu(gate_RNF) * value_RNF, out_RFD)
        return torch.bmm(ACTIVATIONS[self.shape.activation](hidden_RNF), out_RFD)

    def _head(self, weights: Mapping[str, Tensor]) -> Tensor:
        field = "embedding.weight" if self.shape.tied else "unembedding.weight"
        gain_R1D = weights["final_norm.weight"][:, None] * self.scales.logits
        head_RVD = _working(weights[field] * gain_R1D)
        return head_RVD.mT


def _refuse_options(shape: Shape) -> None:
    for name, plain in PLAIN.items():
        if (value := getattr(shape, name)) != plain:
            raise ValueError(
                f"replicas need `{name}: {plain}`, got {value}; train such shapes one by one"
            )


def _sizes(single: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Size of one replica's part of every stacked weight; blocks have a dimension of layers."""
    sizes: dict[str, tuple[int, ...]] = {}
    for name, weight in single.items():
        slot = Slot.of(name)
        size = tuple(weight.mT.shape if is_map(slot.field) else weight.shape)
        sizes[slot.field] = size if slot.layer is None else (slot.layer + 1, *size)
    return sizes


def _attribute(field: str) -> str:
    """Attribute of a stacked weight; a module allows no dot in a parameter's name."""
    return field.replace(".", "_")


def _maps(
    weights: Mapping[str, Tensor], branch: str, device: torch.device
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Both weight matrices of a branch for each layer; the first includes the gain of its norm."""
    if f"{branch}.into.weight" not in weights:
        return (), ()
    gain_RLD1 = weights[f"{branch}_norm.weight"][..., None]
    into = _working(weights[f"{branch}.into.weight"] * gain_RLD1)
    return into.unbind(1), _working(weights[f"{branch}.out.weight"]).unbind(1)


def _working(weight: Tensor) -> Tensor:
    """Casts a weight to the precision of matrix products, for all layers at once."""
    if torch.is_autocast_enabled(weight.device.type):
        return weight.to(torch.get_autocast_dtype(weight.device.type))
    return weight
