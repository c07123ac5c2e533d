"""Does the rate carry over both depths of a model with an encoder?"""

import json

import pytest

from fathom.models.parametrization import Scheme
from fathom.search.commands.check.check import (
    TWO_STACKS,
    CoordinateCheck,
    SizeAxis,
    check_on,
    coordinate_check,
)
from fathom.search.commands.check.output import check_json, scope
from fathom.search.commands.check.probe import Probe
from fathom.search.study.keys.config import StudyConfig, parse
from tests.support.reversal import Reversal

SHORT = Probe(steps=4, tokens_per_step=16, seeds=1, depths=(1, 2), width=8, widening=2)


def study(scheme: Scheme = Scheme.COMPLETEP) -> StudyConfig:
    values = {
        "study": "two-stacks",
        "objective": {"name": "tests.support.reversal:Reversal", "context": 8},
        "budgets": ["40k"],
        "tokens": "10k",
        "space": {"split": "1-1", "depth": [1, 12], "n_heads": 2},
        "model": {"parametrization": {"scheme": scheme.value}},
    }
    return parse(json.dumps(values))


def checked(scheme: Scheme, axis: SizeAxis) -> CoordinateCheck:
    return coordinate_check(study(scheme), axis)


@pytest.mark.drill
@pytest.mark.parametrize("axis", TWO_STACKS)
def test_activations_change_alike_at_any_size_under_completep(axis: SizeAxis) -> None:
    found = checked(Scheme.COMPLETEP, axis)
    assert len(found.sizes) == 4
    assert found.flat, found.exponents


@pytest.mark.drill
@pytest.mark.parametrize("axis", [SizeAxis.ENCODER_DEPTH, SizeAxis.DECODER_DEPTH])
def test_over_neither_depth_under_mup(axis: SizeAxis) -> None:
    assert not checked(Scheme.MUP, axis).flat


def test_a_check_sweeps_each_depth_and_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fathom.search.commands.check.check.coordinate_check", lambda config, axis: None
    )
    result = check_on(study(), Reversal(), lambda *_: None, SHORT)
    sizes = [(sweep.shape.encoder_depth, sweep.shape.decoder_depth) for sweep in result.sweeps]
    assert sizes == [(1, 1), (2, 1), (1, 2), (1, 1)]
    assert result.sweeps[3].shape.d_model == 2 * result.base.shape.d_model
    assert [axis["axis"] for axis in check_json(result)["axes"]] == list(map(str, TWO_STACKS))
    assert "depth x width 1-1 x 8, 2-1 x 8, 1-2 x 8, 1-1 x 16" in scope(result)
