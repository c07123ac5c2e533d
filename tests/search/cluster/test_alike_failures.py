"""Trials that all fail alike end a search, and are not held against it: `alike_failures.py`."""

from pathlib import Path

import pytest

from fathom.search.cluster.alike_failures import AlikeFailures, AllTrialsFailError
from fathom.search.records import CurvePoint, Outcome, Report
from fathom.search.run_folder import RunFolder

POINT = CurvePoint(
    step=1, tokens=1, loss=1.0, train_loss=1.0, train_seconds=1.0, time=0.0, metrics={}
)


def failed(reason: str) -> Report:
    return Report(points=(), outcome=Outcome.FAILED, reason=reason)


@pytest.fixture
def alike(tmp_path: Path) -> AlikeFailures:
    folder = RunFolder(tmp_path)
    folder.create()
    return AlikeFailures(folder, ())


def test_three_that_fail_alike_end_the_search_once_no_other_runs(alike: AlikeFailures) -> None:
    for number, trial in enumerate("abc"):
        assert not alike.many
        assert alike.holds(trial, failed(f"exit status 1: no module named x (process {number})"))
    assert alike.many
    alike.check("abcd")
    with pytest.raises(
        AllTrialsFailError, match=r"all 3 so far failed alike: .*process 0"
    ) as raised:
        alike.check("abc")
    assert "\n" not in str(raised.value)
    assert not alike.released()


@pytest.mark.parametrize("other", [Report(points=(POINT,)), failed("another reason")])
def test_a_loss_or_another_reason_lets_the_failures_stand(
    alike: AlikeFailures, other: Report
) -> None:
    first = failed("no GPU")
    assert alike.holds("a", first)
    assert not alike.holds("b", other)
    assert alike.released() == {"a": first}
    for trial in "cde":
        assert not alike.holds(trial, failed("no GPU")), "from then on failures are recorded"
    alike.check(())


def test_what_says_nothing_of_other_trials_is_passed_on(alike: AlikeFailures) -> None:
    assert alike.holds("a", failed("no GPU"))
    for report in (Report(points=(), saved=True), Report(points=(), outcome=Outcome.OUT_OF_MEMORY)):
        assert not alike.holds("b", report)
        assert not alike.released()
    assert alike.held == {"a"}


def test_a_failed_start_leaves_no_state_to_resume_from(
    alike: AlikeFailures, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    (folder.checkpoint("a").with_suffix("")).mkdir()
    log = folder.checkpoint("a").with_suffix(".log")
    log.write_text("Traceback\n", encoding="utf-8")
    alike.holds("a", failed("exit status 1"))
    with pytest.raises(AllTrialsFailError, match=r"a\.log has all it printed"):
        alike.check("a")
    assert [path.name for path in log.parent.glob("a*")] == ["a.log"]
