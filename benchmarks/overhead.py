"""What a trial costs beyond its training: an objective that does nothing, few trials against many.

python -m benchmarks.overhead
"""

import argparse
import math
import platform
import statistics
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Self

import ray
import torch
from ray import tune
from torch import Tensor

from objectives.objective import Batch, Model
from search.budget import expand_budgets
from search.conductor import Conductor
from search.config import parse
from search.folder import RunFolder
from search.space import feasible_shapes
from search.tuner import run_trials

STUDY = """
study: overhead
objective: {{name: language, context: 8}}
budgets: [8k, 12k]
count: non_embedding
tokens: 8
space: {{depth: [1, 4], n_heads: 2}}
sampler: random
stopping: {{enabled: false}}
trials: {trials}
confirm: {{depths: 1, seeds: 1, rates: [1]}}
train: {{batch_size: 1, evaluations: 1}}
resources: {{gpus_per_trial: 0}}
"""


@dataclass(frozen=True)
class Nothing:
    """An objective without data or work."""

    vocab_size: int = 256
    context: int = 8
    chance_loss: float = math.log(256)

    def to(self, device: torch.device) -> Self:
        """Nothing to move."""
        return self

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """One token."""
        token = torch.zeros(1, 1, dtype=torch.int64)
        return Batch(token, token)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """A number with a gradient."""
        return model(batch.inputs).mean()

    def evaluate(self, model: Model) -> dict[str, float]:
        """A number."""
        return {"loss": 1.0}


def fathom_seconds(trials: int) -> float:
    """Wall time of a whole Fathom search with that many exploring trials a budget."""
    config = parse(STUDY.format(trials=trials))
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        folder.create()
        spaces = {budget: feasible_shapes(config, budget, 256) for budget in expand_budgets(config)}
        conductor = Conductor(config, spaces, folder)
        began = time.perf_counter()
        run_trials(conductor, Nothing())
        return time.perf_counter() - began


def stock_seconds(trials: int) -> float:
    """Wall time of as many trials of a function that returns at once, Tune's defaults."""
    with tempfile.TemporaryDirectory() as path:
        began = time.perf_counter()
        tune.Tuner(
            _nothing,
            param_space={"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(num_samples=trials),
            run_config=tune.RunConfig(storage_path=path, verbose=0),
        ).fit()
        return time.perf_counter() - began


def _nothing(config: dict[str, float]) -> None:
    tune.report({"loss": config["x"]})


def main() -> None:
    """Print the marginal cost of a trial, medians of several pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--stock", action="store_true", help="also time Tune's defaults")
    pairs = parser.parse_args().pairs
    stock = parser.parse_args().stock
    fathom_seconds(2)  # starts Ray and fills its pool of workers
    marginal = [(fathom_seconds(60) - fathom_seconds(10)) / 100 for _ in range(pairs)]
    print(f"machine: {platform.machine()}, {int(ray.cluster_resources()['CPU'])} cores, ", end="")
    print(f"python {platform.python_version()}, ray {version('ray')}, torch {version('torch')}")
    print(f"Fathom: {statistics.median(marginal):.3f} s a trial ", end="")
    print(f"(of {pairs}: {min(marginal):.3f} to {max(marginal):.3f})")
    if stock:
        usual = [(stock_seconds(12) - stock_seconds(2)) / 10 for _ in range(min(pairs, 3))]
        print(f"stock Tune: {statistics.median(usual):.3f} s a trial, fresh actors")


if __name__ == "__main__":
    main()
