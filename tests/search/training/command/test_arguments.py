"""The command for the best shape, in best.yaml and from `fathom export`."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fathom.search.conclusion.conclude import conclude
from fathom.search.export.best import best_yaml, read_best, select
from fathom.search.export.formats import FORMATS, model_of, taking_weights
from fathom.search.run_folder import write_atomically
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import parse
from fathom.search.training.command.arguments import best_arguments
from tests.support.dry_run import Simulation, scheduler, study

WORDS = ("depth", "d_model", "d_ff", "heads", "learning_rate", "batch_size", "tokens", "steps")
COMMAND = [sys.executable, "train.py", "--text=two words"]
COMMAND += [f"--{word}={{{word}}}" for word in (*WORDS, "folder", "resume")]
EXTERNAL = parse(
    f"""
study: mine
objective: {{name: external, vocabulary: 256, context: 32}}
budgets: [20k, 40k]
count: non_embedding
tokens: 64k
train: {{command: {COMMAND}, batch_size: 8, learning_rate: 6e-4}}
"""
)


def test_best_yaml_has_the_command_of_each_best_shape_on_one_line(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path / "run")
    Simulation(search).run()
    found = replace(conclude(search.records, study()), config=EXTERNAL)
    path = tmp_path / "best.yaml"
    write_atomically(path, best_yaml(found))
    for optimum, label in zip(found.optima, ("20k", "40k"), strict=True):
        [entry] = yaml.safe_load(select(path, label))["best"]
        words = shlex.split(entry["command"])
        shape = optimum.shape
        assert shape is not None
        assert words == best_arguments(EXTERNAL, optimum.budget, shape)
        values = dict(word.split("=", 1) for word in words[2:])
        assert values["--text"] == "two words"
        assert [int(values[f"--{word}"]) for word in WORDS if word != "learning_rate"] == [
            *(shape.depth, shape.d_model, shape.d_ff, shape.n_heads, 8),
            *(64_000, 250),
        ]
        assert (values["--learning_rate"], values["--folder"]) == ("0.0006", "trained")
        assert values["--resume"] == "0"
        assert f"command: {entry['command']}" in path.read_text(encoding="utf-8")
        best = read_best(path, label)
        assert best.shape == shape
        assert taking_weights(best) == []
        for name in FORMATS:
            with pytest.raises(ConfigError, match=f"--format {name}.*`train.command` trained"):
                model_of(best, name)
