"""Measures the cost of a search beyond its training.

It prints the marginal cost of a trial, by an objective that does nothing, few trials against many;
the share of its time that a worker trains in a real search of short trials; and MLflow's share of
the driver's time at 100 reports a second.

python -m benchmarks.speed.overhead
"""

import argparse
import math
import platform
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Self

import numpy as np
import ray
import torch
from ray import tune
from torch import Tensor

from benchmarks.simulate.driver import new_scheduler
from benchmarks.worlds.planted import World, flat
from fathom.objectives.contract import Batch, Model
from fathom.objectives.prepare import prepare
from fathom.objectives.wrapped import Wrapped
from fathom.search.cluster.tune import run_trials
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json, to_values
from fathom.search.records import Outcome, Report, TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import dump, parse
from fathom.search.tracking.stores.messages import TrackedStudy
from fathom.search.tracking.writing.tracker import Tracker

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


SHORT = """
study: short
objective: {{name: language, context: 64, eval_tokens: 8k}}
budgets: [60k, 70k, 80k, 90k]
count: non_embedding
tokens: {tokens}
space: {{depth: [1, 6], n_heads: 2}}
trials: 42
confirm: {{depths: 3, seeds: 2, rates: [1]}}
train: {{batch_size: 16, evaluations: 6, learning_rate: 4e-3}}
resources: {{gpus_per_trial: 0, max_concurrent_trials: 2}}
"""
"""Template of two studies of about 200 trials: of a second or two, and of twice as long."""
SHORT_TOKENS = ("160k", "320k")
REPORTS_A_SECOND = 100
TRACKED_TRIALS = 50


class Timed(Wrapped):
    """An objective that also measures the seconds of its evaluations."""

    def evaluate(self, model: Model) -> dict[str, float]:
        """Returns the wrapped objective's measures, and the seconds that they took."""
        began = time.perf_counter()
        measured = self.objective.evaluate(model)
        return measured | {"evaluation_seconds": time.perf_counter() - began}


@dataclass(frozen=True)
class Nothing:
    """An objective without data or work."""

    vocab_size: int = 256
    context: int = 8
    chance_loss: float = math.log(256)

    def to(self, device: torch.device) -> Self:
        """Returns itself: there is nothing to move."""
        return self

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Returns a batch of one token."""
        token = torch.zeros(1, 1, dtype=torch.int64)
        return Batch(token, token)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Returns a scalar with a gradient."""
        return model(batch.inputs).mean()

    def evaluate(self, model: Model) -> dict[str, float]:
        """Returns a constant loss."""
        return {"loss": 1.0}

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Returns no metrics."""
        return {}


def fathom_seconds(trials: int) -> float:
    """Wall time of a whole Fathom search with that many exploring trials a budget."""
    config = parse(STUDY.format(trials=trials))
    with tempfile.TemporaryDirectory() as path:
        scheduler = new_scheduler(config, Path(path))
        began = time.perf_counter()
        run_trials(scheduler, Nothing())
        return time.perf_counter() - began


def training_share(tokens: str) -> str:
    """Returns a line on the use of workers from the first trial's start to the last one's end.

    A slot is held from end to end, whether a trial is in it or not.
    """
    config = parse(SHORT.format(tokens=tokens))
    objective = Timed(prepare(config.objective))
    with tempfile.TemporaryDirectory() as path:
        scheduler = new_scheduler(config, Path(path))
        run_trials(scheduler, objective)
        records = scheduler.records
    slots = int(min(2, ray.cluster_resources()["CPU"]))
    began = min(record.started for record in records)
    held = slots * (max(record.ended or 0.0 for record in records) - began)
    first = slots * (min(r.curve[0].time - r.curve[0].train_seconds for r in records) - began)
    steps = sum(record.curve[-1].train_seconds for record in records)
    judging = sum(p.metrics["evaluation_seconds"] for r in records for p in r.curve)
    setup = sum(record.setup_seconds for record in records)
    return (
        f"{len(records)} trials on {slots} slots, {(steps + judging) / len(records):.2f} s each: "
        f"training steps and evaluations {(steps + judging) / held:.1%} of {held / slots:.0f} s "
        f"a slot ({(steps + judging) / (held - first):.1%} once workers have started); "
        f"building models {setup / held:.1%}, starting the first worker {first / held:.1%}"
    )


def tracking_share(seconds: float) -> str:
    """Returns a line on MLflow's share of a driver that takes 100 reports a second."""
    (example, *_) = (r for r in simulated_records() if r.outcome is Outcome.FINISHED)
    calls = 0.0
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        folder.create()
        tracker = Tracker(
            TrackedStudy(
                uri=f"sqlite:///{path}/mlflow.db",
                study="tracked",
                folder=folder.path,
                config_text=dump(parse(STUDY.format(trials=2))),
                searching=True,
            )
        )
        began, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
        reports = 0
        while (now := time.perf_counter() - began) < seconds:
            if reports > now * REPORTS_A_SECOND:
                time.sleep(0.002)
                continue
            record = snapshot(example, reports % TRACKED_TRIALS, reports // TRACKED_TRIALS)
            write_down(folder, record)
            called = time.thread_time()
            tracker.trial(record)
            calls += time.thread_time() - called
            reports += 1
        threads = time.process_time() - process - (time.thread_time() - thread)
        missing = tracker.close(600)
    return (
        f"MLflow at {reports / seconds:.0f} reports a second, {TRACKED_TRIALS} trials at a time: "
        f"{(calls + threads) / seconds:.2%} of driver time (the deciding thread "
        f"{calls / seconds:.3%}); not written in the end: {missing}"
    )


def snapshot(example: TrialRecord, number: int, points: int) -> TrialRecord:
    """A running trial with so many evaluations; the count starts again after 16."""
    life, point = divmod(points, len(example.curve))
    spec = replace(example.spec, trial=f"tracked-{number:03d}-{life:03d}")
    ended = point + 1 == len(example.curve)
    return replace(
        example,
        spec=spec,
        curve=example.curve[: point + 1],
        outcome=Outcome.FINISHED if ended else None,
    )


def write_down(folder: RunFolder, record: TrialRecord) -> None:
    """Appends the lines that a search writes at each report, with or without MLflow."""
    trial, point = record.spec.trial, record.curve[-1]
    if len(record.curve) == 1:
        started = replace(record, curve=(), outcome=None)
        append_line(folder.journal, {"event": "started", **to_json(started)}, wait=False)
    report = to_values(Report(points=(point,)))
    append_line(folder.journal, {"event": "report", "trial": trial, **report}, wait=False)
    if record.outcome is not None:
        append_line(folder.records, to_json(record), wait=False)


def simulated_records() -> list[TrialRecord]:
    """Returns the record of one finished trial of a planted world."""
    world = World(curve=flat)
    return [world.record(world.spec(world.shape(4), seed=0), np.random.default_rng(0))]


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
    """Prints the marginal cost of a trial, medians of several pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--stock", action="store_true", help="also time Tune's defaults")
    parser.add_argument("--seconds", type=float, default=30, help="of reports to MLflow")
    arguments = parser.parse_args()
    pairs, stock = arguments.pairs, arguments.stock
    print(tracking_share(arguments.seconds))
    fathom_seconds(2)  # starts Ray and fills its pool of workers
    marginal = [(fathom_seconds(60) - fathom_seconds(10)) / 100 for _ in range(pairs)]
    print(f"machine: {platform.machine()}, {int(ray.cluster_resources()['CPU'])} cores, ", end="")
    print(f"python {platform.python_version()}, ray {version('ray')}, torch {version('torch')}")
    print(f"Fathom: {statistics.median(marginal):.3f} s a trial ", end="")
    print(f"(of {pairs}: {min(marginal):.3f} to {max(marginal):.3f})")
    if stock:
        usual = [(stock_seconds(12) - stock_seconds(2)) / 10 for _ in range(min(pairs, 3))]
        print(f"stock Tune: {statistics.median(usual):.3f} s a trial, fresh actors")
    for tokens in SHORT_TOKENS:
        print(training_share(tokens))


if __name__ == "__main__":
    main()
