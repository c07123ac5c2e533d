"""The exhaustive table: `benchmarks/answers/trained/ladder.py`."""

import itertools
import math
import sys
from pathlib import Path

import pytest

from benchmarks.answers.trained.ladder import rungs_of_ladder
from benchmarks.worlds.curve_tables import read_runs
from benchmarks.worlds.known import known_budgets
from fathom.models.shape import Count
from fathom.search.study.file.study_file import load
from fathom.search.study.planning.budget import expand_budgets
from tests.support.command_line import run
from tests.support.places import ROOT

STUDY = ROOT / "benchmarks" / "ladder.yaml"
TINY = """
study: tiny-ladder
objective: {name: language, context: 16, eval_tokens: 1k}
budgets: [20k]
count: non_embedding
tokens: 2k
space: {depth: [1, 6], ff_ratio: [1, 8], n_heads: 2}
train: {batch_size: 8, evaluations: 4}
"""


def test_depths_span_the_range_and_ratios_differ_at_each() -> None:
    config = load(STUDY)
    for budget in expand_budgets(config):
        shapes = rungs_of_ladder(config, budget, 256, depths=10, ratios=3)
        depths = sorted({shape.depth for shape in shapes})
        assert (len(depths), depths[0], depths[-1]) == (10, 1, 16)
        for depth in depths:
            ratios = sorted(shape.ff_ratio for shape in shapes if shape.depth == depth)
            assert len(ratios) == 3
            assert all(b / a > 1.1 for a, b in itertools.pairwise(ratios))


@pytest.mark.drill
def test_an_interrupted_table_resumes_and_reads_as_a_known_budget(tmp_path: Path) -> None:
    study, table = tmp_path / "study.yaml", tmp_path / "table.csv"
    study.write_text(TINY, encoding="utf-8")
    asked = [
        sys.executable,
        "-m",
        "benchmarks.answers.trained.ladder",
        str(study),
        "--table",
        str(table),
    ]
    asked += ["--depths", "3", "--ratios", "1"]
    assert run(*asked, "--seeds", "1", cwd=ROOT).returncode == 0
    first = table.read_text(encoding="utf-8")
    again = run(*asked, "--seeds", "2", cwd=ROOT)
    assert table.read_text(encoding="utf-8").startswith(first)
    assert "3 of 3" in again.stdout, "only the second seed was lacking"
    (known,) = known_budgets(read_runs(table), Count.NON_EMBEDDING)
    assert (len(known.depths), known.seeds) == (3, 2)
    assert all(math.isfinite(loss) for loss in known.truth.values())
