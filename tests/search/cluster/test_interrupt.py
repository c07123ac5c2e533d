"""How long the end of a search waits: `search/cluster/interrupt.py`."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.search.cluster.interrupt import Interrupt, seconds_to_save
from fathom.search.records import CurvePoint, TrialRecord
from tests.support.training import SHAPE, SPEC


def record(params: float = 0, *, step_seconds: float | None = None) -> TrialRecord:
    """A trial under way, with at least so many parameters and so long steps."""
    curve: tuple[CurvePoint, ...] = ()
    if step_seconds is not None:
        curve = (
            CurvePoint(
                step=10, tokens=10, loss=1.0, train_loss=1.0, train_seconds=10 * step_seconds,
                time=0.0, metrics={},
            ),
        )  # fmt: skip
    return TrialRecord(
        spec=replace(SPEC, shape=replace(SHAPE, vocab_size=int(params / SHAPE.d_model) + 8)),
        outcome=None, reason="", curve=curve, rungs={}, started=0.0, ended=None,
        setup_seconds=0.0, peak_memory_bytes=None,
    )  # fmt: skip


def test_small_trials_have_half_a_minute() -> None:
    assert seconds_to_save([]) == 30
    assert seconds_to_save([record(), record()]) == pytest.approx(30, abs=0.1)


def test_large_states_have_the_time_of_a_slow_disk() -> None:
    assert seconds_to_save([record(1e9)]) == pytest.approx(30 + 12e9 / 50e6, rel=0.01)
    assert seconds_to_save([record(1e9)] * 8) == pytest.approx(30 + 8 * 12e9 / 50e6, rel=0.01)


def test_a_step_under_way_may_end() -> None:
    slow = [record(step_seconds=1.0), record(step_seconds=127.0), record()]
    assert seconds_to_save(slow) == pytest.approx(30 + 2 * 127, abs=0.1)


def test_the_end_is_overdue_after_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, interrupt = [100.0], Interrupt()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    assert not interrupt.is_overdue([])
    interrupt.request(tmp_path / "ending")
    now[0] += 31
    assert interrupt.is_overdue([])
    assert not interrupt.is_overdue([record(1e9)])


def test_the_first_error_is_kept_also_after_a_user_has_asked_for_the_end(tmp_path: Path) -> None:
    asked, failed, full = Interrupt(), Interrupt(), OSError(errno.ENOSPC, "No space left")
    asked.request(tmp_path / "ending")
    assert asked.error is None
    for interrupt in (asked, failed):
        interrupt.request(tmp_path / "ending", full)
        interrupt.request(tmp_path / "ending", ValueError("a later one"))
        interrupt.request(tmp_path / "ending")
        assert interrupt.error is full
