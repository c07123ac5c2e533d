"""Tables of losses say what planted records hold."""

from math import log

import numpy as np
import pytest

from benchmarks.papers.crossings import crossing_tables
from benchmarks.papers.shapes import Noise, shape_tables
from benchmarks.papers.studies import needs
from benchmarks.worlds.planted import World, symmetric
from fathom.models.shape import Count
from fathom.search.records import TrialRecord
from fathom.search.study.file.study_file import study_of
from fathom.search.study.keys.config import StudyConfig

CONFIG: StudyConfig = study_of(
    {"study": "a-cpu", "objective": {"name": "language"}, "budgets": ["1M"]}
)


def records_of(
    world: World, *, depths: tuple[int, ...], rates: tuple[float, ...] = (1.0,)
) -> list[TrialRecord]:
    """Records of two seeds of each depth; only the second seed has every rate."""
    generator = np.random.default_rng(0)
    wanted = [(depth, 0, 1.0) for depth in depths]
    wanted += [(depth, 1000, rate) for depth in depths for rate in rates]
    return [
        world.record(world.spec(world.shape(depth), seed=seed, rate_scale=rate), generator)
        for depth, seed, rate in wanted
    ]


def shape_lines(records: list[TrialRecord]) -> list[str]:
    return list(shape_tables(CONFIG, records))


def test_an_order_as_published_is_confirmed() -> None:
    world = World(curve=lambda depth: abs(log(depth / 4)) * (2 if depth < 4 else 0.1), noise=1e-4)
    lines = shape_lines(records_of(world, depths=(1, 4, 16)))

    assert [line.count("yes") for line in lines if "before" in line] == [1, 1, 1]


def test_another_order_is_a_contradiction_and_best_rates_are_compared() -> None:
    world = World(
        curve=lambda depth: 0.05 * log(depth),
        best_rate=lambda depth: 1.0 if depth < 16 else 8.0,
        rate_effect=0.1,
        noise=1e-4,
    )
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in shape_lines(records_of(world, depths=(1, 16, 64), rates=(1.0, 8.0)))
        if "before" in line
    ]

    assert [row[2] for row in rows] == ["yes", "no", "no"]
    at_one_rate, at_best = (float(rows[2][i].partition(" ")[0]) for i in (1, 3))
    assert at_one_rate < at_best < 0


def test_noise_is_pooled_over_shapes_and_without_repeats_no_difference_is_found() -> None:
    noise = Noise.of([[1.0, 1.2], [3.0, 3.0], [5.0]])

    assert noise.degrees_of_freedom == 2
    assert noise.deviation == pytest.approx(0.1)
    assert noise.half_width(1, 1) == pytest.approx(4.303 * 0.1 * 2**0.5, rel=1e-3)
    assert Noise.of([[1.0], [2.0]]).half_width(1) == float("inf")


def test_planted_crossings_are_listed_beside_the_published_law() -> None:
    records = [
        record
        for budget, optimum in ((200_000, 1.0), (1_000_000, 2.0), (5_000_000, 8.0))
        for record in records_of(
            World(curve=symmetric(optimum), budget=budget, count=Count.MATRICES, noise=1e-3),
            depths=(1, 2, 4),
        )
    ]
    lines = list(crossing_tables(CONFIG, records))

    assert any(line.startswith("| 1, 2 | crossed | ") for line in lines)
    assert lines[-1].startswith("\nLaw: ")


@pytest.mark.parametrize("paper", ["levine2020", "vatsadev2024"])
def test_claims_of_losses_ask_for_no_depth(paper: str) -> None:
    assert list(needs([(CONFIG.model_copy(update={"study": f"{paper}-cpu"}), [])])) == []
