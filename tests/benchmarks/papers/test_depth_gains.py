"""The gain of depth, seed by seed: `benchmarks/papers/depth_gains.py`."""

from dataclasses import replace

import pytest

from benchmarks.papers.depth_gains import (
    accuracy_tables,
    gains_of,
    interval_text,
    petty_tables,
    trials_of,
)
from fathom.search.records import Outcome
from fathom.search.study.file.study_file import parse
from tests.support.papers import measured_trial

STUDY = parse("study: petty2023-mine\nobjective: transduction\nbudgets: [1k]\n")
GEN, TEST = "exact_match/gen/all", "exact_match/test/all"


def test_a_gain_compares_trials_of_the_same_seed() -> None:
    lost = replace(measured_trial(4, 2, {GEN: 0.0}), outcome=Outcome.DIVERGED)
    trials = trials_of(
        [
            measured_trial(4, 1, {GEN: 0.7}),
            lost,
            measured_trial(1, 1, {GEN: 0.5}),
            measured_trial(1, 2, {GEN: 0.1}),
        ]
    )
    assert list(trials) == [1, 4]
    assert gains_of(trials[1], trials[4], GEN) == pytest.approx([0.2])


def test_an_interval_needs_two_seeds() -> None:
    assert interval_text([], 0) == "-"
    assert interval_text([0.25], 0) == "0.250"
    assert interval_text([0.1, 0.3], 0) == "0.200 [0.000, 1.000]"
    assert interval_text([0.10, 0.11], -1) == "0.105 [0.041, 0.169]"


def test_generalisation_is_listed_by_depth_then_by_category() -> None:
    lexical = "exact_match/gen/lexical"
    records = [
        measured_trial(depth, seed, {GEN: 0.1 * depth, TEST: 1.0, lexical: 0.2 * depth})
        for depth in (1, 3)
        for seed in (0, 1)
    ]
    lines = list(petty_tables(STUDY, records))
    assert any(line.endswith("| 0.300, 0.300 | 0.200 [0.200, 0.200] |") for line in lines)
    assert "| 3 | 1.000 [1.000, 1.000] | 1.000, 1.000 |" in lines
    assert "| category | depth 1 | depth 3 |" in lines
    assert lines[-1] == "| lexical | 0.200 | 0.600 |"


def test_the_loss_of_text_is_compared_with_the_lowest() -> None:
    text = parse("study: petty2023-text\nobjective: language\nbudgets: [1k]\n")
    losses = {1: 2.0, 2: 1.5, 7: 1.75}
    records = [measured_trial(depth, 0, {}, loss=loss) for depth, loss in losses.items()]
    lines = list(petty_tables(text, records))
    assert "more than 2" in lines[0]
    assert [line.rpartition(" | ")[2] for line in lines[2:]] == ["0.500 |", "- |", "0.250 |"]


def test_accuracy_is_listed_with_size_and_latency() -> None:
    metrics = {"accuracy/dev": 0.5, "generation_seconds": 0.002}
    lines = list(
        accuracy_tables(STUDY, [measured_trial(1, 0, metrics), measured_trial(2, 0, metrics)])
    )
    assert any("| 0.500 | 0.500 | 0.000 |" in line for line in lines)
    assert lines[-1].endswith(" | 2.00 |")
