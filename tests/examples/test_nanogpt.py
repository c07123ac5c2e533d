"""examples/nanogpt.py: a checkout's train.py is run unchanged, seeded, saved whole and resumed."""

import sys
from pathlib import Path

import pytest

from examples.nanogpt import parse
from fathom.search.study.file.study_file import load
from tests.support.command_line import run
from tests.support.places import ROOT

TRAIN = """
import os, sys
import torch
from model import NAME
keys = dict(word[2:].split("=", 1) for word in sys.argv[1:])
torch.manual_seed(1337)
print(NAME, keys["init_from"], keys["n_layer"], torch.initial_seed())
torch.save({"a": 1}, os.path.join(keys["out_dir"], "ckpt.pt"))
"""
"""A stand-in of nanoGPT's train.py, with its way of taking keys, seeding and saving."""


def test_a_checkout_is_run_as_it_is(tmp_path: Path) -> None:
    checkout, out = tmp_path / "nanoGPT", tmp_path / "out"
    checkout.mkdir()
    out.mkdir()
    (checkout / "train.py").write_text(TRAIN, encoding="utf-8")
    (checkout / "model.py").write_text("NAME = 'nano'", encoding="utf-8")
    trainer = ROOT / "examples" / "nanogpt.py"
    for begin in ("scratch", "resume"):
        done = run(sys.executable, trainer, "nanoGPT", "5", out, "--n_layer=4", cwd=tmp_path)
        assert done.stdout.split() == ["nano", begin, "4", "1342"]
    assert [path.name for path in out.iterdir()] == ["ckpt.pt"], "no half-written file is left"


@pytest.mark.parametrize("loss", ["2.4712", "nan"])
def test_lines_of_its_log_are_evaluations(loss: str) -> None:
    values = parse(f"step 250: train loss 2.1034, val loss {loss}")
    assert values is not None
    assert (values["step"], values["train_loss"]) == (250, 2.1034)
    assert str(values["loss"]) == loss
    assert parse("iter 10: loss 2.3011, time 33.03ms, mfu 1.20%") is None


def test_its_study_is_a_study() -> None:
    assert load(ROOT / "examples" / "nanogpt.yaml").train.parser == "examples.nanogpt:parse"
