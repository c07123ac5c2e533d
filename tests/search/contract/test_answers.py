"""Answers in the form that programs read: what other depths cost."""

import json
from itertools import product
from math import log
from pathlib import Path
from random import Random

import pytest

from tests.support.command_line import here
from tests.support.contract import valid
from tests.support.tables import write_table

ALPHA = BETA = 0.3
FLOOR, OF_SIZE, OF_TOKENS, CURVATURE = 1.7, 60.0, 60.0, 0.05


def lowest(params: float, tokens: float) -> float:
    loss: float = FLOOR + OF_SIZE * params**-ALPHA + OF_TOKENS * tokens**-BETA
    return loss


def measured(depth: int, params: float, tokens: float) -> float:
    return lowest(params, tokens) + CURVATURE * log(depth / 8) ** 2


def test_a_ladder_of_budgets_says_costs_as_multiples_of_compute(tmp_path: Path) -> None:
    noise = Random(1)
    rows = [
        (d, n, ratio * n, s, measured(d, n, ratio * n) + noise.gauss(0, 1e-3))
        for n, ratio, d, s in product((1e6, 1e7, 1e8), (10, 40, 160), (2, 4, 8, 16, 32), (0, 1, 2))
    ]
    names = ["n_layer", "n_params", "tokens", "seed", "loss"]
    table = write_table(tmp_path / "runs.csv", names, rows)

    done = here("analyse", table, "--horizons", "10,40,160", "--json")

    answers = valid(json.loads(done.stdout))["answers"]
    assert len(answers) == 9
    for answer in answers:
        question = answer["question"]
        above = lowest(question["budget"], question["horizon"]["amount"]) - FLOOR
        power = (ALPHA + BETA) / (ALPHA * BETA)
        for cost in answer["costs"]:
            low, high = cost["compute_interval"]
            assert low <= cost["compute"] <= high
            if cost["depth"] in (2, 32):
                truth = (1 + CURVATURE * log(cost["depth"] / 8) ** 2 / above) ** power
                assert cost["compute"] == pytest.approx(truth, rel=0.15)
