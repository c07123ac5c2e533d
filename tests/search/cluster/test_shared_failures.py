"""Trials that all fail for one reason end a search and are not recorded: `shared_failures.py`."""

from pathlib import Path

import pytest

from fathom.search.cluster.shared_failures import AllTrialsFailError, SharedFailures
from fathom.search.records import CurvePoint, Outcome, Report
from fathom.search.run_folder import RunFolder

POINT = CurvePoint(
    step=1, tokens=1, loss=1.0, train_loss=1.0, train_seconds=1.0, time=0.0, metrics={}
)


def failed(reason: str) -> Report:
    return Report(points=(), outcome=Outcome.FAILED, reason=reason)


@pytest.fixture
def shared(tmp_path: Path) -> SharedFailures:
    folder = RunFolder(tmp_path)
    folder.create()
    return SharedFailures(folder, ())


def test_three_that_fail_alike_end_the_search_once_no_other_runs(shared: SharedFailures) -> None:
    for number, trial in enumerate("abc"):
        assert not shared.many
        assert shared.holds(trial, failed(f"exit status 1: no module named x (process {number})"))
    assert shared.many
    shared.check("abcd")
    with pytest.raises(
        AllTrialsFailError, match=r"all 3 so far failed for one reason: .*process 0"
    ) as raised:
        shared.check("abc")
    assert "\n" not in str(raised.value)
    assert not shared.released()


@pytest.mark.parametrize("other", [Report(points=(POINT,)), failed("another reason")])
def test_a_loss_or_another_reason_lets_the_failures_stand(
    shared: SharedFailures, other: Report
) -> None:
    first = failed("no GPU")
    assert shared.holds("a", first)
    assert not shared.holds("b", other)
    assert shared.released() == {"a": first}
    for trial in "cde":
        assert not shared.holds(trial, failed("no GPU")), "from then on failures are recorded"
    shared.check(())


def test_what_says_nothing_of_other_trials_is_passed_on(shared: SharedFailures) -> None:
    assert shared.holds("a", failed("no GPU"))
    for report in (Report(points=(), saved=True), Report(points=(), outcome=Outcome.OUT_OF_MEMORY)):
        assert not shared.holds("b", report)
        assert not shared.released()
    assert shared.held == {"a"}


def test_a_failed_start_leaves_no_state_to_resume_from(
    shared: SharedFailures, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    (folder.checkpoint("a").with_suffix("")).mkdir()
    log = folder.checkpoint("a").with_suffix(".log")
    log.write_text("Traceback\n", encoding="utf-8")
    shared.holds("a", failed("exit status 1"))
    with pytest.raises(AllTrialsFailError, match=r"a\.log has all it printed"):
        shared.check("a")
    assert [path.name for path in log.parent.glob("a*")] == ["a.log"]
