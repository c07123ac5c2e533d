"""Connectivity: the graphs against a search through them, and the counterparts."""

from collections import Counter
from typing import Any

import pytest
import torch

from fathom.objectives.contract import IGNORED
from fathom.objectives.token_ids import PAD
from fathom.papers.tasks.connectivity.keys import FIRST_VERTEX, NO, QUESTION, YES
from fathom.papers.tasks.connectivity.objective import Connectivity
from tests.support.objectives import constant, perfect, prepared


def graph_of(
    row: list[int], task: Connectivity
) -> tuple[list[tuple[int, int]], int, dict[int, int]]:
    """The edges, the vertex that is asked about, and the places of the others asked."""
    if task.keys.edge_tokens == 2:
        at = row.index(QUESTION)
        edges, first, at = list(zip(row[:at:2], row[1:at:2], strict=True)), row[at + 1], at + 2
    else:
        vertices = task.keys.vertices
        ends = [(low, high) for high in range(vertices) for low in range(high)]
        pairs = [token - FIRST_VERTEX - vertices for token in row]
        edges = [
            (FIRST_VERTEX + low, FIRST_VERTEX + high)
            for low, high in (ends[pair] for pair in pairs if pair >= 0)
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
    task: Connectivity = prepared("connectivity", diameter=5, edge_tokens=edge_tokens)
    inputs, targets, _ = task.batch(seed=0, step=0, batch_size=300)

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
def test_each_joined_vertex_has_a_counterpart_as_far_from_the_other_end(edge_tokens: int) -> None:
    task: Connectivity = prepared("connectivity", diameter=5, edge_tokens=edge_tokens)
    draws = torch.Generator().manual_seed(0)
    batch, away = task._batch(torch.randint(1, 6, (60,), generator=draws), draws)

    for row, answers, told in zip(
        batch.inputs.tolist(), batch.targets.tolist(), away.tolist(), strict=True
    ):
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
        assert sum(away > 0 for away in told) == len(asked)


def test_errors_of_a_diameter_count_at_vertices_of_that_distance() -> None:
    task: Connectivity = prepared("connectivity", diameter=5, eval_examples=10)
    batch, counted = task.held_out(3)

    assert counted.sum(1).tolist() == [2] * 10
    for row, answers in zip(batch.targets.tolist(), counted.tolist(), strict=True):
        assert {target for target, counts in zip(row, answers, strict=True) if counts} == {YES, NO}
    names = {token for row in batch.inputs[:, 6:].tolist() for token in row} - {PAD}
    assert names <= set(range(FIRST_VERTEX + 1, FIRST_VERTEX + 12))


def test_a_constant_answer_gains_nothing_and_the_truth_everything() -> None:
    task: Connectivity = prepared("connectivity", diameter=4, eval_examples=40)

    always = task.evaluate(constant(task, YES))
    known = task.evaluate(perfect(task, [task.held_out(d)[0] for d in range(1, 5)]))

    assert [always[f"gain/d{d}"] for d in range(1, 5)] == [0.0] * 4
    assert [known[f"gain/d{d}"] for d in range(1, 5)] == [1.0] * 4
    assert (always["solved/d"], known["solved/d"]) == (0.0, 4.0)
