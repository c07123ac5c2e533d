"""Stopped trials resumed after a failed audit: `scheduling/extend.py`, on planted losses."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.models.shape import Count
from fathom.search.conclusion.conclude import audit_budgets
from fathom.search.json_lines import read_lines
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.run_folder import read_records
from fathom.search.scheduling.audit import RungAudit
from fathom.search.scheduling.extend import Extension, extend, forget_checkpoints, waits, warnings
from fathom.search.scheduling.halving import HalvingRule
from fathom.search.scheduling.journal import read_past
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import StoppingConfig
from fathom.search.study.planning.budget import Budget, evaluation_steps, rung_steps
from tests.support.dry_run import Simulation, optuna_trials, scheduler, slow_deep, study

PARAMS = 20_000
CONFIG: StudyConfig = study(
    budgets=(PARAMS,),
    trials=16,
    stopping=StoppingConfig(first_rung=0.25, eta=2, always_finish=0.25),
)


def rungs_of(search: Scheduler) -> tuple[int, ...]:
    """Tokens of the study's rungs, and the horizon."""
    budget = search.budgets[PARAMS].budget
    steps = (*rung_steps(search.config, budget), budget.steps)
    return tuple(step * budget.tokens_per_step for step in steps)


def move_first_rung(search: Scheduler, position: int) -> int:
    """Extend as if the audit had asked for the rung of that position; its tokens."""
    tokens = rungs_of(search)[position]
    (audit, *_) = audit_budgets(search.records, CONFIG)[PARAMS]
    failed = replace(audit, depth_bias=1.0, rank_correlation=0.0, stopped=1, later=tokens)
    (extension,) = extend(
        search.folder, read_past(search.folder), {PARAMS: [failed]}, budgets(search)
    )
    assert extension.first_rung == tokens
    return tokens


def budgets(search: Scheduler) -> list[Budget]:
    return [state.budget for state in search.budgets.values()]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    """A study that ran to its end and stopped deep trials early."""
    search = scheduler(CONFIG, tmp_path_factory.mktemp("first"))
    Simulation(search, slow_deep).run()
    assert any(record.outcome is Outcome.STOPPED for record in search.records)
    return search


@pytest.fixture
def again(first: Scheduler, tmp_path: Path) -> Scheduler:
    """A copy of the run folder of `first`, to be changed."""
    shutil.copytree(first.folder.path, tmp_path, dirs_exist_ok=True)
    return scheduler(CONFIG, tmp_path)


@pytest.fixture(scope="module")
def extended(first: Scheduler, tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    """A copy of `first`, extended until nothing is stopped any more and searched to its end."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(first.folder.path, folder, dirs_exist_ok=True)
    move_first_rung(scheduler(CONFIG, folder), -1)
    search = scheduler(CONFIG, folder)
    assert not search.done
    Simulation(search, slow_deep).run()
    return search


def stopped(records: list[TrialRecord]) -> dict[str, TrialRecord]:
    return {r.spec.trial: r for r in records if r.outcome is Outcome.STOPPED}


def test_an_audit_that_failed_moves_the_first_rung_and_one_that_did_not_does_nothing(
    again: Scheduler,
) -> None:
    audits = audit_budgets(again.records, CONFIG)
    assert any(audit.failed for audit in audits[PARAMS])
    (extension,) = extend(again.folder, read_past(again.folder), audits, budgets(again))
    assert extension.again == len(stopped(again.records))
    assert extension.anew == extension.again, "a simulation has no checkpoints"
    before = again.folder.journal.read_text()
    assert json.loads(before.splitlines()[-1])["event"] == "extend"

    past = read_past(again.folder)
    assert extend(again.folder, past, audits, budgets(again)) == (), "it has moved already"
    fine: dict[int, tuple[RungAudit, ...]] = {
        PARAMS: tuple(replace(audit, stopped=0) for audit in audits[PARAMS])
    }
    assert extend(again.folder, past, fine, budgets(again)) == ()
    assert extend(again.folder, past, {}, budgets(again)) == ()
    assert again.folder.journal.read_text() == before


def test_with_no_rung_left_every_trial_trains_to_the_end_as_if_never_stopped(
    first: Scheduler, extended: Scheduler
) -> None:
    cut, search = stopped(first.records), extended
    records = {r.spec.trial: r for r in search.records}
    assert not stopped(search.records)
    budget = search.budgets[PARAMS].budget
    for trial, before in cut.items():
        record = records[trial]
        assert record.spec == before.spec
        assert record.outcome is Outcome.FINISHED
        assert record.curve[: len(before.curve)] == before.curve
        assert tuple(point.step for point in record.curve) == evaluation_steps(CONFIG, budget)
        assert sorted(record.rungs) == list(rungs_of(search)[:-1]), "dropped rungs stay on record"
    assert len(records) == len(search.records), "a trial has one record"
    assert read_records(search.folder.records) == search.records
    lines = Counter(line["trial"] for line in read_lines(search.folder.records))
    assert all(lines[trial] >= 2 for trial in cut)
    trials = optuna_trials(search, PARAMS)
    names = [trial.user_attrs["trial"] for trial in trials]
    assert set(cut) <= set(names)
    assert len(set(names)) == len(names)
    assert {trial.state.name for trial in trials} == {"COMPLETE"}
    events = [line["event"] for line in read_lines(search.folder.journal)]
    after = events[events.index("extend") :]
    last_resumed = max(place for place, event in enumerate(after) if event == "resumed")
    assert after.index("confirmations") > last_resumed, "confirming uses what was extended"


def test_at_the_new_first_rung_trials_are_compared_with_all_that_reached_it(
    again: Scheduler,
) -> None:
    """Trials stopped there among fewer resume when the later ones are worse."""
    first_rung = move_first_rung(again, 1)
    search = scheduler(CONFIG, again.folder.path)
    Simulation(search, slow_deep).run()
    assert search.done
    explored = [r for r in search.records if r.spec.stage is Stage.EXPLORE]
    assert all(first_rung in record.rungs for record in explored)
    for record in stopped(search.records).values():
        rung = max(record.rungs)
        assert rung >= first_rung
        promoted = HalvingRule(eta=2).promoted(explored, rung)
        assert record.spec.trial not in promoted


@pytest.mark.parametrize("events", [1, 6, 17, 40])
def test_a_killed_extension_resumes(again: Scheduler, events: int) -> None:
    move_first_rung(again, -1)
    second = scheduler(CONFIG, again.folder.path)
    Simulation(second, slow_deep).run(events=events)
    ended = {r.spec.trial: r for r in second.records}
    live = dict(second.live)

    third = scheduler(CONFIG, again.folder.path)
    assert {r.spec.trial: r for r in third.records} == ended
    assert third.live == live
    assert third.budgets[PARAMS].rule.first_rung == rungs_of(third)[-1]
    Simulation(third, slow_deep).run()
    assert not stopped(third.records)
    assert set(Counter(r.spec.trial for r in third.records).values()) == {1}
    attempts = Counter(line["trial"] for line in read_lines(third.folder.records))
    started = Counter(
        line["trial"]
        for line in read_lines(third.folder.journal)
        if line["event"] in ("started", "resumed")
    )
    assert attempts == started, "no attempt was made twice"


def test_the_extended_rung_holds_for_every_later_run(extended: Scheduler) -> None:
    later = scheduler(CONFIG, extended.folder.path)
    assert later.done
    assert later.budgets[PARAMS].rule.first_rung == rungs_of(later)[-1]
    audits = audit_budgets(later.records, CONFIG)
    assert not any(audit.failed for audit in audits[PARAMS]), "what stops nobody does no harm"
    assert warnings(audits, CONFIG.count, "fathom run x.yaml") == ()


def test_checkpoints_of_stopped_trials_are_kept_while_their_rung_is_in_doubt(
    again: Scheduler,
) -> None:
    audits = audit_budgets(again.records, CONFIG)
    kept = {trial: again.folder.checkpoint(trial) for trial in stopped(again.records)}
    for path in kept.values():
        path.touch()
    forget_checkpoints(again.folder, again.records, audits)
    assert all(path.exists() for path in kept.values())
    (extension,) = extend(again.folder, read_past(again.folder), audits, budgets(again))
    assert extension.anew == 0

    fine = {PARAMS: tuple(replace(audit, stopped=0) for audit in audits[PARAMS])}
    forget_checkpoints(again.folder, again.records, fine)
    assert not any(path.exists() for path in kept.values())


def test_the_message_names_budget_rung_setting_and_command(first: Scheduler) -> None:
    audits = audit_budgets(first.records, CONFIG)
    *optuna_trials, remedy = warnings(audits, CONFIG.count, "fathom run studies/x.yaml")
    failed = [audit for audit in audits[PARAMS] if audit.failed]
    (line,) = optuna_trials
    assert line.startswith("20k: stopping at ")
    assert all(f"{audit.rung:,}" in line for audit in failed)
    assert failed[0].why in line
    assert failed[0].remedy in line
    assert "`fathom run studies/x.yaml --extend`" in remedy
    timed = warnings({12: audits[PARAMS]}, Count.TRAIN_SECONDS, "fathom run x.yaml")
    assert timed[0].startswith("12 seconds: stopping at ")
    waiting = {12: (replace(failed[0], undecided=2),)}
    assert waits(waiting, Count.TRAIN_FLOPS)[0].startswith("12 FLOPs: at ")


def test_an_extension_says_where_stopping_begins_or_that_nothing_is_stopped(
    first: Scheduler,
) -> None:
    budget = budgets(first)[0]

    def sentence(first_rung: int) -> str:
        return Extension(budget=budget, first_rung=first_rung, again=2, anew=0).sentence

    before = budget.tokens - 1
    assert f"nothing is stopped before {before:,} tokens any more" in sentence(before)
    assert "nothing is stopped any more" in sentence(budget.tokens)
