"""The examples for nanochat, litgpt and torchtitan: their studies, their logs, nanochat's wrapper.

The trainers themselves are not run here.
"""

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from examples import litgpt_trainer, nanochat_trainer, torchtitan_trainer
from fathom.search.study.file.study_file import load
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.command import filled, own_parser
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from fathom.search.training.command.arguments import best_arguments
from tests.support.command_line import run
from tests.support.places import ROOT

TRAINERS = ("litgpt", "nanochat", "torchtitan")


@pytest.mark.parametrize("name", TRAINERS)
def test_a_study_is_planned_and_has_a_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load(ROOT / "examples" / f"{name}.yaml")
    [plan] = plan_study(
        config,
        vocab_size_of(config.objective),
        this_machine(config.resources, config.train, "H100"),
    )
    assert len(plan.depths) >= 7
    assert config.train.parser
    own_parser(config.train.parser)
    for shape in plan.shapes:
        words = best_arguments(config, plan.budget.params, shape)
        assert not [word for word in words if re.search(r"\{[a-z_]+\}", word)]
    steps, flag = plan.budget.steps, {"nanochat": "--eval-every", "torchtitan": "--validator.freq"}
    every = next(word for word in words if word.startswith(flag.get(name, "--eval.interval")))
    assert steps % int(every.split("=")[1]) == 0, "the last step is evaluated"


def test_nanochat_takes_the_width_of_every_shape() -> None:
    config = load(ROOT / "examples" / "nanochat.yaml")
    [plan] = plan_study(
        config,
        vocab_size_of(config.objective),
        this_machine(config.resources, config.train, "H100"),
    )
    assert config.train.command is not None
    [head_dim] = [
        int(word.split("=")[1]) for word in config.train.command if word.startswith("--head-dim")
    ]
    for shape in plan.shapes:
        base = shape.depth * (shape.d_model // shape.depth)
        assert math.ceil(base / head_dim) * head_dim == shape.d_model, "as base_train rounds it"


BASE_TRAIN = """
import os, sys
import torch
torch.manual_seed(42)
print(*sys.argv[1:], torch.initial_seed())
folder = sys.argv[3].split("=")[1]
for name in ("model_000020.pt", "optim_000020_rank0.pt"):
    torch.save({"a": 1}, os.path.join(folder, name))
"""
"""A stand-in of nanochat's base_train, with its way of seeding and saving."""


def test_a_checkout_of_nanochat_is_run_as_it_is_and_resumes(tmp_path: Path) -> None:
    checkout, out = tmp_path / "nanochat", tmp_path / "out"
    for folder in (checkout / "scripts", out):
        folder.mkdir(parents=True)
    (checkout / "scripts" / "base_train.py").write_text(BASE_TRAIN, encoding="utf-8")
    words = ["nanochat", "{depth}", "{d_model}", "5", "{folder}", "--matrix-lr=0.02"]
    command: list[str | Path] = [sys.executable, ROOT / "examples" / "nanochat_trainer.py"]
    command += filled(words, {"depth": 5, "d_model": 704, "folder": out})
    for step in (-1, 20):
        done = run(*command, cwd=tmp_path)
        assert done.stdout.split() == [
            *("--depth=5", "--aspect-ratio=140", f"--model-tag={out}"),
            *(f"--resume-from-step={step}", "--matrix-lr=0.02", "47"),
        ]
    assert {path.suffix for path in out.iterdir()} == {".pt"}, "no half-written file is left"


TITAN = "[titan] 2026-08-21 09:00:00,000 - root - INFO - "
LOGS: dict[Callable[[str], object], dict[str, object]] = {
    nanochat_trainer.parse: {
        "Step 00250 | Validation bpb: 1.000000": {"step": 250, "loss": math.log(2)},
        "Step 00250 | CORE metric: 0.1": None,
        "transformer_matrices    : 29,884,416": {"parameters": 29_884_416},
    },
    litgpt_trainer.parse: {
        "iter 100: val loss 3.1415, val time: 52.10 ms": {"step": 100, "loss": 3.1415},
        "Epoch 1 | iter 100 step 100 | loss train: 3.2, val: n/a | iter time: 9 ms": None,
        "Total parameters: 30,127,104": {"parameters": 30_127_104},
    },
    torchtitan_trainer.parse: {
        f"{TITAN}validate step: 100  loss:  3.1415  memory:  1.02GiB(1.30%)  tps: 9,001": {
            "step": 100,
            "loss": 3.1415,
        },
        f"{TITAN}Model llama3 study size: 10,002,432 total parameters": {"parameters": 10_002_432},
        "[titan] - INFO - step:  1  loss:  7.62  grad_norm:  1.4": None,
    },
}


def test_lines_of_their_logs_are_read() -> None:
    for parse, lines in LOGS.items():
        assert {line: parse(line) for line in lines} == lines
