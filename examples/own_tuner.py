"""The best depth for a fixed number of parameters, by a Ray Tuner of your own.

python examples/own_tuner.py [TRIALS] [STEPS]

Optuna samples depth and the ratio of d_ff to d_model, and both widths follow; ASHA stops, and
`fathom.analyse` answers from what the trials leave. The model and its training are yours.
"""

import sys

import torch
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch
from torch import nn

from fathom import DepthSampler, ShapeSpace, analyse
from fathom.models.shape import Shape

TOKENS = 16
"""Number of token ids, and tokens of a sequence."""
OPTIONS = {"biases": True, "norm": "layer", "positions": "learned", "tied": False}
SPACE = ShapeSpace(
    "40k", vocab_size=TOKENS, context=TOKENS, space={"depth": (1, 8), "head_dim": 4}, model=OPTIONS
)


def build(shape: Shape) -> nn.ModuleDict:
    """A plain transformer of PyTorch's, whose parameters are those that the space counts."""
    width, heads, wide = shape.d_model, shape.n_heads, shape.d_ff
    layer = nn.TransformerEncoderLayer(width, heads, wide, 0.0, batch_first=True, norm_first=True)
    final = nn.LayerNorm(width)
    layers = nn.TransformerEncoder(layer, shape.depth, final, enable_nested_tensor=False)
    names = {"tokens": nn.Embedding(TOKENS, width), "places": nn.Embedding(TOKENS, width)}
    return nn.ModuleDict(names | {"layers": layers, "out": nn.Linear(width, TOKENS, bias=False)})


def train(values: dict[str, float], steps: int) -> None:
    """Teaches a shape the sum of each token and the one before, and reports its loss ten times."""
    torch.manual_seed(0)
    shape = SPACE.shape(depth=int(values["depth"]), ff_ratio=values["ff_ratio"])
    model = build(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(1, steps + 1):
        tokens = torch.randint(TOKENS, (32, TOKENS))
        sums = (tokens + tokens.roll(1, 1)) % TOKENS
        hidden = model["layers"](model["tokens"](tokens) + model["places"].weight)
        loss = nn.functional.cross_entropy(model["out"](hidden).flatten(0, 1), sums.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % (steps // 10) == 0:
            seen = step * tokens.numel()
            tune.report({"loss": loss.item(), "tokens": seen, **SPACE.config(shape)})


def main(trials: int = 24, steps: int = 400) -> None:
    """Searches by parts that anybody has, and prints the answer."""
    sampler = DepthSampler(seed=0, shapes=SPACE.shapes)
    search = OptunaSearch(SPACE.distributions, metric="loss", mode="min", sampler=sampler)
    config = tune.TuneConfig(
        search_alg=search,
        scheduler=ASHAScheduler(metric="loss", mode="min", max_t=10, grace_period=2),
        num_samples=trials,
        reuse_actors=True,
    )
    results = tune.Tuner(tune.with_parameters(train, steps=steps), tune_config=config).fit()
    for optimum in analyse(results, noise=0.01).optima:
        print(f"{optimum.budget} parameters: {optimum.kind}, best depth {optimum.optimal_depth}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
