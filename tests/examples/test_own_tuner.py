"""examples/own_tuner.py: the order read literally, end to end on a real Ray."""

import os
import re
import sys

import pytest

from examples.own_tuner import SPACE, build
from tests.support.command_line import run
from tests.support.places import ROOT
from tests.support.ray_program import ray_folder


def test_its_model_has_the_parameters_that_the_space_counts() -> None:
    for shape in SPACE.shapes[::5]:
        assert sum(weight.numel() for weight in build(shape).parameters()) == shape.params_total


@pytest.mark.drill
def test_optuna_samples_asha_stops_and_fathom_answers() -> None:
    with ray_folder() as folder:
        known = {"RAY_TMPDIR": folder, "HOME": folder, "PYTHONPATH": str(ROOT)}
        file = ROOT / "examples" / "own_tuner.py"
        done = run(sys.executable, file, 6, 20, cwd=folder, env=os.environ | known, timeout=600)

    assert done.returncode == 0, done.stderr
    (answer,) = re.findall(r"^40000 parameters: (\w+), best depth (\d+)$", done.stdout, re.M)
    assert 1 <= int(answer[1]) <= 8
    iterations = [
        int(told) for told in re.findall(r"completed after (\d+) iterations", done.stdout)
    ]
    assert len(iterations) == 6
    assert min(iterations) < 10, "ASHA has stopped some"
