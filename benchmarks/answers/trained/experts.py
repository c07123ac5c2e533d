"""Four experts, of which a token uses two, between dense models of their active and total size.

python -m benchmarks.answers.trained.experts
python -m benchmarks.answers.trained.experts --tokens 4000000 --seeds 5
python -m benchmarks.answers.trained.experts --steps    # beside transformers' Mixtral

The order that arXiv 2605.13769 finds below 25M parameters. The models differ in
their feed-forward branches alone and train at one rate on bytes of Python's standard library.
`--steps` compares a step on one thread of a CPU, forward, backward and AdamW, without the data.
"""

import argparse
import importlib
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.building import build_model
from fathom.models.layers.experts import Experts
from fathom.models.network.transformer import Transformer
from fathom.models.optim import build_optimizer, rate_at, set_learning_rate
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.objectives.text.language.objective import Language

DENSE = Shape(depth=2, d_model=64, d_ff=256, n_heads=2, head_dim=32, vocab_size=256, context=128)
EXPERTS = Experts(number=4, top_k=2)
SHAPES = {
    "dense, active size": DENSE,
    "4 experts, top 2": replace(DENSE, d_ff=128, experts=EXPERTS),
    "dense, total size": replace(DENSE, d_ff=512),
}
BASE = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=64, base_depth=2, base_head_dim=32, init_std=0.04
)
BATCH, RATE, CPU = 8, 4e-3, torch.device("cpu")
STEPS = ((2, 64, 128), (4, 128, 256), (4, 256, 256), (2, 512, 512))
"""Depth, d_model and d_ff of the shapes whose steps are timed; heads are 32 wide."""


def main() -> None:
    """Prints a row for each model, or for each shape that is timed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=500_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", action="store_true", help="time steps, and those of Mixtral")
    add_json_option(parser)
    told = parser.parse_args()
    torch.set_num_threads(1)
    if told.steps:
        time_steps(told.json)
        return
    columns = {"model": "", "parameters": ",", "active": ",", "loss (nats)": ".4f", "sd": ".4f"}
    table = PrintedTable(columns, told.json)
    keys = LanguageConfig(
        name="language", corpus="stdlib", tokenizer="bytes", context=128, eval_tokens=64_000
    )
    objective = Language.prepare(keys).to(CPU)
    for name, shape in SHAPES.items():
        losses = [trained(objective, shape, seed, told.tokens) for seed in range(told.seeds)]
        sizes = shape.params_total, shape.params_active
        table.add(name, *sizes, fmean(losses), stdev(losses))


def trained(objective: Language, shape: Shape, seed: int, tokens: int) -> float:
    """The held-out loss of a training, nats per token."""
    model: Any = build_model(shape, BASE, seed=seed, device=CPU)
    optimizer = build_optimizer(model, weight_decay=0.1, betas=(0.9, 0.95), eps=1e-8)
    steps = tokens // (BATCH * shape.context)
    for step in range(steps):
        schedule = rate_at(step, steps=steps, warmup_steps=steps // 50, cooldown_steps=steps // 5)
        set_learning_rate(optimizer, RATE * schedule)
        objective.loss(model, objective.batch(seed=seed, step=step, batch_size=BATCH)).backward()  # type: ignore[no-untyped-call]
        optimizer.clipped_step(1.0)
    model.eval()
    with torch.no_grad():
        return objective.evaluate(model)["loss"]


def time_steps(file: Any) -> None:
    """Prints the time of a step of each shape, ours and transformers'."""
    columns = {"depth x width, d_ff": "", "ours (ms)": ".1f", "Mixtral (ms)": ".1f", "ratio": ".2f"}
    table = PrintedTable(columns, file)
    for depth, d_model, d_ff in STEPS:
        sizes: Any = {"depth": depth, "d_model": d_model, "d_ff": d_ff, "n_heads": d_model // 32}
        shape = replace(DENSE, **sizes, gated=True, experts=EXPERTS)
        ours, theirs = rounds(our_step(shape), their_step(mixtral(shape), shape))
        table.add(f"{depth} x {d_model}, {d_ff}", 1e3 * ours, 1e3 * theirs, theirs / ours)


def rounds(*steps: Callable[[], None]) -> list[float]:
    """CPU seconds of each of several steps, the least of several in turns."""
    seconds: list[list[float]] = [[] for _ in steps]
    for _ in range(8):
        for times, step in zip(seconds, steps, strict=True):
            began = time.process_time()
            step()
            times.append(time.process_time() - began)
    return [min(times[1:]) for times in seconds]


def tokens_of(shape: Shape) -> torch.Tensor:
    """Random token ids (B, T + 1)."""
    return torch.randint(shape.vocab_size, (BATCH, shape.context + 1))


def our_step(
    shape: Shape, change: Callable[[Transformer], object] = lambda _model: None
) -> Callable[[], None]:
    """A training step of our model, which `change` may change first."""
    model = Transformer(shape, BASE)
    model.initialise(torch.Generator().manual_seed(0))
    change(model)
    optimizer = build_optimizer(model, weight_decay=0.1, betas=(0.9, 0.95), eps=1e-8)
    set_learning_rate(optimizer, RATE)
    tokens = tokens_of(shape)

    def step() -> None:
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()  # type: ignore[no-untyped-call]
        optimizer.clipped_step(1.0)

    return step


def mixtral(shape: Shape) -> Any:
    """transformers' Mixtral of a shape, with its balance loss."""
    library = importlib.import_module("transformers")
    return library.MixtralForCausalLM(
        library.MixtralConfig(
            vocab_size=shape.vocab_size, hidden_size=shape.d_model, intermediate_size=shape.d_ff,
            num_hidden_layers=shape.depth, num_attention_heads=shape.n_heads,
            num_key_value_heads=shape.n_heads, num_local_experts=EXPERTS.number,
            num_experts_per_tok=EXPERTS.top_k, max_position_embeddings=shape.context,
            tie_word_embeddings=True, use_cache=False, output_router_logits=True,
            bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


def their_step(model: Any, shape: Shape) -> Callable[[], None]:
    """A training step of a model of transformers."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    tokens = tokens_of(shape)[:, :-1]

    def step() -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


if __name__ == "__main__":
    main()
