"""Optuna's studies, a copy of what the records say: `search/scheduling/optuna_studies.py`."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.trial import FrozenTrial

from fathom.search.records import Outcome
from fathom.search.run_folder import read_records
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.groups import Sampler
from tests.support.dry_run import Simulation, optuna_trials, scheduler, study

CONFIG = study(sampler=Sampler.TPE, trials=14)


def essence(search: Scheduler) -> list[list[object]]:
    """The trials of every study as another tool sees them, without Optuna's own ids."""

    def of(trial: FrozenTrial) -> object:
        attributes = {"state", "values", "params", "user_attrs", "datetime_start"}
        kept = {name: getattr(trial, name) for name in sorted(attributes)}
        return kept | {"intermediate": trial.intermediate_values, "end": trial.datetime_complete}

    return [[of(trial) for trial in optuna_trials(search, params)] for params in search.budgets]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    path.write_bytes(b"\x00\xffnot Optuna's\n" * 9)


def short_of_the_last(path: Path) -> None:
    """The state after a kill between writing the last record and copying it to Optuna."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize("lose", [Path.unlink, emptied, foreign, short_of_the_last])
def test_trials_missing_in_optuna_s_file_are_added_from_the_records(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    search = scheduler(CONFIG, tmp_path)
    Simulation(search).run(events=90)
    assert any(record.outcome is Outcome.STOPPED for record in search.records)
    before = essence(search)
    lose(search.folder.optuna)
    assert essence(scheduler(CONFIG, tmp_path)) == before


def test_without_its_file_optuna_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    def rest(path: Path, *, lose: bool) -> list[object]:
        Simulation(scheduler(CONFIG, path)).run(events=60)
        search = scheduler(CONFIG, path)
        if lose:
            search.folder.optuna.unlink()
            search = scheduler(CONFIG, path)
        Simulation(search).run()
        return [(r.spec, r.outcome) for r in read_records(search.folder.records)]

    assert rest(tmp_path / "lost", lose=True) == rest(tmp_path / "kept", lose=False)


def test_a_file_that_optuna_cannot_read_is_put_aside_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search = scheduler(CONFIG, tmp_path)
    Simulation(search).run(events=40)
    foreign(search.folder.optuna)
    damaged = search.folder.optuna.read_bytes()
    with caplog.at_level(logging.WARNING):
        scheduler(CONFIG, tmp_path)
    (line,) = (record.getMessage() for record in caplog.records)
    assert f"can't read {search.folder.optuna}" in line
    assert "written anew from the records" in line
    assert "\n" not in line
    assert search.folder.optuna.with_name("optuna.log.damaged").read_bytes() == damaged


def test_a_resumed_search_adds_nothing_to_a_complete_file(tmp_path: Path) -> None:
    search = scheduler(CONFIG, tmp_path)
    Simulation(search).run()
    before = essence(search)
    Simulation(scheduler(CONFIG, tmp_path)).run()
    assert essence(search) == before
    names = [trial.user_attrs["trial"] for trial in optuna_trials(search, 20_000)]
    assert len(names) > len(set(names)), "one that paused and went on has two ends"
