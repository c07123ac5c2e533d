"""Exports of runs as the tools of other people write them, each with a planted best depth.

TensorBoard, MLflow, Optuna and W&B write theirs themselves. What W&B's server would export is in
the forms that its page and its API give.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from unittest.mock import patch

import mlflow
import optuna
import pandas as pd
from mlflow import MlflowClient
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from torch.utils.tensorboard import SummaryWriter

DEPTHS = (2, 4, 8, 16, 32)
BEST = 6
SEEDS = 3
STEPS = (100, 200, 300)
PARAMS = 10_000_000
NOISE = 0.003


@dataclass(frozen=True, slots=True)
class LoggedTraining:
    """A training that a tool logs."""

    depth: int
    width: int
    seed: int
    losses: tuple[float, ...]
    """At each of `STEPS`."""

    @property
    def name(self) -> str:
        """As people name folders."""
        return f"d{self.depth}_w{self.width}_seed{self.seed}"

    @property
    def config(self) -> dict[str, float]:
        """As people log it."""
        return {"n_layer": self.depth, "n_embd": self.width, "seed": self.seed, "lr": 1e-3}


def trainings() -> list[LoggedTraining]:
    """Depths of one size with a best one between."""
    generator = random.Random(0)
    found = []
    for depth in DEPTHS:
        for seed in range(SEEDS):
            last = 3 + 0.06 * log(depth / BEST) ** 2 + generator.gauss(0, NOISE)
            losses = tuple(last + 10 / step - 10 / STEPS[-1] for step in STEPS)
            found.append(LoggedTraining(depth, round((PARAMS / 12 / depth) ** 0.5), seed, losses))
    return found


@dataclass(frozen=True, slots=True)
class Export:
    """How a tool's runs come to `fathom analyse`."""

    tool: str
    what: str
    write: Callable[[Path], None]
    """Writes it into a folder that is the working folder then."""
    typed: tuple[str, ...]
    """What a person types after `fathom analyse`."""
    advised: tuple[str, ...] = ()
    """What a person adds, or types instead of a path, once a refusal advises it."""


def tensorboard_names(folder: Path) -> None:
    """Scalars in folders whose names have the shape."""
    for run in trainings():
        with SummaryWriter(str(folder / "runs" / run.name)) as writer:
            _scalars(writer, run, "Loss/train", "Loss/val")


def tensorboard_hparams(folder: Path) -> None:
    """Scalars, and `add_hparams` at the end."""
    for number, run in enumerate(trainings()):
        with SummaryWriter(str(folder / "runs" / str(number))) as writer:
            _scalars(writer, run, "train/loss", "val/loss")
            writer.add_hparams(run.config, {"hparam/val_loss": run.losses[-1]})


def tensorboard_final(folder: Path) -> None:
    """Nothing but `add_hparams`."""
    for number, run in enumerate(trainings()):
        with SummaryWriter(str(folder / "runs" / str(number))) as writer:
            writer.add_hparams(run.config, {"final_loss": run.losses[-1]})


def tensorboard_groups(folder: Path) -> None:
    """`add_scalars`, whose parts are folders of their own."""
    for run in trainings():
        with SummaryWriter(str(folder / "runs" / run.name)) as writer:
            for step, loss in zip(STEPS, run.losses, strict=True):
                writer.add_scalars("loss", {"train": loss - 0.1, "val": loss}, step)


def tensorboard_keras(folder: Path) -> None:
    """Folders `train` and `validation` in each run, with scalars of TensorFlow 2."""
    for run in trainings():
        for part, less in (("train", 0.1), ("validation", 0.0)):
            with SummaryWriter(str(folder / "runs" / run.name / part)) as writer:
                for step, loss in zip(STEPS, run.losses, strict=True):
                    writer.add_scalar("epoch_loss", loss - less, step, new_style=True)


def tensorboard_unknown(folder: Path) -> None:
    """A tag that only its author knows."""
    for run in trainings():
        with SummaryWriter(str(folder / "runs" / run.name)) as writer:
            for step, loss in zip(STEPS, run.losses, strict=True):
                writer.add_scalar("objective/forced", loss, step)


def mlflow_store(folder: Path) -> None:
    """An SQLite store with params and a history of metrics."""
    mlflow_runs(f"sqlite:///{folder / 'mlflow.db'}")


def mlflow_folder(folder: Path) -> None:
    """The folder that older versions of MLflow keep, and new ones on demand."""
    with patch.dict(os.environ, MLFLOW_ALLOW_FILE_STORE="true"):
        mlflow_runs((folder / "mlruns").as_uri())


def mlflow_runs(uri: str) -> None:
    """Writes the runs of an experiment to a store."""
    client = MlflowClient(uri)
    experiment = client.create_experiment("depths")
    for run in trainings():
        own = client.create_run(experiment).info.run_id
        for name, value in (run.config | {"n_params": PARAMS}).items():
            client.log_param(own, name, value)
        for step, loss in zip(STEPS, run.losses, strict=True):
            client.log_metric(own, "val_loss", loss, step=step)
            client.log_metric(own, "train_loss", loss - 0.1, step=step)
        client.set_terminated(own)


def mlflow_frame(folder: Path) -> None:
    """What `mlflow.search_runs` returns, as CSV."""
    mlflow_store(folder)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    frame = mlflow.search_runs(experiment_names=["depths"])
    mlflow.set_tracking_uri(before)
    assert isinstance(frame, pd.DataFrame)
    frame.to_csv(folder / "runs.csv", index=False)


def optuna_study(folder: Path, name: str = "depths", *, upwards: bool = False) -> optuna.Study:
    """A study over depth and seed in SQLite, with the losses reported."""
    grid = {"n_layer": list(DEPTHS), "seed": list(range(SEEDS))}
    study = optuna.create_study(
        study_name=name,
        storage=f"sqlite:///{folder / 'optuna.db'}",
        sampler=optuna.samplers.GridSampler(grid, seed=0),
        direction="maximize" if upwards else "minimize",
    )
    _optimise(study, sign=-1 if upwards else 1)
    return study


def optuna_journal(folder: Path) -> None:
    """The same in a journal."""
    grid = {"n_layer": list(DEPTHS), "seed": list(range(SEEDS))}
    storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    sampler = optuna.samplers.GridSampler(grid, seed=0)
    _optimise(optuna.create_study(study_name="depths", storage=storage, sampler=sampler))


def optuna_two(folder: Path) -> None:
    """Two studies in one file."""
    optuna_study(folder)
    optuna_study(folder, "others")


def optuna_upwards(folder: Path) -> None:
    """A study that maximises the losses with their signs turned."""
    optuna_study(folder, upwards=True)


def optuna_frame(folder: Path) -> None:
    """The table of trials."""
    frame = optuna_study(folder).trials_dataframe()
    assert isinstance(frame, pd.DataFrame)
    frame.to_csv(folder / "trials.csv")


def wandb_table(folder: Path) -> None:
    """The table of runs, as W&B's page exports it."""
    rows = [
        {
            "Name": f"proud-sun-{number}", "State": "finished", "Notes": "-", "User": "ada",
            "Tags": "", "Created": "2026-11-01T10:00:00.000Z", "Runtime": 60 + number,
            "Sweep": "", **run.config, "val/loss": run.losses[-1],
        }
        for number, run in enumerate(trainings())
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(folder / "wandb.csv", index=False)


def wandb_chart(folder: Path) -> None:
    """A chart, as W&B's page exports it, which has no shapes."""
    columns: dict[str, Sequence[float]] = {"Step": STEPS}
    for run in trainings():
        for end in ("", "__MIN", "__MAX"):
            columns[f"{run.name} - val/loss{end}"] = run.losses
    pd.DataFrame(columns).to_csv(folder / "chart.csv", index=False)


def wandb_history(folder: Path) -> None:
    """Histories with their configs in JSON lines, as people write them from W&B's API."""
    with (folder / "history.jsonl").open("w", encoding="utf-8") as file:
        for run in trainings():
            for step, loss in zip(STEPS, run.losses, strict=True):
                row = {"_step": step, "_runtime": 1.5 * step, "val/loss": loss}
                file.write(json.dumps({"run": run.name, "config": run.config, **row}) + "\n")


def wandb_folders(folder: Path) -> None:
    """W&B's own folders, with the console's log and the config of each run."""
    for number, run in enumerate(trainings()):
        files = folder / "wandb" / f"run-20261101_1000{number:02d}-abc{number}" / "files"
        files.mkdir(parents=True)
        config = "".join(f"{name}:\n    value: {value}\n" for name, value in run.config.items())
        (files / "config.yaml").write_text(f"_wandb:\n    value: {{}}\n{config}")
        pairs = zip(STEPS, run.losses, strict=True)
        (files / "output.log").write_text(
            "".join(f"step {step} | val loss {loss:.4f}\n" for step, loss in pairs)
        )
        (files.parent / f"run-abc{number}.wandb").write_bytes(b":W&B\0")


OFFLINE = """
import json, sys, wandb
for training in json.load(sys.stdin):
    with wandb.init(mode="offline", config=training["config"]) as run:
        for step, loss in training["curve"]:
            run.log({"val/loss": loss}, step=step)
            print(f"step {step} | val loss {loss:.4f}")
"""
"""A program whose runs W&B keeps in its own folders, without a server."""


def wandb_offline(folder: Path) -> None:
    """W&B's own folders, as it writes them without a server."""
    curves = [
        {"config": run.config, "curve": [*zip(STEPS, run.losses, strict=True)]}
        for run in trainings()
    ]
    subprocess.run(
        [sys.executable, "-c", OFFLINE],
        input=json.dumps(curves), text=True, cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


EXPORTS = (
    Export("TensorBoard", "scalars, the shape in names", tensorboard_names, ("runs",)),
    Export("TensorBoard", "scalars and hparams", tensorboard_hparams, ("runs",)),
    Export("TensorBoard", "hparams with final values alone", tensorboard_final, ("runs",)),
    Export("TensorBoard", "`add_scalars`", tensorboard_groups, ("runs",)),
    Export("TensorBoard", "`train` and `validation`, as Keras", tensorboard_keras, ("runs",)),
    Export("TensorBoard", "a tag of no known name", tensorboard_unknown, ("runs",),
           ("--map", "objective/forced=loss")),
    Export("MLflow", "SQLite store, the experiment named", mlflow_store,
           ("sqlite:///mlflow.db", "--experiment", "depths")),
    Export("MLflow", "SQLite store", mlflow_store, ("sqlite:///mlflow.db",),
           ("--experiment", "depths")),
    Export("MLflow", "folder `mlruns`", mlflow_folder, ("mlruns",), ("--experiment", "depths")),
    Export("MLflow", "`search_runs` as CSV", mlflow_frame, ("runs.csv",)),
    Export("Optuna", "SQLite storage", lambda to: void(optuna_study(to)), ("optuna.db",)),
    Export("Optuna", "journal", optuna_journal, ("journal.log",)),
    Export("Optuna", "`trials_dataframe` as CSV", optuna_frame, ("trials.csv",)),
    Export("Optuna", "two studies in one storage", optuna_two, ("sqlite:///optuna.db",),
           ("--experiment", "depths")),
    Export("Optuna", "a study that maximises", optuna_upwards, ("optuna.db",)),
    Export("W&B's form", "table of runs as CSV", wandb_table, ("wandb.csv",)),
    Export("W&B's form", "chart as CSV", wandb_chart, ("chart.csv",)),
    Export("W&B's form", "histories as JSON lines", wandb_history, ("history.jsonl",)),
    Export("W&B's form", "folders with the console's log", wandb_folders, ("wandb",)),
    Export("W&B", "folders of offline runs", wandb_offline, ("wandb",)),
)  # fmt: skip


def void(_study: optuna.Study) -> None:
    """Nothing, of a study that was written."""


def _scalars(writer: SummaryWriter, run: LoggedTraining, train: str, validation: str) -> None:
    for step, loss in zip(STEPS, run.losses, strict=True):
        writer.add_scalar(train, loss - 0.1, step)
        writer.add_scalar(validation, loss, step)


def _optimise(study: optuna.Study, sign: int = 1) -> None:
    known = {(run.depth, run.seed): run for run in trainings()}

    def loss(trial: optuna.Trial) -> float:
        depth = trial.suggest_categorical("n_layer", DEPTHS)
        run = known[depth, trial.suggest_categorical("seed", range(SEEDS))]
        trial.set_user_attr("n_params", PARAMS)
        for step, value in zip(STEPS, run.losses, strict=True):
            trial.report(sign * value, step)
        return sign * run.losses[-1]

    study.optimize(loss, len(known))
