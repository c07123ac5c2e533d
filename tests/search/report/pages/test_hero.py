"""The top of the page, and what is next: `search/report/pages/hero.py`."""

from dataclasses import replace

import pytest
import yaml

from fathom.models.layers.experts import Experts
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.report.pages.hero import next_commands, shape_yaml
from tests.support.models import SMALL
from tests.support.reporting import Records, conclusion_of


@pytest.fixture(scope="module")
def found(study: Records) -> Conclusion:
    return conclusion_of(study)


def test_the_page_names_the_commands_that_say_what_a_token_takes_at_each_depth(
    found: Conclusion,
) -> None:
    steps = next_commands(found)
    assert steps
    assert steps["latency"] == "fathom latency .\nfathom report ."


def test_it_names_none_for_models_that_do_not_add_a_token_at_a_time(found: Conclusion) -> None:
    model = found.config.model.model_copy(update={"bidirectional": True})
    other = found.config.model_copy(update={"model": model})
    steps = next_commands(replace(found, config=other))
    assert steps
    assert not steps["latency"]


def test_the_sizes_to_copy_have_the_options_that_few_shapes_have() -> None:
    plain = yaml.safe_load(shape_yaml(SMALL))
    grouped = yaml.safe_load(shape_yaml(replace(SMALL, groups=2)))
    experts = yaml.safe_load(shape_yaml(replace(SMALL, experts=Experts(number=4, top_k=2))))
    assert "groups" not in plain
    assert grouped["groups"] == 2
    assert experts["experts"]["top_k"] == 2
