"""`fathom predict CONFIGS`: a ladder of models beside a law."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.models.shape import Count
from fathom.search.analysis.laws.token_law import fit_token_law
from fathom.search.commands import ladder as checking
from fathom.search.conclusion.named_law import law_over_sizes
from fathom.search.conclusion.token_laws import PartLaw, write_token_laws
from tests.support.command_line import assert_refused, here
from tests.support.contract import valid
from tests.support.optima import BUDGETS, optimum, token_ladder, token_law_depth

PYTHIA = """model,n_layer,d_model,params_total,params_non_embedding
410m,24,1024,405334016,302311424
1b,16,2048,1011781632,805736448
2.8b,32,2560,2775208960,2517652480
"""


@pytest.fixture
def ladder(tmp_path: Path) -> Path:
    file = tmp_path / "pythia.csv"
    file.write_text(PYTHIA)
    return file


def test_the_rung_that_is_off_is_named_with_its_factor(ladder: Path) -> None:
    done = here("predict", ladder)
    assert done.returncode == 0
    assert "1b is too shallow by a factor of 2.42." in done.stdout
    assert "410m is too" not in done.stdout
    assert "--doubling says what twice the best depth costs" in done.stdout
    assert "39 x 1280" in done.stdout  # the layers' parameters at the law's depth


def test_what_twice_the_best_depth_costs_prices_each_rung_and_bends_the_line(ladder: Path) -> None:
    done = here("predict", ladder, "--doubling", "0.02")
    assert "1b is too shallow by a factor of 2.42, which costs 0.0324 nats." in done.stdout
    assert "nats too high at 25.2B, 10 times the largest." in done.stdout


def test_programs_get_the_same_numbers(ladder: Path) -> None:
    printed = here("predict", ladder, "--doubling", "0.02", "--json").stdout
    found = valid(json.loads(printed))["ladder"]
    assert [rung["is_off"] for rung in found["rungs"]] == [False, True, False]
    assert found["rungs"][1]["cost"] == pytest.approx(0.0324, abs=1e-4)
    assert found["rungs"][1]["instead"]["depth"] == 39
    assert found["bend"] > 0


def test_the_law_of_a_run_counts_as_the_run_and_knows_what_a_depth_costs(
    ladder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    optima = [optimum(budget, 4 * (budget / BUDGETS[0]) ** 0.2) for budget in BUDGETS]
    monkeypatch.setattr(checking, "law_at", lambda law: law_over_sizes(law, optima))
    found = checking.check_ladder([ladder], str(tmp_path), None, [])
    assert found.count == Count.NON_EMBEDDING
    assert found.rungs[0].rung.params == 302311424
    for each in found.rungs:
        assert each.prediction is not None
        assert each.prediction.extrapolated
        assert each.cost_interval is not None


def test_a_law_over_tokens_takes_those_of_each_rung(ladder: Path, tmp_path: Path) -> None:
    law = fit_token_law(token_ladder())
    assert law is not None
    write_token_laws(tmp_path / "laws.json", [PartLaw(law=law)])
    assert_refused(
        here("predict", ladder, "--law", tmp_path / "laws.json"), "410m has none", "`tokens`"
    )
    lines = [f"{line},3B" for line in PYTHIA.splitlines()]
    ladder.write_text("\n".join(lines).replace(",3B", ",tokens", 1))
    found = checking.check_ladder([ladder], str(tmp_path / "laws.json"), None, [])
    for each in found.rungs:
        assert each.prediction is not None
        expected = token_law_depth(each.rung.params, 3e9)
        assert each.prediction.depth == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("doubling", ["nan", "0", "-1", "inf"])
def test_what_twice_the_depth_costs_is_a_number_above_0(ladder: Path, doubling: str) -> None:
    assert_refused(here("predict", ladder, f"--doubling={doubling}"), "--doubling", "above 0")


def test_a_ladder_or_a_law_that_is_not_there_is_refused(ladder: Path, tmp_path: Path) -> None:
    assert_refused(here("predict", tmp_path / "none.csv"), "none.csv", "sizes of models")
    assert_refused(here("predict", ladder, "--law", tmp_path / "no.json"), "no.json")
    (tmp_path / "bad.csv").write_text("depth,d_model\n0,64\n")
    assert_refused(here("predict", tmp_path / "bad.csv"), "bad.csv:2", "from 1 to 10,000")


def test_a_run_that_counts_no_parameters_is_refused(
    ladder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    matrices = [
        replace(optimum(budget, 4 * (budget / BUDGETS[0]) ** 0.2), count=Count.MATRICES)
        for budget in BUDGETS
    ]
    monkeypatch.setattr(checking, "law_at", lambda law: law_over_sizes(law, matrices))
    assert_refused(here("predict", ladder, "--law", tmp_path), "matrices")


def test_a_size_beside_models_is_refused(ladder: Path) -> None:
    assert_refused(
        here("predict", ladder, "--params", "1B"), "left out with CONFIGS", "--params 1B"
    )


def test_options_for_models_without_models_are_refused() -> None:
    assert_refused(here("predict", "--doubling", "0.02"), "`--doubling` and `--map` need CONFIGS")
