"""The time left is replayed from what a run wrote down: `benchmarks/speed/time_left.py`."""

from pathlib import Path

from benchmarks.speed.time_left import Replay
from fathom.search.study.keys.config import dump
from tests.support.dry_run import Simulation, scheduler, study


def test_at_the_end_of_a_replayed_run_nothing_is_left(tmp_path: Path) -> None:
    config = study()
    search = scheduler(config, tmp_path)
    Simulation(search).run()
    search.folder.config.write_text(dump(config))
    shown = [*Replay(search.folder).shown()]
    assert shown[0].left is None, "too early to say"
    assert [line.at for line in shown] == sorted(line.at for line in shown)
    last = shown[-1].left
    assert last
    assert last.seconds == 0
