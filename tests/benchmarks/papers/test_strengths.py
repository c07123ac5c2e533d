"""Losses and sizes by the strength of auto-sizing: `benchmarks/papers/strengths.py`."""

from collections.abc import Sequence

from benchmarks.papers.strengths import strength_lines
from fathom.search.records import TrialRecord
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig
from tests.support.papers import measured_trial
from tests.support.places import ROOT

WHOLE = measured_trial(4, 0, {}).spec.shape.params_total


def study(strength: str) -> StudyConfig:
    path = ROOT / "configs/studies/murray2019/cpu-0.yaml"
    return load(path, [f"train.auto_sizing.strength={strength}"])


def records(losses: Sequence[float], *, share: float | None = None) -> list[TrialRecord]:
    """Seeds of four layers; with a penalty a share of the parameters is left, in two layers."""
    left = {} if share is None else {"parameters_left": share * WHOLE, "layers_left": 2.0}
    return [
        measured_trial(4, seed, {"bleu/beam": 20 / loss, **left}, loss=loss)
        for seed, loss in enumerate(losses)
    ]


def test_a_strength_is_compared_with_none_by_pairs_of_a_seed() -> None:
    lines = [
        *strength_lines(
            [
                (study("0.1"), records((1.5, 2.51), share=0.25)),
                (study("0"), records((1.0, 2.0))),
                (study("0.03"), records((1.0, 2.0), share=1.0)),
                (study("0.06"), records((0.8, 1.79), share=0.5)),
            ]
        )
    ]
    assert lines[2].startswith("| 0.03 | 2 | 100% | 0.000 [0.000, 0.000] | nothing is deleted |")
    assert lines[3].startswith("| 0.06 | 2 | 50% | -0.205 [-0.269, -0.141] | yes, it is lower |")
    assert lines[4].startswith("| 0.1 | 2 | 25% | 0.505 [0.441, 0.569] | no |")
    assert not [*strength_lines([(study("0.1"), records((1.0, 2.0), share=0.25))])]
