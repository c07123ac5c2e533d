"""Reasons of verdicts for people without a study file."""

import re

from fathom.search.tables.remedies import REMEDIES, for_tables
from tests.support.places import ROOT


def test_every_remedy_of_a_verdict_has_one_for_tables() -> None:
    source = (ROOT / "search" / "analysis" / "verdict.py").read_text(encoding="utf-8")
    code = re.sub(r'"""[\s\S]*?"""', "", source)
    keys = set(re.findall(r"`([a-z]+(?:\.[a-z_]+)?)[:`]", code))
    assert len(keys) > 4

    known = " ".join(pattern.replace("\\", "") for pattern, _ in REMEDIES)
    assert not [key for key in keys if f"`{key}" not in known]


def test_a_key_of_a_study_becomes_what_to_train() -> None:
    reason = "no trial repeats a shape with another seed; set `confirm.seeds: 3`"

    assert for_tables(reason).endswith(
        "train 3 seeds of each of the best depths, or state the noise with --noise"
    )
    ladder = "x; train depths 3, 6 too, by `sampler: ladder` and `space.depth: [2, 3, 4, 6]`"
    assert for_tables(ladder) == "x; train depths 3, 6 too"
    assert for_tables("x; set `space.depth: [8, 64]`") == "x; add depths from 8 to 64"
