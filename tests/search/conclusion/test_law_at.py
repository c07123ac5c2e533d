"""The law that `--law` names, wherever it is kept."""

from pathlib import Path

import pytest

from fathom.models.shape import Count
from fathom.search.analysis.laws.law import price, usual_curvature
from fathom.search.analysis.laws.published import Levine2020
from fathom.search.analysis.laws.token_law import fit_token_law
from fathom.search.conclusion.law_at import law_at
from fathom.search.conclusion.named_law import law_over_sizes
from fathom.search.conclusion.token_laws import PartLaw, write_token_laws
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from tests.support.optima import BUDGETS, CURVES, optimum, token_ladder


def test_the_published_law_counts_without_embeddings() -> None:
    found = law_at("levine2020")

    assert found.count is Count.NON_EMBEDDING
    assert found.law.predict(1e9) == Levine2020().predict(1e9)


def test_a_file_a_folder_and_its_best_yaml_name_the_same_law(tmp_path: Path) -> None:
    law = fit_token_law(token_ladder())
    assert law is not None
    folder = RunFolder(tmp_path)
    write_token_laws(folder.token_law, [PartLaw(law=law)])

    for named in (folder.token_law, folder.path, folder.best):
        found = law_at(str(named), needs_tokens="--tokens")
        assert (found.law, found.count) == (law, law.count)
        with pytest.raises(ValueError, match="`tokens` must be a positive number, got None"):
            found.law.predict(1e9)


@pytest.mark.parametrize("named", ["levin", "none.json", "best.yaml", "."])
def test_a_place_without_a_law_is_refused_with_those_that_have_one(
    named: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="`--law` must be levine2020, a run folder"):
        law_at(str(tmp_path / named))


def test_a_law_of_budgets_prices_a_depth_by_their_curvature() -> None:
    optima = [optimum(budget, 4 * (budget / BUDGETS[0]) ** 0.2) for budget in BUDGETS]
    found = law_over_sizes("runs/mine", optima)

    assert found.curvature == CURVES.parabola.c2
    said = found.law.predict(1e6)
    assert said.interval
    best, twice = (price(depth, said, found.curvature) for depth in (5, 10))
    assert best.interval[0] == 0 < best.nats < twice.interval[0] < twice.nats < twice.interval[1]
    assert usual_curvature([None, None]) is None
