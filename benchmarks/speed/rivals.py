"""Other people's transformers at the sizes of ours, each at the settings that train it fastest.

All are trained by the same step: a random batch, next-token loss, backward, clipping, fused AdamW.
"""

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.shape import Shape
from fathom.objectives.text.language.objective import Language

Block = Callable[[int], None]
"""Trains a number of steps."""
Loss = Callable[[Any, Tensor, Tensor], Tensor]
"""Model, inputs (B, T) and targets (B, T) to the mean loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The training that every contestant runs; `recorded` is ours alone, the steps as a CUDA
    graph."""

    shape: Shape
    batch_size: int
    device: torch.device
    bfloat16: bool
    compiled: bool
    recorded: bool = False

    @property
    def tokens_per_step(self) -> int:
        """Positions of a batch."""
        return self.batch_size * self.shape.context


INSTALL = {
    "transformers": "pip install -e '.[rivals]'",
    # It asks for numpy below 2 and works with the numpy that Fathom needs.
    "litgpt": "pip install --no-deps litgpt lightning lightning-utilities torchmetrics "
    "pytorch-lightning",
    "x-transformers": "pip install -e '.[rivals]'",
    "nanoGPT": "git clone https://github.com/karpathy/nanoGPT, then --nanogpt nanoGPT",
}
"""Rival -> the command that installs it."""

DIFFERENCES = {
    "transformers": "learned positions, biases",
    "litgpt": "rotary positions, untied head, biases in its norms",
    "x-transformers": "learned positions",
    "nanoGPT": "learned positions",
}
"""Rival -> differences of its model; ours has the positions asked for, a tied head, no biases."""


class Missing(Exception):
    """Raised for a rival that is not installed; the message says how to get it."""


def rival(name: str, task: Task, nanogpt: Path | None) -> tuple[int, Block]:
    """The step of nanoGPT's train.py, with the batch drawn at once instead of row by row."""
    model, loss_of = build(name, task.shape, nanogpt=nanogpt)
    model = model.to(task.device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    tokens = text(task).to(task.device).train
    assert isinstance(tokens, Tensor)
    called = torch.compile(model) if task.compiled else model

    def block(steps: int) -> None:
        for _ in range(steps):
            inputs, targets = _batch(tokens, task)
            with _autocast(task):
                loss = loss_of(called, inputs, targets)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return sum(weight.numel() for weight in model.parameters()), block


def build(name: str, shape: Shape, *, nanogpt: Path | None) -> tuple[nn.Module, Loss]:
    """A rival's model of our size with random weights, and its loss."""
    if name == "nanoGPT":
        return nanogpt_model(_nanogpt_module(nanogpt), shape), lambda model, x, y: model(x, y)[1]
    try:
        module = importlib.import_module(name.replace("-", "_"))
    except ImportError as error:
        raise Missing(f"{name} is left out ({error}): {INSTALL[name]}") from error
    return BUILDERS[name](module, shape), _loss_of_logits


def transformers_model(library: ModuleType, shape: Shape) -> nn.Module:
    """GPT-2 of transformers, with its tanh GELU as one kernel instead of seven."""
    config = library.GPT2Config(
        vocab_size=shape.vocab_size,
        n_positions=shape.context,
        n_embd=shape.d_model,
        n_layer=shape.depth,
        n_head=shape.n_heads,
        n_inner=shape.d_ff,
        activation_function="gelu_pytorch_tanh",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        attn_implementation="sdpa",
        bos_token_id=None,
        eos_token_id=None,
    )
    model: nn.Module = library.GPT2LMHeadModel(config)
    return model


def litgpt_model(library: ModuleType, shape: Shape) -> nn.Module:
    """LitGPT's model with sequential GPT-NeoX blocks, without biases."""
    config = library.Config(
        block_size=shape.context,
        n_layer=shape.depth,
        n_embd=shape.d_model,
        n_head=shape.n_heads,
        intermediate_size=shape.d_ff,
        vocab_size=shape.vocab_size,
        padded_vocab_size=shape.vocab_size,
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
    )
    model: nn.Module = library.GPT(config)
    return model


def x_transformers_model(library: ModuleType, shape: Shape) -> nn.Module:
    """x-transformers' plain decoder with flash attention."""
    model: nn.Module = library.TransformerWrapper(
        num_tokens=shape.vocab_size,
        max_seq_len=shape.context,
        tie_embedding=True,
        attn_layers=library.Decoder(
            dim=shape.d_model,
            depth=shape.depth,
            heads=shape.n_heads,
            attn_dim_head=shape.head_dim,
            attn_flash=True,
            ff_mult=shape.d_ff / shape.d_model,
            ff_no_bias=True,
        ),
    )
    return model


def nanogpt_model(module: ModuleType, shape: Shape) -> nn.Module:
    """Returns nanoGPT's model without biases, "a bit better and faster"; d_ff is 4 d_model."""
    if shape.d_ff != 4 * shape.d_model:
        raise Missing(f"nanoGPT is left out: it has d_ff = {4 * shape.d_model}, not {shape.d_ff}")
    config = module.GPTConfig(
        block_size=shape.context,
        vocab_size=shape.vocab_size,
        n_layer=shape.depth,
        n_head=shape.n_heads,
        n_embd=shape.d_model,
        dropout=0.0,
        bias=False,
    )
    model: nn.Module = module.GPT(config)
    return model


BUILDERS = {
    "transformers": transformers_model,
    "litgpt": litgpt_model,
    "x-transformers": x_transformers_model,
}


def text(task: Task) -> Language:
    """A text of random bytes; the content of a batch does not change its time."""
    largest = min(256, task.shape.vocab_size)
    tokens = np.random.default_rng(0).integers(0, largest, 1_000_000).astype(np.uint8)
    return Language(
        train=tokens,
        validation=tokens[:10_000],
        vocab_size=task.shape.vocab_size,
        context=task.shape.context,
        eval_windows=1,
        tokens_per_byte=1.0,
    )


def _batch(tokens: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    context = task.shape.context
    starts = torch.randint(len(tokens) - context, (task.batch_size,), device=tokens.device)
    windows = tokens.unfold(0, context + 1, 1)[starts].long()
    return windows[:, :-1], windows[:, 1:].contiguous()


def _autocast(task: Task) -> contextlib.AbstractContextManager[object]:
    if task.bfloat16:
        return torch.autocast(task.device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _loss_of_logits(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    answer = model(inputs)
    logits = getattr(answer, "logits", answer)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def _nanogpt_module(checkout: Path | None) -> Any:
    if checkout is None or not (checkout / "model.py").exists():
        raise Missing(f"nanoGPT is left out (no checkout given): {INSTALL['nanoGPT']}")
    spec = importlib.util.spec_from_file_location("nanogpt_model", checkout / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
