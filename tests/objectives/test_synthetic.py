"""Objectives that draw their data: each against its definition, written out the slow way."""

import itertools
import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.random_numbers import held_out_draws, mixed, training_draws
from fathom.objectives.registry import OBJECTIVES
from fathom.objectives.synthetic.alternating_blocks.objective import Blocks, block_numbers
from fathom.objectives.synthetic.connectivity.objective import Connectivity
from fathom.objectives.synthetic.induction.objective import Induction, counting_error
from fathom.objectives.synthetic.k_hop.objective import Hop, baseline_errors
from fathom.objectives.synthetic.scoring import gain, solved
from fathom.objectives.synthetic.sizes import (
    BLOCKS_START,
    FIRST,
    FIRST_VERTEX,
    INDUCTION_START,
    INSIDE,
    NO,
    OUTSIDE,
    PAD,
    QUESTION,
    YES,
    A,
    B,
    connectivity_vertices,
)
from fathom.objectives.vocabulary import vocab_size
from fathom.search.study.config import parse

CPU = torch.device("cpu")


def prepared(**settings: Any) -> Any:
    keys = "".join(f"{key}: {value}, " for key, value in settings.items())
    config = parse(f"study: s\nobjective: {{{keys}}}\nbudgets: [1k]").objective
    return OBJECTIVES[config.name].prepare(**config.settings()).to(CPU)


def perfect(batches: list[Batch], vocabulary: int) -> Model:
    """Knows the answers to these batches, which it tells apart by their inputs."""
    answers = {
        tuple(inputs.tolist()): targets
        for batch in batches
        for inputs, targets in zip(*batch, strict=True)
    }

    def model(inputs: Tensor) -> Tensor:
        found = torch.stack([answers[tuple(row.tolist())] for row in inputs]).clamp(min=0)
        return 30.0 * nn.functional.one_hot(found, vocabulary)

    return model


@pytest.mark.parametrize("name", ["hop", "induction", "connectivity", "blocks"])
def test_its_config_says_the_context_and_vocabulary_that_it_has(name: str) -> None:
    config = parse(f"study: s\nobjective: {name}\nbudgets: [1k]").objective
    objective = OBJECTIVES[name].prepare(**config.settings())

    assert config.context == objective.context
    assert vocab_size(name, config.settings()) == objective.vocab_size


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "hop", "symbols": 3, "hops": 1, "context": 3},
        {"name": "hop", "hops": 16, "context": 6},
        {"name": "induction", "symbols": 3, "block": "[2, 2]", "gap": "[0, 0]", "context": 4},
        {"name": "induction", "context": 48},
        {"name": "connectivity", "diameter": 1},
        {"name": "connectivity", "diameter": 1, "edge_tokens": 2},
        {"name": "blocks", "blocks": 2, "train_lengths": "[2, 2]", "test_lengths": "[]"},
    ],
    ids=str,
)
def test_the_smallest_settings_are_tasks_as_well(settings: dict[str, Any]) -> None:
    task = prepared(eval_examples=1, **settings)
    table = nn.Embedding(task.vocab_size, task.vocab_size)

    batch = task.batch(seed=0, step=0, batch_size=2)

    assert torch.isfinite(task.loss(table, batch))
    assert all(math.isfinite(value) for value in task.evaluate(table).values())
    assert ((batch.targets != IGNORED).sum(1) > 0).all()


@pytest.mark.parametrize("name", ["hop", "induction", "connectivity", "blocks"])
def test_the_evaluation_is_of_sequences_that_no_training_step_draws(name: str) -> None:
    objective = prepared(name=name, eval_examples=8)
    seen: list[tuple[int, ...]] = []

    def watched(inputs: Tensor) -> Tensor:
        seen.extend(tuple(row) for row in inputs.tolist())
        return torch.zeros(*inputs.shape, objective.vocab_size)

    objective.evaluate(watched)

    drawn = [objective.batch(seed=0, step=step, batch_size=32).inputs for step in range(30)]
    trained = {tuple(row) for batch in drawn for row in batch.tolist()}
    # Short graphs and strings are so few that they come by chance as well.
    shared = sum(row in trained for row in seen)
    assert shared <= len(seen) // 10
    assert mixed(3, 4) != mixed(4, 3)
    first, second = held_out_draws(CPU, 3), training_draws(CPU, seed=3, step=0)
    assert first.initial_seed() != second.initial_seed()


# Hop


def hop_by_definition(symbols: list[int], k: int) -> list[int | None]:
    """Definition 4.1, with places from 1 as there; None is bottom."""
    x = [-1, *symbols]

    def find(i: int) -> int:
        return max([0, *(j for j in range(2, i + 1) if x[j - 1] == x[i])]) if i else 0

    answers: list[int | None] = []
    for i in range(1, len(x)):
        place = i
        for _ in range(k):
            place = find(place)
        answers.append(x[place] if place else None)
    return answers


def test_hop_is_definition_4_1() -> None:
    task: Hop = prepared(name="hop", symbols=4, hops=6, context=40)
    inputs, targets = task.batch(seed=0, step=0, batch_size=60)

    seen = set()
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        k, symbols = row[0] - task.ids.first_prefix, row[1:]
        seen.add(k)
        expected = hop_by_definition(symbols, k)
        bottom = task.ids.bottom
        assert answers == [task.ids.blank, *(bottom if one is None else one for one in expected)]
        assert all(a != b for a, b in itertools.pairwise(symbols))
        assert set(symbols) <= set(range(FIRST, FIRST + 4))
    assert seen == set(range(7))


def test_the_papers_example_of_hops() -> None:
    # baebcabebdea: hop_1 -> b, hop_2 -> c at the last place.
    letters = [ord(letter) for letter in "baebcabebdea"]

    assert [hop_by_definition(letters, k)[-1] for k in (0, 1, 2)] == [ord(x) for x in "abc"]


def test_the_baseline_of_hop_is_that_of_the_papers_task() -> None:
    # Measured on 2000 sequences elsewhere; two hops often lead to the same symbol.
    errors = baseline_errors(symbols=4, hops=16, length=98)

    published = {1: 0.665, 2: 0.496, 4: 0.652, 8: 0.730, 16: 0.745}
    assert {k: errors[k - 1] for k in published} == pytest.approx(published, abs=0.006)


def test_a_perfect_hopper_has_no_error_and_a_copier_only_what_the_baseline_has() -> None:
    task: Hop = prepared(name="hop", hops=4, eval_examples=64)

    parts = [task._part(k) for k in range(5)]
    known = task.evaluate(perfect([part.batch for part in parts], task.vocab_size))
    copied = task.evaluate(lambda inputs: nn.functional.one_hot(inputs, task.vocab_size) * 30.0)

    assert known["loss"] < 1e-6
    assert known["solved/k"] == 4.0
    assert [known[f"gain/k{k}"] for k in range(1, 5)] == [1.0] * 4
    # Saying the current symbol again is the best that it alone allows for two hops.
    assert copied["error/k0"] == 0.0
    assert copied["error/k2"] == pytest.approx(0.496, abs=0.02)
    assert copied["gain/k2"] == pytest.approx(0.0, abs=0.03)
    assert copied["gain/k1"] < -0.4
    assert copied["solved/k"] == 0.0


def test_only_symbols_count_as_errors_of_hop() -> None:
    task: Hop = prepared(name="hop", hops=2, context=10, eval_examples=32)
    part = task._part(2)

    asked = part.batch.targets[part.counted]
    assert set(asked.tolist()) <= set(range(FIRST, FIRST + 4))
    assert not part.counted[:, 0].any(), "the blank"
    assert bool((part.batch.targets[~part.counted] >= task.ids.blank).all())


def test_the_last_difficulty_that_is_solved_has_every_easier_one_solved() -> None:
    assert solved([(1, 0.0), (2, 0.05), (3, 0.2), (4, 0.01)]) == 2.0
    assert solved([(1, 0.3)]) == 0.0
    assert gain(0.25, 0.5) == 0.5


# Induction


def test_what_followed_a_token_last_time_is_what_follows_it_where_it_is_asked() -> None:
    task: Induction = prepared(name="induction", symbols=40, block="[3, 9]", gap="[0, 7]")
    inputs, targets = task.batch(seed=1, step=1, batch_size=50)

    for row, asked in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert row[0] == INDUCTION_START
        whole = [*row, None]
        for at, target in enumerate(asked):
            if target != IGNORED:
                last = max(place for place in range(at) if row[place] == row[at])
                assert row[last + 1] == target
                if at + 1 < len(row):
                    assert whole[at + 1] == target
    assert bool(((targets != IGNORED).sum(1) >= 2).all())


def test_neither_the_distance_nor_the_place_of_a_repeat_is_fixed() -> None:
    task: Induction = prepared(name="induction", symbols=40, block="[3, 9]", gap="[0, 7]")
    inputs, targets = task.batch(seed=1, step=1, batch_size=400)

    distances: Counter[int] = Counter()
    for row, asked in zip(inputs.tolist(), targets.tolist(), strict=True):
        at = next(place for place, target in enumerate(asked) if target != IGNORED)
        distances[at - max(place for place in range(at) if row[place] == row[at])] += 1
    assert set(distances) == set(range(3, 17))
    assert max(distances.values()) < 80
    starts = Counter((targets != IGNORED).int().argmax(1).tolist())
    assert len(starts) > 20


def test_whoever_counts_guesses_between_the_tokens_seen_once_less_than_the_current_one() -> None:
    task: Induction = prepared(name="induction", symbols=20, block="[3, 7]", gap="[0, 5]")
    inputs, targets = batch = task.batch(seed=1, step=1, batch_size=40)

    errors = []
    for row, asked in zip(inputs.tolist(), targets.tolist(), strict=True):
        for at, target in enumerate(asked):
            if target != IGNORED:
                seen = Counter(row[1 : at + 1])
                alike = [token for token in seen if seen[token] == seen[row[at]] - 1]
                assert target in alike
                errors.append(1 - 1 / len(alike))
    assert counting_error(batch, task.vocab_size) == pytest.approx(sum(errors) / len(errors))


def test_who_continues_the_block_gains_everything_and_who_counts_nothing() -> None:
    task: Induction = prepared(name="induction", eval_examples=64)

    known = task.evaluate(perfect([task._part(gap).batch for gap in task._gaps()], task.vocab_size))

    def counts(inputs: Tensor) -> Tensor:
        seen = nn.functional.one_hot(inputs, task.vocab_size).cumsum(1)
        alike = seen == seen.gather(2, inputs[:, :, None]) - 1
        alike[:, :, : INDUCTION_START + 1] = False
        noise = torch.rand(alike.shape, generator=torch.Generator().manual_seed(0))
        return alike + noise

    counted = task.evaluate(counts)
    for gap in (0, 8, 16):
        assert known[f"error/gap{gap}"] == 0.0
        assert known[f"gain/gap{gap}"] == 1.0
        assert counted[f"gain/gap{gap}"] == pytest.approx(0.0, abs=0.05)
        assert task.baselines[gap] < 1 - 1 / 63, "better than the current token alone"


# Blocks


def test_blocks_alternate_and_the_answer_is_whether_the_last_has_begun() -> None:
    task: Blocks = prepared(name="blocks", blocks=4, train_lengths="[4, 11]", test_lengths="[]")
    inputs, targets = task.batch(seed=0, step=0, batch_size=100)

    lengths = set()
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        letters = [token for token in row[1:] if token != PAD]
        lengths.add(len(letters))
        assert row == [BLOCKS_START, *letters, *[PAD] * (11 - len(letters))]
        runs = [(letter, len(list(own))) for letter, own in itertools.groupby(letters)]
        assert [letter for letter, _ in runs] == [A, B, A, B]
        last = runs[-1][1]
        expected = [OUTSIDE] * (len(letters) - last) + [INSIDE] * last
        assert answers == [IGNORED, *expected, *[IGNORED] * (11 - len(letters))]
    assert lengths == set(range(4, 12))


def test_every_way_to_place_the_blocks_is_as_likely() -> None:
    draws = torch.Generator().manual_seed(0)

    numbers = block_numbers(torch.full((6000, 1), 5), 5, 3, draws)

    ways = Counter(tuple(row) for row in numbers.tolist())
    assert len(ways) == 6, "2 of the 4 places between 5 letters"
    assert all(850 < count < 1150 for count in ways.values())


def test_exact_match_is_told_for_each_range_of_lengths() -> None:
    task: Blocks = prepared(name="blocks", eval_examples=16)
    ranges = [(20, 40), (41, 60), (61, 80)]
    parts = [task._part(number, own) for number, own in enumerate(ranges)]

    known = task.evaluate(perfect([parts[0].batch, parts[2].batch, parts[1].batch], 6))
    outside = task.evaluate(
        lambda inputs: nn.functional.one_hot(torch.full_like(inputs, OUTSIDE), 6) * 30.0
    )

    for low, high in ranges:
        assert known[f"exact_match/{low}-{high}"] == 1.0
        assert outside[f"exact_match/{low}-{high}"] == 0.0
        assert 0.2 < outside[f"error/{low}-{high}"] < 0.5
    assert known["loss"] < 1e-6


# Connectivity


def graph_of(
    row: list[int], task: Connectivity
) -> tuple[list[tuple[int, int]], int, dict[int, int]]:
    """The edges, the vertex that is asked about, and the places of the others asked."""
    if task.edge_tokens == 2:
        at = row.index(QUESTION)
        edges, first, at = list(zip(row[:at:2], row[1:at:2], strict=True)), row[at + 1], at + 2
    else:
        vertices = connectivity_vertices(task.diameter)
        ends = [(low, high) for high in range(vertices) for low in range(high)]
        own = [token - FIRST_VERTEX - vertices for token in row]
        edges = [
            (FIRST_VERTEX + low, FIRST_VERTEX + high)
            for low, high in (ends[pair] for pair in own if pair >= 0)
        ]
        first, at = FIRST_VERTEX, len(edges)
    asked = {token: place for place, token in enumerate(row) if place >= at and token != PAD}
    return edges, first, asked


def distance(edges: list[tuple[int, int]], start: int, end: int) -> int | None:
    """Breadth first; None where there is no path."""
    reached, frontier, steps = {start}, {start}, 0
    while frontier:
        if end in frontier:
            return steps
        frontier = {b for edge in edges for a, b in (edge, edge[::-1]) if a in frontier} - reached
        reached |= frontier
        steps += 1
    return None


@pytest.mark.parametrize("edge_tokens", [1, 2])
def test_the_answers_are_those_of_a_search_through_the_graph(edge_tokens: int) -> None:
    task: Connectivity = prepared(name="connectivity", diameter=5, edge_tokens=edge_tokens)
    inputs, targets = task.batch(seed=0, step=0, batch_size=300)

    diameters: Counter[int] = Counter()
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        edges, first, asked = graph_of(row, task)
        far = {vertex: distance(edges, first, vertex) for vertex in asked}
        assert {vertex: answers[place] for vertex, place in asked.items()} == {
            vertex: NO if away is None else YES for vertex, away in far.items()
        }
        assert sum(answer != IGNORED for answer in answers) == len(asked) == len(edges)
        joined = sorted(away for away in far.values() if away is not None)
        assert joined == list(range(1, len(edges) // 2 + 1))
        diameters[len(edges) // 2] += 1
    assert set(diameters) == set(range(1, 6))


@pytest.mark.parametrize("edge_tokens", [1, 2])
def test_each_joined_vertex_has_a_counterpart_of_the_same_degree_as_far_from_the_end_left_out(
    edge_tokens: int,
) -> None:
    task: Connectivity = prepared(name="connectivity", diameter=5, edge_tokens=edge_tokens)
    draws = torch.Generator().manual_seed(0)
    batch, away = task._batch(torch.randint(1, 6, (60,), generator=draws), draws)

    for row, answers, told in zip(*(own.tolist() for own in (*batch, away)), strict=True):
        edges, first, asked = graph_of(row, task)
        degrees = Counter(vertex for edge in edges for vertex in edge)
        [left_out] = set(degrees) - set(asked) - {first}
        assert degrees[left_out] == degrees[first] == 1
        seen: dict[int, Counter[Any]] = {YES: Counter(), NO: Counter()}
        for vertex, place in asked.items():
            start = first if answers[place] == YES else left_out
            assert told[place] == distance(edges, start, vertex)
            seen[answers[place]][told[place], degrees[vertex]] += 1
        assert seen[YES] == seen[NO]
        assert sum(one > 0 for one in told) == len(asked)


def test_errors_of_a_diameter_count_at_the_vertices_that_are_so_far() -> None:
    task: Connectivity = prepared(name="connectivity", diameter=5, eval_examples=10)
    part = task._part(3)

    assert part.counted.sum(1).tolist() == [2] * 10
    for row, answers in zip(part.batch.targets.tolist(), part.counted.tolist(), strict=True):
        assert {target for target, one in zip(row, answers, strict=True) if one} == {YES, NO}
    names = {token for row in part.batch.inputs[:, 6:].tolist() for token in row} - {PAD}
    assert names <= set(range(FIRST_VERTEX + 1, FIRST_VERTEX + 12))


def test_a_constant_answer_gains_nothing_and_the_truth_everything() -> None:
    task: Connectivity = prepared(name="connectivity", diameter=4, eval_examples=40)

    always = task.evaluate(
        lambda inputs: nn.functional.one_hot(torch.full_like(inputs, YES), task.vocab_size) * 9.0
    )
    known = task.evaluate(perfect([task._part(d).batch for d in range(1, 5)], task.vocab_size))

    assert [always[f"gain/d{d}"] for d in range(1, 5)] == [0.0] * 4
    assert [known[f"gain/d{d}"] for d in range(1, 5)] == [1.0] * 4
    assert (always["solved/d"], known["solved/d"]) == (0.0, 4.0)
