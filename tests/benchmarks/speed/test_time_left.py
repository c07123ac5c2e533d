"""The time left is replayed from what a run wrote down: `benchmarks/speed/time_left.py`."""

from pathlib import Path

import pytest

from benchmarks.speed.time_left import Told, jumps, replayed
from fathom.search.study.file.study_file import dump
from fathom.search.study.timing.time_left import TimeLeft
from tests.support.dry_run import Simulation, scheduler, study


def test_at_the_end_of_a_replayed_run_nothing_is_left(tmp_path: Path) -> None:
    config = study()
    search = scheduler(config, tmp_path)
    Simulation(search).run()
    search.folder.config.write_text(dump(config))
    told = [*replayed(str(tmp_path)).told()]
    assert told[0].left is None, "too early to say"
    assert [moment.at for moment in told] == sorted(moment.at for moment in told)
    last = told[-1].left
    assert last
    assert last.high_busy == 0
    later = [*replayed(f"{tmp_path}@{told[-1].at / 2}").told()]
    assert later[-1].at == pytest.approx(told[-1].at / 2), "a run that was resumed there"


def test_ranges_that_have_no_end_in_common_are_a_jump() -> None:
    ranges = [TimeLeft(low, low + 10, 0, 0) for low in (50, 45, 20, 30)]
    told = [Told(10.0 * at, left) for at, left in enumerate(ranges)]
    assert jumps(told) == 2
