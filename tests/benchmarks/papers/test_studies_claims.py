"""Claims beside run folders: `benchmarks/papers/studies.py`."""

import math
from dataclasses import replace

import pytest

from benchmarks.papers.layers import EARLY
from benchmarks.papers.studies import (
    Claim,
    claims_of,
    mean_text,
    needs,
    rate_table,
    report,
    row,
    value_of,
    values_of,
)
from fathom.search.records import Outcome, TrialRecord
from fathom.search.study.file.study_file import load, parse
from fathom.search.study.keys.config import StudyConfig
from tests.support.papers import measured_trial
from tests.support.places import ROOT

STUDIES = ROOT / "configs" / "studies"
MATCHES = Claim(measure="induction", mark=0.5, fewest=2)


def study(name: str) -> StudyConfig:
    return load(STUDIES / f"{name}.yaml")


def ended(depth: int, seed: int, value: float) -> TrialRecord:
    return measured_trial(depth, seed, {"induction": value})


def test_claims_are_those_of_the_papers() -> None:
    claims = {claim.measure: claim.fewest for claim in claims_of(study("sanford2024_hops/cpu"))}
    assert [claims[f"error/k{k}"] for k in (1, 2, 3, 4)] == [2, 3, 3, 4], "as the theorem has"
    plain, smeared = (study(f"olsson2022_induction/{name}") for name in ("cpu", "cpu-smeared"))
    assert [claim.fewest for claim in claims_of(plain) + claims_of(smeared)] == [2, 1]


def test_only_post_norm_stops_training_beyond_some_depth() -> None:
    plain, profiled = (study(f"liu2020_admin/cpu-{name}") for name in ("post", "admin"))
    most = [claim.most_layers for claim in claims_of(plain) + claims_of(profiled)]
    assert most == [12, math.inf]
    assert row(claims_of(plain)[0], 24, [3.3, 3.0]).endswith("| 1 of 2 | 0 | no |")
    (deep,) = claims_of(study("liu2020_admin_translation/cpu-post"))
    assert (deep.most_layers, deep.reached(3.0)) == (12, False)


def test_a_study_of_no_paper_is_an_error_that_names_the_known_papers() -> None:
    config = parse("study: mine\nobjective: {name: induction}\nbudgets: [8k]\n")
    with pytest.raises(ValueError, match=r"olsson2022_induction.*got mine"):
        claims_of(config)


def test_seeds_are_counted_by_depth_and_a_divergence_reaches_no_mark() -> None:
    broken = replace(ended(2, 1001, 0.9), outcome=Outcome.DIVERGED)
    values = values_of(
        "induction", [ended(2, 1000, 0.8), ended(1, 0, 0.1), ended(2, 0, 0.9), broken]
    )
    assert values[1] == [0.1]
    assert values[2][:2] == [0.9, 0.8]
    assert math.isnan(values[2][2])
    assert not MATCHES.reached(values[2][2])


def test_a_line_shows_if_all_or_none_reached_the_mark_as_claimed() -> None:
    assert row(MATCHES, 1, [0.1, 0.2]).endswith("| 0 of 2 | 0 | yes |")
    assert row(MATCHES, 2, [0.9, 0.2]).endswith("| 1 of 2 | 2 | no |")
    assert row(replace(MATCHES, upwards=False), 2, [0.5, 0.2]).endswith("| 2 of 2 | 2 | yes |")
    undecided = replace(MATCHES, fewest=None)
    assert row(undecided, 1, [0.1, 0.9]).endswith("| 1 of 2 | - | - |")


def test_the_interval_is_students_and_ends_where_the_measure_does() -> None:
    # Three values 0.1 apart: the mean's error is 0.1 / sqrt(3), and t of 2 degrees is 4.303.
    assert mean_text([0.4, 0.5, 0.6]) == "0.5 [0.252, 0.748]"
    assert mean_text([0.8, 1.0]) == "0.9 [0, 1]"
    assert mean_text([0.8]) == "0.8"
    assert mean_text([1.4, 1.5, 1.6], highest=math.inf) == "1.5 [1.25, 1.75]"


def test_a_head_counts_as_early_in_the_first_half_of_the_layers() -> None:
    even = replace(ended(4, 0, 0.0), layers={"previous_token": (0.1, 0.4, 0.8, 0.9)})
    odd = replace(ended(3, 0, 0.0), layers={"previous_token": (0.1, 0.4, 0.8)})
    assert [value_of(EARLY, even), value_of(EARLY, odd)] == [0.4, 0.4]


def test_a_claim_is_judged_at_the_rate_of_the_study_and_others_are_listed() -> None:
    usual, other = ended(2, 0, 0.9), ended(2, 1000, 0.1)
    other = replace(other, spec=replace(other.spec, rate_scale=0.5, learning_rate=0.002))
    assert values_of("induction", [usual, other]) == {2: [0.9]}
    assert "| 2 | 0.002 | 0.1 |" in list(rate_table([usual, other], "induction"))


def test_required_depth_goes_over_the_studies_of_a_paper() -> None:
    def told(k: int, depth: int) -> TrialRecord:
        return measured_trial(depth, 0, {"exact_match/61-80": 1.0 if depth >= k - 2 else 0.5})

    studies = [
        (study(f"yang2025_blocks/cpu-{k}"), [told(k, depth) for depth in (1, 2, 3)])
        for k in (5, 3, 4)
    ]
    lines = list(needs(studies))
    assert "one more layer gains 1.00 " in lines[0]
    assert lines[-3:] == ["| 3 | 1 |", "| 4 | 2 |", "| 5 | 3 |"]


def test_a_report_has_a_line_for_each_claim_and_depth() -> None:
    records = [ended(depth, seed, 0.9) for depth in (1, 2, 3) for seed in (0, 1000)]
    lines = list(report(study("olsson2022_induction/cpu"), records))
    assert [line.rsplit("| ", 1)[1] for line in lines[2:]] == ["no |", "yes |", "yes |"]
