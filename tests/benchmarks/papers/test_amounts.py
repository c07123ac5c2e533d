"""Losses by the number of pairs: `benchmarks/papers/amounts.py`."""

from collections.abc import Mapping

from benchmarks.papers.amounts import growth_lines
from fathom.search.records import TrialRecord
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig
from tests.support.papers import measured_trial
from tests.support.places import ROOT


def study(pairs: str) -> StudyConfig:
    return load(ROOT / f"configs/studies/vanbiljon2020/cpu-{pairs}.yaml")


def records(losses: Mapping[int, tuple[float, ...]]) -> list[TrialRecord]:
    return [
        measured_trial(depth, seed, {"bleu/beam": 10.0 * depth}, loss=loss)
        for depth, of_seeds in losses.items()
        for seed, loss in enumerate(of_seeds)
    ]


def test_depth_pays_more_with_more_pairs_if_the_difference_shrinks() -> None:
    few = records({2: (2.0, 2.02), 12: (2.9, 2.92)})
    many = records({2: (1.5, 1.52), 12: (1.2, 1.22)})

    lines = [*growth_lines([(study("4k"), many), (study("500"), few)])]

    assert lines[2].startswith("| 500 | 12 and 2 | 0.900 [")
    assert lines[2].endswith("| - |")
    assert "-1.200 [" in lines[3]
    assert lines[3].endswith("] less |")
    assert not [*growth_lines([(study("500"), few)])], "one amount alone"
