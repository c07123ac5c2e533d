"""The examples of models of one's own are searched, and the best shape is trained."""

import json
from pathlib import Path

import pytest
import torch

from tests.support.command_line import fathom, here
from tests.support.places import ROOT

SMALL = (
    *("objective={name: language, corpus: stdlib, context: 16, eval_tokens: 1024}", "trials=2"),
    *("budgets=[30k]", "count=total", "tokens=8k", "tokens_per_parameter=null"),
    *(
        "stopping={enabled: false}",
        "space={depth: [1, 3]}",
        "train={batch_size: 8, evaluations: 4}",
    ),
    "confirm={depths: 2, seeds: 1, rates: [1]}",
)
"""Values that make a search of seconds."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("llama", marks=pytest.mark.siege),
        pytest.param("parallel_blocks", marks=pytest.mark.siege),
    ],
)
def test_an_example_is_searched_and_its_best_shape_is_trained(tmp_path: Path, name: str) -> None:
    sets = [part for value in SMALL for part in ("--set", value)]
    done = fathom("run", f"examples/{name}.yaml", "--runs", tmp_path, *sets, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    [folder] = (path for path in tmp_path.iterdir() if (path / "records.jsonl").exists())
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["outcome"] for record in records} <= {"finished", "stopped"}
    assert all(abs(record["params_total"] / 30_000 - 1) <= 0.005 for record in records)
    assert all(record["shape"]["own_counts"] for record in records)
    again = here("report", folder, cwd=ROOT)
    assert again.returncode == 0, again.stderr

    train = ("train", folder, "--tokens", "4k", "--out", tmp_path / "out")
    refused = here(*train, cwd=ROOT)
    assert refused.returncode == 2
    assert "--trust" in refused.stderr
    trained = fathom(*train, "--trust", cwd=ROOT)
    assert trained.returncode == 0, trained.stderr
    weights = torch.load(tmp_path / "out" / "weights.pt", weights_only=True)
    assert sum(weight.numel() for weight in weights.values()) >= 0.99 * 30_000
    exported = here("export", folder, "--format", "hf", "--out", tmp_path / "hf", cwd=ROOT)
    assert exported.returncode == 2
    assert f"this shape is of examples.{name}" in exported.stderr
