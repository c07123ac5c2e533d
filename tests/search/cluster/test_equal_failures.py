"""Failures in a row for one reason end a search, unless a shape or a host may be the cause."""

from dataclasses import replace

import pytest

from fathom.search.cluster.equal_failures import EqualFailures
from fathom.search.cluster.worker_failures import AllTrialsFailError
from fathom.search.records import CurvePoint, Outcome, Report
from tests.support.training import SHAPE

POINT = CurvePoint(step=1, tokens=1, loss=1.0, train_loss=1.0, train_seconds=1.0, time=0.0)
DEEPER = replace(SHAPE, depth=SHAPE.depth + 1)


def failed(reason: str = "exit status 1 at step 70") -> Report:
    return Report(points=(POINT,), outcome=Outcome.FAILED, reason=reason)


def test_three_equal_ones_end_a_search_whatever_their_numbers() -> None:
    equal = EqualFailures(lambda: {"here"})
    for shape, step in ((SHAPE, 50), (DEEPER, 60), (SHAPE, 70)):
        equal.check()
        equal.heard(failed(f"exit status 1 at step {step}"), shape, "here")
    assert equal.many
    with pytest.raises(AllTrialsFailError, match="last 3 failed for one reason") as end:
        equal.check()
    assert "\n" not in str(end.value)


@pytest.mark.parametrize(
    "between", [Report(points=(POINT,), outcome=Outcome.FINISHED), failed("another reason")]
)
def test_a_trial_that_finishes_or_fails_otherwise_between_them_lets_it_go_on(
    between: Report,
) -> None:
    equal = EqualFailures(lambda: {"here"})
    for report in (failed(), failed(), between, failed(), failed()):
        equal.heard(report, DEEPER, "here")
    equal.heard(Report(points=(POINT,), outcome=Outcome.DIVERGED), SHAPE, "here")
    assert not equal.many


def test_failures_of_one_shape_or_of_one_host_of_several_end_nothing() -> None:
    equal = EqualFailures(lambda: {"a", "b"})
    for host in "aba":
        equal.heard(failed(), SHAPE, host)
    assert not equal.many, "the shape may be the cause"
    equal.heard(failed(), DEEPER, "a")
    with pytest.raises(AllTrialsFailError):
        equal.check()
    equal = EqualFailures(lambda: {"a", "b"})
    for shape in (SHAPE, DEEPER, SHAPE):
        equal.heard(failed(), shape, "a")
    assert not equal.many, "the host may be the cause"
