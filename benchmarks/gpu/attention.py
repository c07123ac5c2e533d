"""Stage `attention`: kernels give what attention is, for heads of any size, and all sizes that a
budget compares have the same kernel."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_most, holds
from fathom.models.network.attention import attend, rotated
from fathom.search.training.device import use_one_attention

HEAD_DIMS = (64, 32, 16, 40, 12, 10)
"""Features of a head: first those that every kernel takes, then those that some do not."""
HEADS, KEY_HEADS, SEQUENCES, TOKENS, PADDED = 4, 2, 2, 96, 17
ROUNDED, SAME = 0.03, 1e-4
"""Largest difference of an output of about 1, in bfloat16 and in float32."""
KERNELS = {-1: "none", 0: "math", 1: "flash", 2: "memory-efficient", 3: "cuDNN", 4: "overrideable"}
"""PyTorch's numbers of kernels -> their names."""


def cases(setup: Setup) -> Cases:
    """Yields the masks that objectives have, in the precisions that trials have."""
    for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        for masked in (False, True):
            mask = "padding" if masked else "causal"
            yield f"{mask} {name}", partial(_right, dtype=dtype, masked=masked)
    if setup.on_gpu:
        yield "kernels", _kernels


def _right(setup: Setup, dtype: torch.dtype, masked: bool) -> Iterator[StageFinding]:
    for head_dim in HEAD_DIMS:
        qkv = _qkv(head_dim).requires_grad_()
        mask = _mask() if masked else None
        expected = _expected(qkv, mask)
        placed = qkv.detach().to(setup.device, dtype).requires_grad_()
        found = attend(
            placed.clone(), KEY_HEADS, None, head_dim**-0.5,
            None if mask is None else mask.to(setup.device),
        )  # fmt: skip
        bound = ROUNDED if dtype is torch.bfloat16 else SAME
        yield at_most(f"heads of {head_dim}, output", _gap(found, expected), bound)
        gradients = [
            torch.autograd.grad(out.square().sum(), given)[0]
            for out, given in ((found.float(), placed), (expected, qkv))
        ]
        scale = float(gradients[1].abs().max())
        yield at_most(f"heads of {head_dim}, gradient", _gap(*gradients) / scale, bound)


def _gap(found: Tensor, expected: Tensor) -> float:
    return float((found.double().cpu() - expected).abs().max().detach())


def _expected(qkv: Tensor, mask: Tensor | None) -> Tensor:
    """Outputs by the definition of attention, in float64."""
    scale = qkv.shape[-1] ** -0.5
    q, k, v = rotated(qkv, KEY_HEADS, None)
    keys, values = (part.repeat_interleave(HEADS // KEY_HEADS, dim=2) for part in (k, v))
    logits = scale * torch.einsum("bthk,bshk->bhts", q, keys)
    seen = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril() if mask is None else mask
    weights = logits.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("bhts,bshk->bthk", weights, values)


def _qkv(head_dim: int) -> Tensor:
    generator = torch.Generator().manual_seed(head_dim)
    shape = (SEQUENCES, TOKENS, HEADS + 2 * KEY_HEADS, head_dim)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _mask() -> Tensor:
    """Mask of bidirectional attention, whose second sequence is padded."""
    mask = torch.ones(SEQUENCES, 1, 1, TOKENS, dtype=torch.bool)
    mask[1, ..., -PADDED:] = False
    return mask


def _kernels(setup: Setup) -> Iterator[StageFinding]:
    """The kernel that PyTorch chooses in bfloat16 for heads of each size, as trials have them."""
    use_one_attention(heads_differ=True)
    try:
        chosen = {head_dim: _chosen(setup, head_dim) for head_dim in HEAD_DIMS}
    finally:
        use_one_attention(heads_differ=False)
    names = ", ".join(f"{head_dim}: {kernel}" for head_dim, kernel in chosen.items())
    yield holds("all sizes of heads have one kernel", len(set(chosen.values())) == 1, names)


def _chosen(setup: Setup, head_dim: int) -> str:
    qkv = _qkv(head_dim).to(setup.device, torch.bfloat16)
    q, k, v = (part.transpose(1, 2) for part in rotated(qkv, KEY_HEADS, None))
    number = torch._fused_sdp_choice(q, k, v, is_causal=True, enable_gqa=True)
    return KERNELS[int(number)]
