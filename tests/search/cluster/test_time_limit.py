"""The hours of a search over all its runs: `search/cluster/time_limit.py`."""

from pathlib import Path

import pytest

from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.time_limit import TimeLimit, spent_seconds
from fathom.search.run_folder import RunFolder


def new_folder(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.create()
    return folder


def test_hours_of_earlier_runs_count_and_the_search_is_asked_to_end(tmp_path: Path) -> None:
    folder, now, said = new_folder(tmp_path), [1000.0], list[str]()
    first = TimeLimit(folder, 1.0, now[0], Interrupt(), lambda: now[0])
    now[0] += 3000
    first.tick(said.append)  # killed after this

    interrupt = Interrupt()
    now[0] = 90_000.0
    second = TimeLimit(folder, 1.0, now[0], interrupt, lambda: now[0])
    second.tick(said.append)
    assert said == []
    now[0] += 601
    second.tick(said.append)
    second.tick(said.append)

    assert (second.over, interrupt.requested, folder.ending.exists()) == (True, True, True)
    assert said == ["1 hours are over: trials under way save"]
    assert spent_seconds(folder) == 3601.0
    assert TimeLimit(folder, 1.0, now[0], Interrupt(), lambda: now[0]).over
    assert not TimeLimit(folder, 2.0, now[0], Interrupt(), lambda: now[0]).over
    assert not TimeLimit(folder, None, now[0], Interrupt(), lambda: now[0]).over


@pytest.mark.parametrize("damage", ["", "soon", "-3", "nan", "inf", "\0"])
def test_a_damaged_note_of_the_time_counts_as_none(tmp_path: Path, damage: str) -> None:
    folder = new_folder(tmp_path)
    folder.seconds.write_text(damage)

    assert spent_seconds(folder) == 0.0
