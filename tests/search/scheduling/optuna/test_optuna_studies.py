"""Optuna's studies, a copy of the records: `search/scheduling/optuna/optuna_studies.py`."""

import errno
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState

from fathom.search.analysis.answer.finding import find_optima
from fathom.search.json_lines import read_lines
from fathom.search.records import Outcome
from fathom.search.run_folder import read_records
from fathom.search.scheduling.optuna.optuna_studies import Copy, Studies, open_file
from fathom.search.scheduling.optuna.optuna_trials import StudyContents, answer_attributes
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.groups import Sampler
from tests.support.dry_run import Simulation, optuna_trials, scheduler, study

CONFIG = study(sampler=Sampler.TPE, trials=14)
STATES: dict[Outcome | None, str] = {Outcome.FINISHED: "COMPLETE", Outcome.STOPPED: "PRUNED"}


@pytest.fixture(scope="module")
def ended_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a search that has ended, to be read and copied."""
    folder = tmp_path_factory.mktemp("ended")
    Simulation(scheduler(CONFIG, folder)).run()
    return folder


@pytest.fixture
def ended(ended_folder: Path, tmp_path: Path) -> Scheduler:
    """A search that has ended, in a folder of its own."""
    shutil.copytree(ended_folder, tmp_path, dirs_exist_ok=True)
    return scheduler(CONFIG, tmp_path)


def by_name(search: Scheduler, params: int) -> dict[str, FrozenTrial]:
    """The trials of a budget in Optuna's file by name, each of which stands there once."""
    trials = optuna_trials(search, params)
    named = {trial.user_attrs["trial"]: trial for trial in trials}
    assert len(named) == len(trials)
    return named


def essence(search: Scheduler) -> list[dict[str, list[object]]]:
    """The trials of every study as another tool sees them, by name, but for those that run again:
    without Optuna's own ids, and the times at which it was told."""
    kept = ("state", "values", "params", "user_attrs", "datetime_start", "intermediate_values")
    found = []
    for params, budget in search.budgets.items():
        trials = by_name(search, params)
        ended = sorted(record.spec.trial for record in budget.ended)
        found.append({name: [getattr(trials[name], key) for key in kept] for name in ended})
    return found


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    path.write_bytes(b"\x00\xffnot Optuna's\n" * 9)


def with_a_last_line_of_another_kind(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"what Optuna passes over until another line follows\n")


def short_of_the_last(path: Path) -> None:
    """The state after a kill between writing the last record and copying it to Optuna."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def with_a_trial_twice(path: Path) -> None:
    """The state that a version left which wrote every end of a resumed trial."""
    study = optuna.load_study(study_name="simulated/20k", storage=open_file(path))
    study.add_trial(study.get_trials()[0])


@pytest.mark.parametrize(
    "lose", [Path.unlink, emptied, foreign, short_of_the_last, with_a_trial_twice]
)
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


@pytest.mark.parametrize("damage", [foreign, with_a_last_line_of_another_kind])
def test_a_file_that_optuna_cannot_read_is_put_aside_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    search = scheduler(CONFIG, tmp_path)
    Simulation(search).run(events=40)
    damage(search.folder.optuna)
    damaged = search.folder.optuna.read_bytes()
    with caplog.at_level(logging.WARNING):
        Simulation(scheduler(CONFIG, tmp_path)).run()
    (line,) = (record.getMessage() for record in caplog.records)
    assert f"can't read {search.folder.optuna}" in line
    assert "rewritten from the records" in line
    assert "\n" not in line
    assert search.folder.optuna.with_name("optuna.log.damaged").read_bytes() == damaged


def test_a_quota_that_allows_no_second_name_for_a_file_keeps_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    search = scheduler(study(), tmp_path)
    monkeypatch.setattr("optuna.storages.journal._file.os.rename", refuse)
    storage = open_file(search.folder.optuna)
    optuna.create_study(study_name="mine", storage=storage)

    assert "mine" in optuna.get_all_study_names(storage)
    assert not list(search.folder.optuna.parent.glob("*.lock*"))


def test_the_lines_of_many_trials_need_one_lock(
    ended: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(target: str, name: str) -> None:
        locks.append(name)
        symlink(target, name)

    locks: list[str] = []
    symlink = os.symlink
    budget = ended.budgets[20_000]
    contents = StudyContents(space=budget.public_space, records=tuple(budget.ended), done=True)
    monkeypatch.setattr("optuna.storages.journal._file.os.symlink", link)
    studies = Studies(tmp_path / "another.log")
    studies.update("mine", contents)
    assert len(locks) == 1
    studies.update("mine", contents)
    assert len(locks) == 2
    assert not list(tmp_path.glob("*.lock*"))


def test_a_resumed_search_adds_nothing_to_a_complete_file(ended: Scheduler, tmp_path: Path) -> None:
    before = essence(ended)
    Simulation(scheduler(CONFIG, tmp_path)).run()
    assert essence(ended) == before


@pytest.mark.parametrize("kills", [(), (20, 45, 70, 95)])
def test_each_trial_of_every_stage_stands_once_however_often_the_run_was_killed(
    tmp_path: Path, kills: tuple[int, ...]
) -> None:
    for events in kills:
        Simulation(scheduler(CONFIG, tmp_path)).run(events=events)
    search = scheduler(CONFIG, tmp_path)
    Simulation(search).run()
    ends = Counter(line["trial"] for line in read_lines(search.folder.records))
    assert max(ends.values()) > 1, "one that paused and was resumed has two ends in the records"
    for params, budget in search.budgets.items():
        trials = by_name(search, params)
        assert trials.keys() == {record.spec.trial for record in budget.ended}
        for record in budget.ended:
            trial = trials[record.spec.trial]
            assert trial.user_attrs["outcome"] == record.outcome
            assert trial.state.name == STATES[record.outcome]
            assert trial.user_attrs["stage"] == record.spec.stage
            assert trial.value == record.loss
            assert trial.params["depth"] == record.spec.shape.depth
            assert record.rungs.items() <= trial.intermediate_values.items()
            forecast = trial.user_attrs["forecast"]
            assert (forecast is not None) == (record.outcome is Outcome.STOPPED)


def test_a_paused_trial_waits_until_it_is_resumed_or_its_search_is_done(tmp_path: Path) -> None:
    search = scheduler(CONFIG, tmp_path)
    simulation = Simulation(search)
    paused: set[str] = set()
    while not search.done:
        simulation.run(events=12)
        trials = by_name(search, 40_000)
        waiting = {name for name in trials if trials[name].state is TrialState.WAITING}
        assert all(trials[name].intermediate_values for name in waiting)
        assert all(1.9 < trials[name].user_attrs["forecast"] < 2.8 for name in waiting)
        paused |= waiting
    assert {trials[name].state for name in paused} == {TrialState.COMPLETE, TrialState.PRUNED}


def test_an_ended_trial_that_goes_on_after_all_makes_the_study_anew(
    ended: Scheduler, tmp_path: Path
) -> None:
    budget = ended.budgets[20_000]
    shown = len(optuna_trials(ended, 20_000))
    stopped = next(r for r in budget.ended if r.outcome is Outcome.STOPPED)
    copy = Copy(open_file(ended.folder.optuna), "simulated/20k")
    extended = replace(stopped, outcome=Outcome.DIVERGED)
    records = tuple(extended if record is stopped else record for record in budget.ended)
    copy.write(StudyContents(space=budget.public_space, records=records, done=True))
    trials = by_name(ended, 20_000)
    assert len(trials) == shown
    assert trials[stopped.spec.trial].user_attrs["outcome"] == Outcome.DIVERGED


def test_the_study_names_the_answer_and_the_run_and_other_tools_can_read_it(
    ended: Scheduler,
    tmp_path: Path,
) -> None:
    (optimum, _) = optima = find_optima(ended.records, seed=0)
    ended.conclude(optima)
    study = optuna.load_study(study_name="simulated/20k", storage=open_file(ended.folder.optuna))
    assert study.metric_names == ["loss"]
    answer = study.user_attrs
    assert answer["run_folder"] == str(tmp_path.resolve())
    assert (answer["budget"], answer["count"]) == (20_000, "non_embedding")
    assert answer["optimal_depth"] == optimum.optimal_depth
    assert answer["verdict"] == optimum.kind
    assert optimum.shape
    same = study.best_trial.params["depth"] == optimum.shape.depth
    assert ("has the best shape" in answer["best_trial"]) or not same
    assert optuna.importance.get_param_importances(study).keys() == {"depth", "d_model", "ff_ratio"}
    with pytest.warns(ExperimentalWarning):
        figure = optuna.visualization.matplotlib.plot_intermediate_values(study)
    assert len(figure.lines) == sum(bool(trial.intermediate_values) for trial in study.trials)


def test_a_best_trial_of_another_shape_is_explained(ended: Scheduler) -> None:
    optimum, _ = find_optima(ended.records, seed=0)
    records = ended.budgets[20_000].ended
    lowest = min((r for r in records if r.loss), key=lambda r: r.loss or 9.0)
    other = next(r for r in records if r.spec.shape != lowest.spec.shape)
    said = answer_attributes(replace(optimum, shape=other.spec.shape), records)
    assert f"the lowest single loss is of depth {lowest.spec.shape.depth}" in str(
        said["best_trial"]
    )
