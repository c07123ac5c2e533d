"""The next trainings to buy: by the cause of a verdict, and with what they bring."""

import json
from collections.abc import Sequence
from math import log
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fathom.search.analysis.verdict import FEWEST_SEEDS
from tests.support.command_line import here
from tests.support.contract import valid
from tests.support.tables import write_table

NAMES = ["n_layer", "d_model", "n_params", "tokens", "seed", "loss"]
PARAMS, TOKENS = 1e7, 2e8


def loss(depth: int, seed: int, *, noise: float = 0.003, best: float = 9.0) -> float:
    draw = Random(f"{depth} {seed}").gauss(0, noise)
    return 3 + 0.05 * log(depth / best) ** 2 + draw


def answered(
    path: Path, depths: Sequence[int], seeds: int = 1, *options: object, noise: float = 0.003
) -> dict[str, Any]:
    rows = [
        (d, round((PARAMS / 12 / d) ** 0.5), PARAMS, TOKENS, s, loss(d, s, noise=noise))
        for d in depths
        for s in range(seeds)
    ]
    table = write_table(path / "runs.csv", NAMES, rows)
    done = here("analyse", table, "--json", *options)
    assert done.returncode == 0, done.stderr
    [answer] = valid(json.loads(done.stdout))["answers"]
    assert isinstance(answer, dict)
    return answer


def bought(answer: dict[str, Any]) -> list[tuple[int, int]]:
    """Depth and seed of each training."""
    return [(each["shape"]["depth"], each["seed"]) for each in answer["next"]]


def test_two_depths_ask_for_a_third_between_them(tmp_path: Path) -> None:
    answer = answered(tmp_path, (4, 16))

    assert answer["verdict"]["cause"]["name"] == "TooFewDepths"
    assert bought(answer) == [(8, 0)]
    [training] = answer["next"]
    assert training["tokens"] == TOKENS
    assert training["price"]["flops"] == 6 * PARAMS * TOKENS
    assert training["shape"]["d_model"] == pytest.approx((PARAMS / 12 / 8) ** 0.5, rel=0.05)


def test_an_edge_asks_for_a_depth_beyond_it(tmp_path: Path) -> None:
    answer = answered(tmp_path, (1, 2, 4), seeds=3)

    assert answer["verdict"]["kind"] == "edge"
    assert bought(answer) == [(8, 0)]
    assert "beyond 4" in answer["next"][0]["brings"]["text"]


def test_without_seeds_the_lowest_depths_are_trained_again(tmp_path: Path) -> None:
    answer = answered(tmp_path, (2, 4, 8, 16, 32))

    assert answer["verdict"]["cause"]["name"] == "NoiseUnknown"
    assert len(answer["next"]) == FEWEST_SEEDS
    assert all(seed == 1 and depth in (4, 8, 16) for depth, seed in bought(answer))
    assert answer["command"].startswith("fathom analyse")


def test_a_doubtful_depth_asks_for_the_trainings_that_tell_most(tmp_path: Path) -> None:
    answer = answered(tmp_path, (2, 4, 8, 16, 32), seeds=2, noise=0.05)

    assert answer["verdict"]["kind"] == "insufficient"
    assert 1 <= len(answer["next"]) <= 3
    left = [each["brings"]["doubt_left"] for each in answer["next"]]
    assert all(0 <= share <= 1 for share in left)
    assert left[0] == min(left), "the most telling first"


def test_a_settled_depth_asks_for_nothing(tmp_path: Path) -> None:
    answer = answered(tmp_path, (2, 4, 8, 16, 32), seeds=3)

    assert answer["verdict"]["settled"]
    assert (answer["next"], answer["command"]) == ([], None)
    best = answer["answer"]["depth"]
    assert [cost["depth"] for cost in answer["costs"]] == [d for d in range(2, 33) if d != best]
    assert {cost["compute"] for cost in answer["costs"]} == {None}, "there is no law of loss"


def test_a_stated_noise_counts(tmp_path: Path) -> None:
    answer = answered(tmp_path, (2, 4, 8, 16, 32), 1, "--noise", 0.003)

    assert answer["verdict"]["cause"]["name"] != "NoiseUnknown"
