"""The check of a model of the user's own: short trainings alone, without a look inside."""

import io
import json

from rich.console import Console

from fathom.search.commands.check.check import check_on
from fathom.search.commands.check.output import check_json, print_check, print_opening
from fathom.search.commands.check.probe import Probe
from fathom.search.study.keys.config import parse
from tests.support.toy import Successor

SHORT = Probe(steps=24, tokens_per_step=48, seeds=2, width=8, depths=(1, 4), widening=2)


def test_one_rate_is_judged_by_short_trainings_of_the_users_model() -> None:
    config = parse("""
study: mine
objective: {name: language, context: 32}
budgets: [20k]
space: {depth: [1, 8], n_heads: 2}
model: {build: "tests.support.own_models:build"}
""")
    shown = Console(file=io.StringIO(), width=100)

    result = check_on(config, Successor(), lambda *_: None, SHORT)
    print_opening(config, SHORT, shown)
    print_check(result, shown)

    assert all(axis.coordinates is None for axis in result.axes)
    assert [axis.carries_over for axis in result.axes] == [axis.rate_stays for axis in result.axes]
    values = json.loads(json.dumps(check_json(result)))
    assert values["scheme"] is None
    assert values["axes"][0]["coordinate_exponents"] is None
    assert all(sweep.shape.own_counts for sweep in result.sweeps)
    said = shown.file.getvalue()  # type: ignore[attr-defined]
    assert "under the same rate for all weights" in said
    assert "was not checked" in said
