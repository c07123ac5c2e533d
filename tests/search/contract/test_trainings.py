"""The next trainings: those of a search, and by the cause of a verdict, with what they bring."""

import json
from collections.abc import Sequence
from itertools import cycle, product
from math import log
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.simulate.driver import PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.simulate.study import TWO_BUDGETS
from benchmarks.worlds.planted import Curve, World, flat, symmetric
from fathom.search.analysis.curve.posterior import find_posterior
from fathom.search.conclusion.conclude import conclude_run
from fathom.search.contract.studies import study_answers
from fathom.search.records import TrialSpec
from fathom.search.scheduling.journal import read_run
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
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


def test_two_depths_ask_for_a_third_beyond_the_better_one(tmp_path: Path) -> None:
    answer = answered(tmp_path, (4, 8))

    assert answer["verdict"]["cause"]["name"] == "TooFewDepths"
    assert bought(answer) == [(16, 0)]
    [training] = answer["next"]
    assert training["tokens"] == TOKENS
    assert training["price"]["flops"] == 6 * PARAMS * TOKENS
    assert training["shape"]["d_model"] == pytest.approx((PARAMS / 12 / 16) ** 0.5, rel=0.05)


def test_the_terminal_names_the_training_that_programs_are_told(tmp_path: Path) -> None:
    [training] = answered(tmp_path, (4, 8))["next"]
    done = here("analyse", tmp_path / "runs.csv")

    shape, brings = training["shape"], training["brings"]["text"]
    named = f"depth {shape['depth']}, d_model {shape['d_model']}, seed {training['seed']}"
    said = f"next to train: {named}, 200M tokens; it {brings}"
    assert said in " ".join(done.stdout.split())


def test_an_edge_asks_for_a_depth_beyond_it(tmp_path: Path) -> None:
    answer = answered(tmp_path, (1, 2, 4), seeds=3)

    assert answer["verdict"]["kind"] == "edge"
    assert bought(answer) == [(8, 0)]
    assert "beyond 4" in answer["next"][0]["brings"]["text"]


def test_without_seeds_the_lowest_depth_is_trained_again(tmp_path: Path) -> None:
    answer = answered(tmp_path, (2, 4, 8, 16, 32))

    assert answer["verdict"]["cause"]["name"] == "NoiseUnknown"
    assert bought(answer) == [(8, 1)]
    assert 0 <= answer["next"][0]["brings"]["doubt_left"] <= 1
    assert answer["command"].startswith("fathom analyse")


def test_a_doubtful_end_asks_for_a_depth_beyond_it_first(tmp_path: Path) -> None:
    answer = answered(tmp_path, (2, 4, 8, 16, 32), seeds=2, noise=0.05)

    assert answer["verdict"]["kind"] == "insufficient"
    assert bought(answer) == [(64, 0)]
    assert answer["next"][0]["brings"]["doubt_left"] is None, "new ground"


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


CURVES = (symmetric(4, 0.05), symmetric(14, 0.05), flat)
CONFIRMS = (
    "{depths: 8, seeds: 4, rates: [1]}",
    "{depths: 6, seeds: 3, rates: [0.5, 1, 2], decays: [0.25, 1, 4], together: 3}",
)
Training = tuple[float, ...]
"""Depth, width, feed-forward width, seed, and multiples of the rate and the decay."""


@pytest.mark.parametrize("fewest", [50, pytest.param(200, marks=pytest.mark.drill)])
def test_what_is_named_next_is_what_a_search_trains_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fewest: int
) -> None:
    """Compared in so many states of searches."""

    def quick(*known: Any, draws: int) -> Any:
        return find_posterior(*known, draws=min(draws, 200))

    monkeypatch.setattr("fathom.search.analysis.answer.finding.find_posterior", quick)
    states = 0
    for number, (confirm, curve) in enumerate(cycle(product(CONFIRMS, CURVES))):
        if states >= fewest:
            return
        sampler = "sampler: ladder" if number % 7 == 6 else ""
        text = TWO_BUDGETS.replace("{depths: 3, seeds: 2, rates: [0.5, 1, 2]}", confirm)
        text = f"{text.replace('20k, 40k', '20k')}seed: {number}\n{sampler}"
        states += compared_states(parse(text), curve, tmp_path / str(number))


def compared_states(config: StudyConfig, curve: Curve, path: Path) -> int:
    """Searches on two workers, and compares what is named whenever a confirming trial has ended
    with what is then under way and begins; returns how often."""
    [budget] = expand_budgets(config)
    world = World(curve=curve, budget=budget.params, count=config.count, horizon=64_000)
    search, begun = new_scheduler(config, path), list[Training]()
    assign = search.next_trial

    def next_trial() -> TrialSpec | None:
        spec = assign()
        begun.extend([training_of(spec)] if spec else [])
        return spec

    search.next_trial = next_trial  # type: ignore[method-assign]
    workers = SimulatedWorkers(search, PlantedLosses(config, {budget: world}), workers=2)
    states, before = [], set[str]()
    while not search.done:
        workers.run(events=1)
        under_way = [training_of(search.live[trial].spec) for trial in workers.running]
        if search.budgets[budget.params].explored and before - workers.running:
            states.append((named_next(search), under_way, len(begun)))
        before = set(workers.running)
    for named, under_way, number in states:
        follow = begun[number : number + len(named) - len(under_way)] if named else begun[number:]
        assert sorted(named) == sorted([*under_way, *follow])
    return len(states)


def training_of(spec: TrialSpec) -> Training:
    return spec.shape.depth, spec.shape.d_model, spec.shape.d_ff, spec.seed, *spec.scale


def named_next(search: Scheduler) -> list[Training]:
    """The trainings that the answer of a search in its folder names next."""
    conclusion = conclude_run(search.folder, search.config, read_run(search.folder, search.config))
    [answer] = study_answers(conclusion, search.folder.path)
    return [
        (known["depth"], known["d_model"], known["d_ff"],
         training.seed, training.rate_scale, training.decay_scale)
        for training in answer.next
        for known in [training.shape.model_dump()]
    ]  # fmt: skip
