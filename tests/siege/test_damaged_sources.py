"""Damaged sources of `analyse`, `plan`, `predict` and `tokenize`: an answer, or one line, whatever
the library of the source raises."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import optuna
import pyarrow
import pyarrow.parquet
import pytest
from mlflow import MlflowClient
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend

from tests.support.command_line import here
from tests.support.tables import DEPTHS, planted_loss, write_table

NAMES = ("n_layer", "n_params", "seed", "val_loss")
ROWS = [(depth, 1e7, seed, planted_loss(depth)) for depth in DEPTHS for seed in range(3)]
INSERTED = (
    b"\0" * 100,
    b'{"op_code": 99}\n',
    b"nan,nan\n",
    b"\xff\xfe",
    b"[" * 9999,
    b"1e999",
    b'"',
    b'{"a":' * 99_999,
    b"9" * 5000,
    rb'"\ud800"',
    b"\x1b]0;owned\x07",
)
SAMPLE = [pytest.param(8, marks=pytest.mark.drill), pytest.param(150, marks=pytest.mark.siege)]
"""How often each source is damaged."""


def study_in(storage: BaseStorage | str) -> None:
    grid = {"n_layer": list(DEPTHS), "seed": [0, 1, 2]}
    study = optuna.create_study(storage=storage, sampler=optuna.samplers.GridSampler(grid))

    def loss(trial: optuna.Trial) -> float:
        trial.set_user_attr("n_params", 1e7)
        trial.suggest_int("seed", 0, 2)
        return planted_loss(trial.suggest_int("n_layer", 1, 64))

    study.optimize(loss, 15)


def experiment_in(path: Path) -> None:
    client = MlflowClient(f"sqlite:///{path}")
    experiment = client.create_experiment("mine")
    for row in ROWS:
        run = client.create_run(experiment).info.run_id
        for name, value in zip(NAMES[:3], row[:3], strict=True):
            client.log_param(run, name, value)
        client.log_metric(run, NAMES[3], row[3], step=1)


def objects() -> list[dict[str, float]]:
    return [dict(zip(NAMES, row, strict=True)) for row in ROWS]


def zipped(path: Path) -> None:
    path.write_bytes(gzip.compress(write_table(path.with_suffix(""), NAMES, ROWS).read_bytes()))


def logs(path: Path) -> None:
    for depth in DEPTHS:
        log = path.with_name(f"d{depth}_w64.log")
        lines = (f"step {step} val_loss {planted_loss(depth) + 1 / step}" for step in (1, 2, 4, 8))
        log.write_text("\n".join(lines))
    path.with_name("params.json").write_text('{"n_params": 10000000}')


def token_ids(path: Path) -> None:
    np.save(path, np.random.default_rng(0).integers(0, 300, 50_000, dtype=np.uint16))
    path.with_name("study.yaml").write_text(
        f"study: s\nobjective: {{name: tokens, train: {path}, vocabulary: 300, context: 32}}\n"
        "budgets: [100k]\ntokens: 50k\nresources: {gpus_per_trial: 0}\n"
    )


def config(path: Path) -> None:
    sizes = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}
    sizes |= {"intermediate_size": 3072, "vocab_size": 50_257}
    path.write_text(json.dumps({"model_type": "llama", **sizes}))


def packed(path: Path) -> None:
    lines = "".join(json.dumps({"text": f"text {n} " * 20}) + "\n" for n in range(500))
    path.write_bytes(pyarrow.compress(lines.encode(), "zstd", asbytes=True))


MAKERS: dict[str, Callable[[Path], object]] = {
    "runs.csv": lambda path: write_table(path, NAMES, ROWS),
    "runs.csv.gz": zipped,
    "runs.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, objects()))),
    "runs.json": lambda path: path.write_text(json.dumps(objects())),
    "runs.parquet": lambda path: pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(objects()), path
    ),
    "journal.log": lambda path: study_in(JournalStorage(JournalFileBackend(str(path)))),
    "optuna.db": lambda path: study_in(f"sqlite:///{path}"),
    "mlflow.db": experiment_in,
    "d8_w64.log": logs,
    "ids.npy": token_ids,
    "config.json": config,
    "text.jsonl.zst": packed,
}
"""File name -> what writes it whole."""


def damaged(whole: bytes, dice: random.Random) -> bytes:
    """The bytes with one damage: changed, cut, zeroed, moved or inserted ones."""
    one, other = sorted(dice.randrange(len(whole)) for _ in range(2))
    match dice.choice(("changed", "cut", "zeroed", "moved", "inserted")):
        case "changed":
            bytes_ = bytearray(whole)
            for _ in range(dice.randint(1, 30)):
                bytes_[dice.randrange(len(whole))] = dice.randrange(256)
            return bytes(bytes_)
        case "cut":
            return whole[:one]
        case "zeroed":
            end = min(len(whole), one + 4096)
            return whole[:one] + bytes(end - one) + whole[end:]
        case "moved":
            return whole[other:] + whole[one:other] + whole[:one]
        case _:
            return whole[:one] + dice.choice(INSERTED) + whole[one:]


def arguments_of(path: Path) -> tuple[str, ...]:
    match path.name:
        case "mlflow.db":
            return ("analyse", f"sqlite:///{path}", "--experiment", "mine")
        case "journal.log" | "optuna.db":
            return ("analyse", f"optuna:{path}")
        case "d8_w64.log":
            return ("analyse", str(path.parent))
        case "ids.npy":
            return ("plan", str(path.with_name("study.yaml")))
        case "config.json":
            return ("predict", str(path), "--law", "levine2020")
        case "text.jsonl.zst":
            folder = str(path.with_name("tokens"))
            return ("tokenize", str(path), "--tokenizer", "bytes", "--out", folder)
        case _:
            return ("analyse", str(path))


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("times", SAMPLE)
@pytest.mark.parametrize("name", MAKERS)
def test_a_damaged_source_has_an_answer_or_one_line(name: str, times: int, tmp_path: Path) -> None:
    path = tmp_path / name
    MAKERS[name](path)
    whole, said = path.read_bytes(), arguments_of(path)
    assert here(*said).returncode == 0
    for number in range(times):
        path.write_bytes(damaged(whole, random.Random(f"{name}/{number}")))
        shutil.rmtree(path.with_name("tokens"), ignore_errors=True)
        done = here(*said)
        lines = done.stderr.splitlines()
        assert done.returncode in (0, 2), (number, done.stderr)
        assert done.returncode == 0 or len(lines) == 1, (number, done.stderr)
